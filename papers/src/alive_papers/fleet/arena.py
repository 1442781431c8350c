"""Where the numbers of one network lie: flat arenas, and named views of them for the kernels.

A unit at a position is a row; there are R = positions · width rows a layer, and activations are [layer][row][point].
Points are padded to whole vectors with copies of the last one: an extreme does not see the copies, and nothing that
flows back does, since their share of the loss is zero.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from .lanes import WIDTH

Floats = NDArray[np.float32]
Doubles = NDArray[np.float64]


class Weights(NamedTuple):
    """One number for every connection; the gradient has the same shape."""

    first: Floats  # [R, inputs]; of a convolution [C, inputs · taps²]
    inner: Floats  # [D-1, R, R]
    bias: Floats  # [D, 1, R]
    out: Floats  # [outputs, R]
    out_bias: Floats  # [1, outputs]
    gain: Floats  # [D, width], of batch norm; empty without
    shift: Floats  # [D, width]


class Signals(NamedTuple):
    """What one pass over a batch leaves behind."""

    x: Floats  # [inputs, B]
    u: Floats  # [D, R, B] what a layer sums up, skip included
    z: Floats  # [D, R, B] pre-activations; the same memory as u without batch norm
    h: Floats  # [D, R, B] what the next layer reads
    logits: Floats  # [outputs, B]
    unit_top: Floats  # [D, R]
    unit_bottom: Floats  # [D, R]
    point_top: Floats  # [D, positions, B]
    point_bottom: Floats  # [D, positions, B]
    mean: Floats  # [D, width], of the batch
    scale: Floats  # [D, width], 1/sqrt(variance + eps) of the batch
    g: Floats  # [R, B] gradient on its way back
    g_below: Floats  # [R, B]
    skipped: Floats  # [R, B] what flows back past a layer
    real: Floats  # [1, B] one for a point of the batch, zero in the padding
    aim: Floats  # [4, R] of the penalty: for each row which values it looks for, and what it adds there


class Norm(NamedTuple):
    """Running statistics of batch norm."""

    mean: Floats  # [D, width]
    variance: Floats  # [D, width]


class Gates(NamedTuple):
    """The skips of a residual or VAN member: u_l = W h + b + (1 − α_l) u_{l−1}."""

    alpha: Floats  # [D, R]
    multiplier: Floats  # [D, R], λ
    gradient: Floats  # [D, R]


class Prices(NamedTuple):
    """Of each layer and axis (units, points, the layer): how much its slacks count."""

    share: Doubles  # [D, 3] what the cost of one slack counts in A: 1 in a sum
    multiplier: Doubles  # [D, 3] μ of the weight "auto", else 1
    smooth: Doubles  # [D, 3] ξ, the exponential mean of the mean slack; NaN before the first


def padded(points: int) -> int:
    """Points rounded up to a whole number of vectors.

    >>> padded(85)
    96
    """
    return -(-points // WIDTH) * WIDTH


def weight_shapes(
    depth: int, rows: int, read: tuple[int, int, int], outputs: int, *, norm: int
) -> dict[str, tuple[int, ...]]:
    """Shapes of the Weights; `read` is how many numbers a row of the first, of an inner and of the output layer reads.

    `norm` is the number of channels with batch norm, 0 for none.
    """
    first, inner, out = read
    return {
        "first": (rows, first),
        "inner": (depth - 1, rows, inner),
        "bias": (depth, 1, rows),
        "out": (outputs, out),
        "out_bias": (1, outputs),
        "gain": (depth if norm else 0, norm),
        "shift": (depth if norm else 0, norm),
    }


def size_of(shapes: dict[str, tuple[int, ...]]) -> int:
    """Numbers in an arena of these shapes."""
    return sum(int(np.prod(shape)) for shape in shapes.values())


def views(flat: Floats, shapes: dict[str, tuple[int, ...]]) -> Weights:
    """Name the parts of a flat arena, without copying.

    >>> flat = np.zeros(size_of(shapes := weight_shapes(2, 4, (2, 4, 4), 1, norm=0)), np.float32)
    >>> views(flat, shapes).inner[0, 3, 3:] += 1
    >>> int(flat.sum())
    1
    """
    ends = np.cumsum([int(np.prod(shape)) for shape in shapes.values()])[:-1]
    parts = np.split(flat, ends)
    return Weights(*(part.reshape(shape) for part, shape in zip(parts, shapes.values(), strict=True)))


def signals(depth: int, width: int, positions: int, inputs: int, outputs: int, points: int, *, norm: bool) -> Signals:
    """Room for one pass over a batch of at most so many points."""
    rows, B = width * positions, padded(points)

    def room(*shape: int) -> Floats:
        return np.zeros(shape, np.float32)

    u = room(depth, rows, B)
    return Signals(
        x=room(inputs, B),
        u=u,
        z=room(depth, rows, B) if norm else u,
        h=room(depth, rows, B),
        logits=room(outputs, B),
        unit_top=room(depth, rows),
        unit_bottom=room(depth, rows),
        point_top=room(depth, positions, B),
        point_bottom=room(depth, positions, B),
        mean=room(depth if norm else 0, width),
        scale=room(depth if norm else 0, width),
        g=room(rows, B),
        g_below=room(rows, B),
        skipped=room(rows, B),
        real=room(1, B),
        aim=room(4, rows),
    )
