"""The architecture of the published heat maps: a convolution over two positions, the second padded with zero."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Generator, Tensor, nn

from alive.data import Data
from alive.nn import initialise_
from alive.nn.init import PAIRED
from alive.nn.rectangular import NORM_EPS, NORM_MOMENTUM

from .architecture import Checks, Follows, Shape, Shapes
from .arena import size_of
from .dense import Dense, drawn_by

if TYPE_CHECKING:
    from .member import Member


class KerasSame(Dense):
    """Rows are units at two positions, whose connections share the numbers of the kernels."""

    keeps_trained = True

    def places(self, member: Member) -> int:
        """Two positions."""
        return 2

    def faults(self, member: Member) -> Checks:
        """Plain blocks alone, from starts that draw."""
        return [
            (
                member.kind.block == "plain",
                f"architecture 'keras_same' has no {member.kind.block} block; choose 'dense'",
            ),
            (
                member.init not in PAIRED,
                f"the initialiser {member.init!r} does not belong to the architecture 'keras_same'",
            ),
            (member.output_lr is None, "architecture 'keras_same' has no output_lr; choose 'dense'"),
            *super().faults(member),
        ]

    def misfits(self, member: Member, data: Data) -> Checks:
        """Points of two features."""
        two = data.inputs == 2
        return [
            (two, f"architecture 'keras_same' reads points of two features, got {data.inputs}"),
            *super().misfits(member, data),
        ]

    def twin(self, member: Member, shape: Shape, outputs: int) -> nn.Module:
        """The same in torch."""
        sizes = {"depth": member.depth, "width": member.width, "seed": member.seed}
        return SameConv(outputs, batch_norm=member.kind.batch_norm, init=drawn_by(member), **sizes)

    def plain(self, member: Member, shape: Shape, outputs: int) -> nn.Module:
        """The same: its kernels are kept, not its connections."""
        return self.twin(member, shape, outputs)

    def sharing(self, member: Member, shapes: Shapes) -> Follows | None:
        """Which number of the kernels each connection is: out₀ = k₀x₀ + k₁x₁, out₁ = k₀x₁, nothing from x₀ to out₁."""
        depth, width = member.depth, member.width
        count = 0

        def numbers(*shape: int) -> NDArray[np.int32]:
            nonlocal count
            count += int(np.prod(shape))
            return np.arange(count - int(np.prod(shape)), count, dtype=np.int32).reshape(shape)

        def matrix(kernel: NDArray[np.int32]) -> NDArray[np.int32]:  # [out, in, 2] -> [2 out, 2 in]
            near, far = kernel[..., 0], kernel[..., 1]
            return np.block([[near, far], [np.full_like(near, -1), near]])

        index = np.full(size_of(shapes), -1, np.int32)
        ends = np.cumsum([int(np.prod(shape)) for shape in shapes.values()])[:-1]
        first, inner, bias, *rest = np.split(index, ends)
        first[:] = matrix(numbers(width, 1, 2)).ravel()
        inner[:] = np.concatenate([matrix(numbers(width, width, 2)).ravel() for _ in range(depth - 1)] or [inner])
        bias[:] = np.tile(numbers(depth, width), 2).ravel()
        for part in rest:
            part[:] = numbers(part.size)
        return Follows(index, np.ones(index.size, np.float32))


class SameConv(nn.Module):
    """The network of the published heat maps: kernels (2, 1) over two positions, the second padded with zero.

    Points [N, 2] are read as maps [N, 1, 2, 1]; the head reads position by position.
    """

    def __init__(self, outputs: int, *, depth: int, width: int, batch_norm: bool, init: str, seed: int) -> None:
        super().__init__()
        with torch.random.fork_rng(devices=[]):
            layers: list[nn.Module] = []
            for level in range(depth):
                layers += [nn.ZeroPad2d((0, 0, 0, 1)), nn.Conv2d(width if level else 1, width, (2, 1))]
                layers += [nn.BatchNorm2d(width, momentum=NORM_MOMENTUM, eps=NORM_EPS)] if batch_norm else []
                layers.append(nn.ReLU())
            self.hidden = nn.Sequential(*layers)
            self.output = nn.Linear(2 * width, outputs)
        initialise_(self, init, generator=Generator().manual_seed(seed), output="output")

    def forward(self, x: Tensor) -> Tensor:
        """Map points [N, 2] to logits [N, outputs]."""
        z = self.hidden(x.reshape(len(x), 1, 2, 1))  # [N, C, 2, 1]
        return self.output(z.permute(0, 2, 3, 1).flatten(1))  # type: ignore[no-any-return]
