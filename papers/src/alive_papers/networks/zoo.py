"""Every network the experiments know, by name, each made to fit the points of a data set."""

from __future__ import annotations

import math
from collections.abc import Callable

from torch import Generator, nn

from alive.errors import AliveError, expect_one_of
from alive.nn.rectangular import Rectangular, RectangularConv
from alive.registry import Registry

from . import FarkasNet
from .farkas_nets import signed_farkas
from .fixup import FixupNet
from .identity import AllConvResNet
from .resnet import ResNet
from .skips import COMPARED

Shape = tuple[int, ...]  # of one point: [features] or [C, H, W]
Option = int | float | str | bool
Build = Callable[..., nn.Module]  # (shape, outputs, *, depth, width, generator, **options)


def make(
    name: str, shape: Shape, outputs: int, *, depth: int, width: int, generator: Generator | None, **options: Option
) -> nn.Module:
    """The network of this name for points of a shape; options are the network's own.

    >>> net = make("rectangle", (1, 8, 8), 10, depth=3, width=4, generator=None, head="flatten")
    >>> net.output
    Linear(in_features=256, out_features=10, bias=True)
    """
    expect_one_of("network", name, ZOO)
    try:
        return ZOO[name](shape, outputs, depth=depth, width=width, generator=generator, **options)
    except TypeError as error:
        raise AliveError(f"the network {name!r} cannot be made with {sorted(options)}: {error}") from None


def _rectangle(shape: Shape, outputs: int, *, head: str = "", **rest: object) -> nn.Module:
    """Layers of equal width: of points dense, and of images what is asked for, for either is likely."""
    if len(shape) == 3 and not head:
        raise AliveError(
            "a rectangle on images may be dense or a convolution",
            """Say which: options=(("head", "none"),) for dense layers; "pool", "mean" or "flatten" for convolutions""",
        )
    if len(shape) != 3 or head == "none":
        return Rectangular(math.prod(shape), outputs, **rest)  # type: ignore[arg-type]
    size = (shape[1], shape[2]) if head == "flatten" else None
    return RectangularConv(shape[0], outputs, head=head, size=size, **rest)  # type: ignore[arg-type]


def _staged(network: Build) -> Build:
    """A staged residual network: of a preset, or of equal stages of `depth` blocks, the first `width` wide."""

    def build(shape: Shape, outputs: int, *, depth: int, width: int, stages: int = 3, **rest: object) -> nn.Module:
        own = {} if "preset" in rest else {"stages": (depth,) * stages, "base": width, "block": "basic"}
        return network(shape[0], outputs, **own, **rest)

    return build


def _dense(shape: Shape, outputs: int, *, kind: str, depth: int, width: int, generator: Generator | None) -> nn.Module:
    """A dense network of 002: `depth` blocks of `width` units."""
    expect_one_of("kind", kind, COMPARED)
    return COMPARED[kind].dense(math.prod(shape), outputs, depth=depth, width=width, generator=generator)


def _stack(shape: Shape, outputs: int, *, kind: str, depth: int, width: int, generator: Generator | None) -> nn.Module:
    """A convolutional network of 002 with `depth` = 8n + 2 layers, the first stage `width` wide."""
    expect_one_of("kind", kind, COMPARED)
    n, rest = divmod(depth - 2, 8)
    if n < 1 or rest:
        raise AliveError(f"a convolutional network of 002 has 10, 18, 26 ... layers, asked for {depth}")
    return COMPARED[kind].conv(shape[0], outputs, n=n, base=width, generator=generator)


def _all_conv(shape: Shape, outputs: int, *, stages: int = 3, depth: int, **rest: object) -> nn.Module:
    return AllConvResNet(shape[0], outputs, depth=[depth] * stages, **rest)  # type: ignore[arg-type]


ZOO: Registry[Build] = Registry(
    "alive.networks",
    "network",
    {
        "rectangle": _rectangle,
        "farkas": _staged(FarkasNet),
        "farkas-signed": _staged(signed_farkas),
        "resnet": _staged(ResNet),
        "fixup": _staged(FixupNet),
        "compared-dense": _dense,
        "compared-conv": _stack,
        "all-conv": _all_conv,
    },
    fault=lambda name, thing: "" if callable(thing) else f"it is {type(thing).__name__}, which makes no network",
)
