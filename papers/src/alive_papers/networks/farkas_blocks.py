"""Farkas blocks (000, Algorithm 2 corrected): a step of one layer, and residual blocks in three variants.

A residual block computes relu(branch + skip). Its last layer is an ordinary Farkas layer of m units, y the free ones:

    full     x + cat(y, -Agg y) + b             width m stays, needs x ≥ 0: Σ λ_j z_j = λᵀx + g ≥ g
    replace  cat(u, -Agg u) + b, u = x[:m-1]+y  width m stays, any x: the skip of the extra unit is given up
    grow     cat(u, -Agg u) + b, u = x + y      width m-1 becomes m, any x (released code)

Algorithm 2 as printed joins y to -Agg(x + y): then Σ λ_j z_j depends on x, and points die.
"""

from __future__ import annotations

import copy
from collections import OrderedDict
from typing import Any, Literal, Unpack

import torch
from torch import Generator, Tensor, nn

from alive.errors import AliveError, expect, near
from alive.functional.farkas import RuleOptions, extended, joined
from alive.nn.farkas.conv import FarkasConv2d
from alive.nn.farkas.layers import Farkas, FarkasAggregate, FarkasLinear, Weighted
from alive.nn.farkas.plain import Guaranteed, materialised

from .staged import drawn

VARIANTS = ("full", "replace", "grow")
BLOCKS = ("dense", "basic", "bottleneck")
NORMS = ("none", "after", "before")
CHECKS = ("train", "always", "never")


class FarkasStep(nn.Sequential):
    """One Farkas layer with its ReLU, and if asked batch norm and AvgPool2d(2): also the step between two stages.

    norm "after" stands behind the ReLU, without affine numbers, and leaves the guarantee alone; "before" normalises the
    m-1 free units and then aggregates. Over all m units before the ReLU the margin would be lost.

    >>> step = FarkasStep(16, 32, kernel=1, norm="after", pool=True)
    >>> step(torch.randn(2, 16, 8, 8)).shape, [name for name, _ in step.named_children()]
    (torch.Size([2, 32, 4, 4]), ['farkas', 'relu', 'norm', 'pool'])
    """

    def __init__(
        self,
        inputs: int,
        units: int,
        *,
        kernel: int | None = 3,
        stride: int = 1,
        norm: str = "none",
        pool: bool = False,
        generator: Generator | None = None,
        **rule: Unpack[RuleOptions],
    ) -> None:
        expect([(norm in NORMS, f"unknown norm {norm!r}: {near(norm, NORMS)}")])
        parts = _summed(inputs, units, kernel, stride, norm, generator, rule)
        parts["relu"] = nn.ReLU()
        if norm == "after":
            parts["norm"] = _norm(units, kernel, affine=False)
        if pool:
            parts["pool"] = nn.AvgPool2d(2)  # an average of numbers ≥ 0 keeps what is active
        super().__init__(parts)

    def guarantee(self) -> float:
        """The least that the largest pre-activation can be, at any input and position."""
        return _farkas(self).guarantee()


class FarkasResidual(Guaranteed):
    """A residual block in which, at every input and position, one unit is active.

    width    units of the input; the output has as many, one more with "grow"
    block    "dense" (two layers), "basic" (two 3x3 convolutions) or "bottleneck" (1x1 to width // 4, 3x3, 1x1)
    variant  "full", "replace" or "grow"; see the top of this file
    norm     batch norm "after" each ReLU, "before" it on the free units, or "none"
    check    when "full" looks for negative inputs, which void its guarantee: in "train" mode, "always" or "never".
             The check is one pass over x; networks that feed it with ReLUs switch it off
    name     what the block is called in errors

    Differs from the paper: the extra unit is made of x + y on both sides of Algorithm 2, and "full" is the default.

    >>> block = FarkasResidual(8, block="basic", bias_mode="paper", zero_last=True)
    >>> x = torch.rand(2, 8, 4, 4)
    >>> torch.equal(block(x), x)
    True
    """

    def __init__(
        self,
        width: int,
        *,
        block: Literal["dense", "basic", "bottleneck"] | str = "basic",
        variant: Literal["full", "replace", "grow"] | str = "full",
        norm: str = "none",
        zero_last: bool = False,
        check: str = "train",
        name: str = "FarkasResidual",
        generator: Generator | None = None,
        **rule: Unpack[RuleOptions],
    ) -> None:
        super().__init__()
        _expect_block(width, block, variant, norm, check)
        self.width, self.block, self.variant, self.check, self.name = width, block, variant, check, name
        self.out_width = width + (variant == "grow")
        kernels, inner = _shape(block, width)
        self.hidden = nn.Sequential(
            *(
                FarkasStep(inner if level else width, inner, kernel=kernel, norm=norm, generator=generator, **rule)
                for level, kernel in enumerate(kernels[:-1])
            )
        )
        self.last = nn.Sequential(_summed(inner, self.out_width, kernels[-1], 1, norm, generator, rule))
        self.relu = nn.ReLU()
        self.norm = _norm(self.out_width, kernels[-1], affine=False) if norm == "after" else nn.Identity()
        if zero_last:
            self.zero_last()

    def zero_last(self) -> None:
        """Silence the branch: zero its last layer, or the scale of the norm that follows it."""
        farkas = _farkas(self.last)
        if isinstance(farkas, Weighted):
            farkas.zero_parameters()
        else:
            nn.init.zeros_(self.last.get_submodule("norm").weight)  # type: ignore[arg-type]

    def forward(self, x: Tensor) -> Tensor:
        """relu(branch(x) + skip(x)), normalised if asked."""
        z = self.last(self.hidden(x)) + self._skip(x)
        return self.norm(self.relu(z))  # type: ignore[no-any-return]

    def guarantee(self) -> float:
        """The least that the largest pre-activation of the block can be; for "full" at inputs x ≥ 0."""
        return _farkas(self.last).guarantee()

    def speaks_for(self) -> nn.Module:
        """Give the last layer, whose sum alone is not what meets the ReLU."""
        return _farkas(self.last)

    def _skip(self, x: Tensor) -> Tensor:
        if self.variant == "full":
            self._expect_nonnegative(x)
            return x
        axis = x.ndim - 1 if self.block == "dense" else x.ndim - 3
        free = x.narrow(axis, 0, self.out_width - 1)
        return joined(free, _farkas(self.last).mu, place=self.out_width - 1, axis=axis)

    def _expect_nonnegative(self, x: Tensor) -> None:
        off = self.check == "never" or (self.check == "train" and not self.training)
        if off or torch.compiler.is_compiling() or not x.numel():
            return
        least = float(x.detach().amin())
        if least < 0:
            raise AliveError(
                f"{self.name}: variant 'full' needs inputs ≥ 0, got {least:g}: below 0 all units may be off",
                "Put a ReLU before the block, or take variant='replace', which holds for any input",
            )

    def to_plain(self) -> PlainResidual:
        """Give the block of ordinary layers with the same outputs."""
        return PlainResidual(self)

    def extra_repr(self) -> str:
        """Show the shape."""
        return f"{self.width}, block={self.block!r}, variant={self.variant!r}, check={self.check!r}"


