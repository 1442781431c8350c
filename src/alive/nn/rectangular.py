"""Rectangular networks (001, 004): `depth` hidden layers of equal `width`, then one output layer."""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from typing import Literal

import torch
from torch import Generator, Tensor, nn

from ..errors import AliveError, expect, near
from .init import INITIALISERS, initialise_

# Batch norm as Keras sets it, since the papers' figures came from Keras: momentum .99 there is .01 here.
NORM_MOMENTUM, NORM_EPS = 0.01, 1e-3

Dropout = Callable[[], nn.Module]
HEADS = ("pool", "mean", "flatten")

MANY = 10**9  # weights of a rectangle that is asked for in a few letters


class Rectangular(nn.Module):
    """A dense rectangle: inputs [N, ...] are flattened, hidden layers read dropout, linear, norm, relu.

    `dropout` builds the module put on the input of every hidden layer, raw data included.

    >>> net = Rectangular(2, 1, depth=50, width=4)
    >>> net(torch.zeros(7, 2)).shape, net.hidden[3].relu
    (torch.Size([7, 1]), ReLU())
    """

    def __init__(
        self,
        inputs: int,
        outputs: int,
        *,
        depth: int,
        width: int,
        batch_norm: bool = False,
        dropout: Dropout | None = None,
        init: str = "glorot",
        generator: Generator | None = None,
    ) -> None:
        super().__init__()
        _expect_sizes(init, inputs=inputs, outputs=outputs, depth=depth, width=width)
        self.inputs = inputs
        # The layers draw weights when built; these are overwritten, so they must not move the caller's random state.
        with torch.random.fork_rng(devices=[]):
            self.hidden = nn.Sequential(
                *(
                    _layer(
                        nn.Linear(width if level else inputs, width),
                        nn.BatchNorm1d(width, momentum=NORM_MOMENTUM, eps=NORM_EPS) if batch_norm else None,
                        dropout,
                    )
                    for level in range(depth)
                )
            )
            self.output = nn.Linear(width, outputs)
        initialise_(self, init, generator=generator, output="output")

    def forward(self, x: Tensor) -> Tensor:
        """Map points [N, ...] of `inputs` features to logits [N, outputs]."""
        if x.dim() < 2 or x.shape[1:].numel() != self.inputs:
            raise AliveError(
                f"Rectangular expected points [N, ...] of {self.inputs} features, got {list(x.shape)}",
                "Build the network with the number of features of the data",
            )
        return self.output(self.hidden(x.flatten(1)))  # type: ignore[no-any-return]


class RectangularConv(nn.Module):
    """A convolutional rectangle: kernels (3x3) that keep the size, no pooling between them.

    The head is "pool" (global average and global maximum of each unit, 004 on CIFAR), "mean" (the average alone) or
    "flatten" (all positions, 001 and 004 on MNIST; needs `size`). The two pooled numbers of a unit lie side by side, a
    permutation of the papers' concatenation, so that in every head a unit's columns are neighbours.

    >>> net = RectangularConv(3, 10, depth=20, width=32)
    >>> sum(p.numel() for p in net.parameters())
    177258
    """

    def __init__(
        self,
        channels: int,
        classes: int,
        *,
        depth: int,
        width: int,
        batch_norm: bool = False,
        head: Literal["pool", "mean", "flatten"] = "pool",
        size: tuple[int, int] | None = None,
        kernel: int = 3,
        dropout: Dropout | None = None,
        init: str = "torch",
        generator: Generator | None = None,
    ) -> None:
        super().__init__()
        _expect_sizes(
            init,
            (head in HEADS, f"unknown head {head!r}: {near(head, HEADS)}"),
            (head != "flatten" or size is not None, "head 'flatten' needs size=(height, width) of the images"),
            (
                size is None or (len(size) == 2 and all(_counts(side) for side in size)),
                f"size must be two positive whole numbers, got {size}",
            ),
            (_counts(kernel) and kernel % 2 == 1, f"kernel must be an odd whole number, got {kernel!r}"),
            channels=channels,
            classes=classes,
            depth=depth,
            width=width,
        )
        self.channels, self.head, self.size = channels, head, size
        columns = {"pool": 2, "mean": 1}.get(head) or math.prod(size or ())
        with torch.random.fork_rng(devices=[]):
            self.hidden = nn.Sequential(
                *(
                    _layer(
                        nn.Conv2d(width if level else channels, width, kernel, padding=kernel // 2),
                        nn.BatchNorm2d(width, momentum=NORM_MOMENTUM, eps=NORM_EPS) if batch_norm else None,
                        dropout,
                    )
                    for level in range(depth)
                )
            )
            self.output = nn.Linear(width * columns, classes)
        initialise_(self, init, generator=generator, output="output")

    def forward(self, x: Tensor) -> Tensor:
        """Map images [N, channels, H, W] to logits [N, classes]."""
        height, width = self.size or ("H", "W")
        if x.dim() != 4 or x.shape[1] != self.channels or self.size not in (None, tuple(x.shape[2:])):
            raise AliveError(
                f"RectangularConv expected images [N, {self.channels}, {height}, {width}], got {list(x.shape)}",
                "Build the network with the channels and the size of the data",
            )
        z = self.hidden(x)
        if self.head == "pool":
            z = torch.stack([z.mean((2, 3)), z.amax((2, 3))], dim=2)  # [N, C, 2]
        elif self.head == "mean":
            z = z.mean((2, 3))
        return self.output(z.flatten(1))  # type: ignore[no-any-return]


def parse_rectangle(text: str) -> tuple[int, int]:
    """Read depth x width.

    >>> parse_rectangle("50x4")
    (50, 4)
    """
    match = re.fullmatch(r"\s*(0*[1-9][0-9]*)\s*[x×]\s*(0*[1-9][0-9]*)\s*", text)
    if match is None:
        raise AliveError(f"expected depth x width such as '50x4', got {text!r}", "Both are whole numbers of at least 1")
    depth, width = int(match[1]), int(match[2])
    if depth * width * (width + 1) > MANY:
        raise AliveError(f"{text.strip()} has more than {MANY:,} weights", "Choose a smaller depth or width")
    return depth, width


def _layer(linear: nn.Module, norm: nn.Module | None, dropout: Dropout | None) -> nn.Sequential:
    """One hidden layer with named parts, so that a path in the model reads hidden.3.relu."""
    layer = nn.Sequential()
    if dropout is not None:
        layer.add_module("dropout", dropout())
    layer.add_module("linear", linear)
    if norm is not None:
        layer.add_module("norm", norm)
    layer.add_module("relu", nn.ReLU())
    return layer


def _counts(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 1


def _expect_sizes(init: str, *more: tuple[bool, str], **sizes: int) -> None:
    """All faults of a rectangle together."""
    expect(
        [
            *(
                (_counts(value), f"{name} must be a whole number of at least 1, got {value!r}")
                for name, value in sizes.items()
            ),
            *more,
            (init in INITIALISERS, f"unknown init {init!r}: {near(init, INITIALISERS)}"),
        ]
    )
