"""Farkas layers in the place of a finished model's layers, and plain layers in the place of Farkas layers.

One unit of a layer is given up and the extra unit takes its place, so that every shape stays and every other row too.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from copy import deepcopy
from dataclasses import dataclass
from typing import Any, Literal, get_args

import torch
from torch import Tensor, nn

from ..data.calls import run
from ..data.convert import move
from ..errors import AliveError, expect_one_of
from ..functional import Activation
from ..functional.extremes import canonical
from ..functional.farkas import Rule, RuleOptions, effective_bias
from ..nn.farkas import Farkas, FarkasAggregate, FarkasConv1d, FarkasConv2d, FarkasConv3d, FarkasLinear, materialised
from ..nn.farkas.plain import Guaranteed
from ..taps import Call, Taps, Watcher, bare
from ..torch_private import BatchNorm
from .graph.run import Made, Run
from .models import LAYERS, NORMS, copied, evaluating
from .weights import arguments, keep_rows

FARKAS: dict[type[nn.Module], Any] = {
    nn.Linear: FarkasLinear,
    nn.Conv1d: FarkasConv1d,
    nn.Conv2d: FarkasConv2d,
    nn.Conv3d: FarkasConv3d,
}

TRANSPOSED = (nn.ConvTranspose1d, nn.ConvTranspose2d, nn.ConvTranspose3d)
GiveUp = Literal["quietest", "last"]


@dataclass(frozen=True, slots=True)
class Converted:
    """A layer that became a Farkas layer: which activation it feeds, which unit it gave up, what it guarantees.

    `beside` are the layers that are added to it before the activation; together they guarantee the sum of their bounds.
    """

    layer: str
    activation: str
    unit: int
    guarantee: float
    norm: str | None = None
    beside: tuple[str, ...] = ()

    def __str__(self) -> str:
        behind = f" behind {self.norm}" if self.norm else ""
        also = "" if not self.beside else f", as in {' and '.join(self.beside)}, which it is added to"
        return f"{self.layer}: converted{behind}, unit {self.unit} given up{also}, max z ≥ {self.guarantee:.4g}"


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
    aggregation: str | float = "mean",
    bias_mode: str = "strict",
    margin: float | None = None,
    layers: Sequence[str] = (),
    forward: Callable[[nn.Module, Any], Any] | None = None,
    inplace: bool = False,
) -> FarkasSurgery:
    """Convert every Linear or Conv, with BatchNorm behind it or not, that feeds a one-sided activation.

    So it may through a sum with what is never negative, as the last layer of a residual branch does (Algorithm 2 of
    the Farkas paper): relu(x + F(x)) keeps what F guarantees where x ≥ 0. A projection in the skip gives up the same
    unit as the branch. Transposed convolutions get the extra unit behind them.

    example  one batch as the model takes it; it tells which layer feeds which activation
    give_up  the unit that the extra one replaces: "quietest", whose largest pre-activation over the example is least
             (a dead one, if there is one), or "last"
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
    expect_one_of("give_up", give_up, get_args(GiveUp))
    root = bare(model) if inplace else copied(bare(model))
    converted, kept = [], []
    found = dict(_meet(root, example, layers, forward).findings())
    paths = {module: path for path, module in root.named_modules()}
    reasons = {path: pair if isinstance(pair, str) else _refusal(root, pair, rule) for path, pair in found.items()}
    for path, pair in found.items():
        others = [] if isinstance(pair, str) else [paths[other] for other in pair.beside]
        stays = next((other for other in others if reasons.get(other, "no layer")), None)
        if isinstance(pair, str) or reasons[path]:
            kept.append(Kept(path, reasons[path] or ""))
        elif stays is not None:
            kept.append(Kept(path, f"it is added to what {stays} makes, which stays as it is"))
        else:
            converted.append(_convert(root, path, pair, give_up, rule, tuple(others)))
    return FarkasSurgery(root, tuple(converted), tuple(kept))


def to_plain(model: nn.Module, *, inplace: bool = False) -> nn.Module:
    """Give the model with every Farkas layer as an ordinary one and equal outputs; it trains on without guarantee.

    >>> to_plain(nn.Sequential(FarkasLinear(2, 4), nn.ReLU()))[0]
    Linear(in_features=2, out_features=4, bias=True)
    """
    root = bare(model)
    return materialised(root if inplace else copied(root))


@dataclass(frozen=True, slots=True)
class Pair:
    """A layer and what it made, the path of a norm behind it, the activation they feed, the largest z a unit [C].

    `beside` are the layers whose outputs are added to it before the activation.
    """

    layer: Any
    norm: str | None
    activation: Activation
    tap: str
    top: Tensor
    made: Made
    beside: tuple[nn.Module, ...] = ()


