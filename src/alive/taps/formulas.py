"""Formulas: what tensors are as functions of one another, so that an activation is known however it is spelled.

A tensor that was made entry by entry from one other, its root, has an image (`images`): what the same calls make of a
row of numbers. It tells whether the tensor is an activation, and of which straight function of the root.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterator
from math import inf
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from ..functional.activations import Activation
from ..functional.forms import GRID, Form
from ..torch_private import storage_id
from .images import ROOT, ZERO, Image, Quiet, Straight, cast, image_of
from .pointwise import BOUNDS, CASTS, GATES, GUARDED, IN_PLACE, SCALES, SELECTS, WITH_TENSOR

DEPTH = 64  # calls from a root on; what is deeper is a root of its own

Rank = tuple[bool, ...]


class Part(NamedTuple):
    """A call that was seen as an activation, and may be part of another."""

    base: str
    number: int
    z: tuple[Any, ...]  # which numbers it got
    activation: Activation
    rank: Rank = ()  # of its form, if it was spelled out
    straight: Straight = (0.0, 0.0)  # what z is of its root
    is_bound: bool = False


NONE: frozenset[Part] = frozenset()


class _Root:
    """A tensor of which others are functions, and those that are straight functions of it."""

    def __init__(self, t: Tensor) -> None:
        self.ref, self.version = weakref.ref(t), _version(t)
        self.straight: dict[Straight, list[tuple[weakref.ref[Tensor], int]]] = {(1.0, 0.0): [(self.ref, self.version)]}
        self.held: list[tuple[Straight, Tensor, int]] = []  # one that stays as long as what is made of it

    def hold(self) -> None:
        """Something was made of it: some straight function stays at hand."""
        if not any(_version(t) == version for _, t, version in self.held):
            straight, t = next(self.living(), (None, None))
            if straight is not None and t is not None:
                self.held = [(straight, t, _version(t))]

    def is_it(self, t: Tensor) -> bool:
        """Whether another tensor is the same numbers."""
        own = self.ref()
        return own is not None and _version(own) == self.version and where(own) == where(t)

    def living(self) -> Iterator[tuple[Straight, Tensor]]:
        """The straight functions of it that are still there."""
        for straight, refs in self.straight.items():
            for ref, version in refs:
                if (t := ref()) is not None and _version(t) == version:
                    yield straight, t
        yield from ((straight, t) for straight, t, version in self.held if _version(t) == version)


class _Node(NamedTuple):
    """What one tensor is: an image of a root, with the activations that were seen on the way.

    `settled` says that it is a function of those alone.
    """

    ref: weakref.ref[Tensor]
    version: int
    root: _Root
    image: Image
    parts: frozenset[Part] = frozenset()
    settled: bool = False


class Step(NamedTuple):
    """A call that makes a function of one root; and the activation that it completes, of z, if it does."""

    root: _Root
    image: Image | None
    parts: frozenset[Part]
    settled: bool = False
    form: Form | None = None
    z: Tensor | None = None
    is_even: bool = False  # whether activations in it make up what is the same on both sides
    is_guard: bool = False  # whether activations in it only keep it within bounds
    is_bound: bool = False  # whether it bounds z by numbers, as a guard may
    rank: Rank = ()
    straight: Straight = (0.0, 0.0)
    loose: bool = False  # whether it holds numbers of tensors, which may be data
    inplace: bool = False
    is_cast: bool = False


class Formulas:
    """What the tensors of the pass that runs are."""

    def __init__(self, quiet: Quiet, is_of_data: Callable[[Tensor], bool]) -> None:
        self._quiet = quiet  # inside, nothing is followed
        self._is_of_data = is_of_data  # whether a tensor is known to depend on points
        self._nodes: dict[int, _Node] = {}

    def clear(self) -> None:
        """A new pass begins, or one has ended."""
        self._nodes.clear()

    def read(self, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any], *, whole: bool = False) -> Step | None:
        """What a call makes; None if it is no function of one tensor. A `whole` call is an activation by itself."""
        if func in WITH_TENSOR and not (len(args) > 1 and isinstance(args[1], Tensor)):
            return None
        found = self._operands(func, args, kwargs)
        if found is None:
            return None
        nodes, items, named, loose = found
        root, change = nodes[0].root, func in IN_PLACE
        parts = NONE.union(*(node.parts for node in nodes))
        settled = bool(parts) and all(node.settled and node.parts == nodes[0].parts for node in nodes)
        if settled and whole:  # an activation of what came out of another
            if nodes[0].ref() is not args[0] or not isinstance(args[0], Tensor):
                return None
            root, parts, items = _Root(args[0]), NONE, (ROOT, *items[1:])
        if func in CASTS:
            return Step(root, nodes[0].image, parts, settled, is_cast=True)
        image = image_of(func, items, named, self._quiet)
        if image is None:
            return None
        guards = func in GUARDED and parts and all(part.is_bound for part in parts)
        if guards:  # as in log_std.clamp(-5, 2).exp()
            return Step(root, image, parts, is_guard=True)
        step = Step(root, image, parts, settled and not whole, loose=loose)
        # What is straight near the root's zero may bend near that of a straight function of it.
        is_straight = image.straight is not None and not parts and len(root.straight) == 1
        if whole or is_straight or (settled and not (func in BOUNDS or func in SCALES)):
            return step
        if func in BOUNDS and not parts and image.values[0] == image.values[1] and image.values[0] > 0:
            return None  # no less than a number above 0: what is made of it is made of it alone
        step = self._complete(step, func, nodes)
        if settled and not _is_better(step):  # a function of an activation is that activation
            return step._replace(form=None)
        if step.form is not None:
            z = _materialise(root, step.straight)
            return step._replace(z=z, inplace=change and z is not None and where(args[0])[0] == where(z)[0])
        if change and nodes[0].image.straight is not None and nodes[0].ref() is args[0]:
            self._keep(nodes[0])
        return step

    def _operands(
        self, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> tuple[list[_Node], tuple[Any, ...], dict[str, Any], bool] | None:
        """The nodes among the arguments of a call, and all of them as images and constants."""
        nodes: list[_Node] = []
        strange: list[Tensor] = []
        for a in (*args, *kwargs.values()):
            if isinstance(a, Tensor) and _is_constant(a):
                if self._is_of_data(a):
                    return None
            elif isinstance(a, Tensor):
                node = self._of(a)
                if node is not None:
                    nodes.append(node)
                elif not any(a is other for other in strange):
                    strange.append(a)
            elif isinstance(a, list | tuple):
                return None
        if len(strange) > 1 and func in SELECTS:
            strange = [t for t in strange if not self._is_zero(t)]
        elif strange and nodes and func in SELECTS:
            strange = [t for t in strange if nodes[0].root.is_it(t) or not self._is_zero(t)]
        fresh = self._fresh(strange, nodes)
        if fresh is None or not (nodes or fresh) or any(n.root is not (*nodes, *fresh)[0].root for n in nodes):
            return None
        loose = False

        def item(a: Any) -> Any:
            nonlocal loose
            if isinstance(a, torch.dtype):
                return torch.float64 if a.is_floating_point else a
            if not isinstance(a, Tensor):
                return "cpu" if isinstance(a, torch.device) else a
            if not _is_constant(a):
                node = self._of(a) or next((n for n in fresh if n.ref() is a), None)
                return ZERO if node is None else node.image
            loose = True
            dtype = torch.float64 if a.is_floating_point() else a.dtype
            with self._quiet():
                return torch.tensor(a.item(), dtype=dtype, device="cpu")

        items, named = tuple(map(item, args)), {k: item(a) for k, a in kwargs.items()}
        return [*nodes, *fresh], items, named, loose

    def _fresh(self, strange: list[Tensor], nodes: list[_Node]) -> list[_Node] | None:
        """A node for a tensor that had none; None if it cannot be of the same root as the others."""
        if not strange:
            return []
        t = strange[0]
        if len(strange) > 1 or type(t) is not Tensor or not t.is_floating_point():
            return None
        if nodes and not nodes[0].root.is_it(t):
            return None
        self._enter(t, nodes[0].root if nodes else _Root(t), ROOT)
        return [self._nodes[id(t)]]

    def _is_zero(self, t: Tensor) -> bool:
        """Whether a tensor is zero all over."""
        if not t.numel() or t.is_meta or type(t) is not Tensor or t.layout != torch.strided:
            return False
        with self._quiet():
            return not bool(t.flatten()[0]) and not bool(t.any())

    def _enter(
        self, t: Tensor, root: _Root, image: Image, parts: frozenset[Part] = NONE, settled: bool = False
    ) -> tuple[weakref.ref[Tensor], int]:
        """A node for a tensor, which goes with it."""
        key, nodes = id(t), self._nodes

        def forget(ref: weakref.ref[Tensor]) -> None:
            if key in nodes and nodes[key].ref is ref:
                del nodes[key]

        ref, version = weakref.ref(t, forget), _version(t)
        nodes[key] = _Node(ref, version, root, image, parts, settled)
        return ref, version

    def _of(self, t: Tensor) -> _Node | None:
        node = self._nodes.get(id(t))
        return node if node is not None and node.ref() is t and _version(t) == node.version else None

    def _complete(self, step: Step, func: Any, nodes: list[_Node]) -> Step:
        """The step, with the activation that it completes, if it does."""
        assert step.image is not None
        if func in GATES or step.image.values.shape != GRID.shape or step.image.values.dtype == torch.bool:
            return step
        ranked = [
            ((*form.rank, sign > 0, form.scale > 0, (sign * a, b) == (1.0, 0.0)), direct, form, (sign * a, sign * b))
            for (a, b), refs in step.root.straight.items()
            for sign in (1, -1)
            if (form := step.image.form((sign * a, sign * b), self._quiet)) is not None
            for direct in (any(node.ref() is ref() for node in nodes for ref, _ in refs),)
        ]
        if not ranked:
            smooth = bool(step.parts) and all(part.activation.straight_from == inf for part in step.parts)
            return step._replace(is_even=smooth and step.image.is_even(self._quiet))
        rank, _, form, straight = max(ranked, key=lambda each: each[:2])
        known = form.activation
        if known is None and step.parts and not form.is_shrinkage:  # a skip around an activation
            return step
        if known is not None and straight[0] < 0 and form.is_bent and known.cutoff:  # no more than a number: a guard
            return step
        is_bound = known is not None and func in BOUNDS and known.cutoff != 0
        return step._replace(form=form, is_bound=is_bound, rank=rank, straight=straight)

    def _keep(self, node: _Node) -> None:
        """A tensor is about to be changed in place: if a formula needs it yet, a copy stays."""
        t, straight = node.ref(), node.image.straight
        others = (other for _, other in node.root.living() if other is not t)
        if t is not None and straight is not None and next(others, None) is None:
            copy = t.clone()
            node.root.held = [(straight, copy, _version(copy))]

    def note(self, step: Step, out: Any, part: Part | None = None) -> None:
        """Remember what came out of a call: of an activation, with the part that it was."""
        image = step.image
        if not isinstance(out, Tensor) or image is None:
            return
        if step.is_cast:
            image = cast(image, torch.float64 if out.is_floating_point() else out.dtype, self._quiet)
            if image is None:
                return
        own = step.root.ref()
        if image.depth > DEPTH or (image.values.shape == GRID.shape and own is not None and own.shape != out.shape):
            return
        parts, settled = (step.parts, step.settled) if part is None else (frozenset({part}), True)
        ref, version = self._enter(out, step.root, image, parts, settled)
        if image.straight is None and not settled:
            step.root.hold()
        if image.straight is not None and image.straight[0]:
            step.root.straight.setdefault(image.straight, []).append((ref, version))


def _is_better(step: Step) -> bool:
    """Whether a function of an activation is another: the same with a ceiling, or one that looks more as written."""
    known = step.form.activation if step.form is not None else None
    if known is None or len(step.parts) > 1:
        return False
    (part,) = step.parts
    old = part.activation
    if known.ceiling < old.ceiling == inf and known.cutoff == old.cutoff and step.straight[0] > 0:
        return True
    return bool(part.rank) and step.rank > part.rank and step.straight != part.straight


def _materialise(root: _Root, wanted: Straight) -> Tensor | None:
    """a z + b, as it lies in memory, or made from another straight function of the root."""
    other = None
    for straight, t in root.living():
        if straight == wanted:
            return t
        other = other or (straight, t)
    if other is None:
        return None
    (a, b), t = other
    if (a, b) == (-wanted[0], -wanted[1]):
        return -t
    return t * (wanted[0] / a) + (wanted[1] - b * wanted[0] / a)


def _is_constant(t: Tensor) -> bool:
    """Whether a tensor is one number, that can be read at no cost."""
    return (not t.ndim or (t.numel() == 1 and isinstance(t, nn.Parameter))) and t.device.type == "cpu"


def _version(t: Tensor) -> int:
    return 0 if t.is_inference() else t._version


def where(t: Tensor) -> tuple[Any, ...]:
    """Which numbers a tensor is."""
    try:
        return (storage_id(t), t.storage_offset(), t.shape, t.stride())
    except (RuntimeError, NotImplementedError):
        return (id(t),)
