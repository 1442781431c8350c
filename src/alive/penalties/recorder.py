"""What a Jumpstart measures: a watcher that keeps the slacks of every layer until the penalty is asked for."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Container, Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from typing import Any, TypeGuard

import torch
from torch import Tensor, nn
from torch.autograd.graph import saved_tensors_hooks

from ..errors import AliveError
from ..functional import Activation, Separation, Slacks, aggregate, ends, fused, parts, separation, together
from ..functional.ends import Ends
from ..functional.parts import Part
from ..functional.way import SMALL, way_of
from ..provenance import Layout, Scattered
from ..taps import Call, Selection, Tap, Taps, Watcher, bare
from ..taps.book import OTHERWISE
from ..taps.kinds import RELU
from ..torch_private import guard_hooks, has_saving_hooks, is_transformed, is_view
from ..world import Group, world_size
from . import collective, reducer
from .apart import Apart, joined
from .layer import Layer, arranged
from .passes import NOTHING, Measured, Pass, Passes
from .saturation import Saturation

WHOLE = ("sumsq", "sum", "norm", "mean", "balanced")  # aggregates that do not ask which slack is of which layer
Weigh = Callable[[tuple[tuple[str, str], ...], tuple[separation.Means, ...], bool], Tensor]
"""The axis and tap of every layer, their means by axis, and whether the pass is whole: inside a transform it is not,
and its numbers are worth nothing outside."""
UNREAD = 100  # forward passes whose penalty nobody asked for, before we say so


class Recorder(Watcher):
    """Measures the layers of a model while it trains, pass by pass: the watcher behind a Jumpstart.

    It is told what to ask of each layer (`rule`) and how to make one number of it all (`how`), and nothing of
    weights; `taps` are the options of `Taps`.
    """

    selects = True  # selections are seen, also where they are not penalised

    def __init__(
        self,
        model: nn.Module,
        rule: Separation,
        how: str,
        *,
        include_output: bool = False,
        across_ranks: bool = True,
        group: Group = None,
        selections: bool = True,
        **taps: Any,
    ) -> None:
        self.rule, self._selections = rule, selections
        self._model, self._root = model, bare(model)
        self._how, self._include_output = how, include_output
        self._across_ranks, self._group = across_ranks, group
        self._searching = reducer.searching(model)
        self._shared: Separation | None = None  # of the rule, what several ranks must agree on
        self._local: Separation | None = rule  # the rest
        self.passes = Passes()
        self._slacks: list[Measured] = []  # of the pass that runs, as are the parts
        self._parts: list[Part] = []
        self._taps_of: tuple[list[str], list[str]] = ([], [])  # the names of their taps
        self._later: list[tuple[str, str, str]] = []  # what to warn of at the end of the pass: tap, kind, text
        self._joint = 0  # penalties that were taken over all ranks
        self._apart = Apart()  # what layers get in several calls
        self._recording = False
        self._plain = False  # whether this pass began where small layers can be put off
        self._warned: set[str] = set()
        self._idle = ""  # why the last pass was no step of training
        self.only_looks = False  # whether all layers of the last pass were put off, so that no activation is ours to do
        self.beside: Saturation | None = None  # what else is asked of the layers
        guard_hooks()
        self._taps = Taps(model, self, **taps)

    def __getstate__(self) -> dict[str, Any]:  # deepcopy goes this way too
        """A copy is attached to nothing: it has no taps."""
        return vars(self) | {"_taps": None, "_slacks": [], "_parts": []}

    def detach(self) -> None:
        """Let go of the model, and of what was measured."""
        if self._taps is not None:
            self._taps.remove()
        self.passes, self._slacks, self._parts, self._recording = Passes(), [], [], False

    def rest(self, resting: bool) -> None:
        """Watch no pass until told to go on."""
        if self._taps is not None:
            self._taps.rest(resting)

    def nothing(self) -> Tensor:
        """A penalty of zero, where the model is."""
        return torch.zeros((), device=next(self._root.parameters(), torch.empty(0)).device)

    def total(self, weigh: Weigh | None = None) -> Tensor:
        """A over the passes since the last call; zero after passes in eval mode or under no_grad.

        With `weigh`, what it makes of the means of all layers.
        """
        runs, told = self.passes.read(self._root)
        if told:
            self._warn(told, told, stacklevel=4)
        elif self._idle and not runs and torch.is_grad_enabled():
            self._warn("idle", f"penalty() is 0: the last forward pass {self._idle}", stacklevel=4)
        found = [measured for run in runs for measured in run.slacks]
        if self._how == "meansq" and self._local is self.rule and _all_pending(found):
            total = self._of_rows(runs, together.in_rows(found), weigh)
            reducer.show(self._searching, [output for run in runs for output in run.outputs], total)
            return total
        layers = _measured(found, joined=self._how in WHOLE)
        shared = [part for run in runs for part in run.parts]
        if runs and not layers:
            raise self._taps.notes.without_activations()
        if not any(layers) and not shared:
            return self.nothing()
        alone = self._local is self.rule
        if not alone:
            self._expect_same(shared, layers)
        if weigh is None:
            total = aggregate(layers, self._how) if alone else self._over_ranks(shared, layers)
        else:
            total = self._weigh_all(runs, shared, layers, weigh)
        reducer.show(self._searching, [output for run in runs for output in run.outputs], total)
        return total

    def begin(self) -> None:
        """Record this pass if the model trains, and this is not a checkpointed part run again by backward."""
        self._idle = "" if self._root.training else "was in eval mode; call model.train() before it"
        self._idle = self._idle if torch.is_grad_enabled() else "ran under torch.no_grad()"
        self._recording = self.passes.begin(trains=not self._idle)
        self._slacks, self._parts = self.passes.run.slacks, self.passes.run.parts
        self._taps_of, self._later, self._apart = self.passes.run.taps, [], Apart()
        several = self._across_ranks and world_size(self._group) > 1
        self._shared, self._local = parts.divided(self.rule) if several else (None, self.rule)
        self._plain = (
            torch.is_grad_enabled()
            and self._shared is None
            and self.beside is None
            and fused.applies(NOTHING)
            and not has_saving_hooks()
        )
        if len(self.passes.kept) == UNREAD:
            self._warn("unread", f"{UNREAD} forward passes and no penalty(): each keeps its graph; read it or detach()")

    def watch(self, call: Call) -> Any:
        """Measure the slacks of one layer on its way through the activation."""
        if not self._recording:
            return call.activate()
        if call.is_shown and self._plain and self._put_off(call):
            return None
        if not torch.is_grad_enabled():
            text = (
                f"{call.tap.name} ran under no_grad inside a training pass and is not penalised; "
                "with activation checkpointing use torch.utils.checkpoint(..., use_reentrant=False)"
            )
            self._later.append((call.tap.name, "no_grad", text))
            return call.activate()
        if call.selection is not None:
            return self._choose(call, call.selection) if self._selections else call.activate()
        unsure = self._taps.book.pairing.open(call.tap.inputs)
        if call.tap.several or (self._taps.is_followed and (unsure or isinstance(call.tap.layout.place, Scattered))):
            self._apart.add(call)
            if call.tap.several or unsure:
                return call.activate()
        if unsure:
            call = call._replace(tap=self._without_points(call.tap))
        if self.beside is not None and self.beside.takes(call):
            return call.activate()
        layout = call.tap.layout
        if layout.axes is not None and self._shared is None and fused.applies(call.z) and not _saves_elsewhere():
            assert self._local is not None
            point_axis, unit_axis = layout.axes
            pending = together.later(call.z, self._local, unit_axis, point_axis, call.tap.activation.cutoff)
            if pending is not None:
                y = call.activate()
                self._record(pending, self._local, call.tap, call.z)
                return y
            if _can_fuse(call):
                where = {"unit_axis": unit_axis, "point_axis": point_axis}
                y, measured = fused.relu_measure(call.z, self._local, inplace=call.inplace, **where)
                self._record(measured, self._local, call.tap, call.z)
                return y
        # Plain operations keep what they measure, which an activation in place would change; a compiler sees to that.
        plain = not fused.applies(call.z) or isinstance(layout.place, Scattered) or self._shared is not None
        keeps = call.inplace and not torch.compiler.is_compiling() and plain
        layer = arranged(call.z.clone() if keeps else call.z, call.tap, call.points)
        for why in layout.why:
            text = f"{call.tap.name} is not penalised for its {why}"
            self._later.append((call.tap.name, text, text))
        if self._shared is not None:
            with _save_by_ourselves():
                self._share(layer)
        rule = layer.rule(self._local)
        with _save_by_ourselves():
            seen = self._measure(layer, rule)  # before the activation, which may happen in place
        y = call.activate()
        self._record(seen, rule, call.tap, call.z)
        return y

    def _choose(self, call: Call, selection: Selection) -> Any:
        """Measure a selection: by how much each candidate misses being chosen, at the point that comes nearest.

        Only death of units is asked about: points always choose, and being chosen always is no fault.
        """
        tap, name = call.tap, call.tap.name
        scored = selection.scored and call.z.requires_grad
        if not scored:
            cause = "its scores are detached, and pass no gradient on" if selection.scored else "it shows no scores"
            text = f"{name} is not penalised: {cause}"
            self._later.append((name, text, text))
        for why in tap.layout.why:
            text = f"{name} is not penalised for its {why}"
            self._later.append((name, text, text))
        rule: Separation | None = None
        slacks: Slacks = {}
        if scored and self.rule.shares[0] and "U" in self.rule.axes:
            layer = arranged(selection.margins(call.z), tap, call.points)
            rule = layer.rule(replace(self.rule, mode="U", against="death") if self._shared is None else None)
            with _save_by_ourselves():
                (found,) = _measured([self._measure(layer, rule)], joined=False)
                slacks = {axis: self.rule.shares[0] * s for axis, s in found.items()}
                if self._shared is not None:
                    self._share(layer, only_death=True)
        self._record(slacks, rule, tap, call.z)
        return call.activate()

    def _put_off(self, call: Call) -> bool:
        """Keep a small layer of a pass in which nothing can have changed since it began, if it can be kept."""
        axes, rule, z = call.tap.layout.axes, self._local, call.z
        if axes is None or rule is None or z.numel() > SMALL:
            return False
        way = way_of(z, rule, axes[1], axes[0], call.tap.activation.cutoff)
        if way.sweep is None or len(way.names) < len(rule.axes):
            return False
        self._slacks.append(together.Pending(z if call.is_unshared else z.clone(), way))
        self._taps_of[0].append(call.tap.name)
        self.passes.hear_of(z)
        return True

    def end(self, output: Any) -> None:
        """Measure the output too, if asked; forget a pass that failed."""
        if self._taps.failed:
            self.passes.forget()
        elif self._recording and self._include_output:
            if not isinstance(output, Tensor):
                self.passes.forget()
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
            for tap, calls in self._apart.layers():
                self._put_together(self._without_points(tap), calls)
            self._settle()
        if not torch.compiler.is_compiling():
            self.only_looks = _all_pending(self._slacks)
        if not torch.compiler.is_compiling():
            self.passes.follow([output] if isinstance(output, Tensor) else reducer.outputs(output))
        self.passes.end(reducer.outputs(output) if self._searching is not None else ())
        self._slacks, self._parts, self._recording = [], [], False

    def _without_points(self, tap: Tap) -> Tap:
        """The same without points, if nothing shows that its inputs are paired with the first."""
        unsure = self._taps.book.pairing.open(tap.inputs)
        if not unsure or not tap.layout.points:
            return tap
        return tap._replace(layout=tap.layout.without_points(self._taps.book.pairing.doubt(unsure)))

    def _put_together(self, tap: Tap, calls: list[Call]) -> None:
        """Measure a layer at the end of the pass, in place of what was measured of some of its calls."""
        if tap.several and self._taps.book.missed:  # a call that is not known may be one of them
            tap = tap._replace(layout=Layout.unknown(calls[0].z, OTHERWISE))
        layer = joined(tap, calls) if tap.several else arranged(calls[0].z, tap, calls[0].points)
        for why in tap.layout.why:
            text = f"{tap.name} is not penalised for its {why}"
            self._later.append((tap.name, text, text))
        measures: tuple[list[Any], list[Any]] = (self._slacks, self._parts)
        for measured, names in zip(measures, self._taps_of, strict=True):
            measured[:] = [m for m, name in zip(measured, names, strict=True) if name != tap.name]
            names[:] = [name for name in names if name != tap.name]
        if self._shared is not None:
            self._share(layer)
        rule = layer.rule(self._local)
        with _save_by_ourselves():
            seen = self._measure(layer, rule)
        self._record(seen, rule, tap, layer.z)

    def _settle(self) -> None:
        """Leave out what turned out to be no layer, now that the pass is known; tell of what was not measured."""
        measures: tuple[list[Any], list[Any]] = (self._slacks, self._parts)
        aside = self._taps.notes.aside
        for measured, names in zip(measures, self._taps_of, strict=True):
            if aside and not aside.isdisjoint(names):
                measured[:] = [m for m, name in zip(measured, names, strict=True) if name not in aside]
                names[:] = [name for name in names if name not in aside]
        for name, kind, text in self._later:
            if name not in aside:
                self._warn(kind, text)
        for unseen in self._taps.notes.unseen.values():
            self._warn(unseen.name, f"{unseen.name} is not penalised: it {unseen.why}")

    def _share(self, layer: Layer, *, only_death: bool = False) -> None:
        """Keep what penalty() will compare with the other ranks."""
        rule = layer.rule(self._shared)
        if rule is not None and layer.groups is not None:
            text = f"{layer.name} is not penalised for its units: they lie on no grid, which ranks cannot share"
            self._later.append((layer.name, text, text))
        elif rule is not None:
            part = parts.measure(layer.z, rule, cutoff=layer.cutoff, **layer.where)
            self._parts.append(parts.against_death(part, rule) if only_death else part)
            self._taps_of[1].append(layer.name)

    def _weigh_all(self, runs: list[Pass], shared: list[Part], layers: list[Slacks], weigh: Weigh) -> Tensor:
        alone = self._local is self.rule
        found = separation.means(layers) if alone else collective.means(shared, layers, self.rule, group=self._group)
        if not found:  # no layer has any slack
            return aggregate(layers)
        measured, parted = ([name for run in runs for name in run.taps[kind]] for kind in (0, 1))
        of = {axis: measured if alone or axis == "P" else parted for axis in found}
        return _weigh(runs, of, found, weigh)

    def _of_rows(self, runs: list[Pass], rows: separation.Rows, weigh: Weigh | None) -> Tensor:
        """The mean of squares of layers that were all put off; or what `weigh` makes of their means."""
        if weigh is None:
            return separation.mean_squares(rows)
        names = [name for run in runs for name in run.taps[0]]
        return _weigh(runs, dict.fromkeys(rows, names), separation.means_of(rows), weigh)

    def _over_ranks(self, shared: list[Part], layers: list[Slacks]) -> Tensor:
        return collective.aggregate(shared, layers, self.rule, how=self._how, group=self._group)

    def _expect_same(self, shared: list[Part], layers: list[Slacks]) -> None:
        self._joint += 1
        if self._joint & (self._joint - 1) == 0:  # at first, and ever more rarely
            device = shared[0].ends.device if shared else next(iter(next(filter(None, layers)).values())).device
            weights = collective.fingerprint(self._weights(), device)
            points = len(layers) if self._how == "meansq" and self._local is not None else 0
            collective.expect_same(shared, weights, self._group, points=points)

    def _weights(self) -> list[nn.Parameter]:
        """The parameters that all ranks ought to share."""
        own = getattr(self._root, "_ddp_params_and_buffers_to_ignore", ())  # those each rank has of its own
        return [p for name, p in self._root.named_parameters() if p.requires_grad and name not in own]

    def _measure(self, layer: Layer, rule: Separation | None) -> Measured:
        if rule is None:
            return {}
        if layer.groups is not None:
            return separation.grouped_slacks(layer.z, rule, layer.groups, layer.cutoff)
        # Inside torch.compile the plain version fuses by itself; elsewhere ours is the cheap one, where it applies.
        measure = fused.measure if fused.applies(layer.z) else separation.slacks
        return measure(layer.z, rule, cutoff=layer.cutoff, **layer.where)

    def _record(self, measured: Measured, rule: Separation | None, tap: Tap, z: Tensor) -> None:
        """Keep what was measured of a layer."""
        found: Container[str] = measured.way.names if isinstance(measured, Ends | together.Pending) else measured
        self._slacks.append(measured)
        self._taps_of[0].append(tap.name)
        self.passes.hear(z, measured)
        by_position = self._local is not None and self._local.conv == "position"
        if rule is None and by_position and isinstance(tap.layout.place, Scattered) and tap.layout.known:
            text = f"{tap.name} is not penalised: it lies on no grid, as conv='position' needs"
            self._later.append((tap.name, "position", text))
        for axis in rule.axes if rule is not None else ():
            if axis not in found and z.numel():  # nothing is missing where no point came, as to an idle expert
                what = {"U": "one sample", "P": "one unit", "L": "one value"}[axis]
                text = f"{tap.name} has {what}: axis {axis} cannot be satisfied there and is skipped"
                self._later.append((tap.name, axis, text))

    def _warn(self, kind: str, text: str, *, stacklevel: int = 3) -> None:
        if kind not in self._warned:
            self._warned.add(kind)
            warnings.warn(text, stacklevel=stacklevel)


def _weigh(runs: list[Pass], of: Mapping[str, list[str]], found: dict[str, separation.Means], weigh: Weigh) -> Tensor:
    """What `weigh` makes of means by axis, of layers with names by axis."""
    keys = tuple((axis, of[axis][number]) for axis, each in found.items() for number in each.layers)
    return weigh(keys, tuple(found.values()), not any(run.inside.depth for run in runs))


def _all_pending(layers: list[Measured]) -> TypeGuard[list[together.Pending]]:
    """Whether all layers were put off, in one dtype."""
    kinds = {layer.way.dtype if type(layer) is together.Pending else None for layer in layers}
    return len(kinds) == 1 and None not in kinds


def _measured(layers: list[Measured], *, joined: bool) -> list[Slacks]:
    """The slacks of all layers; those that were put off are made now, together, and may be given as one layer."""
    alike: dict[Any, list[Any]] = {}
    keys = [_kind(layer) for layer in layers]
    for layer, key in zip(layers, keys, strict=True):
        alike.setdefault(key, []).append(layer)
    done: list[Slacks] = alike.pop(None, [])
    if joined:
        return [*done, *(slacks for some in alike.values() for slacks in _together(some, joined=True))]
    found = {key: iter(_together(some, joined=False)) for key, some in alike.items()} | {None: iter(done)}
    return [next(found[key]) for key in keys]


def _kind(layer: Measured) -> Any:
    """What layers have in common whose slacks are made together; None for one that has its slacks."""
    if isinstance(layer, Ends):
        return layer.way.rule, layer.values.dtype, layer.values.device
    return layer.way.dtype if isinstance(layer, together.Pending) else None


def _together(layers: list[Any], *, joined: bool) -> list[Slacks]:
    if isinstance(layers[0], Ends):
        return ends.slacks(layers)
    return [together.joined(layers)] if joined else together.together(layers)


def _can_fuse(call: Call) -> bool:
    """Whether ReLU and slacks can be one op: nothing in place on a view or a leaf."""
    if call.tap.activation is not RELU or call.is_shown:  # one that is merely equal is spelled out in another way
        return False
    return not call.inplace or not (is_view(call.z) or call.z.is_leaf)


def _saves_elsewhere() -> bool:
    """Whether what is saved for backward may go elsewhere, as with checkpointing; a compiler sees to that itself."""
    return not torch.compiler.is_compiling() and has_saving_hooks()


def _save_by_ourselves() -> AbstractContextManager[Any]:
    """Save our few indices past activation checkpointing, so that what it runs again need not measure again."""
    if torch.compiler.is_compiling() or is_transformed() or not has_saving_hooks():  # torch.func takes no such hooks
        return nullcontext()
    return saved_tensors_hooks(lambda x: x, lambda x: x)
