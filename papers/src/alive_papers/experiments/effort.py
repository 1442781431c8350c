"""What an experiment costs, with its arithmetic: FLOP for networks of the torch loop, core-seconds for fleets."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import cast

import torch
from torch import nn
from torch.utils.flop_counter import FlopCounterMode

from ..engines import CONV, FLEET, LOOP
from ..fleet.conv.network import BY_CHANNEL, BY_PAIR
from ..net import Net
from ..networks.zoo import Shape, make
from ..sets.sizes import SIZES
from .cell import Cell
from .spec import Experiment

RATE = 1e13  # FLOP a second: about what a data-centre GPU of today does in single precision on wide layers
PASSES = 3  # a training step is a forward pass and a backward pass of twice its cost
THIN = 64  # units a layer below which a GPU waits for its own launches, so that the rate above is not reached


@dataclass(frozen=True, slots=True)
class Work:
    """One network to be counted: a name that tells it from others, how it is built, and what it is shown how often."""

    name: str
    build: Callable[[], nn.Module]
    shape: Shape
    width: int
    epochs: int
    points: int
    unit: str = "epochs"

    @property
    def forward(self) -> int:
        """FLOP of one forward pass of one point: two for a multiplication and its sum; convolutions and products."""
        with torch.random.fork_rng(devices=[]), torch.device("meta"):
            model = self.build()
        with torch.no_grad(), FlopCounterMode(display=False) as counted:
            model.to("meta").eval()(torch.empty(1, *self.shape, device="meta"))
        return int(counted.get_total_flops())


@dataclass(frozen=True, slots=True)
class Load:
    """Networks that are shown as many points as often; `forward` is FLOP of one point through all of them."""

    networks: int
    epochs: int
    points: int
    forward: int
    unit: str = "epochs"

    @property
    def flops(self) -> int:
        """Of all training steps."""
        return PASSES * self.epochs * self.points * self.forward

    def __str__(self) -> str:
        mean = " on average" if self.networks > 1 else ""
        return (
            f"{_count(self.networks, 'network')} × {self.epochs:,} {self.unit} × {self.points:,} images × {PASSES} × "
            f"{_flop(self.forward / self.networks)}{mean}"
        )


@dataclass(frozen=True, slots=True)
class Effort:
    """What training takes: loads for a GPU, the core-seconds of a fleet, or both.

    >>> work = Effort((Load(networks=2, epochs=10, points=50_000, forward=6 * 10**9),))
    >>> work.needs, work.arithmetic
    ('15 GPU-minutes', '2 networks × 10 epochs × 50,000 images × 3 × 3 GFLOP on average = 9 PFLOP; at 10 TFLOP/s 15 GPU-minutes')
    """  # noqa: E501 - one line, as the page shows it

    loads: tuple[Load, ...] = ()
    members: int = 0
    core_seconds: float = 0.0
    thin: bool = False
    maps: int = 0  # how many of the fleet's members are convolutions

    @property
    def flops(self) -> int:
        """Of all loads."""
        return sum(load.flops for load in self.loads)

    @property
    def needs(self) -> str:
        """How much of what."""
        loads = f"{'at least ' * self.thin}{duration(self.flops / RATE, 'GPU')}" if self.loads else ""
        fleet = duration(self.core_seconds, "core") if self.members else ""
        return " and ".join(filter(None, (loads, fleet)))

    @property
    def arithmetic(self) -> str:
        """The arithmetic behind the figure, in words."""
        return "; ".join(filter(None, (self._of_loads(), self._of_fleet())))

    def _of_loads(self) -> str:
        if not self.loads:
            return ""
        limit = ", for layers this thin do not fill a GPU" * self.thin
        total = " + ".join(map(str, self.loads))
        took = f"{'at least ' * self.thin}{duration(self.flops / RATE, 'GPU')}"
        return f"{total} = {_flop(self.flops)}; at {_flop(RATE)}/s {took}{limit}"

    def _of_fleet(self) -> str:
        if not self.members:
            return ""
        rows, took = self.members - self.maps, duration(self.core_seconds, "core")
        dense = (
            f"{_count(rows, 'network')}, each epochs × depth × width × (width + 40) × 10 ns on one core, "
            f"half as much again with batch norm"
        )
        maps = (
            f"{_count(self.maps, 'thin convolution')}, each epochs × images × positions × depth × width × "
            f"({BY_CHANNEL * 1e9:g} + {BY_PAIR * 1e9:g} width) ns on one core, a quarter more with batch norm"
        )
        return f"{'; '.join(said for said, there in ((dense, rows), (maps, self.maps)) if there)}: {took}"


def duration(seconds: float, of: str) -> str:
    """Hours of a machine, or minutes or seconds where these are few.

    >>> duration(9e5, "GPU"), duration(5400, "core"), duration(180, "core"), duration(90, "core"), duration(0.2, "GPU")
    ('250 GPU-hours', '1.5 core-hours', '3 core-minutes', '90 core-seconds', 'less than one GPU-second')
    """
    if seconds < 1:
        return f"less than one {of}-second"
    unit, size = ("hour", 3600) if seconds >= 3600 else ("minute", 60) if seconds >= 100 else ("second", 1)
    value = seconds / size
    said = f"{value:.1f}" if unit == "hour" and value < 100 else f"{value:,.0f}"
    return f"{said} {of}-{unit}{'s' * (said != '1')}"


def digest(cells: Iterable[Cell]) -> str:
    """One name for a set of cells, which changes when any of their settings does."""
    return hashlib.sha256("".join(sorted(cell.key for cell in cells)).encode()).hexdigest()[:16]


def effort(experiment: Experiment, scale: str, known: Mapping[str, int] | None = None) -> Effort:
    """What one seed of an experiment takes; networks whose FLOP are `known`, by their names, are not counted again."""
    cells = experiment.cells(scale, architecture=experiment.architectures[0])
    works = works_of(cells)
    fleet = [cell for cell in cells if cell.member.engine in (FLEET.name, CONV.name)]
    thin = bool(works) and max(one.width for one in works) < THIN
    maps = sum(cell.member.engine == CONV.name for cell in fleet)
    return Effort(loads(works, known), len(fleet), sum(cell.cost for cell in fleet), thin, maps)


def works_of(cells: Iterable[Cell]) -> list[Work]:
    """The networks that torch trains, to be counted."""
    return [work(cell) for cell in cells if cell.member.engine == LOOP.name]


def work(cell: Cell) -> Work:
    """One of them."""
    net = cast(Net, cell.member)
    points, shape, outputs = SIZES[cell.data]

    def build() -> nn.Module:
        sizes = {"depth": net.depth, "width": net.width}
        return make(net.network, shape, outputs, generator=None, **sizes, **dict(net.options))  # type: ignore[arg-type]

    options = (f"{name}={value}" for name, value in net.options)
    name = " ".join((net.network, f"{net.depth}x{net.width}", *options, "x".join(map(str, shape)), str(outputs)))
    return Work(name, build, shape, net.width, net.epochs, cell.points or points)


def count(works: Iterable[Work], known: Mapping[str, int] | None = None) -> dict[str, int]:
    """FLOP of a forward pass by the names of the networks, those of one name counted once and the known not at all."""
    named = {one.name: one for one in works}
    return {name: (known or {}).get(name) or one.forward for name, one in named.items()}


def loads(works: Sequence[Work], known: Mapping[str, int] | None = None) -> tuple[Load, ...]:
    """Count networks, and put together what is shown as many points as often."""
    counted = count(works, known)
    groups: dict[tuple[int, int, str], list[int]] = {}
    for one in works:
        groups.setdefault((one.epochs, one.points, one.unit), []).append(counted[one.name])
    return tuple(Load(len(each), epochs, points, sum(each), unit) for (epochs, points, unit), each in groups.items())


def _count(number: int, what: str) -> str:
    return f"{number:,} {what}{'s' * (number != 1)}"


def _flop(value: float) -> str:
    """Three figures with a prefix.

    >>> _flop(3.3e8), _flop(1e13), _flop(4.16e21)
    ('330 MFLOP', '10 TFLOP', '4160 EFLOP')
    """
    for size, prefix in ((1e18, "E"), (1e15, "P"), (1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k")):
        if value >= size:
            short = value / size
            return f"{short:.0f} {prefix}FLOP" if short >= 100 else f"{short:.3g} {prefix}FLOP"
    return f"{value:.0f} FLOP"
