"""What the fleet asks of an architecture: how its numbers lie, its torch twin, what it costs, what it refuses."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray
from torch import Tensor, nn

from alive.data import Data

from .arena import Floats
from .plan import Extent, Points, Room

if TYPE_CHECKING:
    from .member import Member

Shape = tuple[int, ...]  # of one point
Checks = list[tuple[bool, str]]  # what must hold, and what to say if it does not
Shapes = dict[str, tuple[int, ...]]  # of Weights, by name


class Follows(NamedTuple):
    """For every connection: which trained number it follows, -1 for none, and how many times that number it is."""

    which: NDArray[np.int32]
    times: Floats


class Architecture(Protocol):
    """One kind of network. A new one is a file with such a class, its line in `architectures`, and its twin's tests."""

    @property
    def engine(self) -> str:
        """The engine whose revision its numbers depend on, see `train.engines`."""

    @property
    def keeps_trained(self) -> bool:
        """Whether `plain` is filled with the trained numbers themselves, not with the connections made of them."""

    def faults(self, member: Member) -> Checks:
        """Settings that do not go together."""

    def misfits(self, member: Member, data: Data) -> Checks:
        """What does not fit the data."""

    def unread(self, member: Member) -> list[str]:
        """Settings of a member that do not decide its result."""

    def twin(self, member: Member, shape: Shape, outputs: int) -> nn.Module:
        """The torch network that a member starts as, its weights in the order of `start.parts_of`."""

    def shown(self, data: Data) -> Tensor:
        """The points that a start which looks at data is shown."""

    def shapes(self, member: Member, shape: Shape, outputs: int) -> Shapes:
        """Of its connections."""

    def plain(self, member: Member, shape: Shape, outputs: int) -> nn.Module:
        """The torch network that computes what a finished member does, its weights still to be filled in."""

    def sharing(self, member: Member, shapes: Shapes) -> Follows | None:
        """How connections follow from what is trained; None if each is its own."""

    def rows(self, member: Member) -> int:
        """Gates a layer has, one for each row or channel."""

    def extent(self, member: Member, shape: Shape) -> Extent:
        """Sizes as the kernels read them."""

    def room(self, member: Member, data: Data) -> Room:
        """Where passes leave their traces."""

    def points(self, data: Data) -> Points:
        """Data as its kernels read them."""

    def memory(self, member: Member, data: Data) -> int:
        """Bytes that one member takes while it trains."""

    def cost(self, member: Member, points: int | None, shape: Shape | None) -> float:
        """About how many seconds it takes on one core, shown so many points of this shape an epoch."""


def numbers(data: Data) -> tuple[NDArray[np.int32], NDArray[np.int32], NDArray[np.int64]]:
    """Labels for training and test, and the numbers of all points."""
    y = data.train_y.numpy().astype(np.int32)
    test_y = y[:0].copy() if data.test_y is None else data.test_y.numpy().astype(np.int32)
    return y, test_y, np.arange(max(len(y), len(test_y)))


def batch_of(member: Member, points: int) -> int:
    """Points in a step."""
    return member.batch_size or points
