"""Reads the forward of a module as a graph, and finds where a branch and a skip are added in it."""

from __future__ import annotations

import ast
import inspect
import operator
import random
import textwrap
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from copy import deepcopy
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np
import torch
from torch import Tensor, fx, nn

from ..diagnosis.modes import Modes
from ..errors import AliveError
from ..torch_private import children_of, tree_map

ADD_FUNCTIONS = (operator.add, operator.iadd, torch.add)
ADD_METHODS = ("add", "add_", "__add__", "__iadd__")
Module = TypeVar("Module", bound=nn.Module)
IN_PLACE = (operator.iadd, "add_", "__iadd__")
LIGHT = ((0, 0), (0, 1))  # what a skip may hold: (kernels wider than 1x1, dense layers and 1x1 kernels)


class Shallow(fx.Tracer):
    """Follows one forward and leaves every child whole, so that a model keeps its own classes around its blocks."""

    def is_leaf_module(self, m: nn.Module, module_qualified_name: str) -> bool:
        """Every child is a leaf."""
        return True


@dataclass(frozen=True, slots=True)
class Addition:
    """A sum of a branch and a skip in the graph of a block."""

    node: fx.Node
    branch: fx.Node
    skip: fx.Node


def graph_of(module: nn.Module, path: str) -> fx.Graph:
    """Follow the forward of a module; refuses one that asks for values, draws, or differs in training."""
    where = f"the forward of {named(path)} ({type(module).__name__})"
    absent = _absent(module)
    try:
        with _watched_luck() as drawn:
            other, graph = (_traced(module, training=training) for training in (not module.training, module.training))
            without = _traced(module, training=module.training, given=absent)
            steady = not drawn() and other.python_code("self").src == graph.python_code("self").src
    except Exception as error:
        said = str(error).strip().splitlines() or [type(error).__name__]
        raise AliveError(f"{where} cannot be followed: {said[0]}", _declare(path)) from None
    if not steady:
        raise AliveError(
            f"{where} reads self.training, draws random numbers or changes from call to call, which would be frozen "
            "as it is now",
            "Leave that to modules, such as nn.Dropout instead of F.dropout",
        )
    if _steps(without) != _steps(graph):
        raise AliveError(
            f"{where} asks whether {' or '.join(absent)} was given, which would be frozen as it is now", _declare(path)
        )
    for node in graph.nodes:
        node.type = None  # annotations in quotes would make the graph impossible to pickle
    return graph


def _traced(module: nn.Module, *, training: bool, given: dict[str, None] | None = None) -> fx.Graph:
    was = module.training
    try:
        module.training = training  # its own flag alone: children are not entered
        return Shallow().trace(module, given or None)
    finally:
        module.training = was


@contextmanager
def _watched_luck() -> Iterator[Callable[[], bool]]:
    """Tells whether random numbers of torch, numpy or Python were drawn inside, and puts the generators back."""
    torchs, numpys, pythons = torch.get_rng_state(), np.random.get_state(), random.getstate()  # noqa: NPY002

    def drawn() -> bool:
        same = torch.equal(torch.get_rng_state(), torchs) and random.getstate() == pythons
        return not same or str(np.random.get_state()) != str(numpys)  # noqa: NPY002

    try:
        yield drawn
    finally:
        torch.set_rng_state(torchs)
        np.random.set_state(numpys)  # noqa: NPY002
        random.setstate(pythons)


def _absent(module: nn.Module) -> dict[str, None]:
    """The arguments of a forward that are None unless given."""
    parameters = inspect.signature(type(module).forward).parameters
    return {name: None for name, parameter in parameters.items() if parameter.default is None}


def _steps(graph: fx.Graph) -> list[tuple[str, Any]]:
    """What a graph does, its arguments left out, and with them fx's own question whether they are None."""
    asks = {user for node in graph.nodes if node.op == "placeholder" for user in node.users if _asks_for_none(user)}
    return [(node.op, node.target) for node in graph.nodes if node.op != "placeholder" and node not in asks]


def _asks_for_none(node: fx.Node) -> bool:
    return getattr(node.target, "__name__", "") == "_assert_is_none"


