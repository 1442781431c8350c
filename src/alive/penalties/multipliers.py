"""The weight that nobody chooses: one constant for every network, or multipliers that find their own.

With weight="auto" every layer and axis has a multiplier μ of the mean of squares m of its slacks,

    penalty = W · Σ over axes of the mean over layers of μ·m

which begins at 1, as the constant weight W. After each penalty it moves by νPI (arXiv 2406.04558) on the mean slack e:

    μ ← clip(μ + Ki·(e − tol) + Kp·(1−ν)·(e − ξ), 0, top)      ξ ← ν·ξ + (1−ν)·e

so it rises while units or points of the layer miss their margins by more than tol on average, and falls when they do
not.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn.functional import one_hot

from ..errors import AliveError
from ..functional.separation import Means

WEIGHT = 0.3  # W: of the mean of squares ("meansq"), which is as large in every network
KI, KP, NU = 0.003, 1.0, 0.9  # gains of the violation and of its change, and how long ξ remembers
TOL, TOP = 0.1, 10.0  # the mean slack that is allowed, and the largest multiplier

AUTO = {"weight": WEIGHT, "ki": KI, "kp": KP, "nu": NU, "tol": TOL, "top": TOP}  # what results with "auto" rest on

State = dict[str, dict[str, list[float | None]]]
"""By axis and tap: μ, and ξ, which is None before the first step."""


class Axis(NamedTuple):
    """The multipliers of one axis: the names of its layers, and of each μ and ξ; ξ is NaN before the first step."""

    names: tuple[str, ...]
    mu: Tensor
    xi: Tensor

    @classmethod
    def first(cls, names: Sequence[str], like: Tensor) -> Axis:
        """As they begin, where `like` lies."""
        return cls(tuple(names), like.new_ones(len(names)), like.new_full((len(names),), torch.nan))

    def covering(self, names: tuple[str, ...], like: Tensor) -> Axis:
        """The same, where `like` lies, and first ones for names that are new."""
        here = Axis(self.names, self.mu.to(like), self.xi.to(like))
        if names == self.names:
            return here
        known = set(self.names)
        fresh = Axis.first([name for name in dict.fromkeys(names) if name not in known], like)
        return Axis((*self.names, *fresh.names), torch.cat([here.mu, fresh.mu]), torch.cat([here.xi, fresh.xi]))


def step(mu: Tensor, xi: Tensor, e: Tensor) -> tuple[Tensor, Tensor]:
    """One step of νPI for each mean slack e: μ and ξ as they are afterwards. What is not finite moves nothing.

    >>> mu, xi = step(torch.ones(2), torch.full((2,), torch.nan), torch.tensor([0.55, 0.0]))
    >>> bool(mu[0] > 1 > mu[1]), xi.tolist() == torch.tensor([0.55, 0.0]).tolist()
    (True, True)
    """
    moves, before = e.isfinite(), torch.where(xi.isnan(), e, xi)
    moved = (mu + KI * (e - TOL) + KP * (1 - NU) * (e - before)).clamp(0, TOP)
    return torch.where(moves, moved, mu), torch.where(moves, NU * before + (1 - NU) * e, xi)


class Multipliers:
    """One multiplier a layer and axis, known by the name of its tap: a layer may stay away and come back."""

    def __init__(self) -> None:
        self._axes: dict[str, Axis] = {}

    def weigh(self, axis: str, names: tuple[str, ...], found: Means, *, moves: bool = True) -> Tensor:
        """The mean over layers of μ·m, by the multipliers as they are; then they move, if they are to.

        A name may come more than once, of several passes: its slack is then the mean of them.
        """
        mine = self._axes.get(axis) or Axis.first(tuple(dict.fromkeys(names)), found.slacks)
        mine = mine.covering(names, found.slacks)
        places = _places(mine.names, names, found.slacks.device)
        total = found.average(mine.mu if places is None else mine.mu[places])
        if moves:
            e = _by_layer(found, places, len(mine.names))
            self._axes[axis] = Axis(mine.names, *step(mine.mu, mine.xi, e))
        return total

    def values(self) -> dict[str, dict[str, float]]:
        """The multipliers by axis and tap."""
        return {axis: dict(zip(mine.names, mine.mu.tolist(), strict=True)) for axis, mine in self._axes.items()}

    def state(self) -> State:
        """All of it, as plain numbers that JSON holds to the bit."""
        return {
            axis: {
                name: [mu, None if xi != xi else xi]
                for name, mu, xi in zip(mine.names, mine.mu.tolist(), mine.xi.tolist(), strict=True)
            }
            for axis, mine in self._axes.items()
        }

    def load(self, state: Mapping[str, Mapping[str, Sequence[float | None]]]) -> None:
        """Go on from a state."""
        try:
            self._axes = {axis: _axis(of) for axis, of in state.items()}
        except (AttributeError, TypeError, ValueError):
            raise AliveError("this is no state of multipliers", "Load what state_dict() gave") from None


def _axis(of: Mapping[str, Sequence[float | None]]) -> Axis:
    rows = [[float(mu), torch.nan if xi is None else float(xi)] for mu, xi in of.values()]  # type: ignore[arg-type]
    return Axis(tuple(of), *torch.tensor(rows, dtype=torch.float64).reshape(-1, 2).unbind(1))


def _places(known: tuple[str, ...], names: tuple[str, ...], device: torch.device) -> Tensor | None:
    """Where each name lies among the known ones; None: just as they are."""
    if names == known:
        return None
    at = {name: place for place, name in enumerate(known)}
    return torch.tensor([at[name] for name in names], device=device)


def _by_layer(found: Means, places: Tensor | None, count: int) -> Tensor:
    """The mean slack of each multiplier's layer; NaN for those that did not come."""
    if places is None:
        return found.slacks if found.present is None else found.slacks.masked_fill(~found.present, torch.nan)
    counts = found.slacks.isfinite() if found.present is None else found.slacks.isfinite() & found.present
    came = one_hot(places, count) * counts.unsqueeze(1)  # [entries, multipliers]
    total = torch.where(counts, found.slacks, 0) @ came.to(found.slacks.dtype)
    return total / came.sum(0)  # 0 / 0 where nothing came
