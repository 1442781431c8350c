"""The architectures that 002 compares, dense and convolutional: they differ only in how a block treats its skip."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Protocol

import torch
from torch import Generator, Tensor, nn

from alive.errors import AliveError, expect, expect_one_of
from alive.nn.dirac import DiracConv2d, DiracLinear
from alive.nn.init import initialise_
from alive.nn.van import VANBlock, dense_branch

from .branches import ORDERS, conv_branch, shortcut
from .highway import Highway

STAGES = 4


@dataclass(frozen=True, slots=True)
class Joint:
    """The size of one convolutional block: its channels, its stride, and the order of its layers."""

    inputs: int
    outputs: int
    stride: int = 1
    order: str = "preact"

    def branch(self) -> nn.Sequential:
        """F."""
        return conv_branch(self.inputs, self.outputs, stride=self.stride, order=self.order)

    def skip(self) -> nn.Module:
        """S."""
        return shortcut(self.inputs, self.outputs, stride=self.stride)


class Residual(nn.Module):
    """A residual block (002, eq 1): F(x) + S(x); skip None is the identity.

    >>> Residual(nn.Linear(3, 3))(torch.zeros(1, 3)).shape
    torch.Size([1, 3])
    """

    def __init__(self, branch: nn.Module, skip: nn.Module | None = None) -> None:
        super().__init__()
        self.branch = branch
        self.skip = nn.Identity() if skip is None else skip

    def forward(self, x: Tensor) -> Tensor:
        """Map [N, C, ...] to [N, C', ...]."""
        return self.branch(x) + self.skip(x)  # type: ignore[no-any-return]


class SkipDense(nn.Module):
    """A dense network of 002: Linear(inputs, width), `depth` blocks of a kind, Linear(width, outputs).

    >>> SkipDense("van", 784, 10, depth=30)(torch.randn(4, 1, 28, 28)).shape
    torch.Size([4, 10])
    """

    def __init__(
        self,
        kind: str,
        inputs: int,
        outputs: int,
        *,
        depth: int,
        width: int = 50,
        generator: Generator | None = None,
    ) -> None:
        super().__init__()
        expect_one_of("kind", kind, COMPARED)
        _expect_counts(inputs=inputs, outputs=outputs, depth=depth, width=width)
        self.inputs = inputs
        with torch.random.fork_rng(devices=[]):  # layers draw when built, and are drawn again from the generator
            self.stem = nn.Linear(inputs, width)
            self.blocks = nn.Sequential(*(COMPARED[kind].dense_block(width) for _ in range(depth)))
            self.head = nn.Linear(width, outputs)
        _start_(self, generator)

    def forward(self, x: Tensor) -> Tensor:
        """Map points [N, ...] of `inputs` features to logits [N, outputs]."""
        if x.dim() < 2 or x.shape[1:].numel() != self.inputs:
            raise AliveError(
                f"SkipDense expected points [N, ...] of {self.inputs} features, got {list(x.shape)}",
                "Build the network with the number of features of the data",
            )
        return self.head(self.blocks(self.stem(x.flatten(1))))  # type: ignore[no-any-return]


class SkipConv(nn.Module):
    """A convolutional network of 002 with 8n+2 layers: 3x3 stem, 4 stages of n blocks, global average, linear.

    Widths base, 2 base, 4 base, 8 base; stages 2 to 4 begin with stride 2 (Dirac: with max-pooling). In the order
    `preact` a batch norm and a ReLU come before the average.

    >>> net = SkipConv("van", 3, 10, n=3)
    >>> sum(isinstance(m, nn.Conv2d) and m.kernel_size == (3, 3) for m in net.modules()) + 1
    26
    """

    def __init__(
        self,
        kind: str,
        channels: int,
        classes: int,
        *,
        n: int,
        base: int = 64,
        order: str = "preact",
        generator: Generator | None = None,
    ) -> None:
        super().__init__()
        expect_one_of("kind", kind, COMPARED)
        expect_one_of("order", order, ORDERS)
        _expect_counts(channels=channels, classes=classes, n=n, base=base)
        last = base * 2 ** (STAGES - 1)
        self.channels = channels
        with torch.random.fork_rng(devices=[]):
            self.stem = nn.Conv2d(channels, base, 3, padding=1, bias=False)
            self.blocks = nn.Sequential(*(COMPARED[kind].conv_block(joint) for joint in _joints(n, base, order)))
            self.norm = nn.Sequential(nn.BatchNorm2d(last), nn.ReLU()) if order == "preact" else nn.Sequential()
            self.head = nn.Linear(last, classes)
        _start_(self, generator)

    def forward(self, x: Tensor) -> Tensor:
        """Map images [N, channels, H, W] to logits [N, classes]."""
        if x.dim() != 4 or x.shape[1] != self.channels:
            raise AliveError(
                f"SkipConv expected images [N, {self.channels}, H, W], got {list(x.shape)}",
                "Build the network with the channels of the data",
            )
        return self.head(self.norm(self.blocks(self.stem(x))).mean((2, 3)))  # type: ignore[no-any-return]


class DenseMaker(Protocol):
    """How a dense network of a kind is made."""

    def __call__(
        self, inputs: int, outputs: int, *, depth: int, width: int = 50, generator: Generator | None = None
    ) -> nn.Module:
        """Make it."""


class ConvMaker(Protocol):
    """How a convolutional network of a kind is made."""

    def __call__(
        self, channels: int, classes: int, *, n: int, base: int = 64, generator: Generator | None = None
    ) -> nn.Module:
        """Make it."""


@dataclass(frozen=True, slots=True)
class Compared:
    """A kind of network: its blocks, and how to make the whole."""

    name: str
    dense_block: Callable[[int], nn.Module]
    conv_block: Callable[[Joint], nn.Module]

    @property
    def dense(self) -> DenseMaker:
        """Make a dense network: (inputs, outputs, *, depth, width=50, generator=None)."""
        return partial(SkipDense, self.name)

    @property
    def conv(self) -> ConvMaker:
        """Make a convolutional network: (channels, classes, *, n, base=64, generator=None)."""
        return partial(SkipConv, self.name)


def _van(joint: Joint, formulation: str = "residual") -> nn.Module:
    return VANBlock(joint.branch(), joint.skip(), channels=joint.outputs, formulation=formulation)


def _highway_conv(joint: Joint) -> nn.Module:
    transform = nn.Conv2d(joint.inputs, joint.outputs, 3, stride=joint.stride, padding=1)
    return Highway(joint.branch(), transform, joint.skip())


def _dirac_dense(width: int) -> nn.Module:
    norm, relu, _ = dense_branch(width)
    return nn.Sequential(norm, relu, DiracLinear(width, width))


def _dirac_conv(joint: Joint) -> nn.Module:
    """The branch with Dirac kernels of stride 1, after max-pooling where the branch would have a stride."""
    layers = [
        DiracConv2d(layer.in_channels, layer.out_channels, 3, padding=1, bias=False)
        if isinstance(layer, nn.Conv2d)
        else layer
        for layer in joint.branch()
    ]
    return nn.Sequential(*([nn.MaxPool2d(joint.stride)] if joint.stride > 1 else []), *layers)


# VAN (λ = 0) is the network "van" under VANController(lambda0=0).
COMPARED: dict[str, Compared] = {
    kind.name: kind
    for kind in (
        Compared("plain", dense_branch, Joint.branch),
        Compared(
            "resnet", lambda width: Residual(dense_branch(width)), lambda joint: Residual(joint.branch(), joint.skip())
        ),
        Compared("highway", lambda width: Highway(dense_branch(width), nn.Linear(width, width)), _highway_conv),
        Compared("dirac", _dirac_dense, _dirac_conv),
        Compared("van", lambda width: VANBlock(dense_branch(width), channels=width), _van),
        Compared(
            "convex",
            lambda width: VANBlock(dense_branch(width), channels=width, formulation="convex"),
            partial(_van, formulation="convex"),
        ),
        Compared(
            "half",
            lambda width: VANBlock(dense_branch(width), channels=width, formulation="half"),
            partial(_van, formulation="half"),
        ),
    )
}


def _joints(n: int, base: int, order: str) -> Iterator[Joint]:
    """The sizes of all 4n blocks, from the stem to the head."""
    inputs = base
    for stage in range(STAGES):
        for block in range(n):
            outputs = base * 2**stage
            yield Joint(inputs, outputs, 2 if stage and not block else 1, order)
            inputs = outputs


def _start_(model: nn.Module, generator: Generator | None) -> None:
    """Draw He weights; what is special about a gate's start comes after."""
    initialise_(model, "kaiming", generator=generator, output="head")
    for module in model.modules():
        if isinstance(module, Highway):
            module.carry_()


def _expect_counts(**sizes: int) -> None:
    expect(
        (isinstance(value, int) and value >= 1, f"{name} must be a whole number of at least 1, got {value!r}")
        for name, value in sizes.items()
    )
