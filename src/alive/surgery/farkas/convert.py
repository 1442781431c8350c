"""Farkas layers in the place of a finished model's layers, and plain layers in the place of Farkas layers.

One unit of a layer is given up and the extra unit takes its place, so that every shape stays and every other row too.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import torch
from torch import Tensor, nn

from ...diagnosis import Census
from ...errors import AliveError, expect
from ...functional import Activation
from ...functional.farkas import Rule, RuleOptions, effective_bias
from ...nn.farkas import Farkas, FarkasAggregate, FarkasConv1d, FarkasConv2d, FarkasConv3d, FarkasLinear, materialised
from ...taps import bare
from ..reading import copied
from .trace import Pair, traced

FARKAS: dict[type[nn.Module], Any] = {
    nn.Linear: FarkasLinear,
    nn.Conv1d: FarkasConv1d,
    nn.Conv2d: FarkasConv2d,
    nn.Conv3d: FarkasConv3d,
}
DIMS: dict[type[nn.Module], int] = {nn.Linear: 0, nn.Conv1d: 1, nn.Conv2d: 2, nn.Conv3d: 3}
NORMS = (nn.BatchNorm1d, nn.BatchNorm2d, nn.BatchNorm3d)

GiveUp = Literal["quietest", "last"] | Census


@dataclass(frozen=True, slots=True)
class Converted:
    """A layer that became a Farkas layer: which activation it feeds, which unit it gave up, what it guarantees."""

    layer: str
    activation: str
    unit: int
    guarantee: float
    norm: str | None = None

    def __str__(self) -> str:
        behind = f" behind {self.norm}" if self.norm else ""
        return f"{self.layer}: converted{behind}, unit {self.unit} given up, max z ≥ {self.guarantee:.4g}"


@dataclass(frozen=True, slots=True)
class Kept:
    """A layer that stayed as it was, and why."""

    layer: str
    reason: str

    def __str__(self) -> str:
        return f"{self.layer}: kept, {self.reason}"


@dataclass(frozen=True, slots=True, eq=False)
class FarkasSurgery:
    """The model after the operation, and the report on every dense and convolutional layer."""

    model: nn.Module
    converted: tuple[Converted, ...]
    kept: tuple[Kept, ...]

    def __str__(self) -> str:
        return "\n".join(map(str, (*self.converted, *self.kept)))


def to_farkas(
    model: nn.Module,
    example: Any,
    *,
    give_up: GiveUp = "quietest",
    aggregation: str = "mean",
    bias_mode: str = "strict",
    margin: float | None = None,
    layers: Sequence[str] = (),
    forward: Callable[[nn.Module, Any], Any] | None = None,
    inplace: bool = False,
) -> FarkasSurgery:
    """Convert every Linear or Conv, with BatchNorm behind it or not, that feeds a one-sided activation.

    example  one batch as the model takes it; it tells which layer feeds which activation
    give_up  the unit that the extra one replaces: "quietest", whose largest pre-activation over the example is least
             (a dead one, if there is one); the same by a Census of all the data; or "last"
    layers   only activations whose names match these patterns, as for `alive.census`
    inplace  change the given model, not a copy

    The rows and biases of all other units stay. What changes is the one unit: it keeps its bias where that is above
    the least allowed, and its row becomes minus the mixture of the others. The mean is the default here, for a sum
    would be many times as large as the unit it replaces. Behind a norm, the free units are normalised and then
    aggregated, so that the guarantee holds whatever the norm does.

    >>> net = nn.Sequential(nn.Linear(2, 4), nn.ReLU(), nn.Linear(4, 1))
    >>> done = to_farkas(net, torch.randn(5, 2), give_up="last")
    >>> [c.unit for c in done.converted], done.model[0]
    ([3], FarkasLinear(in_features=2, out_features=4, aggregation='mean', bias_mode='strict', floor=0.001))
    >>> print(done.kept[0])
    2: kept, no activation follows: it is the output of the model
    """
    rule = RuleOptions(aggregation=aggregation, bias_mode=bias_mode, margin=margin)
    Rule.of(**rule)  # refuses a wrong rule before any layer is touched
    named = isinstance(give_up, Census) or give_up in ("quietest", "last")
    expect([(named, f"give_up must be 'quietest', 'last' or a Census, got {give_up!r}")])
    root = bare(model) if inplace else copied(bare(model))
    converted, kept = [], []
    for path, found in traced(root, example, layers, forward).findings():
        reason = found if isinstance(found, str) else _refusal(root, found, rule)
        if reason is not None or isinstance(found, str):
            kept.append(Kept(path, reason or ""))
        else:
            converted.append(_convert(root, path, found, give_up, rule))
    return FarkasSurgery(root, tuple(converted), tuple(kept))


def to_plain(model: nn.Module, *, inplace: bool = False) -> nn.Module:
    """Give the model with every Farkas layer as an ordinary one and equal outputs; it trains on without guarantee.

    >>> to_plain(nn.Sequential(FarkasLinear(2, 4), nn.ReLU()))[0]
    Linear(in_features=2, out_features=4, bias=True)
    """
    root = bare(model)
    return materialised(root if inplace else copied(root))


def _refusal(root: nn.Module, pair: Pair, rule: RuleOptions) -> str | None:
    """Why a layer that feeds an activation cannot be converted all the same."""
    layer: Any = pair.layer
    units, groups = len(layer.weight), getattr(layer, "groups", 1)
    if units < 2:
        return "it has one unit, with no others to balance"
    if groups > 1 and units == groups:
        return "each of its units reads a channel of its own, and giving up a unit would give up its channel"
    if pair.norm is not None:
        norm = root.get_submodule(pair.norm)
        if type(norm) not in NORMS:
            return f"{type(norm).__name__} behind it is a norm of its own kind, which may do more than the plain one"
        if not pair.read_by_norm_alone:
            return "more than the norm reads its output, so that its shape cannot change"
        if groups > 1:
            return "it has groups and a norm behind it: the groups would be uneven"
    try:
        Rule.of(**_for(pair.activation, rule))
    except AliveError as refused:
        return refused.cause
    return None


@torch.no_grad()
def _convert(root: nn.Module, path: str, pair: Pair, give_up: GiveUp, rule: RuleOptions) -> Converted:
    unit = _given_up(pair, give_up)
    rule = _for(pair.activation, rule)
    if pair.norm is None:
        farkas = _farkas_layer(pair.layer, unit, rule)
        _put(root, path, farkas)
    else:
        norm = root.get_submodule(pair.norm)
        farkas = _farkas_aggregate(pair.layer, norm, unit, rule)
        _put(root, path, _without(pair.layer, unit))
        _put(root, pair.norm, nn.Sequential(_norm_without(norm, unit), farkas).train(norm.training))
    return Converted(path, pair.tap, unit, farkas.guarantee(), pair.norm)


def _for(activation: Activation, rule: RuleOptions) -> RuleOptions:
    """The rule with the activation's own cutoff."""
    own = rule.copy()
    own["cutoff"] = activation
    return own


