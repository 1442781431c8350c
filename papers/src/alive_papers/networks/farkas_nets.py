"""FarkasNet: a residual network of Farkas layers (000, Tables 1 to 4)."""

from __future__ import annotations

from functools import cache
from typing import Any, Unpack

import torch
from torch import Generator, nn

from alive.errors import AliveError, expect, near
from alive.functional.farkas import Mixture, RuleOptions
from alive.nn.farkas.layers import Farkas

from .design import Block, Design
from .farkas_blocks import VARIANTS, FarkasResidual, FarkasStep
from .staged import Staged


class FarkasNet(Staged):
    """A residual network of Farkas layers: at every image and position, one unit of every layer is active (000).

    preset        "18", "34", "50", "101" for 32x32 images, "imagenet50", "imagenet101", "imagenet152", "authors18"
    stages, base, block   in the place of the preset's: [1, 1], 4, "basic" is a small one
    batch_norm    norm "after" the ReLUs (the authors'), or "before" them on the free units
    variant       by default "full", or "replace" with norm after the ReLU; the authors' code has "grow"
    zero_last     start each branch at zero (Table 4)
    authors_head  batch norm on the logits too, where batch_norm is on

    Differs from the paper: blocks keep their width by default, and the strict bound has a margin. Released code is
    variant="grow", aggregation="mean", bias_mode="paper".

    >>> import torch
    >>> net = FarkasNet(1, 10, stages=(2, 2), base=4, generator=torch.Generator().manual_seed(0))
    >>> net(torch.rand(3, 1, 8, 8)).shape
    torch.Size([3, 10])
    """

    def __init__(
        self,
        channels: int,
        classes: int,
        *,
        preset: str = "18",
        stages: tuple[int, ...] | list[int] | None = None,
        base: int | None = None,
        block: Block | None = None,
        batch_norm: bool = False,
        norm: str = "after",
        variant: str | None = None,
        zero_last: bool = False,
        authors_head: bool = False,
        generator: Generator | None = None,
        **rule: Unpack[RuleOptions],
    ) -> None:
        super().__init__(channels, classes, Design.of(preset, stages, base, block))
        norm = norm if batch_norm else "none"
        self.variant = variant or ("replace" if norm == "after" else "full")
        _expect_variant(self.variant, norm)
        self._norm, self._zero_last, self._generator, self._rule = norm, zero_last, generator, rule
        self.build(batch_norm=batch_norm, authors_head=authors_head, generator=generator)
        del self._generator  # a generator cannot be copied with the network
        for path, module in self.named_modules():
            if isinstance(module, FarkasResidual):
                module.name = path

    def step(self, inputs: int, units: int, *, kernel: int, stride: int = 1, pool: bool = False) -> nn.Module:
        """Build a Farkas layer with its ReLU."""
        return FarkasStep(
            inputs,
            units,
            kernel=kernel,
            stride=stride,
            norm=self._norm,
            pool=pool,
            generator=self._generator,
            **self._rule,
        )

    def block(self, width: int) -> tuple[nn.Module, int]:
        """Build a residual block; it reads ReLUs or means of them, so that no sign need be checked."""
        block = FarkasResidual(
            width,
            block=self.design.block,
            variant=self.variant,
            norm=self._norm,
            zero_last=self._zero_last,
            check="never",
            generator=self._generator,
            **self._rule,
        )
        return block, block.out_width


def _expect_variant(variant: str, norm: str) -> None:
    expect(
        [
            (variant in VARIANTS, f"unknown variant {variant!r}: {near(variant, VARIANTS)}"),
            (norm in ("none", "after", "before"), f"unknown norm {norm!r}: {near(norm, ['after', 'before'])}"),
        ]
    )
    if variant == "full" and norm == "after":
        raise AliveError(
            "variant 'full' needs inputs ≥ 0, and batch norm after the ReLU gives them both signs",
            "Take variant='replace' or 'grow', or norm='before'",
        )


def signed_farkas(channels: int, classes: int, **options: Any) -> FarkasNet:
    """The same network, but that the others are added up with signs drawn at random, half of them turned round.

    Its units and gradients are as large as those of a Farkas network at the start, and no unit need be active: what it
    does as well as that one does is not the guarantee's.

    >>> net = signed_farkas(1, 10, stages=(1,), base=4, block="basic", generator=torch.Generator().manual_seed(0))
    >>> net.stem.farkas.mu
    tensor([-1.,  1., -1.])
    """
    net = FarkasNet(channels, classes, **options)
    for layer in [module for module in net.modules() if isinstance(module, Farkas)]:
        free = layer.units - 1
        turned = torch.randperm(free, generator=options.get("generator")) < (free + 1) // 2
        layer.register_buffer("signs", 1.0 - 2.0 * turned)
        layer.__class__ = _signed(type(layer))
    return net


@cache
def _signed(kind: type[Farkas]) -> type[Farkas]:
    """A kind of Farkas layer whose mixture has the signs of its buffer."""

    def mu(layer: Any) -> Mixture:
        return layer.signs * layer.rule.mixture(layer.units - 1, layer.theta)  # type: ignore[no-any-return]

    return type(f"Signed{kind.__name__}", (kind,), {"mu": property(mu)})