def additions(graph: fx.Graph, module: nn.Module, path: str) -> list[Addition]:
    """All sums of a branch and a skip; a sum that could be read both ways is refused."""
    return [found for node in graph.nodes if (found := _judged(node, module, path)) is not None]


def declared_additions(graph: fx.Graph, module: nn.Module, path: str, skip: str) -> list[Addition]:
    """The sums whose one operand comes through the child, or straight from the argument, called `skip`."""
    found = []
    for node in graph.nodes:
        if len(operands := _operands(node)) == 2:
            _expect_unscaled(node, module, path)
            through = [_passes(operand, other, skip) for operand, other in (operands, operands[::-1])]
            if through[0] != through[1]:
                taken, branch = operands if through[0] else operands[::-1]
                found.append(Addition(node, branch, taken))
    if not found:
        children = ", ".join(name for name, _ in module.named_children())
        raise AliveError(
            f"{named(path)} adds nothing that comes through {skip!r}",
            f"Name the child module of its skip or the argument that is added; its children are {children or 'none'}",
        )
    return found


def between(operand: fx.Node, other: fx.Node) -> list[fx.Node]:
    """What lies behind one operand of a sum, back to where both came from, in order."""
    mine, theirs = _above(operand), _above(other)
    order = {node: place for place, node in enumerate(operand.graph.nodes)}
    common = sorted(mine & theirs, key=order.__getitem__)
    return sorted(mine - (_above(common[-1]) if common else set()), key=order.__getitem__)


def replace_module(model: nn.Module, old: nn.Module, new: nn.Module) -> nn.Module:
    """Put a module in the place of another, wherever it is used; gives the model, which may be the new one itself."""
    if model is old:
        return new
    for parent in list(model.modules()):
        for name, child in list(children_of(parent).items()):
            if child is old:
                parent.add_module(name, new)
    return model


def mentions_addition(module: nn.Module) -> bool:
    """Whether the source of a class adds anything outside __init__; if there is no source, it is assumed to."""
    try:
        sources = [inspect.getsource(kind) for kind in type(module).__mro__ if issubclass(kind, nn.Module)]
    except (OSError, TypeError):
        return True
    classes = [ast.parse(textwrap.dedent(source)).body[0] for source in sources[:-1]]  # the last is nn.Module itself
    methods = [
        part for kind in classes for part in getattr(kind, "body", []) if getattr(part, "name", "") != "__init__"
    ]
    return any(_adds(node) for method in methods for node in ast.walk(method))


def _adds(node: ast.AST) -> bool:
    if isinstance(node, ast.BinOp | ast.AugAssign):
        return isinstance(node.op, ast.Add)
    return isinstance(node, ast.Attribute) and node.attr in ("add", "add_")


def copied(model: Module) -> Module:
    """A copy of a model, or why torch cannot make one."""
    if torch.is_inference_mode_enabled():
        raise AliveError("parameters made in torch.inference_mode can never be trained", "Leave it for surgery")
    try:
        return deepcopy(model)
    except Exception as error:
        said = str(error).strip().splitlines() or [type(error).__name__]
        raise AliveError(
            f"{type(model).__name__} cannot be copied: {said[0].rstrip('.')}",
            "Take off what computes weights by hooks, as torch.nn.utils.remove_weight_norm and prune.remove do",
        ) from error


@contextmanager
def evaluating(*models: nn.Module) -> Iterator[None]:
    """Eval mode and no gradients inside; every module's own mode afterwards."""
    modes = [Modes(model) for model in models]
    try:
        for mode in modes:
            mode.evaluate()
        with torch.no_grad():
            yield
    finally:
        for mode in modes:
            mode.restore()


def outputs(model: nn.Module, example: Any) -> Any:
    """What the model returns for an example: a tensor, a tuple of arguments, or a dict of named ones.

    It is given a copy, which it may change in place.
    """
    fresh = tree_map(lambda leaf: leaf.clone() if isinstance(leaf, Tensor) else leaf, example)
    if isinstance(fresh, Mapping):
        return model(**fresh)
    return model(*fresh) if isinstance(fresh, tuple) else model(fresh)


