"""Before any training: how likely a network is born dead on the data, and what to change if it is."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from . import sources
from .data import Data
from .diagnosis import Census, census
from .errors import AliveError, expect
from .nn import initialise_, parse_rectangle
from .theory import Birth, Estimate, birth, point_dead, width_for

RISK = 0.05  # share of networks born dead from which on something should change
WIDEST = 512  # widths beyond this are not tried
DRAWS = {"dense": 1000, "conv": 40, "own": 20}
POINTS = {"dense": 1000, "conv": 128, "own": 1000}


class Remedy(NamedTuple):
    """What to change, and the share of networks born dead then; None where only training can show it."""

    change: str
    born_dead: Estimate | None


@dataclass(frozen=True, slots=True)
class Preflight:
    """What fresh networks of one kind do with the points, before any training.

    `fixed` is set where there was one finished network and nothing to draw. `closed_form` is the probability that a
    point other than 0 is dead, where it is known; every network born dead is among those, so it is never less likely.
    """

    model: str
    data: str
    points: int
    draws: int
    fixed: bool
    born_dead: Estimate
    dead_points: Estimate
    dead_units: Estimate
    closed_form: float | None
    remedies: tuple[Remedy, ...]

    @property
    def verdict(self) -> str:
        """One sentence."""
        if self.fixed:
            return "born dead: no gradient passes" if self.born_dead.value else "alive: gradients pass"
        share = self.born_dead.value
        if share >= 0.5:
            return f"born dead more often than not ({self.born_dead})"
        return (
            f"at risk: {self.born_dead} are born dead" if share >= RISK else f"fit to train: {self.born_dead} born dead"
        )

    def to_dict(self) -> dict[str, Any]:
        """Everything as plain numbers and words."""
        shares = {name: getattr(self, name)._asdict() for name in ("born_dead", "dead_points", "dead_units")}
        return {
            "model": self.model,
            "data": self.data,
            "points": self.points,
            "draws": self.draws,
            "fixed": self.fixed,
            **shares,
            "closed_form_dead_point": self.closed_form,
            "verdict": self.verdict,
            "remedies": [
                {"change": change, "born_dead": None if share is None else share._asdict()}
                for change, share in self.remedies
            ],
        }

    def to_json(self) -> str:
        """`to_dict` as text."""
        return json.dumps(self.to_dict(), indent=2)

    def __rich__(self) -> Any:
        from rich.console import Group
        from rich.table import Table
        from rich.text import Text

        what = "one network" if self.fixed else f"{self.draws} fresh networks"
        grid = Table(title=f"{self.model} on {self.data}: {what}, {self.points} points", header_style="bold")
        grid.add_column("what")
        grid.add_column("share ± standard error", justify="right")
        for name, share in self._rows():
            grid.add_row(name, share)
        style = "bold red" if self.born_dead.value >= 0.5 else "yellow" if self.born_dead.value >= RISK else "green"
        lines = [Text.assemble(("▸ ", style), (self.verdict, style))]
        for change, born in self.remedies:
            after = f": {born} born dead" if born else ""
            lines.append(Text.assemble("  ", ("What to do: ", "bold"), f"{change}{after}"))
        return Group(grid, *lines)

    def _rows(self) -> Iterator[tuple[str, str]]:
        yield "networks born dead: every point dead in some layer", str(self.born_dead)
        yield "dead points of a network", str(self.dead_points)
        if self.closed_form is not None:
            yield "  the same in closed form", f"{100 * self.closed_form:.1f} %"
        yield "dead units of a network", str(self.dead_units)


def preflight(
    model: str,
    data: Data,
    *,
    init: str = "glorot",
    batch_norm: bool = False,
    draws: int | None = None,
    points: int | None = None,
    seed: int = 10,
) -> Preflight:
    """Draw networks by depth x width, or by a function of the user's own, and count who is dead before training.

    At most `points` training points are looked at, evenly of all classes.

    >>> from alive.data import moons
    >>> found = preflight("50x4", moons(), draws=200)
    >>> found.verdict.startswith("born dead more often than not"), len(found.remedies)
    (True, 5)
    """
    kind = "own" if ":" in model else "conv" if data.train_x.ndim == 4 else "dense"
    draws, limit = DRAWS[kind] if draws is None else draws, POINTS[kind] if points is None else points
    expect([(draws >= 1 and limit >= 1, f"draws and points must be at least 1, got {draws} and {limit}")])
    part = data.subset(limit) if limit < len(data.train_y) else data
    if kind == "own":
        found = _own(model, part, draws=draws, seed=seed)
    else:
        x = part.pixels(part.train_x)
        x = x if kind == "conv" else x.flatten(1)
        found = _rectangle(model, x, init=init, batch_norm=batch_norm, draws=draws, seed=seed)
    return replace(found, data=data.name)


def _rectangle(model: str, x: Tensor, *, init: str, batch_norm: bool, draws: int, seed: int) -> Preflight:
    depth, width = parse_rectangle(model)
    closed = None if batch_norm or x.ndim == 4 else point_dead(init, [width] * depth)

    def run(*, draws: int = draws, **change: Any) -> Birth:
        kind: dict[str, Any] = {"depth": depth, "width": width, "init": init, "batch_norm": batch_norm} | change
        return birth(x, **kind, draws=draws, generator=torch.Generator().manual_seed(seed))

    found = run()
    risky = found.born_dead.value >= RISK
    return Preflight(
        model=f"{depth}x{width}",
        data="",
        points=len(x),
        draws=draws,
        fixed=False,
        born_dead=found.born_dead,
        dead_points=found.dead_points,
        dead_units=found.dead_units,
        closed_form=closed,
        remedies=tuple(_remedies(run, found, depth, width, init, batch_norm)) if risky else (),
    )


def _remedies(
    run: Callable[..., Birth], found: Birth, depth: int, width: int, init: str, batch_norm: bool
) -> Iterator[Remedy]:
    """What helps, each measured on fewer draws; the penalty acts in training and cannot be."""
    fewer = max(20, found.draws // 2)
    if init != "mirrored" and width > 1:
        yield Remedy(
            f'start mirrored (--init mirrored, alive.nn.initialise_(model, "mirrored")) at {depth}x{width}',
            run(init="mirrored", draws=fewer).born_dead,
        )
    wider = _wider(run, depth, width, init, fewer) if init != "zeros" else None
    if wider is not None:
        yield Remedy(f"make it wider: {depth}x{wider[0]}", wider[1])
    shallow = sum(share < RISK for share in found.by_depth)  # shares rise with depth
    if shallow and init != "mirrored":
        share = found.by_depth[shallow - 1]
        error = Estimate.of(torch.arange(found.draws) < round(share * found.draws)).error
        yield Remedy(f"make it shallower: {shallow}x{width}", Estimate(share, error))
    if not batch_norm:
        yield Remedy(f"add batch norm (--batch-norm) at {depth}x{width}", run(batch_norm=True, draws=fewer).born_dead)
    yield Remedy("train with the penalty, which revives dead units and points: alive.Jumpstart(model), mode UP", None)


def _wider(run: Callable[..., Birth], depth: int, width: int, init: str, draws: int) -> tuple[int, Estimate] | None:
    """The least width whose networks are seldom born dead, by halving between one too thin and one wide enough."""
    low, high = width, max(width + 1, width_for(depth, RISK) if point_dead(init, [width]) is not None else 2 * width)
    best = run(width=high, draws=draws).born_dead
    while best.value >= RISK:
        if high >= WIDEST:
            return None
        low, high = high, 2 * high
        best = run(width=high, draws=draws).born_dead
    while high - low > 1:
        middle = (low + high) // 2
        tried = run(width=middle, draws=draws).born_dead
        if tried.value < RISK:
            high, best = middle, tried
        else:
            low = middle
    return high, best


def _own(model: str, data: Data, *, draws: int, seed: int) -> Preflight:
    """Censuses of the user's own model, made anew for every draw if a function makes it."""
    x = data.pixels(data.train_x)

    def made(number: int) -> nn.Module:
        return sources.model(model, data, init="glorot", batch_norm=False, seed=seed + number)

    with torch.random.fork_rng(devices=[]):
        first = made(0)
        fixed = first is made(1)
        counted = [census(first if fixed else made(number), x) for number in range(1 if fixed else draws)]
        born, points, units = _shares(counted, fixed=fixed)
        remedies = tuple(_own_remedies(made, x, 0 if fixed else draws)) if born.value >= RISK else ()
    return Preflight(model, data.name, len(x), len(counted), fixed, born, points, units, None, remedies)


def _own_remedies(made: Callable[[int], nn.Module], x: Tensor, draws: int) -> Iterator[Remedy]:
    mirrored = 'start from alive.nn.initialise_(model, "mirrored")'
    try:
        counted = []
        for number in range(draws):
            network = made(number)
            initialise_(network, "mirrored")
            counted.append(census(network, x))
        yield Remedy(mirrored, _shares(counted, fixed=False)[0] if counted else None)
    except AliveError:  # a model that is no plain chain cannot start so
        pass
    yield Remedy("train with the penalty, which revives dead units and points: alive.Jumpstart(model), mode UP", None)
    yield Remedy("make thin layers wider, or add batch norm or skip connections", None)


def _shares(counted: list[Census], *, fixed: bool) -> tuple[Estimate, Estimate, Estimate]:
    """All points dead, share of dead points, share of dead units."""
    columns = torch.tensor(
        [
            (
                found.points.dead == found.points.total,
                found.points.dead / max(found.points.total, 1),
                found.units.dead / max(found.units.total, 1),
            )
            for found in counted
        ],
        dtype=torch.float64,
    ).T
    born, points, units = (Estimate(float(c[0]), 0.0) if fixed else Estimate.of(c) for c in columns)
    return born, points, units
