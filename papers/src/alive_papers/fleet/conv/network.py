"""The architecture of square maps: convolutions that keep the size, sixteen images at once."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from torch import Generator, Tensor, nn

from alive.data import Augment, Data
from alive.nn import RectangularConv

from ..architecture import Checks, Follows, Shape, Shapes, batch_of, numbers
from ..arena import Floats, size_of, weight_shapes
from ..dense import drawn_by, with_noise
from ..native import ready
from ..plan import Extent, Points, Room
from .arena import Sizes, memory, room

if TYPE_CHECKING:
    from ..member import Member

MAX_CHANNELS = 32  # beyond, torch's own convolutions are the better tool
SIDES = (8, 32)  # the smallest and the largest map
KERNELS, HEADS, CONVS = (1, 3), ("flatten", "mean"), ("channel", "position")
SHOWN = 1000  # images that a start which looks at data is shown
# What a position of a map takes in a step: so many seconds for each channel, and for each pair of channels. Measured on
# the grids of 004-T1 and 001-Fig3, widths 2 to 10, with Sep-UP; with batch norm a quarter more.
BY_CHANNEL, BY_PAIR, NORM = 1.8e-9, 0.45e-9, 1.25
POINTS, SHAPE = 60_000, (1, 28, 28)  # of a data set that is not told, for the cost


class Conv:
    """Rectangles of convolutions; the head reads all positions, or the mean of each map."""

    engine = "conv-fleet"
    keeps_trained = False

    def faults(self, member: Member) -> Checks:
        """Few channels, small kernels, no dropout."""
        return [
            (member.width <= MAX_CHANNELS, f"a convolution of the fleet has at most {MAX_CHANNELS} channels"),
            (member.kernel in KERNELS, f"kernel must be 1 or 3, got {member.kernel!r}"),
            (member.head in HEADS, f"unknown head {member.head!r}: choose 'flatten' or 'mean'"),
            (member.conv in CONVS, f"unknown conv {member.conv!r}: choose 'channel' or 'position'"),
            (
                member.kind.block in ("plain", "residual", "van"),
                f"architecture 'conv' has no {member.kind.block} block; choose 'dense'",
            ),
            (
                member.augment is None or isinstance(member.augment, Augment),
                f"augment must be an Augment or None, got {member.augment!r}",
            ),
            (member.dropout is None, "architecture 'conv' has no dropout; choose 'dense'"),
        ]

    def misfits(self, member: Member, data: Data) -> Checks:
        """Square images of a few channels; a single image has no extremes over images."""
        shape = tuple(data.train_x.shape[1:])
        low, high = SIDES
        square = len(shape) == 3 and shape[0] in (1, 3) and shape[1] == shape[2] and low <= shape[1] <= high
        alone = batch_of(member, len(data.train_y)) == 1 and "U" in member.kind.axes and member.conv == "position"
        return [
            (
                square,
                f"architecture 'conv' reads square images of 1 or 3 channels and sides from {low} to {high}, "
                f"got points {list(shape)}",
            ),
            (
                not alone,
                f"{member.method} by position with batch_size 1 asks each unit to be on for one image and off for "
                "another; choose a larger batch_size",
            ),
        ]

    def unread(self, member: Member) -> list[str]:
        """How a penalty counts positions, where there is none; images that stay as they are."""
        return [*([] if member.kind.axes else ["conv"]), *([] if member.augment else ["augment"])]

    def twin(self, member: Member, shape: Shape, outputs: int) -> nn.Module:
        """A convolutional rectangle of alive.nn."""
        channels, side, _ = shape
        net = RectangularConv(
            channels,
            outputs,
            depth=member.depth,
            width=member.width,
            batch_norm=member.kind.batch_norm,
            head=member.head,  # type: ignore[arg-type]
            size=(side, side) if member.head == "flatten" else None,
            kernel=member.kernel,
            init=drawn_by(member),
            generator=Generator().manual_seed(member.seed),
        )
        return with_noise(net, member)

    def shown(self, data: Data) -> Tensor:
        """The first images: torch keeps maps of all of them at once."""
        return data.pixels(data.train_x[:SHOWN])

    def shapes(self, member: Member, shape: Shape, outputs: int) -> Shapes:
        """Kernels as torch lays them out: [out, in · taps²]."""
        channels, side, _ = shape
        area, norm = member.kernel**2, member.width if member.kind.batch_norm else 0
        read = member.width * (side**2 if member.head == "flatten" else 1)
        return weight_shapes(
            member.depth, member.width, (channels * area, member.width * area, read), outputs, norm=norm
        )

    def plain(self, member: Member, shape: Shape, outputs: int) -> nn.Module:
        """The same."""
        return self.twin(member, shape, outputs)

    def sharing(self, member: Member, shapes: Shapes) -> Follows | None:
        """A kernel is stored once."""
        return None

    def rows(self, member: Member) -> int:
        """Channels."""
        return member.width

    def extent(self, member: Member, shape: Shape) -> Extent:
        """A unit is a channel over its whole map, or at each position."""
        area, by_position = shape[1] ** 2, _by_position(member)
        width = member.width
        values = (1, width) if by_position else (area, width * area)
        return Extent(shape[1], member.kernel, member.head == "mean", by_position, *values, width * area)

    def room(self, member: Member, data: Data) -> Room:
        """One room: an evaluation needs no more than two layers of it."""
        ready()
        made = room(self._sizes(member, data))
        return Room(made, made)

    def points(self, data: Data) -> Points:
        """Images one after the other, in float32."""
        y, test_y, everyone = numbers(data)
        x = _images(data.pixels(data.train_x))
        test_x = x[:0].copy() if data.test_x is None else _images(data.pixels(data.test_x))
        return Points(x, y, test_x, test_y, everyone)

    def memory(self, member: Member, data: Data) -> int:
        """Maps of a batch, and weights with their moments."""
        weights = size_of(self.shapes(member, tuple(data.train_x.shape[1:]), data.outputs))
        return memory(self._sizes(member, data)) + 16 * weights

    def cost(self, member: Member, points: int | None, shape: Shape | None) -> float:
        """As measured with 3x3 kernels; a dead network takes less."""
        side, width = (shape or SHAPE)[-1], member.width
        position = width * (BY_CHANNEL + BY_PAIR * width * member.kernel**2 / 9)
        norm = NORM if member.kind.batch_norm else 1.0
        return norm * position * side**2 * member.depth * (points or POINTS) * member.epochs

    def _sizes(self, member: Member, data: Data) -> Sizes:
        channels, side, _ = data.train_x.shape[1:]
        kind = member.kind
        return Sizes(
            depth=member.depth,
            width=member.width,
            inputs=channels,
            outputs=data.outputs,
            side=side,
            taps=member.kernel,
            points=batch_of(member, len(data.train_y)),
            norm=kind.batch_norm,
            skip=kind.block in ("residual", "van"),
            penalty=bool(kind.axes),
            by_position=_by_position(member),
            layer="L" in kind.axes,
            mean_head=member.head == "mean",
        )


def _by_position(member: Member) -> bool:
    """Whether each position counts by itself; the extremes of a layer are over all of them anyhow."""
    return member.conv == "position" and member.kind.axes != "L"


def _images(x: Tensor) -> Floats:
    return np.ascontiguousarray(x.detach().cpu().flatten(1).float().numpy())
