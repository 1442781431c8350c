"""A layer as the matrices its output positions see: one for a dense layer, one a padding pattern for a convolution."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from ..errors import AliveError, expect

Array = NDArray[np.float64]
Conv = nn.Conv1d | nn.Conv2d | nn.Conv3d


@dataclass(frozen=True, slots=True, eq=False)
class Case:
    """What one kind of output position computes: weight [m, n] times the inputs it sees, plus bias [m].

    `seen` [inputs] marks which entries of the whole input, or of the whole patch, are free; the others are padding.
    """

    weight: Array
    bias: Array
    seen: NDArray[np.bool_]
    positions: int


def cases(layer: nn.Module | tuple[Tensor, Tensor], size: Sequence[int] | None = None) -> list[Case]:
    """Read a layer: dense, convolutional, a pair (weight [m, n], bias [m]), or whatever has to_plain().

    `size` is the spatial size of the images, needed where a convolution pads: border positions see less.

    >>> [case.positions for case in cases(nn.Conv1d(1, 2, 3, padding=1), size=[8])]
    [1, 6, 1]
    """
    if isinstance(layer, tuple):
        weight, bias = layer
        return [_dense(weight, bias)]
    own: Any = layer
    if not isinstance(layer, nn.Linear | Conv) and hasattr(own, "to_plain"):
        layer = own.to_plain()
    if isinstance(layer, nn.Linear):
        return [_dense(layer.weight, layer.bias)]
    if isinstance(layer, Conv):
        return _convolution(layer, size)
    raise AliveError(
        f"cannot certify a {type(layer).__name__}",
        "Give a dense or convolutional layer, one with to_plain(), or a pair (weight, bias)",
    )


def numbers(values: Any) -> Array:
    """Float64 numbers of a tensor, exactly those it holds."""
    return torch.as_tensor(values).detach().to("cpu", torch.float64).numpy()


def _dense(weight: Tensor, bias: Tensor | None) -> Case:
    w = numbers(weight)
    b = np.zeros(w.shape[:1]) if bias is None else numbers(bias)
    expect(
        [
            (w.ndim == 2 and w.size > 0, f"expected a weight [units, inputs], got {list(w.shape)}"),
            (b.shape == w.shape[:1], f"{w.shape[:1]} units need as many biases, got {list(b.shape)}"),
            (bool(np.isfinite(w).all() and np.isfinite(b).all()), "weight and bias must be finite"),
        ]
    )
    return Case(w, b, np.ones(w.shape[1], dtype=bool), 1)


def _convolution(layer: Conv, size: Sequence[int] | None) -> list[Case]:
    """One case a distinct padding pattern; a pattern is a product of those of the axes."""
    kernel = tuple(layer.weight.shape[2:])
    whole = _dense(_ungroup(layer).flatten(1), layer.bias)
    patterns = [_patterns(layer, axis, size) for axis in range(len(kernel))]
    made = []
    for chosen in product(*(pattern.items() for pattern in patterns)):
        taps = np.ones(kernel, dtype=bool)
        for axis, (inside, _) in enumerate(chosen):
            shape = [1] * len(kernel)
            shape[axis] = -1
            taps &= np.array(inside).reshape(shape)
        seen = np.broadcast_to(taps, (layer.in_channels, *kernel)).reshape(-1)
        count = math.prod(positions for _, positions in chosen)
        made.append(Case(whole.weight[:, seen], whole.bias, seen, count))
    return made


def _ungroup(layer: Conv) -> Tensor:
    """The kernel [out, in, ...] with zeros where a group does not look."""
    weight = layer.weight.detach()
    out, each = weight.shape[0] // layer.groups, weight.shape[1]
    whole = weight.new_zeros(weight.shape[0], layer.in_channels, *weight.shape[2:])
    for group in range(layer.groups):
        rows = slice(group * out, (group + 1) * out)
        whole[rows, group * each : (group + 1) * each] = weight[rows]
    return whole


def _patterns(layer: Conv, axis: int, size: Sequence[int] | None) -> dict[tuple[bool, ...], int]:
    """Along one axis: which kernel taps fall inside the image, and at how many output positions."""
    taps, stride, step = layer.kernel_size[axis], layer.stride[axis], layer.dilation[axis]
    before, after = _zeros_around(layer, axis)
    if not before and not after and size is None:
        return {(True,) * taps: 1}
    _expect_size(layer, size)
    length = (size or ())[axis]
    reach = step * (taps - 1)
    found: dict[tuple[bool, ...], int] = {}
    for start in range(-before, length + after - reach, stride):
        inside = tuple(0 <= start + step * tap < length for tap in range(taps))
        found[inside] = found.get(inside, 0) + 1
    if not found:
        raise AliveError(f"the kernel {layer.kernel_size} does not fit images of size {list(size or ())}")
    return found


def _zeros_around(layer: Conv, axis: int) -> tuple[int, int]:
    """Zeros put before and after the image along one axis."""
    if layer.padding == "same":  # torch puts the odd one behind
        total = layer.dilation[axis] * (layer.kernel_size[axis] - 1)
        both = (total // 2, total - total // 2)
    else:
        each = 0 if layer.padding == "valid" else int(layer.padding[axis])
        both = (each, each)
    if any(both) and layer.padding_mode != "zeros":
        raise AliveError(
            f"padding_mode {layer.padding_mode!r} repeats inputs at the border, where entries are then not free",
            "Certify the layer with zero padding, or without any",
        )
    return both


def _expect_size(layer: Conv, size: Sequence[int] | None) -> None:
    axes = len(layer.kernel_size)
    if size is None:
        raise AliveError("the layer pads: which positions see padding depends on the image", "Give size=(H, W)")
    if len(size) != axes or any(length < 1 for length in size):
        raise AliveError(f"expected {axes} positive lengths as size, got {list(size)}")
