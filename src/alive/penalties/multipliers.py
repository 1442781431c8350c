"""The weight that nobody chooses: one constant for every network, or multipliers that find their own.

With weight="auto" every layer and axis has a multiplier μ of the mean of squares m of its slacks,

    penalty = W · Σ over axes of the mean over layers of μ·m

which begins at 1, as the constant weight W. After each penalty it moves by νPI (arXiv 2406.04558) on the mean slack e:

    μ ← clip(μ + Ki·(e − tol) + Kp·(1−ν)·(e − ξ), 0, top)      ξ ← ν·ξ + (1−ν)·e

so it rises while units or points of the layer miss their margins by more than tol on average, and falls when they do
not.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from ..errors import AliveError
from ..functional.separation import Means
from ..torch_private import remember

WEIGHT = 0.3  # W: of the mean of squares ("meansq"), which is as large in every network
KI, KP, NU = 0.003, 1.0, 0.9  # gains of the violation and of its change, and how long ξ remembers
TOL, TOP = 0.1, 10.0  # the mean slack that is allowed, and the largest multiplier

AUTO = {"weight": WEIGHT, "ki": KI, "kp": KP, "nu": NU, "tol": TOL, "top": TOP}  # what results with "auto" rest on

Key = tuple[str, str]
"""An axis and the name of a tap."""
Keys = tuple[Key, ...]
State = dict[str, dict[str, list[float | None]]]
"""By axis and tap: μ, and ξ, which is None before the first step."""


class Known(NamedTuple):
    """Multipliers by axis and tap: of each μ and ξ, which is NaN before the first step."""

    keys: Keys
    mu: Tensor
    xi: Tensor

    @classmethod
    def first(cls, keys: Iterable[Key], like: Tensor) -> Known:
        """As they begin, where `like` lies."""
        keys = tuple(keys)
        return cls(keys, like.new_ones(len(keys)), like.new_full((len(keys),), torch.nan))

    def covering(self, keys: Keys, like: Tensor) -> Known:
        """The same, where `like` lies, and first ones for keys that are new."""
        here = Known(self.keys, self.mu.to(like), self.xi.to(like))
        if keys == self.keys:
            return here
        known = set(self.keys)
        fresh = Known.first((key for key in dict.fromkeys(keys) if key not in known), like)
        return Known((*self.keys, *fresh.keys), torch.cat([here.mu, fresh.mu]), torch.cat([here.xi, fresh.xi]))


def step(mu: Tensor, xi: Tensor, e: Tensor) -> tuple[Tensor, Tensor]:
    """One step of νPI for each mean slack e: μ and ξ as they are afterwards. What is not finite moves nothing.

    >>> mu, xi = step(torch.ones(2), torch.full((2,), torch.nan), torch.tensor([0.55, 0.0]))
    >>> bool(mu[0] > 1 > mu[1]), xi.tolist() == torch.tensor([0.55, 0.0]).tolist()
    (True, True)
    """
    moves = e.isfinite()
    change = e - torch.where(xi.isnan(), e, xi)
    moved = mu.add(e, alpha=KI).sub_(KI * TOL).add_(change, alpha=KP * (1 - NU)).clamp_(0, TOP)
    return torch.where(moves, moved, mu), torch.where(moves, e.sub(change, alpha=NU), xi)  # e − ν(e − ξ) is the mean


class Multipliers:
    """One multiplier a layer and axis, known by the name of its tap: a layer may stay away and come back."""

    def __init__(self) -> None:
        self._known: Known | None = None

    def weigh(self, keys: Keys, found: Sequence[Means], *, moves: bool = True) -> Tensor:
        """Σ over axes of the mean over layers of μ·m, by the multipliers as they are; then they move, if they are to.

        A key may come more than once, of several passes: its slack is then the mean of them.
        """
        e = torch.cat([axis.slacks for axis in found])
        mine = (self._known or Known.first(dict.fromkeys(keys), e)).covering(keys, e)
        places = _places(mine.keys, keys, e.device)
        each = (mine.mu if places is None else mine.mu[places]).split([len(axis.layers) for axis in found])
        total = torch.stack([axis.average(mu) for axis, mu in zip(found, each, strict=True)]).sum()
        if moves:
            absent = [~axis.present for axis in found if axis.present is not None]
            e = e.masked_fill(torch.cat(absent), torch.nan) if absent else e
            e = e if places is None else _by_key(e, places, len(mine.keys))
            self._known = Known(mine.keys, *step(mine.mu, mine.xi, e))
        return total

    def values(self) -> dict[str, dict[str, float]]:
        """The multipliers by axis and tap."""
        return {axis: {tap: mu for tap, (mu, _) in of.items()} for axis, of in self.state().items()}  # type: ignore[misc]

    def state(self) -> State:
        """All of it, as plain numbers that JSON holds to the bit."""
        found: State = {}
        if self._known is not None:
            numbers = zip(self._known.mu.tolist(), self._known.xi.tolist(), strict=True)
            for (axis, tap), (mu, xi) in zip(self._known.keys, numbers, strict=True):
                found.setdefault(axis, {})[tap] = [mu, None if math.isnan(xi) else xi]
        return found

    def load(self, state: Mapping[str, Mapping[str, Sequence[float | None]]]) -> None:
        """Go on from a state."""
        try:
            told = {(axis, tap): each for axis, of in state.items() for tap, each in of.items()}
            rows = [[float(mu), math.nan if xi is None else float(xi)] for mu, xi in told.values()]  # type: ignore[arg-type]
        except (AttributeError, TypeError, ValueError):
            raise AliveError("this is no state of multipliers", "Load what state_dict() gave") from None
        mu, xi = torch.tensor(rows, dtype=torch.float64).reshape(-1, 2).unbind(1)
        self._known = Known(tuple(told), mu, xi) if told else None


@remember
def _places(known: Keys, keys: Keys, device: torch.device) -> Tensor | None:
    """Where each key lies among the known ones; None: just as they are."""
    if keys == known:
        return None
    at = {key: place for place, key in enumerate(known)}
    return torch.tensor([at[key] for key in keys], device=device)


def _by_key(e: Tensor, places: Tensor, count: int) -> Tensor:
    """The mean slack of each multiplier over those that came; NaN where none did."""
    counts = e.isfinite()
    own = places.unsqueeze(1) == torch.arange(count, device=places.device)
    came = own & counts.unsqueeze(1)  # [entries, multipliers]
    return torch.where(counts, e, 0) @ came.to(e.dtype) / came.sum(0)
