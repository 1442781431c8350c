"""The ends of a layer by one reading of it, in Triton: the kernels that `ends` takes on a GPU.

A layer lies as a matrix: rows [N·P, C], units innermost (dense layers, sequences, channels_last), or maps [N·C, P].
Each program reads a tile, writes relu of it, and hands on the ends of its units and points by an atomic maximum of
packed keys: 32 bits of the value in the order of the floats, then 32 of its place, so that of equal values the first is
found. NaN is above all, and −0 equals 0. A second launch unpacks them; on the way back each tile adds what belongs to
its own places. So a layer takes three launches and one reading of z, and one launch back.

ALIVE_TRITON=0 leaves it to plain torch. With TRITON_INTERPRET=1 the kernels run on a CPU, for tests.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from functools import cache
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from ..torch_private import FakeTensor

if TYPE_CHECKING:
    from .ends import Groups

DTYPES = (torch.float32, torch.bfloat16, torch.float16)
TARGETS = ("cuda", "xpu")
TILE, UNPACKED = 4096, 256  # values a program reads, and ends it unpacks


@cache
def kernels() -> Any:
    """The kernels, if Triton is here and not switched off."""
    if os.environ.get("ALIVE_TRITON", "1") == "0":
        return None
    try:
        from . import tile_kernels
    except ImportError:
        return None
    return tile_kernels


def serves(z: Tensor) -> bool:
    """Whether the kernels can read a tensor."""
    if isinstance(z, FakeTensor) or z.dtype not in DTYPES or not 0 < z.numel() < 2**31 or z.is_neg():
        return False
    here = z.device.type in TARGETS or (z.is_cpu and os.environ.get("ALIVE_TRITON") == "interpret")
    return here and kernels() is not None


class Matrix:
    """How a layer [N, C, *positions] lies as a matrix of rows; None of them says it is neither rows nor maps."""

    def __init__(self, shape: Sequence[int], stride: Sequence[int]) -> None:
        self.N, self.C, *positions = shape
        self.P = torch.Size(positions).numel()
        self.rows = self.P == 1 or _is_dense([self.N, *positions, self.C], [stride[0], *stride[2:], stride[1]])
        self.known = self.rows or _is_dense(shape, stride)
        self.wide = self.C if self.rows else self.P
        self.long = self.N * self.P if self.rows else self.N * self.C
        self.block = min(_power(self.wide), 128 if self.rows else 1024)
        self.blocks = -(-self.wide // self.block)
        self.height = min(_power(self.long), TILE // self.block)
        self.grid = -(-self.long // self.height), self.blocks

    def counts(self, axes: str) -> tuple[int, int]:
        """How many units and points have ends; a layer as a whole is one point."""
        return self.C if "U" in axes else 0, self.N if "P" in axes else int(axes == "L")

    def asked(self, axes: str) -> tuple[tuple[Any, ...], tuple[bool, bool, bool]]:
        """What every kernel is told: of the matrix, and which of units, points and the whole layer."""
        lies = self.long, self.wide, self.N, self.C, self.P, self.rows, self.height, self.block
        return (*self.counts(axes), *lies), ("U" in axes, "P" in axes, axes == "L")


def _is_dense(shape: Sequence[int], stride: Sequence[int]) -> bool:
    expected = 1
    for size, step in zip(reversed(shape), reversed(stride), strict=True):
        if size != 1 and step != expected:
            return False
        expected *= size
    return True


def _power(count: int) -> int:
    """The least power of two that is no smaller."""
    return 1 << max(count - 1, 0).bit_length()


def locate(z: Tensor, groups: Groups, *, relu: bool) -> tuple[Tensor | None, Tensor, Tensor] | None:
    """As `ends.locate`, where the kernels can do it."""
    by_position = not groups.pools and z.ndim > 2 and groups.axes != "L" and z.shape[2:].numel() > 1
    if not serves(z) or by_position:
        return None
    matrix = Matrix(z.shape, z.stride())
    if not matrix.known:
        return None
    keys = torch.full(
        (len(groups.signs), sum(matrix.counts(groups.axes))), torch.iinfo(torch.long).min, device=z.device
    )
    ends, places = keys.new_empty(keys.shape, dtype=z.dtype), torch.empty_like(keys)
    y = torch.empty_like(z) if relu else None
    largest = 1 in groups.signs
    run, asked = kernels(), matrix.asked(groups.axes)
    run.find[matrix.grid](z, z if y is None else y, keys, *asked[0], relu, *asked[1], largest, len(keys))
    run.unpack[(-(-keys.numel() // UNPACKED),)](keys, ends, places, keys.numel(), keys.shape[1], largest, UNPACKED)
    return y, ends, places


def gradient(
    grad_y: Tensor | None,
    y: Tensor | None,
    grad_ends: Tensor | None,
    places: Tensor,
    axes: str,
    like: Sequence[Sequence[int]],
) -> Tensor | None:
    """As `ends.gradient`, where the kernels can do it."""
    if grad_ends is None or not serves(grad_ends):
        return None
    matrix = Matrix(*like)
    if not matrix.known:
        return None
    out = torch.empty_strided(*like, dtype=grad_ends.dtype, device=grad_ends.device)
    if grad_y is not None and grad_y.stride() != out.stride():
        grad_y = torch.empty_like(out).copy_(grad_y)
    relu = grad_y is not None and y is not None
    given = (grad_y, y) if relu else (out, out)
    told, which = matrix.asked(axes)
    grad_ends = grad_ends if grad_ends.stride(1) == 1 else grad_ends.contiguous()
    stride = grad_ends.stride(0)  # one layer's part of a row of all
    kernels().add[matrix.grid](*given, grad_ends, places, out, stride, *told, relu, *which, len(places))
    return out
