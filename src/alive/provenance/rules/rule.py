"""What a rule is."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from torch import Tensor

from ..families import Families
from ..op import Op, Results
from ..owners import Owners

Rule = Callable[[Op, Families], Results]
WEIGHTED: dict[str, Any] = {"picked": False, "pure": True}  # what every weighted sum makes of its operands


def both(o: Owners, change: Callable[[Tensor], Tensor]) -> Owners:
    """The same change of both owners."""
    return o._replace(point=change(o.point), unit=change(o.unit), source=None)


def here(t: Tensor) -> Tensor:
    """A tensor of indices or a mask, where the owners are: in the memory of the CPU."""
    return t.detach().cpu()