def largest_difference(one: Any, other: Any) -> float:
    """The largest difference of two outputs, which must be tensors."""
    if not (isinstance(one, Tensor) and isinstance(other, Tensor)):
        raise AliveError(
            f"the model returns {type(one).__name__}, and only tensors can be compared",
            "Wrap the model so that it returns its logits",
        )
    return float((one - other).abs().max()) if one.numel() else 0.0


def named(path: str) -> str:
    """A path for a sentence."""
    return path or "the model itself"


def _declare(path: str) -> str:
    return (
        f"Give the skip of that block a module of its own (nn.Identity() will do) and say "
        f"blocks=[..., ({path!r}, its name)]; blocks that are not named stay as they are"
    )


def _operands(node: fx.Node) -> list[fx.Node]:
    """Both sides of an addition, if this is one of two values."""
    adds = (node.op == "call_function" and node.target in ADD_FUNCTIONS) or (
        node.op == "call_method" and node.target in ADD_METHODS
    )
    if not adds:
        return []
    return [side for side in (*node.args, *node.kwargs.values()) if isinstance(side, fx.Node)]


def _judged(node: fx.Node, module: nn.Module, path: str) -> Addition | None:
    """Which operand is the skip: the one with next to nothing on its way; none if neither is a branch."""
    sides = _operands(node)
    if len(sides) != 2 or not _above(sides[0]) & _above(sides[1]):
        return None
    loads = [_load(between(side, other), module) for side, other in (sides, sides[::-1])]
    light, heavy = sorted(loads)
    if heavy == (0, 0):
        return None
    _expect_unscaled(node, module, path)
    if light == heavy or light not in LIGHT:
        raise AliveError(
            f"in {named(path)} ({type(module).__name__}) the sum {node.name!r} has layers on both sides "
            f"({sides[0].name!r} and {sides[1].name!r}), so that neither is clearly the skip",
            f"Say which blocks to gate: blocks=[..., ({path!r}, name of the skip's child module or argument)]",
        )
    skip, branch = sides if loads[0] == light else sides[::-1]
    return Addition(node, branch, skip)


def _expect_unscaled(node: fx.Node, module: nn.Module, path: str) -> None:
    """Refuse torch.add(x, y, alpha=...), which is no plain sum."""
    if node.kwargs.get("alpha", 1) != 1:
        raise AliveError(
            f"in {named(path)} ({type(module).__name__}) the sum {node.name!r} takes one side alpha = "
            f"{node.kwargs['alpha']} times",
            "Write the factor out, as in x + 0.5 * f(x)",
        )


def _passes(operand: fx.Node, other: fx.Node, skip: str) -> bool:
    if operand.op == "placeholder" and operand.target == skip:
        return True
    return any(node.op == "call_module" and node.target == skip for node in between(operand, other))


def _above(node: fx.Node) -> set[fx.Node]:
    """A node and everything it was made from."""
    seen: set[fx.Node] = set()
    ahead = [node]
    while ahead:
        if (here := ahead.pop()) not in seen:
            seen.add(here)
            ahead += here.all_input_nodes
    return seen


def _load(nodes: list[fx.Node], module: nn.Module) -> tuple[int, int]:
    """How many kernels wider than 1x1, and how many dense layers and 1x1 kernels, lie on a way."""
    weights = [weight for node in nodes for weight in _weights(node, module)]
    wide = sum(any(size > 1 for size in weight.shape[2:]) for weight in weights)
    return wide, len(weights) - wide


def _weights(node: fx.Node, module: nn.Module) -> list[Tensor]:
    """The matrices and kernels that one step of a graph uses."""
    if node.op == "call_module":
        return [weight for weight in module.get_submodule(str(node.target)).parameters() if weight.dim() >= 2]
    if node.op == "get_attr":
        holder, _, name = str(node.target).rpartition(".")
        value = getattr(module.get_submodule(holder), name, None)
        return [value] if isinstance(value, nn.Parameter) and value.dim() >= 2 else []
    return []
