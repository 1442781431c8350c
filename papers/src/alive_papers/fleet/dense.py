"""The dense architecture: layers of units, a point a column."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from torch import Generator, Tensor, nn

from alive.data import Data
from alive.nn import FITTED, Rectangular, initialise_

from .architecture import Checks, Follows, Shape, Shapes, batch_of, numbers
from .arena import Floats, padded, signals, weight_shapes
from .doubled import DOUBLED, sharing
from .plan import Extent, Points, Room

if TYPE_CHECKING:
    from .member import Member

# Settings that only maps have.
OF_MAPS = {"head": "flatten", "kernel": 3, "conv": "channel", "augment": None}


class Dense:
    """Rectangles of dense layers."""

    engine = "fleet"
    keeps_trained = False

    def places(self, member: Member) -> int:
        """How many rows a unit has: a leaky ReLU is two plain ones, of z and −z."""
        return 2 if member.kind.block == "leaky" else 1

    def faults(self, member: Member) -> Checks:
        """Settings of maps are refused."""
        return [
            (getattr(member, name) == value, f"{name} belongs to the architecture 'conv', not {member.architecture!r}")
            for name, value in OF_MAPS.items()
        ]

    def misfits(self, member: Member, data: Data) -> Checks:
        """A lone point has no batch norm."""
        points, batch = len(data.train_y), batch_of(member, len(data.train_y))
        lone = member.kind.batch_norm and self.places(member) == 1 and (points % batch == 1 or batch == 1)
        return [
            (not lone, f"batch_size {batch} leaves a batch of one of {points} points, where batch norm is not defined"),
        ]

    def unread(self, member: Member) -> list[str]:
        """Settings of maps, and what is told only where it was asked for: rows are older than it is."""
        return [*OF_MAPS, *(() if member.running else ("running",))]

    def twin(self, member: Member, shape: Shape, outputs: int) -> nn.Module:
        """A rectangle of alive.nn."""
        net = Rectangular(
            int(np.prod(shape)),
            outputs,
            depth=member.depth,
            width=member.width,
            batch_norm=member.kind.batch_norm,
            init=drawn_by(member),
            generator=Generator().manual_seed(member.seed),
        )
        if member.kind.block == "fixup":
            for part in (*net.hidden[1:].parameters(), *net.output.parameters()):
                nn.init.zeros_(part)
        return with_noise(net, member)

    def shown(self, data: Data) -> Tensor:
        """All points."""
        return data.pixels(data.train_x).flatten(1)

    def plain(self, member: Member, shape: Shape, outputs: int) -> nn.Module:
        """A rectangle of plain layers, which Farkas, concatenated and leaky ones become."""
        width, inputs = self.rows(member), int(np.prod(shape))
        return Rectangular(inputs, outputs, depth=member.depth, width=width, batch_norm=member.kind.batch_norm)

    def shapes(self, member: Member, shape: Shape, outputs: int) -> Shapes:
        """Every row reads every row below."""
        rows, norm = self.rows(member), member.width if member.kind.batch_norm else 0
        return weight_shapes(member.depth, rows, (int(np.prod(shape)), rows, rows), outputs, norm=norm)

    def sharing(self, member: Member, shapes: Shapes) -> Follows | None:
        """Each connection is its own, but those of units that are held twice."""
        if member.kind.block not in DOUBLED:
            return None
        return Follows(*sharing(member, shapes["first"][1], shapes["out"][0]))

    def rows(self, member: Member) -> int:
        """Units, at all their positions."""
        return member.width * self.places(member)

    def extent(self, member: Member, shape: Shape) -> Extent:
        """No map: a unit has one value a point."""
        return Extent(1, 1, False, False, 1, member.width, self.rows(member))

    def room(self, member: Member, data: Data) -> Room:
        """Traces of training batches and of test points."""
        tested = 1 if data.test_y is None else len(data.test_y)
        batch, norm = batch_of(member, len(data.train_y)), member.kind.batch_norm
        sizes = (member.depth, member.width, self.places(member), data.inputs, data.outputs)
        return Room(signals(*sizes, batch, norm=norm), signals(*sizes, min(batch, tested), norm=norm))

    def points(self, data: Data) -> Points:
        """Points as rows of features, in float32."""
        y, test_y, everyone = numbers(data)
        x = _rows(data.pixels(data.train_x))
        test_x = x[:, :0].copy() if data.test_x is None else _rows(data.pixels(data.test_x))
        return Points(x, y, test_x, test_y, everyone)

    def memory(self, member: Member, data: Data) -> int:
        """Traces of a batch, and weights with their moments."""
        rows = member.depth * self.rows(member)
        return rows * (12 * padded(batch_of(member, len(data.train_y))) + 16 * member.width)

    def cost(self, member: Member, points: int | None, shape: Shape | None) -> float:
        """Measured on MOONS, of which all networks are shown all points."""
        rows, norm = self.rows(member), 1.5 if member.kind.batch_norm else 1.0
        return 1e-8 * norm * member.epochs * member.depth * rows * (rows + 40)


def drawn_by(member: Member) -> str:
    """The start by which weights are drawn; those that are fitted to the data begin with an orthogonal one."""
    return "orthogonal" if member.init in FITTED else member.init


def with_noise(net: nn.Module, member: Member) -> nn.Module:
    """The network started again with the member's own noise, if it has any."""
    if member.noise is not None:
        chance = Generator().manual_seed(member.seed)
        initialise_(net, "mirrored", generator=chance, output="output", noise=member.noise)
    return net


def _rows(x: Tensor) -> Floats:
    return np.ascontiguousarray(x.detach().cpu().flatten(1).T.float().numpy())