def _given_up(pair: Pair, give_up: GiveUp) -> int:
    if give_up == "last":
        return len(pair.top) - 1
    top = pair.top
    if isinstance(give_up, Census):
        names = [layer.name for layer in give_up.layers]
        if pair.tap not in names:
            raise AliveError(
                f"the census has no layer {pair.tap!r}; it has {', '.join(names[:5])}",
                "Take the census of this very model, over all its layers",
            )
        top = give_up[pair.tap].top
    return int(top.argmin())


def _rows(rows: Tensor, unit: int) -> Tensor:
    return torch.cat([rows[:unit], rows[unit + 1 :]])


def _farkas_layer(layer: Any, unit: int, rule: RuleOptions) -> Farkas:
    """The Farkas layer with all rows of a plain one but one."""
    like = {"device": layer.weight.device, "dtype": layer.weight.dtype}
    farkas = nn.utils.skip_init(FARKAS[type(layer)], *_sizes(layer), **_shape(layer), place=unit, **like, **rule)
    bias = torch.zeros(len(layer.weight), **like) if layer.bias is None else layer.bias
    farkas.weight.copy_(_rows(layer.weight, unit))
    farkas.bias[:-1] = _rows(bias, unit)
    return _finished(farkas, bias[unit], layer)


def _farkas_aggregate(layer: Any, norm: Any, unit: int, rule: RuleOptions) -> Farkas:
    """The extra unit behind a norm, which holds the biases of the others."""
    like = {"device": layer.weight.device, "dtype": layer.weight.dtype}
    farkas = FarkasAggregate(len(layer.weight), dims=DIMS[type(layer)], place=unit, **like, **rule)
    own = farkas.bias[-1] if norm.bias is None else norm.bias[unit]
    return _finished(farkas, own, layer)


