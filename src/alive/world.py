"""How many processes work together, as torch.distributed has set them up."""

from __future__ import annotations

from typing import Any

from torch import distributed

Group = Any
"""A torch.distributed process group; None is the one of all ranks."""


def world_size(group: Group = None) -> int:
    """How many ranks there are: 1 where torch.distributed is not set up.

    >>> world_size()
    1
    """
    if not (distributed.is_available() and distributed.is_initialized()):
        return 1
    return distributed.get_world_size(group)