class _Meetings(Watcher):
    """Notes, as a watcher of taps, whose very tensor comes to each activation unchanged."""

    def __init__(self, root: nn.Module) -> None:
        self.root, self.run = root, Run(root)
        self.pairs: dict[nn.Module, Pair] = {}
        self.seen = 0

    def watch(self, call: Call) -> Any:
        """Note whose tensor meets the activation."""
        self.seen += 1
        made, total = self.run.maker(call.z), self.run.sum_at(call.z)
        terms = [made] if made is not None else [] if total is None else [term for term in total.terms() if term]
        layers = [term.source if isinstance(term.module, BatchNorm) else term for term in terms]
        if all(
            layer is not None and not (term.dropped or layer.dropped) for term, layer in zip(terms, layers, strict=True)
        ):
            for term, layer in zip(terms, layers, strict=True):
                assert layer is not None
                beside = tuple(other.module for other in layers if other is not layer and other is not None)
                self._pair(call, term, layer, beside)
        return call.activate()

    def _pair(self, call: Call, last: Made, layer: Made, beside: tuple[nn.Module, ...]) -> None:
        axis = -1 if isinstance(layer.module, nn.Linear) else 1
        top = canonical(call.z.detach(), axis, 0).transpose(0, 1).flatten(1).amax(1)  # of [N, C, ...]
        norm = None if last is layer else self.run.paths[last.module][0]
        pair = Pair(layer.module, norm, call.tap.activation, call.tap.name, top, layer, beside)
        self.pairs.setdefault(layer.module, pair)

    def findings(self) -> Iterator[tuple[str, Pair | str]]:
        """Every dense, convolutional or Farkas layer: the activation it feeds, or the reason why it stays."""
        for module, paths in self.run.paths.items():
            if isinstance(module, (*LAYERS, *TRANSPOSED, Guaranteed)):
                yield paths[0], self._find(module, paths[0])

    def _find(self, module: nn.Module, path: str) -> Pair | str:
        if isinstance(module, Guaranteed):
            return "it has its guarantee already"
        if type(module) not in (*LAYERS, *TRANSPOSED):
            return f"{type(module).__name__} is a layer of its own kind, which may do more than the plain one"
        calls = self.run.calls.get(module, [])
        if not calls:
            return "the example did not run through it, or its weight is computed on the way"
        if self.run.is_shared(module):
            return "it is shared: it, its weight or its bias is used more than once"
        if isinstance(self.root.get_submodule(path.rpartition(".")[0]), nn.TransformerEncoderLayer):
            return "in eval mode nn.TransformerEncoderLayer reads its weight past its forward"
        pair = self.pairs.get(module)
        if pair is not None and pair.norm is not None and self.run.is_shared(self.root.get_submodule(pair.norm)):
            return f"{pair.norm} behind it is shared: it, or one of its numbers, is used more than once"
        return pair or _whereto(calls[0])


def _meet(root: nn.Module, example: Any, layers: Sequence[str], forward: Callable[..., Any] | None) -> _Meetings:
    """Run the example through the model in eval mode, and leave the model as it was."""
    met = _Meetings(root)
    taps = Taps(root, met, layers=layers)
    device = next((p.device for p in root.parameters()), torch.device("cpu"))
    try:
        with evaluating(root), met.run:
            run(root, move(example, device), 0, forward)
    finally:
        taps.remove()
    if not met.seen:
        raise taps.notes.without_activations()
    return met


def _whereto(made: Made) -> str:
    """Why what a layer made meets no activation."""
    last = made.norm or made
    behind = " after the norm" if made.norm else ""
    if last.dropped or made.dropped:
        return f"its output{behind} goes to dropout, which may silence any unit before an activation sees it"
    if not last.readers:
        return "no activation follows: it is the output of the model"
    return f"its output{behind} goes to {last.readers[0]}, not straight to a one-sided activation that was asked for"