def _finished(farkas: Farkas, own: Tensor, layer: Any) -> Farkas:
    """With the given-up unit's own bias, a mixture that starts as the sum, and the modes of the layer it replaces."""
    if farkas.theta is not None:
        nn.init.zeros_(farkas.theta)
    farkas.bias[-1] = _softplus_bias(farkas, own) if farkas.rule.bias_mode == "softplus" else own
    for parameter in farkas.parameters():
        parameter.requires_grad_(layer.weight.requires_grad)
    return farkas.train(layer.training)


def _softplus_bias(farkas: Farkas, own: Tensor) -> Tensor:
    """The β whose softplus lifts the least bias allowed to the old one; no lower than softplus can still follow."""
    farkas.bias[-1] = -torch.inf
    above = (own - effective_bias(farkas.bias, farkas.mu, farkas.rule)[0]).clamp(min=1e-3)
    return above + torch.log(-torch.expm1(-above))


def _without(layer: Any, unit: int) -> nn.Module:
    """The plain layer without one unit."""
    like = {"device": layer.weight.device, "dtype": layer.weight.dtype}
    inputs, units, *kernel = _sizes(layer)
    bias = layer.bias is not None
    plain: Any = nn.utils.skip_init(type(layer), inputs, units - 1, *kernel, **_shape(layer), bias=bias, **like)
    _copy_rows(plain, layer, unit, ("weight", "bias"))
    return plain.train(layer.training)  # type: ignore[no-any-return]


def _norm_without(norm: Any, unit: int) -> nn.Module:
    """The norm without one unit."""
    plain: Any = type(norm)(norm.num_features - 1, norm.eps, norm.momentum, norm.affine, norm.track_running_stats)
    some = next((t for t in (norm.weight, norm.running_mean) if t is not None), None)
    plain.to(device=getattr(some, "device", None), dtype=getattr(some, "dtype", None))
    _copy_rows(plain, norm, unit, ("weight", "bias", "running_mean", "running_var"))
    if norm.num_batches_tracked is not None:
        plain.num_batches_tracked.copy_(norm.num_batches_tracked)
    return plain.train(norm.training)  # type: ignore[no-any-return]


def _copy_rows(plain: nn.Module, old: nn.Module, unit: int, names: tuple[str, ...]) -> None:
    for name in names:
        ours, theirs = getattr(plain, name), getattr(old, name)
        if theirs is not None:
            ours.copy_(_rows(theirs, unit))
            if isinstance(ours, nn.Parameter):
                ours.requires_grad_(theirs.requires_grad)


def _sizes(layer: Any) -> tuple[Any, ...]:
    if isinstance(layer, nn.Linear):
        return layer.in_features, layer.out_features
    return layer.in_channels, layer.out_channels, layer.kernel_size


def _shape(layer: Any) -> dict[str, Any]:
    names = () if isinstance(layer, nn.Linear) else ("stride", "padding", "dilation", "groups", "padding_mode")
    return {name: getattr(layer, name) for name in names}


def _put(root: nn.Module, path: str, module: nn.Module) -> None:
    parent, _, name = path.rpartition(".")
    setattr(root.get_submodule(parent), name, module)
