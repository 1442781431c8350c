"""Files of torch.save, read without running what they hold: tensors and plain containers alone."""

from __future__ import annotations

import re
import warnings
from os import PathLike
from typing import Any

import torch

from ..errors import AliveError


def load_tensors(path: str | PathLike[str], cure: str) -> Any:
    """What torch.save wrote, on the CPU; anything but tensors, numbers, texts and containers of them is refused."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of torch's older formats
            return torch.load(path, map_location="cpu", weights_only=True)
    except Exception as error:  # a damaged file fails in as many ways as it has parts
        found = re.search(r"Unsupported (?:global: GLOBAL|class) (\S+)", str(error))
        if found:
            kind = found[1].rstrip(".,")
            raise AliveError(f"{path} holds a pickled {kind}, and a pickle can run code", cure) from None
        first = str(error).strip().splitlines()[0].split(". ")[0].rstrip(".:") if str(error).strip() else "it is empty"
        reason = "it is not a file of tensors" if first.startswith("Weights only load failed") else first
        raise AliveError(f"{path} is damaged or was not written by torch.save: {reason}", cure) from None
