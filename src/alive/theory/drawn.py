"""Weights of many fresh rectangles at once: the distributions of alive.nn.initialise_, stacked [F, ...]."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import partial
from typing import NamedTuple

import torch
from torch import Generator, Tensor

from ..nn import Rectangular, initialise_
from ..nn.init import MIRROR_NOISE


class Drawn(NamedTuple):
    """Of every hidden layer the weights [F, out, in] and biases [F, out]."""

    weights: list[Tensor]
    biases: list[Tensor]


ONE_BY_ONE = (
    *(
        "looks-linear",
        "near-identity",
        "orthogonal",
        "delta-orthogonal",
        "uniform-orthogonal",
        "mean-orthogonal",
        "deterministic",
    ),
)
Fans = Sequence[tuple[int, int]]  # (out, in) of every hidden layer
Drawer = Callable[[Fans, int, torch.dtype, Generator | None], Drawn]


def one_by_one(fans: Fans, networks: int, dtype: torch.dtype, generator: Generator | None, *, init: str) -> Drawn:
    """The slow obvious way: initialise one network after the other and copy what it holds."""
    (width, inputs), depth = fans[0], len(fans)
    network = _blank(inputs, width, depth, dtype)
    layers = [layer.get_submodule("linear") for layer in network.hidden.children()]
    weights, biases = _empty(fans, networks, dtype)
    for which in range(networks):
        initialise_(network, init, generator=generator, output="output")
        for layer, weight, bias in zip(layers, weights, biases, strict=True):
            weight[which], bias[which] = layer.get_parameter("weight").detach(), layer.get_parameter("bias").detach()
    return Drawn(weights, biases)


def glorot(fans: Fans, networks: int, dtype: torch.dtype, generator: Generator | None) -> Drawn:
    """Uniform weights of variance 2 / (in + out), biases zero."""
    weights, biases = _empty(fans, networks, dtype)
    for (out, into), weight in zip(fans, weights, strict=True):
        bound = math.sqrt(6 / (out + into))
        weight.uniform_(-bound, bound, generator=generator)
    return Drawn(weights, biases)


def kaiming(fans: Fans, networks: int, dtype: torch.dtype, generator: Generator | None) -> Drawn:
    """Normal weights of variance 2 / in, biases zero."""
    weights, biases = _empty(fans, networks, dtype)
    for (_, into), weight in zip(fans, weights, strict=True):
        weight.normal_(0, math.sqrt(2 / into), generator=generator)
    return Drawn(weights, biases)


def torch_(fans: Fans, networks: int, dtype: torch.dtype, generator: Generator | None) -> Drawn:
    """Weights and biases uniform within 1/√in."""
    weights, biases = _empty(fans, networks, dtype)
    for (_, into), weight, bias in zip(fans, weights, biases, strict=True):
        for part in (weight, bias):
            part.uniform_(-1 / math.sqrt(into), 1 / math.sqrt(into), generator=generator)
    return Drawn(weights, biases)


def zeros(fans: Fans, networks: int, dtype: torch.dtype, generator: Generator | None) -> Drawn:
    """All weights and biases zero."""
    return _empty(fans, networks, dtype)


def mirrored(fans: Fans, networks: int, dtype: torch.dtype, generator: Generator | None) -> Drawn:
    """Mirrored pairs plus noise; of the pairs only the first layer is random, where it is not square.

    An odd width has a random unit in every layer, and is drawn one by one.
    """
    width, inputs = fans[0]
    if width % 2:
        return one_by_one(fans, networks, dtype, generator, init="mirrored")
    base = _blank(inputs, width, len(fans), dtype)
    initialise_(base, "mirrored", noise=0, generator=generator, output="output")
    kept = [layer.get_submodule("linear").get_parameter("weight").detach() for layer in base.hidden.children()]
    weights, biases = _empty(fans, networks, dtype)
    share = MIRROR_NOISE / math.sqrt(len(fans) + 1)
    for (out, into), weight, core in zip(fans, weights, kept, strict=True):
        weight.normal_(0, share * math.sqrt(2 / (out + into)), generator=generator).add_(core)
    if inputs != width // 2:
        weights[0].sub_(kept[0])
        single = _blank(inputs, width, 1, dtype)
        first = single.hidden[0].get_submodule("linear").get_parameter("weight")
        for which in range(networks):
            initialise_(single, "mirrored", noise=0, generator=generator, output="output")
            weights[0][which].add_(first.detach())
    return Drawn(weights, biases)


DRAWERS: dict[str, Drawer] = {
    "glorot": glorot,
    "kaiming": kaiming,
    "torch": torch_,
    "zeros": zeros,
    "mirrored": mirrored,
    **{name: partial(one_by_one, init=name) for name in ONE_BY_ONE},
}


def _blank(inputs: int, width: int, depth: int, dtype: torch.dtype) -> Rectangular:
    """A network to be initialised; its first start comes from a generator of its own, not from the caller's."""
    spare = torch.Generator().manual_seed(0)
    return Rectangular(inputs, 1, depth=depth, width=width, generator=spare).to(dtype)


def _empty(fans: Fans, networks: int, dtype: torch.dtype) -> Drawn:
    return Drawn(
        [torch.zeros(networks, out, into, dtype=dtype) for out, into in fans],
        [torch.zeros(networks, out, dtype=dtype) for out, _ in fans],
    )
