"""Jumpstart: separation constraints attached to any model, as one scalar for the loss."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import torch
from torch import Tensor, nn
from torch.autograd.graph import saved_tensors_hooks

from ..errors import AliveError, expect_one_of
from ..functional import AGGREGATES, Activation, Separation, Slacks, aggregate, fused, ranks, separation
from ..taps import Call, Tap, Taps, bare, watchers, without_activations
from .schedule import Schedule

OPTIONS = ("weight", "aggregate", "include_output", "layers", "point_axis", "unit_axes", "activations")
RANKS = ("across_ranks", "process_group")
RELU = Activation("relu")
UNREAD = 100  # forward passes whose penalty nobody asked for, before we say so


class Jumpstart:
    """Keeps every unit and point of a model alive and nonlinear while it trains.

    Attached on creation. Add `penalty()` to the loss after each forward pass; leave the `with` block, or call
    `detach()`, and the model is exactly as before.

    >>> model = nn.Sequential(nn.Linear(2, 4), nn.ReLU(), nn.Linear(4, 1))
    >>> with Jumpstart(model, weight=1e-4) as keep:
    ...     loss = model(torch.randn(8, 2)).square().mean() + keep.penalty()
    ...     loss.backward()

    weight          λ: a number, or a Schedule moved by `set_progress`
    rule            keywords of `functional.Separation`: mode, conv, against, balance, margins, ties
    aggregate       sumsq | sum | norm | mean | balanced
    include_output  also ask it of the model's output, as the Jumpstart paper's CIFAR runs did
    layers          patterns of tap names to keep to, such as "features.*"
    point_axis      the axis of the points in the pre-activations (1 for [T, N, C])
    unit_axes, activations   see `Taps`
    across_ranks    where torch.distributed runs on several ranks, take extremes over the batch of all of them (of
                    `process_group`), so that penalty and gradient are those of one process, however many ranks there
                    are. Every rank must call penalty() alike, and gradients are to be averaged, as
                    DistributedDataParallel does. False: each rank by its own points
    """

    def __init__(
        self,
        model: nn.Module,
        weight: float | Schedule = 1e-4,
        *,
        aggregate: str = "sumsq",
        include_output: bool = False,
        layers: Sequence[str] = (),
        point_axis: int = 0,
        unit_axes: Mapping[str, int] | None = None,
        activations: Mapping[type[nn.Module], Activation] | None = None,
        across_ranks: bool = True,
        process_group: ranks.Group = None,
        **rule: Any,
    ) -> None:
        for option in rule:
            expect_one_of("option", option, [*Separation.__dataclass_fields__, *OPTIONS, *RANKS])
        expect_one_of("aggregate", aggregate, AGGREGATES)
        self.rule = Separation(**rule)
        self.schedule = weight if isinstance(weight, Schedule) else Schedule(weight)
        self.weight = self.schedule(0.0)
        if any(isinstance(watcher, Jumpstart) for watcher in watchers(model)):
            raise AliveError(
                "a Jumpstart is attached to this model, or a part of it, already", "Call its detach() first, or use it"
            )
        self._model, self._root = model, bare(model)
        self._aggregate, self._include_output, self._point_axis = aggregate, include_output, point_axis
        self._across_ranks, self._group = across_ranks, process_group
        self._shared: Separation | None = None  # of the rule, what several ranks must agree on
        self._local: Separation | None = self.rule  # the rest
        self._slacks: list[Slacks] = []
        self._parts: list[ranks.Part] = []
        self._compared = False
        self._passes = self._recorded = 0
        self._recording = False
        self._before = self._parts_before = 0
        self._warned: set[str] = set()
        self._taps = Taps(model, self, layers=layers, unit_axes=unit_axes, activations=activations)

    def __repr__(self) -> str:
        alone = "" if self._across_ranks else ", across_ranks=False"
        output = f"include_output={self._include_output}"
        return f"Jumpstart({self.schedule}, {self.rule}, {self._aggregate}, {output}{alone})"

    def __enter__(self) -> Jumpstart:
        return self

    def __exit__(self, *_: object) -> None:
        self.detach()

    def detach(self) -> None:
        """Let go of the model: hooks, state and outputs are exactly as before."""
        self._taps.remove()
        self._slacks, self._parts, self._recording = [], [], False

    def set_progress(self, fraction: float) -> None:
        """Tell the schedule how much of training is done, from 0 to 1."""
        self.weight = self.schedule(fraction)

    def penalty(self) -> Tensor:
        """λ·A over the forward passes since the last call; zero after passes in eval mode or under no_grad."""
        layers, parts, passes, recorded = self._slacks, self._parts, self._passes, self._recorded
        self._slacks, self._parts, self._passes, self._recorded = [], [], 0, 0
        if not passes:
            raise AliveError(
                "penalty() found no forward pass since the last call",
                "Call the attached model first, model(x) and not a method of it, once for each penalty(); a compiled "
                "model must be attached before its first call (or call torch._dynamo.reset() after attaching)",
            )
        if recorded and not layers:
            raise without_activations(self._model, self._taps.passed_over)
        if not any(layers) and not parts:
            return torch.zeros((), device=next(self._root.parameters(), torch.empty(0)).device)
        if self._local is self.rule:
            return self.weight * aggregate(layers, self._aggregate)
        return self.weight * self._over_ranks(parts, layers)

    # The Watcher's side.

    def begin(self) -> None:
        """Record this pass if the model trains, and this is not a checkpointed part run again by backward."""
        self._recording = self._root.training and torch.is_grad_enabled() and not _in_backward()
        together = self._across_ranks and ranks.world_size(self._group) > 1
        self._shared, self._local = ranks.divided(self.rule) if together else (None, self.rule)
        self._before, self._parts_before = len(self._slacks), len(self._parts)
        self._passes += not _in_backward()
        self._recorded += self._recording
        if self._recorded == UNREAD:
            self._warn("unread", f"{UNREAD} forward passes and no penalty(): each keeps its graph; read it or detach()")

    def watch(self, call: Call) -> Any:
        """Measure the slacks of one layer on its way through the activation."""
        if not self._recording:
            return call.activate()
        if not torch.is_grad_enabled():
            self._warn(
                "no_grad",
                f"{call.tap.name} ran under no_grad inside a training pass and is not penalised; "
                "with activation checkpointing use torch.utils.checkpoint(..., use_reentrant=False)",
            )
            return call.activate()
        # Plain operations keep what they measure, which an activation in place would change; a compiler sees to that.
        keeps = call.inplace and not torch.compiler.is_compiling() and not fused.applies(call.z)
        z = call.z.clone() if keeps else call.z
        if self._shared is not None:
            with _kept_by_us():
                self._share(z, call.tap)
        if self._local is not None and _can_fuse(call):
            y, slacks = fused.relu_slacks(
                z, self._local, unit_axis=call.tap.unit_axis, point_axis=self._point_axis, inplace=call.inplace
            )
        else:
            with _kept_by_us():
                slacks = self._measure(z, call.tap)  # before the activation, which may happen in place
            y = call.activate()
        self._record(slacks, call.tap, z)
        return y

    def end(self, output: Any) -> None:
        """Measure the output too, if asked; forget a pass that failed."""
        if self._taps.failed:
            del self._slacks[self._before :], self._parts[self._parts_before :]
            self._passes -= not _in_backward()
            self._recorded -= self._recording
        elif self._recording and self._include_output:
            if not isinstance(output, Tensor):
                raise AliveError(
                    f"include_output needs a model that returns one tensor, got {type(output).__name__}",
                    "Leave include_output=False, or wrap the model so that it returns its logits",
                )
            tap = Tap("output", Activation("output"), -1 if output.ndim < 4 else 1)
            if self._shared is not None:
                self._share(output, tap)
            self._record(self._measure(output, tap), tap, output)
        self._recording = False

    def _share(self, z: Tensor, tap: Tap) -> None:
        """Keep what penalty() will compare with the other ranks."""
        assert self._shared is not None
        where = {"unit_axis": tap.unit_axis, "point_axis": self._point_axis}
        self._parts.append(ranks.measure(z, self._shared, cutoff=tap.activation.cutoff, **where))

    def _over_ranks(self, parts: list[ranks.Part], layers: list[Slacks]) -> Tensor:
        if not self._compared:
            device = parts[0].ends.device if parts else next(iter(next(filter(None, layers)).values())).device
            ranks.expect_same(parts, self._group, device)
            self._compared = True
        return ranks.aggregate(parts, layers, self.rule, how=self._aggregate, group=self._group)

    def _measure(self, z: Tensor, tap: Tap) -> Slacks:
        if self._local is None:
            return {}
        # Inside torch.compile the plain version fuses by itself; elsewhere ours is the cheap one, where it applies.
        twin = fused if fused.applies(z) else separation
        where = {"unit_axis": tap.unit_axis, "point_axis": self._point_axis}
        slacks: Slacks = twin.slacks(z, self._local, cutoff=tap.activation.cutoff, **where)
        return slacks

    def _record(self, slacks: Slacks, tap: Tap, z: Tensor) -> None:
        self._slacks.append(slacks)
        for axis in self._local.axes if self._local is not None else ():
            if axis not in slacks and z.numel():  # nothing is missing where no point came, as to an idle expert
                what = {"U": "one sample", "P": "one unit", "L": "one value"}[axis]
                self._warn(axis, f"{tap.name} has {what}: axis {axis} cannot be satisfied there and is skipped")

    def _warn(self, kind: str, text: str) -> None:
        if kind not in self._warned:
            self._warned.add(kind)
            warnings.warn(text, stacklevel=3)


def _can_fuse(call: Call) -> bool:
    """Whether ReLU and slacks can be one op: plain eager tensors, and nothing in place on a view or a leaf."""
    if call.tap.activation != RELU or not fused.applies(call.z) or _checkpointed():
        return False
    return not call.inplace or not (call.z._is_view() or call.z.is_leaf)


def _checkpointed() -> bool:
    """Whether someone else decides what is saved for backward, such as activation checkpointing."""
    return torch._C._autograd._top_saved_tensors_default_hooks(True) is not None


def _kept_by_us() -> AbstractContextManager[Any]:
    """Save our few indices past activation checkpointing, so that what it runs again need not measure again."""
    if torch.compiler.is_compiling() or not _checkpointed():
        return nullcontext()
    return saved_tensors_hooks(lambda x: x, lambda x: x)


def _in_backward() -> bool:
    return not torch.compiler.is_compiling() and torch._C._current_graph_task_id() != -1
