"""Boxes of inputs: from two numbers, two tensors, or the range of data; and points of them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from ...errors import AliveError
from ..graph.calls import Call, Calls

AT_ONCE = 256


@dataclass(frozen=True, slots=True, eq=False)
class Box:
    """All inputs with lo <= x <= hi, both of the shape of a point in double precision; `call` shows how they go in."""

    lo: Tensor
    hi: Tensor
    call: Call
    seed: int = 0

    def points(self, count: int) -> list[Call]:
        """Points of the box: half anywhere, half in its corners; the first two are its ends."""
        chance = torch.Generator().manual_seed(self.seed)
        shape = (count // 2, *self.lo.shape)
        inside = torch.rand(shape, generator=chance, dtype=torch.float64)
        corners = torch.randint(2, shape, generator=chance).double()
        corners[0], corners[1] = 0.0, 1.0
        x = self.lo + torch.cat([corners, inside]) * (self.hi - self.lo)
        return [self.given(part) for part in self.nearest(x).split(AT_ONCE)]

    def nearest(self, x: Tensor) -> Tensor:
        """The points of the box that are nearest to some."""
        return torch.minimum(torch.maximum(x.detach().cpu().double(), self.lo), self.hi)

    def given(self, x: Tensor) -> Call:
        """A call on these points [N, ...], in the precision of the data."""
        like = self.call.leaves()[0]
        x = x.to(like.device, like.dtype)
        args = (x,) if self.call.args else ()
        return Call(args, {} if args else dict.fromkeys(self.call.keywords, x), len(x))

    def __str__(self) -> str:
        lo, hi = float(self.lo.min()), float(self.hi.max())
        same = bool((self.lo == lo).all() and (self.hi == hi).all())
        each = "every entry" if same else "every entry in its own range, all of them"
        return f"{each} between {lo:.4g} and {hi:.4g}"


def box_of(box: Any, calls: Calls, seed: int) -> Box:
    """The box that was asked for, for inputs such as those of the calls."""
    call = calls.first()
    leaves = call.leaves()
    if len(leaves) != 1 or not leaves[0].is_floating_point():
        given = f"{len(leaves)} inputs" if len(leaves) != 1 else f"inputs of {leaves[0].dtype}"
        raise AliveError(
            f"a box is of one input of real numbers, and this model takes {given}",
            "Shrink it on data, without a box",
        )
    shape = leaves[0].shape[1:]
    if isinstance(box, str):  # the range of the data
        parts = [each.leaves()[0].double().cpu() for each in calls]
        lo = torch.stack([part.amin(0) for part in parts]).amin(0)
        hi = torch.stack([part.amax(0) for part in parts]).amax(0)
    else:
        lo, hi = _sides(box, shape)
    if not bool((lo <= hi).all()) or not bool(torch.isfinite(torch.stack([lo, hi])).all()):
        raise AliveError(
            f"the box is empty or without end: it goes from {float(lo.min()):.4g} to {float(hi.max()):.4g}",
            "Give finite ends, with lo <= hi for every entry",
        )
    return Box(lo, hi, call, seed)


def _sides(box: Any, shape: torch.Size) -> tuple[Tensor, Tensor]:
    try:
        lo, hi = (torch.as_tensor(side).detach().double().cpu() for side in box)
        return lo.expand(shape).clone(), hi.expand(shape).clone()
    except (RuntimeError, TypeError, ValueError):
        raise AliveError(
            f"a box is (lo, hi), numbers or tensors of the shape of a point {list(shape)}, got {_in_words(box)}",
            'Write box=(0.0, 1.0), or box="data" for the range of the data',
        ) from None


def _in_words(box: Any) -> str:
    if isinstance(box, tuple | list):
        return f"({', '.join(str(list(s.shape)) if isinstance(s, Tensor) else repr(s) for s in box)})"
    return repr(box)
