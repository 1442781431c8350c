"""Farkas convolutions (000): at every point and every position, one channel is active."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, ClassVar, Unpack

import torch
import torch.nn.functional as F
from torch import Generator, Tensor, nn

from ...errors import AliveError, expect, near
from ...functional.farkas import Mixture, Rule, RuleOptions, effective_bias, inserted, mixed
from .layers import PLAIN, Weighted, filled

PADDING_MODES = ("zeros", "reflect", "replicate", "circular")
CONVOLVE: dict[int, Callable[..., Tensor]] = {1: F.conv1d, 2: F.conv2d, 3: F.conv3d}

Size = int | Sequence[int]


class FarkasConv(Weighted):
    """What the three convolutions share; `dims` is the number of axes of positions.

    Padding of any kind is read by all units alike, so that a sum of kernels is a sum of outputs under it too.

    With groups a free unit reads one group, the extra unit reads all of them. `groups` must divide the m-1 free units,
    or m as for a plain convolution: then the extra unit takes the place of one unit of its group.
    """

    dims: ClassVar[int]

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        kernel_size: Size,
        *,
        stride: Size = 1,
        padding: Size | str = 0,
        dilation: Size = 1,
        groups: int = 1,
        bias: bool = True,
        padding_mode: str = "zeros",
        place: int = -1,
        generator: Generator | None = None,
        device: torch.device | str | None = None,
        dtype: torch.dtype | None = None,
        **rule: Unpack[RuleOptions],
    ) -> None:
        like = {"device": device, "dtype": dtype}
        super().__init__(out_channels, place=place, bias=bias, like=like, rule=Rule.of(**rule))
        _expect_groups(in_channels, out_channels, groups)
        self.in_channels, self.out_channels, self.groups = in_channels, out_channels, groups
        self.kernel_size, self.stride, self.dilation = (
            _sizes(name, size, self.dims)
            for name, size in (("kernel_size", kernel_size), ("stride", stride), ("dilation", dilation))
        )
        self.padding_mode = padding_mode
        self.padding = padding if isinstance(padding, str) else _sizes("padding", padding, self.dims, least=0)
        _expect_padding(self.padding, padding_mode, self.stride)
        shape = (out_channels - 1, in_channels // groups, *self.kernel_size)
        self.weight = nn.Parameter(torch.empty(shape, **like))  # type: ignore[arg-type]
        self.reset_parameters(generator)

    @property
    def reads(self) -> int:
        """Inputs that the extra unit reads: those of all groups."""
        return self.fan_in * self.groups

    def forward(self, x: Tensor) -> Tensor:
        """Pre-activations [N, out_channels, ...]."""
        x, padding = self._pad(x)
        if self.groups == 1:
            return self._convolve(x, *self.rows(), padding, 1)
        weight, bias, missing = self._group_rows()
        y = self._convolve(x, weight, bias, padding, self.groups)
        row, b_eff = self._extra_row(), effective_bias(self.bias, self.mu, self.rule)
        extra = self._convolve(x, row.to(weight.dtype), b_eff, padding, 1)
        axis = y.ndim - 1 - self.dims
        before, after = y.narrow(axis, 0, self.place), y.narrow(axis, self.place + missing, self.units - 1 - self.place)
        return torch.cat([before, extra, after], axis)

    def _convolve(self, x: Tensor, weight: Tensor, bias: Tensor, padding: Any, groups: int) -> Tensor:
        return CONVOLVE[self.dims](x, weight, bias.to(weight.dtype), self.stride, padding, self.dilation, groups)

    def _pad(self, x: Tensor) -> tuple[Tensor, Any]:
        """The input and the zeros still to be added: torch convolves with zeros only, other modes pad first."""
        if self.padding_mode == "zeros" or self.padding == "valid":
            return x, self.padding
        if isinstance(self.padding, str):  # "same"
            whole = [d * (k - 1) for d, k in zip(self.dilation, self.kernel_size, strict=True)]
            sides = [(total // 2, total - total // 2) for total in whole]
        else:
            sides = [(p, p) for p in self.padding]
        flat = [side for pair in reversed(sides) for side in pair]
        return F.pad(x, flat, mode=self.padding_mode), 0

    def _group_rows(self) -> tuple[Tensor, Tensor, int]:
        """Rows and biases that fill the groups evenly: a row of zeros stands where the extra unit will be."""
        missing = -(self.units - 1) % self.groups  # 0 or 1
        if not missing:
            return self.weight, self.bias[:-1], 0
        weight = inserted(self.weight, torch.zeros_like(self.weight[:1]), self.place)
        return weight, inserted(self.bias[:-1], torch.zeros_like(self.bias[:1]), self.place), 1

    def _extra_row(self) -> Tensor:
        """Kernel [1, in_channels, ...] of the extra unit: each group's columns are minus the mixture of its rows."""
        weight, _, missing = self._group_rows()
        mu = self.mu
        if isinstance(mu, Tensor) and missing:
            mu = inserted(mu, torch.zeros_like(mu[:1]), self.place)
        parts = weight.chunk(self.groups)
        shares: Sequence[Mixture] = mu.chunk(self.groups) if isinstance(mu, Tensor) else [mu] * self.groups
        return -torch.cat([mixed(part, share) for part, share in zip(parts, shares, strict=True)], 1)

    @torch.no_grad()
    def to_plain(self) -> nn.Conv1d | nn.Conv2d | nn.Conv3d:
        """Give the convolution with the same outputs.

        With groups it is an ungrouped one, for the extra unit reads every group: groups times the weights.
        """
        plain = nn.utils.skip_init(
            PLAIN[self.dims],
            self.in_channels,
            self.out_channels,
            self.kernel_size,
            stride=self.stride,
            padding=self.padding,
            dilation=self.dilation,
            padding_mode=self.padding_mode,
            device=self.weight.device,
            dtype=self.weight.dtype,
        )
        return filled(plain, self._dense_rows(), self)  # type: ignore[no-any-return]

    def _dense_rows(self) -> tuple[Tensor, Tensor]:
        if self.groups == 1:
            return self.rows()
        even, _, missing = self._group_rows()
        dense = even.new_zeros(len(even), self.in_channels, *self.kernel_size)
        width = self.in_channels // self.groups
        for group, (into, rows) in enumerate(zip(dense.chunk(self.groups), even.chunk(self.groups), strict=True)):
            into[:, group * width : (group + 1) * width] = rows
        if missing:
            dense = torch.cat([dense[: self.place], dense[self.place + 1 :]])
        b_eff = effective_bias(self.bias, self.mu, self.rule)
        return inserted(dense, self._extra_row(), self.place), inserted(self.bias[:-1], b_eff, self.place)

    def extra_repr(self) -> str:
        """Show sizes and rule."""
        sizes = f"{self.in_channels}, {self.out_channels}, kernel_size={self.kernel_size}, stride={self.stride}"
        more = "".join(
            f", {name}={getattr(self, name)!r}"
            for name, usual in (("padding", 0), ("dilation", 1), ("groups", 1), ("padding_mode", "zeros"))
            if getattr(self, name) not in (usual, (usual,) * self.dims)
        )
        return f"{sizes}{more}, {super().extra_repr()}"


