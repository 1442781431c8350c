"""A residual block around a branch of one's own in which, at every input and position, one unit is active."""

from __future__ import annotations

from copy import deepcopy
from typing import Any, Literal, Unpack

import torch
from torch import Tensor, nn

from ...errors import AliveError, expect_one_of
from ...functional.farkas import RuleOptions
from ...torch_private import buffers_of, parameters_of
from .layers import PLAIN, FarkasAggregate
from .plain import Guaranteed, materialised

VARIANTS = ("full", "replace")
MAKERS = tuple(PLAIN.values())


class FarkasBlock(Guaranteed):
    """relu(skip(x) + branch(x)), the extra unit made of the others; see `farkas_block`."""

    def __init__(self, branch: nn.Module, skip: nn.Module | None, aggregate: FarkasAggregate, variant: str) -> None:
        super().__init__()
        self.branch, self.skip = branch, nn.Identity() if skip is None else skip
        self.aggregate, self.variant, self.relu = aggregate, variant, nn.ReLU()

    def forward(self, x: Tensor) -> Tensor:
        """Map [N, C, ...] to the sum behind the ReLU."""
        skip, y = self.skip(x), self.branch(x)
        if self.variant == "full":
            self._expect_nonnegative(skip)
        return self.relu(added(skip, y, self.aggregate, self.aggregate.dims, self.variant))  # type: ignore[no-any-return]

    def _expect_nonnegative(self, x: Tensor) -> None:
        if (
            self.training
            and not torch.compiler.is_compiling()
            and x.numel()
            and (least := float(x.detach().amin())) < 0
        ):
            raise AliveError(
                f"a Farkas block with variant 'full' needs a skip ≥ 0, got {least:g}: below 0 all units may be off",
                "Put a ReLU before the block, or take variant='replace', which holds for any input",
            )

    def guarantee(self) -> float:
        """The least that the largest pre-activation of the block can be; with "full", where the skip is ≥ 0."""
        return self.aggregate.guarantee()

    def speaks_for(self) -> nn.Module:
        """Give the extra unit, whose layer alone is not what meets the ReLU."""
        return self.aggregate

    def to_plain(self) -> nn.Module:
        """Give the block of ordinary layers with the same outputs."""
        return PlainBlock(self)

    def extra_repr(self) -> str:
        """Show the variant."""
        return f"variant={self.variant!r}"


class PlainBlock(nn.Module):
    """A Farkas block whose extra unit has become an ordinary layer."""

    def __init__(self, block: FarkasBlock) -> None:
        super().__init__()
        self.branch, self.skip = (materialised(deepcopy(part)) for part in (block.branch, block.skip))
        self.last, self.relu = block.aggregate.to_plain(), nn.ReLU()
        self.dims, self.variant = block.aggregate.dims, block.variant
        self.train(block.training)

    def forward(self, x: Tensor) -> Tensor:
        """Map as the Farkas block did."""
        return self.relu(added(self.skip(x), self.branch(x), self.last, self.dims, self.variant))  # type: ignore[no-any-return]


def added(skip: Tensor, y: Tensor, extra: nn.Module, dims: int, variant: str) -> Tensor:
    """The pre-activations: skip + extra(y), or extra(skip without its last unit + y)."""
    if variant == "full":
        return skip + extra(y)  # type: ignore[no-any-return]
    return extra(skip.narrow(y.ndim - 1 - dims, 0, y.shape[y.ndim - 1 - dims]) + y)  # type: ignore[no-any-return]


def farkas_block(
    branch: nn.Module,
    skip: nn.Module | None = None,
    *,
    variant: Literal["full", "replace"] | str | None = None,
    **rule: Unpack[RuleOptions],
) -> FarkasBlock:
    """relu(skip(x) + branch(x)) of one's own branch, with one live unit at every input (Algorithm 2, mended).

    The branch is copied; its last dense or convolutional layer, and a norm behind it, give up their last unit, and the
    extra unit is minus a mixture of all others. Options of the mixture are those of `FarkasLinear`.

    skip     None is the identity
    variant  full: skip + (y, -Agg y) + b, for a skip that is ≥ 0, as behind a ReLU: the default without a skip of its
             own. replace: (u, -Agg u) + b with u = skip + y, for any skip, whose last unit is not read

    >>> block = farkas_block(nn.Sequential(nn.Linear(8, 8), nn.ReLU(), nn.Linear(8, 8)), aggregation="mean")
    >>> block(torch.rand(5, 8)).shape, block.guarantee() >= 0.0009
    (torch.Size([5, 8]), True)
    """
    variant = variant or ("full" if skip is None else "replace")
    expect_one_of("variant", variant, VARIANTS)
    own = deepcopy(branch)
    layers = [(path, module) for path, module in own.named_modules() if path]
    makers = [number for number, (_, module) in enumerate(layers) if type(module) in MAKERS]
    if not makers:
        raise AliveError(
            f"the branch {type(branch).__name__} holds no plain dense or convolutional layer",
            "Its last one is to give up a unit for the extra one; wrap a single layer in nn.Sequential",
        )
    path: str
    last: Any
    path, last = layers[makers[-1]]
    units = len(last.weight)
    if units < 2 or getattr(last, "groups", 1) > 1:
        raise AliveError(
            f"{path}, the last layer of the branch, has one unit, or groups", "Give it two units, no groups"
        )
    for _, module in layers[makers[-1] :]:
        _shorten(module, units)
    like = {"device": last.weight.device, "dtype": last.weight.dtype}
    aggregate = FarkasAggregate(units, dims=MAKERS.index(type(last)), **like, **rule)
    return FarkasBlock(own, skip, aggregate, variant).train(branch.training)


def _shorten(module: nn.Module, units: int) -> None:
    """Take the last unit off a layer or norm, in place; anything else with numbers for each unit is refused."""
    stores: Any = (parameters_of(module), buffers_of(module))
    for store in stores:
        for name, value in store.items():
            if value is not None and value.ndim and len(value) == units:
                cut = value.detach()[:-1].clone()
                store[name] = nn.Parameter(cut, value.requires_grad) if isinstance(value, nn.Parameter) else cut
            elif value is not None and value.ndim:
                raise AliveError(
                    f"{type(module).__name__} at its end has {name} of {list(value.shape)}, not {units} units",
                    "Let the branch end in a dense or convolutional layer, or in one and its batch norm",
                )
    sizes: Any = {"out_features", "out_channels", "num_features"} & set(vars(module))
    for name in sizes:
        setattr(module, name, units - 1)
