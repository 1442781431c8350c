"""Fold a network whose skips have faded into the plain network it has become."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from itertools import chain
from typing import Any, cast

import torch
from torch import Tensor, fx, nn
from torch.nn.utils.fusion import fuse_conv_bn_eval, fuse_linear_bn_eval

from ..errors import AliveError, expect
from ..nn.dirac import DiracConv2d, DiracLinear
from ..nn.van import Gate, VANBlock
from ..taps import bare, watchers
from ..torch_private import BatchNorm
from .graph.forward import graph_of
from .graph.run import Run
from .models import copied, evaluating, largest_difference, named, outputs, replace_module, size
from .phase_out import GatedSkip

SAID = 5  # blocks an error names
NEEDS_EXAMPLE = "merge_batch_norm needs an example, or batches to refresh from, to see what feeds what"
POINTS = 64  # points that serve as the example, of a tensor to refresh from


@dataclass(frozen=True, slots=True)
class Folded:
    """A plain network and how it was made.

    model       the plain network, a copy
    blocks      paths of the gates that are gone and of the Dirac layers that were written out
    residual    the largest 1-α among the gates: 0 if nothing but zeros was dropped
    difference  the largest change of an output on the example in eval mode, of this very model: after `refresh` and
                `merge_batch_norm`; None without an example
    dropped     parameters that are gone
    """

    model: nn.Module
    blocks: tuple[str, ...]
    residual: float
    difference: float | None
    dropped: int


class Nothing(nn.Module):
    """What is left in the place of a skip that is gone: zero.

    >>> Nothing()(torch.ones(3))
    tensor(0.)
    """

    def forward(self, x: Tensor) -> Tensor:
        """Map anything to zero."""
        return x.new_zeros(())


def fold(
    model: nn.Module,
    *,
    tol: float = 0.0,
    example: Any = None,
    merge_batch_norm: bool = False,
    refresh: Tensor | Iterable[Any] | None = None,
) -> Folded:
    """Copy a model without its gates, the skips behind them and their projections; write Dirac layers out.

    When every α is 1 the outputs in eval mode stay the same to the bit (as long as they are finite); Dirac layers
    keep them up to rounding. While an α is below 1 - tol, folding is refused.

    tol               how much of a skip may be cut off
    example           a batch (a tuple for several arguments, a dict for named ones) on which the change of the output
                      is measured; by default the first batch of `refresh`, of a tensor its first 64 points
    refresh           a tensor of inputs or batches, on which batch norms gather their statistics anew: those gathered
                      while there were skips are stale. Of a batch with labels as many parts are used as `example` has
    merge_batch_norm  then write each batch norm into the layer before it, where on the example it is its only
                      reader; gives a network for eval mode

    >>> from alive.nn.van import dense_branch
    >>> net = nn.Sequential(VANBlock(dense_branch(4), channels=4)).eval()
    >>> _ = nn.init.ones_(net[0].gate.alpha)
    >>> plain, x = fold(net).model, torch.randn(8, 4)
    >>> plain[0][2], torch.equal(net(x), plain(x))
    (Linear(in_features=4, out_features=4, bias=True), True)
    """
    model = bare(model)
    gates = {path: module for path, module in model.named_modules() if isinstance(module, Gate)}
    diracs = {path: m for path, m in model.named_modules() if isinstance(m, DiracLinear | DiracConv2d)}
    _expect_ready(model, gates, diracs, tol)
    if refresh is not None:
        example, refresh = _first_of(refresh, example)
    expect([(not merge_batch_norm or example is not None, NEEDS_EXAMPLE)])
    plain = _without_gates(copied(model))
    if refresh is not None:
        refresh_batch_norm_(plain, refresh, arguments=len(example) if isinstance(example, tuple) else 1)
    if merge_batch_norm:
        merge_batch_norm_(plain.eval(), example)
    difference = None
    if example is not None:
        with evaluating(model, plain):
            difference = largest_difference(outputs(model, example), outputs(plain, example))
    residual = max((float((1 - gate.alpha.detach()).max()) for gate in gates.values()), default=0.0)
    return Folded(plain, (*gates, *diracs), residual, difference, size(model) - size(plain))


def _first_of(batches: Tensor | Iterable[Any], example: Any) -> tuple[Any, Tensor | Iterable[Any]]:
    """The example, if none is given the inputs of the first batch; and all batches, which may be given only once."""
    if example is not None:
        return example, batches
    if isinstance(batches, Tensor):
        return batches[:POINTS], batches
    rest = iter(batches)
    first = next(rest, None)
    if first is None:
        return None, ()
    inputs = first[0] if isinstance(first, list | tuple) else first
    return inputs, chain([first], rest)


@torch.no_grad()
def refresh_batch_norm_(model: nn.Module, batches: Tensor | Iterable[Any], *, arguments: int = 1) -> None:
    """Let every batch norm gather its statistics anew, as the plain average over the batches.

    A batch is a tensor, a dict of named arguments, or a list or tuple whose first parts, as many as `arguments` says,
    go to the model. If there is no batch, or the model cannot run on one, the statistics stay as they were.

    >>> net = nn.Sequential(nn.BatchNorm1d(2))
    >>> refresh_batch_norm_(net, torch.tensor([[1.0, 2.0], [3.0, 6.0]]))
    >>> net[0].running_mean.tolist()
    [2.0, 4.0]
    """
    norms = [module for module in model.modules() if isinstance(module, BatchNorm) and module.track_running_stats]
    kept = [(norm.momentum, {name: number.clone() for name, number in norm.named_buffers()}) for norm in norms]
    seen = 0
    try:
        with evaluating(model):
            for norm in norms:
                norm.reset_running_stats()
                norm.momentum = None  # a cumulative average
                norm.train()
            for batch in [batches] if isinstance(batches, Tensor) else batches:
                seen += 1
                outputs(model, tuple(batch[:arguments]) if isinstance(batch, list | tuple) else batch)
        expect([(seen > 0, "there is no batch to gather statistics from")])
    except BaseException:
        for norm, (_, numbers) in zip(norms, kept, strict=True):
            for name, number in numbers.items():
                norm.get_buffer(name).copy_(number)
        raise
    finally:
        for norm, (momentum, _) in zip(norms, kept, strict=True):
            norm.momentum = momentum


def _expect_ready(model: nn.Module, gates: dict[str, Gate], diracs: dict[str, Any], tol: float) -> None:
    """Refuse what cannot be folded, or not yet."""
    expect(
        [
            (0 <= tol < 1, f"tol must be at least 0 and below 1, got {tol}"),
            (next(watchers(model), None) is None, "something is attached to the model; call its detach() first"),
        ]
    )
    if not gates and not diracs:
        raise AliveError(
            f"{type(model).__name__} has no gate and no Dirac layer: there is nothing to fold",
            "Gate its skips with alive.surgery.phase_out, or build it from VANBlocks",
        )
    early = {path: gate.residual() for path, gate in gates.items() if not bool((gate.alpha >= 1 - tol).all())}
    if early:
        said = [f"{named(path)} (mean (1-α)² {value:.3g})" for path, value in list(early.items())[:SAID]]
        more = f" and {len(early) - SAID} more" if len(early) > SAID else ""
        raise AliveError(
            f"{len(early)} of {len(gates)} skips are still in use: {', '.join(said)}{more}",
            "Train on until VANController.done, or say by tol how much of a skip may be cut off",
        )


def _without_gates(model: nn.Module) -> nn.Module:
    """The model with plain layers in the place of Dirac layers, and the branch alone wherever there was a gate."""
    for module in list(model.modules()):
        if isinstance(module, DiracLinear | DiracConv2d):
            model = replace_module(model, module, module.to_plain())
    for path, module in list(model.named_modules()):
        if isinstance(module, VANBlock) and isinstance(module.gate, Gate):
            model = replace_module(model, module, module.branch)
        elif isinstance(module, GatedSkip):
            model = replace_module(model, module, Nothing())
        elif any(isinstance(child, Gate) for child in module.children()):
            model = replace_module(model, module, _prune(module, path))
    return model


def _prune(module: nn.Module, path: str) -> nn.Module:
    """One module with gates in its forward, followed and rid of them."""
    graph = graph_of(module, path)
    for node in list(graph.nodes):
        if node.op == "call_module" and isinstance(module.get_submodule(str(node.target)), Gate):
            branch, skip = cast("tuple[fx.Node, fx.Node]", (*node.args, *node.kwargs.values()))
            if any(_in_place(user, module) for user in node.users) and not _alone(branch, module):
                with graph.inserting_after(branch):  # the sum was a value of its own, free to be changed
                    branch = graph.call_method("clone", (branch,))
            node.replace_all_uses_with(branch)
            graph.erase_node(node)
            _erase_unused(graph, skip, module)
    plain = fx.GraphModule(module, graph, class_name=type(module).__name__)
    plain.delete_all_unused_submodules()
    return plain


def _erase_unused(graph: fx.Graph, node: fx.Node, module: nn.Module) -> None:
    """Erase what only the skip needed; a step that changes in place what others read is kept."""
    if node.op == "placeholder" or node.users:
        return
    sources = node.all_input_nodes
    if _in_place(node, module) and any(len(source.users) > 1 for source in sources):
        return
    graph.erase_node(node)
    for source in sources:
        _erase_unused(graph, source, module)


def _in_place(node: fx.Node, module: nn.Module) -> bool:
    if node.op == "call_module":
        return bool(getattr(module.get_submodule(str(node.target)), "inplace", False))
    name = str(node.target) if node.op == "call_method" else getattr(node.target, "__name__", "")
    return bool(node.kwargs.get("inplace")) or (name.endswith("_") and not name.endswith("__")) or name == "iadd"


def _alone(node: fx.Node, module: nn.Module) -> bool:
    """Whether nobody else reads a value or what it may be a view of; a layer with parameters makes a new one."""
    if len(node.users) > 1 or node.op != "call_module":
        return False
    fresh = next(module.get_submodule(str(node.target)).parameters(), None) is not None
    return fresh or all(_alone(source, module) for source in node.all_input_nodes)


def merge_batch_norm_(model: nn.Module, example: Any) -> None:
    """Write each batch norm into the convolution or dense layer whose only reader it is."""
    run = Run(model)
    with evaluating(model), run:
        told = outputs(model, example)
    for layer, norm in list(run.lone_pairs(told)):
        merge: Any = fuse_linear_bn_eval if isinstance(layer, nn.Linear) else fuse_conv_bn_eval
        replace_module(model, layer, merge(layer, norm))
        replace_module(model, norm, nn.Identity())