class FarkasConv1d(FarkasConv):
    """A convolution over one axis with max_j z_j ≥ `guarantee()` at every position; options as in `FarkasLinear`.

    >>> FarkasConv1d(2, 4, 3, padding="same")(torch.randn(5, 2, 9)).shape
    torch.Size([5, 4, 9])
    """

    dims = 1


class FarkasConv2d(FarkasConv):
    """A convolution over two axes with max_j z_j ≥ `guarantee()` at every position; options as in `FarkasLinear`.

    Differs from the paper: see `FarkasLinear`; released code has the mean only.

    >>> conv = FarkasConv2d(3, 8, 3, padding=1, stride=2, aggregation="mean")
    >>> z = conv(torch.randn(2, 3, 8, 8))
    >>> z.shape, bool((z.amax(1) >= 0.0009).all())
    (torch.Size([2, 8, 4, 4]), True)
    """

    dims = 2


class FarkasConv3d(FarkasConv):
    """A convolution over three axes with max_j z_j ≥ `guarantee()` at every position; options as in `FarkasLinear`.

    >>> FarkasConv3d(1, 2, (1, 2, 3))(torch.randn(5, 1, 4, 4, 4)).shape
    torch.Size([5, 2, 4, 3, 2])
    """

    dims = 3


def _sizes(name: str, size: Size, dims: int, *, least: int = 1) -> tuple[int, ...]:
    """One number an axis."""
    sizes = (size,) * dims if isinstance(size, int) else tuple(size)
    good = len(sizes) == dims and all(isinstance(n, int) and n >= least for n in sizes)
    expect([(good, f"{name} must be a whole number of at least {least}, or {dims} of them, got {size!r}")])
    return sizes


def _expect_padding(padding: str | tuple[int, ...], mode: str, stride: tuple[int, ...]) -> None:
    words = ("same", "valid")
    expect(
        [
            (
                not isinstance(padding, str) or padding in words,
                f"unknown padding {padding!r}: {near(padding, words)}",
            ),
            (padding != "same" or math.prod(stride) == 1, f"padding 'same' needs stride 1, got {stride}"),
            (mode in PADDING_MODES, f"unknown padding_mode {mode!r}: {near(mode, PADDING_MODES)}"),
        ]
    )


def _expect_groups(inputs: int, units: int, groups: int) -> None:
    if groups < 1 or inputs < 1 or inputs % groups:
        raise AliveError(f"groups must divide the channels: {inputs} channels, {groups} groups", "Change one of them")
    if (units - 1) % groups and units % groups:
        raise AliveError(
            f"{groups} groups divide neither the {units} units nor the {units - 1} that are free",
            f"Take {max(units // groups, 1) * groups + 1} units or {-(-units // groups) * groups}",
        )
