"""Where the maps of one network lie: [layer][block of sixteen images][channel][row][column][image]."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..arena import Floats, padded
from ..lanes import WIDTH


class Maps(NamedTuple):
    """What one pass over a batch leaves behind. M = (side + border)² · 16 numbers are one map of sixteen images.

    What a network does not need has no layers. A penalty by channel notes the few pre-activations that are extremes of
    their channel or image. One by position keeps them all, and what the next layer reads is made of them again on the
    way back: it has room for two layers of one block, as much as an evaluation needs.
    """

    x: Floats  # [blocks, inputs, M]
    u: Floats  # [D, blocks, C, M] what a layer sums up, skip included: with batch norm or skips
    z: Floats  # [D, blocks, C, M] pre-activations: with a penalty by position; [1, 1, C, M] with one by channel
    h: Floats  # [D, blocks, C, M] what the next layer reads; with a penalty by position [2, 1, C, M]
    last: Floats  # [blocks, C, M] what the head reads; the same memory as h[D − 1] unless pre-activations are kept
    pooled: Floats  # [C, B] of the head "mean"
    pooled_slope: Floats  # [C, B]
    logits: Floats  # [outputs, B]
    answer: Floats  # [outputs, 16] of an evaluation
    row_top: Floats  # [C · side, 16] extremes of each row of a channel in each image of one block; by position of each
    # place of one row of a channel over the blocks so far
    row_bottom: Floats
    lane_top: Floats  # [D, C, 16] extremes of each channel in each image of one block
    lane_bottom: Floats
    unit_top: Floats  # [D, units], a unit being a channel, or one at a position
    unit_bottom: Floats
    point_top: Floats  # [D, positions, B], positions being 1 unless each counts by itself
    point_bottom: Floats
    mean: Floats  # [D, C], of the batch
    scale: Floats  # [D, C], 1/sqrt(variance + eps) of the batch
    g: Floats  # [blocks at once, C, M] gradient on its way back
    g_below: Floats
    skipped: Floats  # [blocks at once, C, M] what flows back past a layer
    real: Floats  # [1, B] one for an image of the batch, zero in the padding
    aim: Floats  # [D, 4, units] of the penalty: which values each unit looks for, and what it adds there
    layer_aim: Floats  # [D, 4, C]
    ties: Floats  # [1, 2, C] how many entries attain what their channel looks for; by position [D, 2, units]
    noted: Floats  # [D, blocks, C · side², 16] pre-activations that may be extremes of their channel or image
    places: NDArray[np.int32]  # [D, blocks, C · side², 2] where they lie: channel, and where in its map
    notes: NDArray[np.int64]  # [D, blocks] how many of them
    turned: Floats  # [C, C · taps²] the weights that carry a gradient back
    none: Floats  # [1, C] zeros
    one: Floats  # [1, C] ones
    centre: Floats  # [1, C] of a norm: z = factor (u − centre) + offset
    factor: Floats  # [1, C]
    offset: Floats  # [1, C]
    few: Floats  # [C, 16] means of an evaluation


KINDS = {"places": np.int32, "notes": np.int64}  # all others are float32


class Sizes(NamedTuple):
    """What decides how much room a network takes."""

    depth: int
    width: int
    inputs: int
    outputs: int
    side: int
    taps: int
    points: int  # of a batch
    norm: bool
    skip: bool
    penalty: bool
    by_position: bool
    layer: bool
    mean_head: bool


def shapes(sizes: Sizes) -> dict[str, tuple[int, ...]]:
    """The shape of every part of Maps."""
    D, C, B = sizes.depth, sizes.width, padded(sizes.points)
    blocks, area = B // WIDTH, sizes.side**2
    M = (sizes.side + 2 * (sizes.taps // 2)) ** 2 * WIDTH
    at_once = blocks if sizes.norm else 1
    units, positions = (C * area, area) if sizes.by_position else (C, 1)
    summed = D if sizes.norm or sizes.skip else 0
    normed = D if sizes.norm else 0
    kept = sizes.penalty and sizes.by_position
    noting = sizes.penalty and not sizes.by_position
    asked = D if sizes.penalty else 0
    noted = (D if noting else 0, blocks)
    pooled = C if sizes.mean_head else 0
    return {
        "x": (blocks, sizes.inputs, M),
        "u": (summed, blocks, C, M),
        "z": (D, blocks, C, M) if kept else (int(noting), 1, C, M),
        "h": (2, 1, C, M) if kept else (D, blocks, C, M),
        "last": (blocks if kept else 0, C, M),
        "pooled": (pooled, B),
        "pooled_slope": (pooled, B),
        "logits": (sizes.outputs, B),
        "answer": (sizes.outputs, WIDTH),
        "row_top": (C * sizes.side, WIDTH),
        "row_bottom": (C * sizes.side, WIDTH),
        "lane_top": (D, C, WIDTH),
        "lane_bottom": (D, C, WIDTH),
        "unit_top": (D, units),
        "unit_bottom": (D, units),
        "point_top": (D, positions, B),
        "point_bottom": (D, positions, B),
        "mean": (normed, C),
        "scale": (normed, C),
        "g": (at_once, C, M),
        "g_below": (at_once, C, M),
        "skipped": (at_once if sizes.skip else 0, C, M),
        "real": (1, B),
        "aim": (asked, 4, units),
        "layer_aim": (D if sizes.layer else 0, 4, C),
        "ties": (D if kept else 1, 2, units),
        "noted": (*noted, C * area, WIDTH),
        "places": (*noted, C * area, 2),
        "notes": noted,
        "turned": (C, C * sizes.taps**2),
        **dict.fromkeys(("none", "one", "centre", "factor", "offset"), (1, C)),
        "few": (C, WIDTH),
    }


def room(sizes: Sizes) -> Maps:
    """Zeros of these shapes; borders stay zero."""
    parts = {name: np.zeros(shape, KINDS.get(name, np.float32)) for name, shape in shapes(sizes).items()}
    parts["one"][:] = 1
    parts["last"] = parts["last"] if sizes.penalty and sizes.by_position else parts["h"][-1]
    return Maps(**parts)


def memory(sizes: Sizes) -> int:
    """Bytes of the room.

    >>> plain = Sizes(28, 4, 1, 10, 28, 3, 48, *[False] * 6)
    >>> round(memory(plain) / 2**20)
    19
    """
    each = {name: np.dtype(KINDS.get(name, np.float32)).itemsize for name in Maps._fields}
    return sum(each[name] * int(np.prod(shape)) for name, shape in shapes(sizes).items())
