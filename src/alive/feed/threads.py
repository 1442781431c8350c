"""How many threads a small model is worth: on a busy machine, two that wait for each other are far slower than one."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import nn

SMALL = 100_000  # parameters


@contextmanager
def few_threads(model: nn.Module) -> Iterator[None]:
    """One thread for a small model, as many as there were for others; afterwards as it was."""
    was = torch.get_num_threads()
    small = sum(p.numel() for p in model.parameters() if not isinstance(p, nn.UninitializedParameter)) < SMALL
    torch.set_num_threads(1 if small else was)
    try:
        yield
    finally:
        torch.set_num_threads(was)
