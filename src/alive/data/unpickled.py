"""Tensors from files, read without running what these hold: those of torch.save, and safetensors."""

from __future__ import annotations

import re
import warnings
import zipfile
from os import PathLike
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from ..errors import AliveError
from ..gate import Allowance

PLACE = 64  # bytes, at the least, of a thing in a container


def load_tensors(path: str | PathLike[str], cure: str) -> Any:
    """What torch.save wrote, on the CPU; anything but tensors, numbers, texts and containers of them is refused."""
    path = Path(path)
    try:
        allowance = Allowance(path)
        if zipfile.is_zipfile(path):
            with zipfile.ZipFile(path) as archive:
                allowance.entries(archive)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of torch's older formats
            found = torch.load(path, map_location="cpu", weights_only=True)
        _count(found, Allowance(path))
        return found
    except AliveError:
        raise
    except Exception as error:  # a damaged file fails in as many ways as it has parts
        found = re.search(r"Unsupported (?:global: GLOBAL|class) (\S+)", str(error))
        if found:
            kind = found[1].rstrip(".,")
            raise AliveError(f"{path} holds a pickled {kind}, and a pickle can run code", cure) from None
        first = str(error).strip().splitlines()[0].split(". ")[0].rstrip(".:") if str(error).strip() else "it is empty"
        reason = "it is not a file of tensors" if first.startswith("Weights only load failed") else first
        raise AliveError(f"{path} is damaged or was not written by torch.save: {reason}", cure) from None


def _count(found: Any, allowance: Allowance) -> None:
    """Count what was read as if all of it were laid out: a view may show a number a billion times, a list a list."""
    ahead = [found]
    while ahead:
        each = ahead.pop()
        allowance.take(PLACE, "lists in lists")
        if isinstance(each, Tensor):
            allowance.shape(each.shape, each.element_size(), f"a tensor of shape {list(each.shape)}")
        elif isinstance(each, dict):
            ahead += [*each.keys(), *each.values()]
        elif isinstance(each, list | tuple | set):
            ahead += each
        elif isinstance(each, str | bytes | bytearray):
            allowance.take(len(each), "a text")


def safe_tensors(path: str | PathLike[str]) -> tuple[dict[str, str], dict[str, Tensor]]:
    """The notes and the tensors of a safetensors file; its own errors are the caller's to word."""
    from safetensors import safe_open

    allowance = Allowance(Path(path))
    with safe_open(path, "pt") as file:
        names = list(file.keys())
        for name in names:
            allowance.shape(file.get_slice(name).get_shape(), 1, name)
        return file.metadata() or {}, {name: file.get_tensor(name) for name in names}
