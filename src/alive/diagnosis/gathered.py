"""One census, or one dormancy, of data that lies on several ranks."""

from __future__ import annotations

from functools import reduce
from operator import add
from typing import Any, TypeVar

from torch import distributed

from ..errors import AliveError
from ..world import world_size
from .dormancy import Dormancy
from .record import Census

Found = TypeVar("Found", bound=Census | Dormancy)


def gather(found: Found | None, *, process_group: Any = None) -> Found:
    """Add up the censuses, or dormancies, of all ranks, on every rank; without torch.distributed the census itself.

    A rank that had no points passes None. `died_at` follows the order of the ranks, so that it is in the order of the
    data where each rank had one stretch of it.

    >>> import torch
    >>> from alive.diagnosis import census
    >>> model = torch.nn.Sequential(torch.nn.Linear(1, 2), torch.nn.ReLU())
    >>> found = census(model, torch.zeros(3, 1))
    >>> gather(found) is found
    True
    """
    parts: list[Found | None] = [found]
    if world_size(process_group) > 1:
        parts *= world_size(process_group)
        distributed.all_gather_object(parts, found, process_group)
    counted = [part for part in parts if part is not None]
    if not counted:
        raise AliveError("no rank has counted anything", "Give at least one rank a census")
    return reduce(add, counted)
