"""Gate the skip connections of a finished model, so that a VANController can phase them out."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import chain, count
from typing import Any

from torch import Tensor, fx, nn

from ..errors import AliveError, expect, near
from ..nn.van import ALPHAS, Gate, Half, VANBlock
from ..taps import bare, watchers
from .graph.forward import (
    IN_PLACE,
    Addition,
    additions,
    between,
    declared_additions,
    graph_of,
    mentions_addition,
)
from .models import copied, evaluating, largest_difference, named, outputs, replace_module

RESHAPES = ("reshape", "view", "flatten", "unflatten")
MOVES = ("permute", "transpose", "movedim", "swapaxes", "swapdims", "t", "mT", *RESHAPES)
RULES = {"eq4": "residual", "eq9": "convex", "eq10": "half"}
ORDERS = ("together", "one by one", "last first")
OURS = (Gate, Half, VANBlock)


class GatedSkip(nn.Module):
    """A skip that fades: (1-α) S(x). It replaces S if the sum itself cannot be reached."""

    def __init__(self, skip: nn.Module, gate: nn.Module) -> None:
        super().__init__()
        self.skip, self.gate = skip, gate

    def forward(self, x: Tensor) -> Tensor:
        """Map what S maps."""
        return self.gate.kept(self.skip(x))  # type: ignore[operator, no-any-return]


def phase_out(
    model: nn.Module,
    example: Any = None,
    *,
    blocks: Sequence[str | tuple[str, str]] | None = None,
    order: str = "together",
    alpha: str = "channel",
    unit_axis: int | None = None,
    rule: str = "eq4",
) -> nn.Module:
    """Copy a model and turn each of its residual sums F(x) + S(x) into the gated sum F(x) + (1-α) S(x) (002, eq 4).

    With α = 0 the copy computes what the model does; hand it to `penalties.VANController`, train, then `fold`.

    example    a batch of inputs (a tuple for several arguments, a dict for named ones): gives the shapes, and the copy
               is checked on it
    blocks     paths of the blocks to gate, else all are sought; (path, skip) also says which side of the sum is the
               skip: the child module it comes through, or the argument of forward that is added as it is
    order      all gates move together | one by one, from the input | last first, from the output
    alpha      channel | scalar | neuron (needs an example)
    rule       the sum, of the paper's equations: eq4, or eq9: α F(x) + (1-α) S(x), or eq10: F(x)/2 + S(x)/2, which has
               no gate. With the latter two the copy is another function from the start
    unit_axis  the axis of the channels in a sum; by default that of the branch's last layer, which is the last axis
               for dense layers and layer norms and axis 1 for all others

    Sums are sought in the forward of every module, followed by torch.fx; in place (`+=`) or not. The skip is the side
    with at most one dense layer or 1x1 kernel and fewer layers than the other. A sum that could be read both ways,
    and a forward that adds but cannot be followed, are refused unless declared. A module with a sum in its own forward
    becomes an fx.GraphModule: of its other methods, attributes and hooks nothing is left.

    >>> class Block(nn.Module):
    ...     def __init__(self):
    ...         super().__init__()
    ...         self.branch = nn.Linear(4, 4)
    ...     def forward(self, x):
    ...         return x + self.branch(x).relu()
    >>> model = nn.Sequential(Block(), Block())
    >>> [path for path, m in phase_out(model).named_modules() if isinstance(m, Gate)]
    ['0.gate', '1.gate']
    """
    expect(
        [
            (order in ORDERS, f"unknown order {order!r}: {near(order, ORDERS)}"),
            (alpha in ALPHAS, f"unknown alpha {alpha!r}: {near(alpha, ALPHAS)}"),
            (rule in RULES, f"unknown rule {rule!r}: {near(rule, RULES)}"),
            (alpha != "neuron" or example is not None, "alpha='neuron' needs an example to know the positions"),
            (next(watchers(model), None) is None, "something is attached to the model; call its detach() first"),
        ]
    )
    model = bare(model)
    gated = _with_rulers(copied(model), blocks, unit_axis)
    if example is not None:
        with evaluating(model, gated):
            before, after = outputs(model, example), outputs(gated, example)
        if isinstance(before, Tensor) and (difference := largest_difference(before, after)):
            raise AliveError(
                f"the gated copy differs from the model by {difference:.3g} on the example",
                "Its forward does something that torch.fx does not see; declare its blocks, or build it from VANBlocks",
            )
    _place_gates(gated, alpha, order, rule)
    return gated


class _Ruler(nn.Module):
    """Stands in for a gate: adds, and notes the shape."""

    def __init__(self, path: str, units: tuple[int, int] | None, unit_axis: int | None = None) -> None:
        super().__init__()
        self.path, self.seen = path, tuple[int, ...]()
        self.units: int | None
        self.axis: int | None
        self.units, self.axis = units or (None, None)
        if unit_axis is not None and unit_axis != self.axis:
            self.units, self.axis = None, unit_axis

    def forward(self, f: Tensor, s: Tensor) -> Tensor:
        """Add branch and skip, which must be of one shape."""
        if f.shape != s.shape:
            raise AliveError(
                f"in {named(self.path)} the skip has shape {list(s.shape)} and the branch {list(f.shape)}",
                "A gated skip must have the shape of its branch: give it a projection",
            )
        return f + self.kept(s)

    def kept(self, s: Tensor) -> Tensor:
        """Note the shape of a skip."""
        self.seen = tuple(s.shape)
        return s

    def gate(self, alpha: str, rank: int, formulation: str) -> Gate:
        """The gate for what was seen here; where axes were moved, three mean sequences, whose units lie last."""
        if alpha == "scalar":
            return Gate((), rank=rank, formulation=formulation)
        if alpha == "neuron" and self.seen:
            return Gate(self.seen[1:], rank=rank, formulation=formulation)
        axis = self.axis if self.axis is not None else -1 if len(self.seen) == 3 else 1
        units = self.seen[axis] if self.seen else self.units
        if units is None or alpha == "neuron":
            raise AliveError(
                f"the shape of the skip of {named(self.path)} is unknown", "Give phase_out an example that reaches it"
            )
        return Gate((units,), axis=axis, rank=rank, formulation=formulation)


def _with_rulers(model: nn.Module, blocks: Sequence[str | tuple[str, str]] | None, unit_axis: int | None) -> nn.Module:
    """The model with a ruler at each sum that is to be gated."""
    found = 0
    for path, module, skip in list(_candidates(model, blocks)):
        try:
            graph = graph_of(module, path)
        except AliveError:
            if skip is not None and skip in dict(module.named_children()):
                module.add_module(skip, GatedSkip(module.get_submodule(skip), _Ruler(path, None, unit_axis)))
                found += 1
            elif blocks is not None or mentions_addition(module):
                raise
            continue
        sums = additions(graph, module, path) if skip is None else declared_additions(graph, module, path, skip)
        if blocks is not None and not sums:
            raise AliveError(f"{named(path)} has no sum of a branch and a skip", "Leave it out of blocks")
        if sums:
            model = replace_module(model, module, _rewritten(module, graph, sums, (path, unit_axis)))
            found += len(sums)
    if not found:
        raise AliveError(
            f"{type(model).__name__} has no skip connection that could be found",
            "Say where they are: blocks=[(path of a block, name of its skip), ...]",
        )
    return model


def _candidates(model: nn.Module, blocks: Sequence[str | tuple[str, str]] | None) -> Iterator[tuple[str, Any, Any]]:
    """Path, module and declared skip of each block; undeclared, all with a forward of their own and a matrix or kernel.

    Modules of torch are known to have no skip, but for its transformers.
    """
    paths = dict(model.named_modules())
    for block in paths if blocks is None else blocks:
        path, skip = (block, None) if isinstance(block, str) else block
        if path not in paths:
            raise AliveError(f"the model has no block {path!r}", near(path, [name for name in paths if name]))
        module = paths[path]
        of_torch = type(module).__module__.startswith("torch.nn.") and "Transformer" not in type(module).__name__
        weighs = any(weight.dim() >= 2 for weight in module.parameters())
        if blocks is not None or (weighs and not of_torch and not isinstance(module, OURS)):
            yield path, module, skip


def sums_of(model: nn.Module) -> Iterator[tuple[nn.Module, list[Addition]]]:
    """Every module with sums of a branch and a skip in its own forward, and these."""
    for path, module, _ in _candidates(model, None):
        try:
            graph = graph_of(module, path)
        except AliveError:
            if mentions_addition(module):
                raise
            continue
        if sums := additions(graph, module, path):
            yield module, sums


def _rewritten(module: nn.Module, graph: fx.Graph, sums: list[Addition], where: tuple[str, int | None]) -> nn.Module:
    """The block with a ruler instead of each sum; what was added in place is read from the ruler from then on."""
    ways = [between(found.branch, found.skip) for found in sums]
    now: dict[fx.Node, fx.Node] = {}  # a sum may be an operand of the next
    for found, way in zip(sums, ways, strict=True):
        taken = {name for name, _ in module.named_children()}
        name = next(name for name in chain(["gate"], (f"gate{k}" for k in count(2))) if name not in taken)
        module.add_module(name, _Ruler(where[0], _units(module, way), where[1]))
        changed = found.node.all_input_nodes[0]
        with graph.inserting_after(found.node):
            joined = graph.call_module(name, tuple(now.get(node, node) for node in (found.branch, found.skip)))
        found.node.replace_all_uses_with(joined)
        if found.node.target in IN_PLACE:
            place = {node: at for at, node in enumerate(graph.nodes)}
            for user in [user for user in changed.users if place[user] > place[joined]]:
                user.replace_input_with(changed, joined)
        now[found.node] = joined
        graph.erase_node(found.node)
    return fx.GraphModule(module, graph, class_name=type(module).__name__)


def _units(module: nn.Module, way: list[fx.Node]) -> tuple[int, int] | None:
    """How many units the last layer of a branch has, and on which axis.

    Unknown if axes are moved behind it, or if it is a dense layer among convolutions, as in squeeze and excite.
    """
    known: list[tuple[int, int]] = []
    convolves = False
    for node in reversed(way):
        if node.op == "call_module":
            parts = list(module.get_submodule(str(node.target)).modules())
            known += [units for part in reversed(parts) for units in _units_of(part)]
            convolves |= any(hasattr(part, "out_channels") for part in parts)
        name = getattr(node.target, "__name__", node.target)
        if node.op in ("call_function", "call_method") and not known and name in MOVES:
            return None
    return None if not known or (known[0][1] == -1 and convolves) else known[0]


def _units_of(layer: nn.Module) -> list[tuple[int, int]]:
    if isinstance(layer, nn.LayerNorm):
        return [(layer.normalized_shape[-1], -1)]
    axes = {"out_features": -1, "out_channels": 1, "num_features": 1, "num_channels": 1}
    return [(getattr(layer, name), axis) for name, axis in axes.items() if isinstance(getattr(layer, name, None), int)]


def _place_gates(model: nn.Module, alpha: str, order: str, rule: str) -> None:
    """Put a gate in the place of each ruler, on the device and in the precision of the model."""
    rulers = [module for module in model.modules() if isinstance(module, _Ruler)]
    like = next(model.parameters(), None)
    hidden = next((path for path, module in model.named_modules() if isinstance(module, GatedSkip)), None)
    if rule != "eq4" and hidden is not None:
        raise AliveError(
            f"the sum that {named(hidden)} is added to cannot be reached, and {rule} changes its branch too",
            'Take rule="eq4", which changes the skip alone',
        )
    for place, ruler in enumerate(rulers):
        rank = {"together": 0, "one by one": place, "last first": len(rulers) - 1 - place}[order]
        gate = Half() if rule == "eq10" else ruler.gate(alpha, rank, RULES[rule])
        replace_module(model, ruler, gate if like is None else gate.to(like.device, like.dtype))
