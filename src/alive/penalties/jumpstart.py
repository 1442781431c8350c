"""Jumpstart: separation constraints attached to any model, as one scalar for the loss."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from inspect import signature
from typing import Any, Never

import torch
from torch import Tensor, nn
from torch.autograd.graph import saved_tensors_hooks

from ..errors import AliveError, expect_one_of
from ..functional import AGGREGATES, Activation, Separation, Slacks, aggregate, fused, parts, separation
from ..functional.parts import Part
from ..provenance import Scattered
from ..taps import Call, Output, Tap, Taps, bare, watchers, without_activations
from ..world import Group, world_size
from . import collective, reducer
from .layer import Layer, arranged
from .passes import Passes
from .schedule import Schedule

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
    mode            U: units, P: points, UP: both, L: one pair of extremes a layer
    conv            channel: a unit is a channel and a point a sample; position: each position counts on its own
    against         both, or only death, or only linearity
    balance         β, the share of ξ⁺ (on for some) when against both; the rest is that of ξ⁻ (off for some)
    pos_margin, neg_margin   by how much a unit or point is to be on for some, and off for some
    ties            split: equal extremes share the gradient; single: the first gets it
    aggregate       sumsq | sum | norm | mean | balanced
    include_output  also ask it of the model's output, as the Jumpstart paper's CIFAR runs did
    layers          patterns of tap names to keep to, such as "features.*"
    point_axis      the axis of the points in the inputs (1 for [T, N, C]); None: each input tensor is one point
    unit_axes, activations, outputs   see `Taps`
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
        mode: str = "UP",
        conv: str = "channel",
        against: str = "both",
        balance: float = 0.5,
        pos_margin: float = 1.0,
        neg_margin: float = 1.0,
        ties: str = "split",
        aggregate: str = "sumsq",
        include_output: bool = False,
        layers: Sequence[str] = (),
        point_axis: int | None = 0,
        unit_axes: Mapping[str, int] | None = None,
        activations: Mapping[type[nn.Module], Activation] | None = None,
        outputs: Mapping[type[nn.Module], Output] | None = None,
        across_ranks: bool = True,
        process_group: Group = None,
        **unknown: Never,
    ) -> None:
        for option in unknown:
            expect_one_of("option", option, OPTIONS)
        expect_one_of("aggregate", aggregate, AGGREGATES)
        self.rule = Separation(mode, conv, against, balance, pos_margin, neg_margin, ties)
        self.schedule = weight if isinstance(weight, Schedule) else Schedule(weight)
        self.weight = self.schedule(0.0)
        if any(isinstance(watcher, Jumpstart) for watcher in watchers(model)):
            raise AliveError(
                "a Jumpstart is attached to this model, or a part of it, already", "Call its detach() first, or use it"
            )
        self._model, self._root = model, bare(model)
        self._aggregate, self._include_output = aggregate, include_output
        self._across_ranks, self._group = across_ranks, process_group
        self._searching = reducer.searching(model)
        self._shared: Separation | None = None  # of the rule, what several ranks must agree on
        self._local: Separation | None = self.rule  # the rest
        self._passes = Passes()
        self._slacks: list[Slacks] = []  # of the pass that runs, as are the parts
        self._parts: list[Part] = []
        self._taps_of: tuple[list[str], list[str]] = ([], [])  # the names of their taps
        self._later: list[tuple[str, str, str]] = []  # what to warn of at the end of the pass: tap, kind, text
        self._joint = 0  # penalties that were taken over all ranks
        self._recording = False
        self._warned: set[str] = set()
        where: dict[str, Any] = {"point_axis": point_axis, "unit_axes": unit_axes}
        self._taps = Taps(model, self, layers=layers, activations=activations, outputs=outputs, **where)

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
        self._passes, self._slacks, self._parts, self._recording = Passes(), [], [], False

    def set_progress(self, fraction: float) -> None:
        """Tell the schedule how much of training is done, from 0 to 1."""
        self.weight = self.schedule(fraction)

    def penalty(self) -> Tensor:
        """λ·A over the forward passes since the last call; zero after passes in eval mode or under no_grad."""
        runs, told = self._passes.read(self._root)
        if told:
            self._warn("sent", told)
        layers = [slacks for run in runs for slacks in run.slacks]
        shared = [part for run in runs for part in run.parts]
        if runs and not layers:
            raise without_activations(self._model, self._taps.passed_over)
        if not any(layers) and not shared:
            return torch.zeros((), device=next(self._root.parameters(), torch.empty(0)).device)
        alone = self._local is self.rule
        total = aggregate(layers, self._aggregate) if alone else self._over_ranks(shared, layers)
        reducer.show(self._searching, [output for run in runs for output in run.outputs], total)
        return self.weight * total

    # The Watcher's side.

    def begin(self) -> None:
        """Record this pass if the model trains, and this is not a checkpointed part run again by backward."""
        self._recording = self._passes.begin(trains=self._root.training and torch.is_grad_enabled())
        self._slacks, self._parts = self._passes.run.slacks, self._passes.run.parts
        self._taps_of, self._later = ([], []), []
        together = self._across_ranks and world_size(self._group) > 1
        self._shared, self._local = parts.divided(self.rule) if together else (None, self.rule)
        if len(self._passes.kept) == UNREAD:
            self._warn("unread", f"{UNREAD} forward passes and no penalty(): each keeps its graph; read it or detach()")

    def watch(self, call: Call) -> Any:
        """Measure the slacks of one layer on its way through the activation."""
        if not self._recording:
            return call.activate()
        if not torch.is_grad_enabled():
            text = (
                f"{call.tap.name} ran under no_grad inside a training pass and is not penalised; "
                "with activation checkpointing use torch.utils.checkpoint(..., use_reentrant=False)"
            )
            self._later.append((call.tap.name, "no_grad", text))
            return call.activate()
        layout = call.tap.layout
        if layout.axes is not None and self._shared is None and _can_fuse(call):
            assert self._local is not None
            point_axis, unit_axis = layout.axes
            where = {"unit_axis": unit_axis, "point_axis": point_axis}
            y, slacks = fused.relu_slacks(call.z, self._local, inplace=call.inplace, **where)
            self._record(slacks, self._local, call.tap, call.z)
            return y
        # Plain operations keep what they measure, which an activation in place would change; a compiler sees to that.
        plain = not fused.applies(call.z) or isinstance(layout.place, Scattered)
        keeps = call.inplace and not torch.compiler.is_compiling() and plain
        layer = arranged(call.z.clone() if keeps else call.z, call.tap, call.points)
        for why in layout.why:
            text = f"{call.tap.name} is not penalised for its {why}"
            self._later.append((call.tap.name, text, text))
        if self._shared is not None:
            with _kept_by_us():
                self._share(layer)
        rule = layer.rule(self._local)
        with _kept_by_us():
            slacks = self._measure(layer, rule)  # before the activation, which may happen in place
        y = call.activate()
        self._record(slacks, rule, call.tap, call.z)
        return y

    def end(self, output: Any) -> None:
        """Measure the output too, if asked; forget a pass that failed."""
        if self._taps.failed:
            self._passes.forget()
        elif self._recording and self._include_output:
            if not isinstance(output, Tensor):
                self._passes.forget()
                raise AliveError(
                    f"include_output needs a model that returns one tensor, got {type(output).__name__}",
                    "Leave include_output=False, or wrap the model so that it returns its logits",
                )
            tap = Tap("output", Activation("output"), self._taps.layout_of_output(output))
            layer = arranged(output, tap, self._taps.points)
            if self._shared is not None:
                self._share(layer)
            rule = layer.rule(self._local)
            self._record(self._measure(layer, rule), rule, tap, output)
        if self._recording and not self._taps.failed:
            self._settle()
        self._passes.end(reducer.outputs(output) if self._searching is not None else ())
        self._slacks, self._parts, self._recording = [], [], False

    def _settle(self) -> None:
        """Leave out what turned out to be no layer, now that the pass is known; tell of what was not measured."""
        measures: tuple[list[Any], list[Any]] = (self._slacks, self._parts)
        for measured, names in zip(measures, self._taps_of, strict=True):
            if self._taps.aside and not self._taps.aside.isdisjoint(names):
                measured[:] = [m for m, name in zip(measured, names, strict=True) if name not in self._taps.aside]
        for name, kind, text in self._later:
            if name not in self._taps.aside:
                self._warn(kind, text)
        for unseen in self._taps.unseen.values():
            if not unseen.name.split("#")[0].endswith(
                "topk"
            ):  # of a choice, what is chosen is penalised where it is activated
                self._warn(unseen.name, f"{unseen.name} is not penalised: it {unseen.why}")

    def _share(self, layer: Layer) -> None:
        """Keep what penalty() will compare with the other ranks."""
        rule = layer.rule(self._shared)
        if rule is not None and layer.groups is not None:
            text = (
                f"{layer.name} is not penalised for its units: the data decide where they lie, which ranks cannot share"
            )
            self._later.append((layer.name, text, text))
        elif rule is not None:
            self._parts.append(parts.measure(layer.z, rule, cutoff=layer.cutoff, **layer.where))
            self._taps_of[1].append(layer.name)

    def _over_ranks(self, shared: list[Part], layers: list[Slacks]) -> Tensor:
        self._joint += 1
        if self._joint & (self._joint - 1) == 0:  # at first, and ever more rarely
            device = shared[0].ends.device if shared else next(iter(next(filter(None, layers)).values())).device
            collective.expect_same(shared, collective.fingerprint(self._weights(), device), self._group)
        return collective.aggregate(shared, layers, self.rule, how=self._aggregate, group=self._group)

    def _weights(self) -> list[nn.Parameter]:
        """The parameters that all ranks ought to share."""
        own = getattr(self._root, "_ddp_params_and_buffers_to_ignore", ())  # those each rank has of its own
        return [p for name, p in self._root.named_parameters() if p.requires_grad and name not in own]

    def _measure(self, layer: Layer, rule: Separation | None) -> Slacks:
        if rule is None:
            return {}
        if layer.groups is not None:
            return separation.grouped_slacks(layer.z, rule, layer.groups, layer.cutoff)
        # Inside torch.compile the plain version fuses by itself; elsewhere ours is the cheap one, where it applies.
        twin = fused if fused.applies(layer.z) else separation
        slacks: Slacks = twin.slacks(layer.z, rule, cutoff=layer.cutoff, **layer.where)
        return slacks

    def _record(self, slacks: Slacks, rule: Separation | None, tap: Tap, z: Tensor) -> None:
        self._slacks.append(slacks)
        self._taps_of[0].append(tap.name)
        self._passes.hear(z, slacks)
        for axis in rule.axes if rule is not None else ():
            if axis not in slacks and z.numel():  # nothing is missing where no point came, as to an idle expert
                what = {"U": "one sample", "P": "one unit", "L": "one value"}[axis]
                text = f"{tap.name} has {what}: axis {axis} cannot be satisfied there and is skipped"
                self._later.append((tap.name, axis, text))

    def _warn(self, kind: str, text: str) -> None:
        if kind not in self._warned:
            self._warned.add(kind)
            warnings.warn(text, stacklevel=3)


OPTIONS = [name for name in signature(Jumpstart).parameters if name not in ("model", "unknown")]


def _can_fuse(call: Call) -> bool:
    """Whether ReLU and slacks can be one op: plain eager tensors, and nothing in place on a view or a leaf."""
    if not fused.applies(call.z) or call.tap.activation != RELU or _checkpointed():
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
