"""Layers that hold each unit twice, as z and as −z: concatenated and leaky ReLUs, written as plain ones.

Every connection is then a fixed multiple of a number that is trained. CReLU passes relu(z) and relu(−z) on, and the
next layer has weights of its own for both; the leaky ReLU is relu(z) − α relu(−z): its second weight is −α times the
first.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from .arena import Floats
from .tailored import leaky_gain, tailored_slope

if TYPE_CHECKING:
    from .member import Member

DOUBLED = ("concatenated", "leaky")  # blocks
Numbers = NDArray[np.int32]
BOTH = (1.0, -1.0)  # a unit, and its negative


def kept(member: Member, parts: Sequence[Tensor]) -> list[Tensor]:
    """What is trained of a plain network's parameters: of a concatenated one only the first of each pair of rows."""
    if member.kind.block != "concatenated":
        return list(parts)
    half = member.width // 2
    return [*(part[:half] for part in parts[: 2 * member.depth]), *parts[2 * member.depth :]]


def sharing(member: Member, inputs: int, outputs: int) -> tuple[Numbers, Floats]:
    """For every connection in the order of the arena: which trained number it follows, and how many times that."""
    concatenated = member.kind.block == "concatenated"
    units = member.width // 2 if concatenated else member.width
    slope = tailored_slope(member.depth)
    reads = (1.0,) if concatenated else (leaky_gain(slope), -slope * leaky_gain(slope))
    read = 2 * units if concatenated else units  # numbers that a unit has for the layer below
    shapes = [(units, inputs), (member.depth - 1, units, read), (member.depth, 1, units), (outputs, read), (1, outputs)]
    ends = np.cumsum([np.prod(shape) for shape in shapes])
    parts = np.split(np.arange(ends[-1], dtype=np.int32), ends[:-1])
    first, inner, bias, out, out_bias = (part.reshape(shape) for part, shape in zip(parts, shapes, strict=True))
    laid = [
        _laid(first, BOTH, (1.0,)),
        *(_laid(layer, BOTH, reads) for layer in inner),
        *(_laid(layer, (1.0,), BOTH) for layer in bias),
        _laid(out, (1.0,), reads),
        _laid(out_bias, (1.0,), (1.0,)),
    ]
    index, factor = zip(*laid, strict=True)
    return np.concatenate(index), np.concatenate(factor)


def _laid(numbers: Numbers, rows: Sequence[float], columns: Sequence[float]) -> tuple[Numbers, Floats]:
    """A matrix repeated as blocks, and the factor of each block."""
    index = np.tile(numbers, (len(rows), len(columns)))
    factor = np.kron(np.outer(rows, columns), np.ones(numbers.shape))
    return index.ravel(), factor.ravel().astype(np.float32)