class PlainResidual(nn.Module):
    """A Farkas block whose layers, and the mixing in whose skip, have become ordinary layers."""

    def __init__(self, block: FarkasResidual) -> None:
        super().__init__()
        self.hidden, self.last = (materialised(copy.deepcopy(part)) for part in (block.hidden, block.last))
        self.skip: nn.Module = nn.Identity()
        if block.variant != "full":
            self.skip = _skip_layer(block)
        self.relu, self.norm = nn.ReLU(), copy.deepcopy(block.norm)
        self.train(block.training)

    def forward(self, x: Tensor) -> Tensor:
        """relu(last(hidden(x)) + skip(x)), normalised if asked."""
        return self.norm(self.relu(self.last(self.hidden(x)) + self.skip(x)))  # type: ignore[no-any-return]


@torch.no_grad()
def _skip_layer(block: FarkasResidual) -> nn.Module:
    """cat(x[:m-1], -Agg) as a layer [I; -μ] without bias."""
    farkas = _farkas(block.last)
    like = {"device": farkas.bias.device, "dtype": farkas.bias.dtype}
    free = torch.eye(block.out_width - 1, block.width, **like)  # type: ignore[call-overload]
    rows, _ = extended(free, farkas.bias, farkas.mu, farkas.rule, block.out_width - 1)
    if block.block == "dense":
        dense: nn.Linear = nn.utils.skip_init(nn.Linear, block.width, block.out_width, bias=False, **like)
        dense.weight.copy_(rows)
        return dense
    conv: nn.Conv2d = nn.utils.skip_init(nn.Conv2d, block.width, block.out_width, 1, bias=False, **like)
    conv.weight.copy_(rows[:, :, None, None])
    return conv


def _summed(
    inputs: int,
    units: int,
    kernel: int | None,
    stride: int,
    norm: str,
    generator: Generator | None,
    rule: RuleOptions,
) -> OrderedDict[str, nn.Module]:
    """What gives the pre-activations of a layer: a Farkas layer, or plain layer, norm and aggregation."""
    parts: OrderedDict[str, nn.Module] = OrderedDict()
    options: dict[str, Any] = {} if kernel is None else {"stride": stride, "padding": kernel // 2}
    size = () if kernel is None else (kernel,)
    if norm != "before":
        farkas: Any = FarkasLinear if kernel is None else FarkasConv2d
        parts["farkas"] = farkas(inputs, units, *size, generator=generator, **options, **rule)
        return parts
    plain: type[nn.Module] = nn.Linear if kernel is None else nn.Conv2d
    free = units - 1
    parts["linear"] = drawn(plain, inputs, free, *size, generator=generator, bias=False, **options)
    parts["norm"] = _norm(free, kernel, affine=True)
    parts["farkas"] = FarkasAggregate(units, dims=0 if kernel is None else 2, **rule)
    return parts


def _norm(units: int, kernel: int | None, *, affine: bool) -> nn.Module:
    kind = nn.BatchNorm1d if kernel is None else nn.BatchNorm2d
    return kind(units, affine=affine)


def _farkas(parts: nn.Module) -> Farkas:
    """The one Farkas layer among the parts."""
    farkas = parts.get_submodule("farkas")
    if not isinstance(farkas, Farkas):
        raise AliveError(
            f"the Farkas layer here has become a plain {type(farkas).__name__}, which guarantees nothing once trained",
            "Ask before to_plain",
        )
    return farkas


def _shape(block: str, width: int) -> tuple[list[int | None], int]:
    """Kernels of the layers (None: dense), and the units between them."""
    if block == "bottleneck":
        return [1, 3, 1], max(width // 4, 2)
    return ([None, None] if block == "dense" else [3, 3]), width


def _expect_block(width: int, block: str, variant: str, norm: str, check: str) -> None:
    expect(
        [
            (width >= 2, f"a residual block needs width 2 or more, got {width}: one unit has no others to balance"),
            (block in BLOCKS, f"unknown block {block!r}: {near(block, BLOCKS)}"),
            (variant in VARIANTS, f"unknown variant {variant!r}: {near(variant, VARIANTS)}"),
            (norm in NORMS, f"unknown norm {norm!r}: {near(norm, NORMS)}"),
            (check in CHECKS, f"unknown check {check!r}: {near(check, CHECKS)}"),
        ]
    )
