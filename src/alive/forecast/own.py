"""Networks of the user's own, made anew for every draw: a census with the gradient of each."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from copy import deepcopy
from dataclasses import dataclass
from statistics import median
from typing import Any

import torch
from torch import nn

from ..data import Batches, read
from ..data.batches import stream
from ..data.calls import few_threads
from ..data.intake import materialise
from ..diagnosis import Census, census
from ..diagnosis.norms import fresh_norms, settle
from ..errors import AliveError
from ..findings.signal import CUTS, is_cut_off
from ..nn import initialise_, starts_for
from ..screen import bars
from ..taps import UNDECLARED, Declared
from .record import RISK, Preflight, Remedy, Shares, share

STARTS = ("mirrored", "kaiming")


@dataclass(frozen=True, slots=True, eq=False)
class Draws:
    """Makes networks by number, and takes their census over the same points; batch norms have seen the points then."""

    make: Callable[[], nn.Module]
    data: Batches
    seed: int
    forward: Callable[[nn.Module, Any], Any] | None = None
    point_axis: int | None = 0
    declared: Declared = UNDECLARED

    def network(self, number: int) -> nn.Module:
        """The network of one draw."""
        torch.manual_seed(self.seed + number)
        return materialise(self.make(), self.data, self.forward, self.point_axis)

    def census(self, network: nn.Module) -> Census:
        """What the network does with the points, and what comes back."""
        with few_threads(network):
            settle(network, self.data, forward=self.forward)
            where: dict[str, Any] = {"point_axis": self.point_axis, "declared": self.declared}
            return census(network, self.data, gradient=True, forward=self.forward, **where)


def judged(
    make: Callable[[], nn.Module],
    data: Any,
    *,
    name: str,
    source: str,
    draws: int,
    points: int,
    seed: int,
    forward: Callable[[nn.Module, Any], Any] | None = None,
    point_axis: int | None = 0,
    declared: Declared = UNDECLARED,
) -> Preflight:
    """Judge a network of the user's own, made anew for each draw unless it is the same each time."""
    torch.manual_seed(seed)
    first = make()
    some, sample = read(data, first, point_axis).sample(points, seed, point_axis)
    kept = stream(list(some))
    materialise(first, kept, forward, point_axis)
    drawn = Draws(make, kept, seed, forward, point_axis, declared)
    second = drawn.network(1)
    fixed, alike = first is second, first is not second and _same(first, second)
    alone = fixed or alike
    counted = [drawn.census(_spare(first))] if alone else list(_all(drawn, draws))
    shares = Shares.of(counted, fixed=alone)
    remedies = tuple(_remedies(drawn, first, counted, fixed=alone)) if shares.lost.value >= RISK else ()
    totals = torch.tensor([[_part(found.points), _part(found.units)] for found in counted], dtype=torch.float64)
    return Preflight(
        model=name,
        data=source,
        points=counted[0].points.total,
        draws=len(counted),
        fixed=alone,
        shares=shares,
        dead_points=share(totals[:, 0], fixed=alone),
        dead_units=share(totals[:, 1], fixed=alone),
        spread=middle([found.layers[-1].signal.spread for found in counted]),
        gradient=middle([found.layers[0].signal.gradient for found in counted]),
        remedies=remedies,
        alike=alike,
        gone=counted[0].gone if alone else "",
        sample=sample,
    )


def _all(drawn: Draws, draws: int) -> Iterator[Census]:
    with bars() as bar:
        task = bar.add_task("networks", total=draws)
        for number in range(draws):
            yield drawn.census(drawn.network(number))
            bar.update(task, completed=number + 1)


def _spare(network: nn.Module) -> nn.Module:
    """A network whose norms may settle: a copy, if it has any that are to."""
    return deepcopy(network) if any(fresh_norms(network)) else network


def _same(a: nn.Module, b: nn.Module) -> bool:
    """Whether two networks have the same weights."""
    ours, theirs = list(a.parameters()), list(b.parameters())
    return len(ours) == len(theirs) and all(
        x.shape == y.shape and torch.equal(x, y) for x, y in zip(ours, theirs, strict=True)
    )


def _part(tally: Any) -> float:
    return float(tally.dead / max(tally.total, 1))


def middle(values: list[float | None]) -> float | None:
    """The median of what is known."""
    known = [value for value in values if value is not None]
    return median(known) if known else None


def _remedies(drawn: Draws, like: nn.Module, counted: list[Census], *, fixed: bool) -> Iterator[Remedy]:
    """Other starts that the model can be given, each measured on fresh networks; and what only training shows."""
    if all(is_cut_off(found) for found in counted):
        yield Remedy(f"look for what cuts the gradient off: {CUTS}", None)
        return
    draws, tried = 0 if fixed else len(counted), []
    for start in (start for start in STARTS if start in starts_for(like)):
        change = f'start from alive.nn.initialise_(model, "{start}")'
        try:
            tried.append(Remedy(change, _after(drawn, start, draws) if draws else None))
        except AliveError:  # a model that cannot start so
            continue
    yield from sorted(tried, key=lambda remedy: remedy.lost.value if remedy.lost else 0.0)
    yield Remedy("train with the penalty, which revives dead units and points: alive.Jumpstart(model), mode UP", None)
    yield Remedy("make thin layers wider, or add batch norm or skip connections", None)


def _after(drawn: Draws, start: str, draws: int) -> Any:
    counted = []
    for number in range(draws):
        network = drawn.network(number)
        initialise_(network, start)
        counted.append(drawn.census(network))
    return Shares.of(counted).lost
