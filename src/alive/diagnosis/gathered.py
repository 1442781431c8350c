"""One census of data that lies on several ranks."""

from __future__ import annotations

from functools import reduce
from typing import Any

from torch import distributed

from ..errors import AliveError
from ..world import world_size
from .record import Census


def gather(found: Census | None, *, process_group: Any = None) -> Census:
    """Add up the censuses of all ranks, on every rank; without torch.distributed the census itself.

    A rank that had no points passes None. `died_at` follows the order of the ranks, so that it is in the order of the
    data where each rank had one stretch of it.

    >>> import torch
    >>> from alive.diagnosis import census
    >>> model = torch.nn.Sequential(torch.nn.Linear(1, 2), torch.nn.ReLU())
    >>> found = census(model, torch.zeros(3, 1))
    >>> gather(found) is found
    True
    """
    parts: list[Census | None] = [found]
    if world_size(process_group) > 1:
        parts *= world_size(process_group)
        distributed.all_gather_object(parts, found, process_group)
    counted = [part for part in parts if part is not None]
    if not counted:
        raise AliveError("no rank has counted anything", "Give at least one rank a census")
    return reduce(Census.__add__, counted)