def _refusal(root: nn.Module, pair: Pair, rule: RuleOptions) -> str | None:
    """Why a layer that feeds an activation cannot be converted all the same."""
    units, groups = _units(pair.layer), getattr(pair.layer, "groups", 1)
    if units < 2:
        return "it has one unit, with no others to balance"
    if groups > 1 and units == groups:
        return "each of its units reads a channel of its own, and giving up a unit would give up its channel"
    if pair.beside and str(rule.get("aggregation")).startswith("learned"):
        return "it is added to what other layers make, and all of them would have to learn one mixture"
    if isinstance(pair.layer, TRANSPOSED) and groups > 1:
        return "it is a transposed convolution in groups, which would be uneven without one unit"
    if pair.norm is not None:
        norm = root.get_submodule(pair.norm)
        if type(norm) not in NORMS:
            return f"{type(norm).__name__} behind it is a norm of its own kind, which may do more than the plain one"
        if not pair.made.read_by_norm_alone:
            return "more than the norm reads its output, so that its shape cannot change"
        if groups > 1:
            return "it has groups and a norm behind it: the groups would be uneven"
    options: Any = {**rule, "cutoff": pair.activation}
    try:
        Rule.of(**options)
    except AliveError as refused:
        return refused.cause
    return None


@torch.no_grad()
def _convert(
    root: nn.Module, path: str, pair: Pair, give_up: GiveUp, rule: RuleOptions, beside: tuple[str, ...]
) -> Converted:
    unit = len(pair.top) - 1 if give_up == "last" else int(pair.top.argmin())
    layer, others = pair.layer, torch.tensor([n for n in range(len(pair.top)) if n != unit])
    options: Any = {**rule, "cutoff": pair.activation, "device": layer.weight.device, "dtype": layer.weight.dtype}
    farkas: Any
    if isinstance(layer, TRANSPOSED):
        farkas = _behind(root, path, pair, others, options)
    elif pair.norm is None:
        farkas = nn.utils.skip_init(FARKAS[type(layer)], **arguments(layer), place=unit, **options)
        bias = torch.zeros(len(layer.weight)).to(layer.weight) if layer.bias is None else layer.bias
        farkas.weight.copy_(layer.weight[others])
        farkas.bias[:-1] = bias[others]
        _place(root, path, _finish(farkas, bias[unit], layer))
    else:  # the extra unit comes behind the norm, which holds the biases of the others
        farkas = _behind(root, path, pair, others, options)
    return Converted(path, pair.tap, unit, farkas.guarantee(), pair.norm, beside)


def _behind(root: nn.Module, path: str, pair: Pair, others: Tensor, options: Any) -> Farkas:
    """Let a layer keep its other units, and put the extra one behind it, or behind its norm, which holds the biases."""
    layer, count = pair.layer, len(others) + 1
    unit = next(n for n in range(count) if n not in others.tolist())
    farkas = FarkasAggregate(count, dims=layer.weight.dim() - 2, place=unit, **options)
    norm: Any = layer if pair.norm is None else root.get_submodule(pair.norm)
    _finish(farkas, farkas.bias[-1] if norm.bias is None else norm.bias[unit], layer)
    _place(root, path, _with(layer, others))
    last = root.get_submodule(path) if pair.norm is None else _with(norm, others)
    _place(root, path if pair.norm is None else pair.norm, nn.Sequential(last, farkas).train(norm.training))
    return farkas


def _units(layer: Any) -> int:
    return int(layer.out_channels if isinstance(layer, TRANSPOSED) else len(layer.weight))


def _finish(farkas: Farkas, own: Tensor, layer: Any) -> Farkas:
    """With the given-up unit's own bias, a mixture that starts as the sum, and the modes of the layer it replaces."""
    farkas.start_mixture()
    if farkas.rule.bias_mode == "softplus":  # the β whose softplus lifts the least bias allowed to the old one,
        farkas.bias[-1] = -torch.inf  # no lower than softplus can still follow
        above = (own - effective_bias(farkas.bias, farkas.mu, farkas.rule)[0]).clamp(min=1e-3)
        own = above + torch.log(-torch.expm1(-above))
    farkas.bias[-1] = own
    for parameter in farkas.parameters():
        parameter.requires_grad_(layer.weight.requires_grad)
    return farkas.train(layer.training)


def _with(module: nn.Module, units: Tensor) -> nn.Module:
    """A copy of a layer or norm with some of its units."""
    made: Any = deepcopy(module)
    if isinstance(made, TRANSPOSED):  # whose units are columns
        made.weight = nn.Parameter(made.weight[:, units], requires_grad=made.weight.requires_grad)
        made.bias = None if made.bias is None else nn.Parameter(made.bias[units], made.bias.requires_grad)
        made.out_channels = len(units)
    else:
        keep_rows(made, units)
    return made  # type: ignore[no-any-return]


def _place(root: nn.Module, path: str, module: nn.Module) -> None:
    parent, _, name = path.rpartition(".")
    setattr(root.get_submodule(parent), name, module)
