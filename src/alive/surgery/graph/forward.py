"""The forward of one module as torch.fx follows it, and where a branch and a skip are added in it."""

from __future__ import annotations

import ast
import inspect
import operator
import random
import textwrap
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor, fx, nn

from ...errors import AliveError, reason
from ..models import named

ADDS = (operator.add, operator.iadd, torch.add, "add", "add_", "__add__", "__iadd__")
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
    parameters = inspect.signature(type(module).forward).parameters
    absent: dict[str, Any] = {name: None for name, each in parameters.items() if each.default is None}
    before = _generators()
    try:
        other, graph = (_trace(module, training=training) for training in (not module.training, module.training))
        without = _trace(module, training=module.training, given=absent)
        after = _generators()
        drew = not torch.equal(before[0], after[0]) or str(before[1:]) != str(after[1:])
        steady = not drew and other.python_code("self").src == graph.python_code("self").src
    except Exception as error:
        raise AliveError(f"{where} cannot be followed: {reason(error)}", _declare(path)) from None
    finally:
        torch.set_rng_state(before[0])
        np.random.set_state(before[1])  # noqa: NPY002
        random.setstate(before[2])
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


def _trace(module: nn.Module, *, training: bool, given: dict[str, None] | None = None) -> fx.Graph:
    was = module.training
    try:
        module.training = training  # its own flag alone: children are not entered
        return Shallow().trace(module, given or None)
    finally:
        module.training = was


def _generators() -> tuple[Any, ...]:
    """The states of the generators of torch, numpy and Python."""
    return torch.get_rng_state(), np.random.get_state(), random.getstate()  # noqa: NPY002


def _steps(graph: fx.Graph) -> list[tuple[str, Any]]:
    """What a graph does, its arguments left out, and with them fx's own question whether they are None."""
    steps = [(node.op, node.target) for node in graph.nodes if node.op != "placeholder"]
    return [(op, target) for op, target in steps if getattr(target, "__name__", "") != "_assert_is_none"]


def additions(graph: fx.Graph, module: nn.Module, path: str) -> list[Addition]:
    """All sums of a branch and a skip; a sum that could be read both ways is refused."""
    found = []
    for node in graph.nodes:
        sides = _operands(node)
        if len(sides) != 2 or not _above(sides[0]) & _above(sides[1]):
            continue
        loads = [_load(between(side, other), module) for side, other in (sides, sides[::-1])]
        light, heavy = sorted(loads)
        if heavy == (0, 0):
            continue
        _expect_unscaled(node, module, path)
        if light == heavy or light not in LIGHT:
            raise AliveError(
                f"in {named(path)} ({type(module).__name__}) the sum {node.name!r} has layers on both sides "
                f"({sides[0].name!r} and {sides[1].name!r}), so that neither is clearly the skip",
                f"Say which blocks to gate: blocks=[..., ({path!r}, name of the skip's child module or argument)]",
            )
        skip, branch = sides if loads[0] == light else sides[::-1]
        found.append(Addition(node, branch, skip))
    return found


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
    return any(
        isinstance(getattr(node, "op", None), ast.Add) or getattr(node, "attr", "") in ("add", "add_")
        for method in methods
        for node in ast.walk(method)
    )


def _declare(path: str) -> str:
    return (
        f"Give the skip of that block a module of its own (nn.Identity() will do) and say "
        f"blocks=[..., ({path!r}, its name)]; blocks that are not named stay as they are"
    )


def _operands(node: fx.Node) -> list[fx.Node]:
    """Both sides of an addition, if this is one of two values."""
    if node.op not in ("call_function", "call_method") or node.target not in ADDS:
        return []
    return [side for side in (*node.args, *node.kwargs.values()) if isinstance(side, fx.Node)]


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
    weights = [weight for node in nodes for weight in _weights(node, module) if weight.dim() >= 2]
    wide = sum(any(size > 1 for size in weight.shape[2:]) for weight in weights)
    return wide, len(weights) - wide


def _weights(node: fx.Node, module: nn.Module) -> list[Tensor]:
    """The parameters that one step of a graph uses."""
    if node.op == "call_module":
        return list(module.get_submodule(str(node.target)).parameters())
    own = dict(module.named_parameters(remove_duplicate=False))
    return [own[str(node.target)]] if node.op == "get_attr" and node.target in own else []
