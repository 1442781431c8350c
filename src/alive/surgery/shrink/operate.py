"""Shrink a finished network: the same function with fewer units."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from itertools import chain
from time import monotonic
from typing import Any

import torch
from torch import Tensor, nn

from ...errors import AliveError, expect, reason
from ...nn.farkas import materialised
from ...taps import bare, watchers
from ...torch_private import BatchNorm
from ..fold import merge_batch_norm_
from ..graph.calls import Call, Calls
from ..graph.channels import Layer, Reading, Space, name_of
from ..models import LAYERS, apart, copied, evaluating, reals, size
from ..weights import Before
from .boxes import box_of
from .certified import certify_units
from .merge import fuse_linear, merge_linear
from .nearly import straighten
from .observed import Ends, margins, merged, observe, provoke, quiet
from .record import Difference, Gone, LayerChange, Report, Shrunk, Stirred
from .remove import remove_multiples, remove_quiet
from .saving import fit_config

AT_ONCE = 256  # points the graph is run on at once
TRIED = 1024  # points of the box on which the two networks are compared
TOLERANCE = {torch.float64: 1e-12, torch.float32: 1e-5}  # of the largest output; half precisions 1e-2
TENTH, SAMPLED = 10, 1000  # of the points one in so many, about so many of all, tells whether quiet units stay so
BY_WEIGHTS = ("unread", "multiple")  # reasons that no data are asked for
ROUNDS = 4  # of removal: what goes in one layer may free another


def shrink(
    model: nn.Module,
    data: Any = None,
    *,
    box: tuple[float | Tensor, float | Tensor] | str | None = None,
    held_out: Any = None,
    example: Any = None,
    nearly: float = 0.0,
    time_limit: float = 60.0,
    seed: int = 0,
) -> Shrunk:
    """Copy a network without the units it does not need: dead, constant, multiple, linear; its outputs stay the same.

    data        whatever `alive.census` takes. Without a box, units are judged by it: what goes is *observed* to be
                dead or linear on these points, and the outputs on them stay the same; other inputs may differ
    box         (lo, hi), numbers or tensors of the shape of a point, or "data" for the range of the data. What goes is
                then *certified*: proved dead or linear for every input of the box. What is not decided stays
    held_out    data on which the difference is measured as well
    example     a batch that tells the shape of the inputs, if there is a box and no data
    nearly      units that are on, or off, for less than this share of their values go too: then outputs change, and the
                report says by how much on the data, and on those held out
    time_limit  seconds for the proofs

    The model must be in eval mode if it has batch norms, which are written into the layers before them. It is not
    changed. Of a model of transformers the configuration gets the new widths where it can tell them.
    What cannot be followed is left as it is, and `report.notes` says what and why.

    >>> net = nn.Sequential(nn.Linear(2, 3), nn.ReLU(), nn.Linear(3, 1))
    >>> with torch.no_grad():
    ...     _ = net[0].weight.copy_(torch.tensor([[1.0, 0.0], [2.0, 0.0], [1.0, 1.0]]))
    ...     _ = net[0].bias.copy_(torch.tensor([0.0, 0.0, -9.0]))
    >>> small = shrink(net, box=(-torch.ones(2), torch.ones(2)))
    >>> small.model[0], small.report.reasons
    (Linear(in_features=2, out_features=1, bias=True), {'dead': 1, 'multiple': 1})
    """
    began = monotonic()
    root = bare(model)
    _expect_fit(root, data, box, nearly, time_limit)
    small = materialised(copied(root)).eval()
    calls = Calls(data if data is not None else _example(example, box, root), root)
    region = None if box is None else box_of(box, calls, seed)
    judged = calls if region is None else region.points(TRIED)
    first = next(iter(judged))
    at_once = min(first.points, AT_ONCE)
    with evaluating(root, small):
        for call in (first, *([] if held_out is None else [Calls(held_out, root).first()])):
            _expect_runs(root, call)
        trial = first.rows(torch.arange(at_once))
        if any(isinstance(module, BatchNorm) for module in small.modules()):
            merge_batch_norm_(small, trial.keywords if trial.keywords and not trial.args else trial.args)
        reading = Reading(small, trial)
        before = {layer.path: _sizes(layer) for layer in reading.layers}
        straightened = straighten(reading, judged, at_once, nearly) if nearly else None
        proofs, stirred, free = None, None, dict[tuple[str, int], float]()
        if region is None:
            ends, stirred = _see(reading, judged, None if held_out is None else Calls(held_out, root), at_once)
            free = margins(reading, ends)
        else:
            ends = provoke(reading, region, chain(judged, calls), at_once)
            ends, proofs = certify_units(reading, region, ends, time_limit)
        operation = Operation(small if nearly else root, reading, ends, trial)
        gone = operation.run()
        on_data = difference(root, small, judged)
        others = None if held_out is None else difference(root, small, Calls(held_out, root))
    kind = next((p.dtype for p in small.parameters() if p.is_floating_point()), torch.float32)
    if not nearly and not on_data.relative <= 10 * TOLERANCE.get(kind, 1e-2):
        raise AliveError(
            f"the small network differs from the model by {on_data.largest:.3g} on the points it was judged on",
            "Nothing is given back; its forward does something on other batches that it does not do on the first",
        )
    gone = [g if g.why in BY_WEIGHTS else replace(g, margin=free.get((g.layer, g.unit))) for g in gone]
    notes = [*operation.left.values(), *_unread(small, before)]
    if why := fit_config(small):
        notes.append(f"from_pretrained cannot build it, load_shrunk can: {why}")
    report = Report(
        "observed" if region is None else "certified",
        sum(call.points for call in judged),
        tuple(_change(layer, before, gone, operation.why_kept(layer)) for layer in reading.layers),
        size(root),
        size(small),
        on_data,
        others,
        proofs,
        tuple(notes),
        monotonic() - began,
        stirred,
        straightened,
    )
    return Shrunk(small, report)


def _see(
    reading: Reading, judged: Iterable[Call], others: Iterable[Call] | None, size: int
) -> tuple[Ends, Stirred | None]:
    """Extremes over all points; and of the units that are quiet on these, or on nine tenths, how many others wake."""
    first, rest, points = Ends(), Ends(), 0
    for call in judged:
        held = torch.arange(call.points) % TENTH == TENTH - 1
        part = held & (others is None and points < SAMPLED)
        points += int(part.sum())
        observe(reading, [call.rows((~part).nonzero()[:, 0])], size, first)
        if part.any():
            observe(reading, [call.rows(part.nonzero()[:, 0])], size, rest)
    for call in others or ():
        points += call.points
        observe(reading, [call], size, rest)
    asleep = quiet(reading, first)
    still = quiet(reading, merged(first, rest)) if rest else asleep
    count = sum(int(own.sum()) for own in asleep.values())
    woken = count - sum(int((own & still[node]).sum()) for node, own in asleep.items())
    stirred = Stirred(count, woken, points, others is not None) if rest else None
    return first if others is not None else merged(first, rest), stirred


def _unread(model: nn.Module, read: Iterable[str]) -> Iterator[str]:
    """What of the layers the graph did not show, and why."""
    for path, module in model.named_modules():
        weight = dict(module.named_parameters(recurse=False)).get("weight")
        if type(module) in LAYERS and path not in read:
            yield f"{path}: the graph shows no plain call of it, or it is shared"
        elif (
            not isinstance(module, (nn.Embedding, nn.LayerNorm))
            and type(module) not in LAYERS
            and weight is not None
            and weight.dim() > 1
        ):
            yield f"{path}: {type(module).__name__} is no plain dense or convolutional layer of torch"


class Operation:
    """One removal after the other, each tried on an example and taken back if the outputs change."""

    def __init__(self, model: nn.Module, reading: Reading, ends: Ends, trial: Call) -> None:
        self.reading, self.ends, self.trial = reading, ends, trial
        self.before = reals(trial(model))
        self.gone: list[Gone] = []
        self.left: dict[Space, str] = {}  # why spaces were left as they were, where that was decided here

    def run(self) -> list[Gone]:
        """Remove what can go until nothing more can, then fuse whole linear layers."""
        reading, ends, spaces = self.reading, self.ends, self.reading.all_spaces()
        for _ in range(ROUNDS):
            before = len(self.gone)
            for space in reversed(spaces):
                self._try(space, lambda s: remove_quiet(reading, s, ends))
            for space in spaces:
                self._try(space, lambda s: remove_multiples(reading, s))
                self._try(space, lambda s: merge_linear(reading, s, ends))
            if len(self.gone) == before:
                break
        for space in spaces:
            self._try(space, lambda s: fuse_linear(reading, s, ends))
        return self.gone

    def why_kept(self, layer: Layer) -> str:
        """Why no unit of a layer was looked at, or not for all that could be; empty if they were."""
        space = self.reading.made_by(layer)
        if space.is_joined and not space.fixed:
            return "linear units and multiples are not merged through a concatenation"
        if space.fixed or any(gone.layer == layer.path for gone in self.gone):
            return "" if "is part of" in space.fixed else space.fixed
        if "bent" in space.steps.values():
            return "each of its units bends, and none is a multiple of another"
        curved = sorted({name_of(node) for node, kind in space.steps.items() if kind == "other"})
        return (
            f"no unit is constant, and {', '.join(curved)} has no straight piece" if curved else "no unit is constant"
        )

    def _try(self, space: Space, change: Callable[[Space], list[Gone] | str]) -> None:
        if space.fixed:
            return
        before, ends = Before(self.reading), dict(self.ends)
        found = change(space)
        if isinstance(found, str):
            self.left[space] = found
        elif found and (why := self._fault()):
            before.restore()
            self.ends.update(ends)
            self.left[space] = f"{', '.join(layer.path for layer in space.producers)}: {why}"
            space.fix(why)
        else:
            self.gone += found

    def _fault(self) -> str:
        """What is wrong with the network as it is now; empty if nothing."""
        try:
            after = reals(self.trial(self.reading.model))
        except Exception as error:
            said = reason(error)
            return f"cut smaller, the network cannot run, so that its size must be written in the forward ({said})"
        for one, other in zip(self.before, after, strict=True):
            moved, scale = apart([one], [other])
            if not moved <= TOLERANCE.get(one.dtype, 1e-2) * max(scale, 1e-30):
                return f"without these units the outputs differ by {moved:.3g}, more than rounding explains"
        return ""


def difference(one: nn.Module, other: nn.Module, calls: Iterable[Call]) -> Difference:
    """How far two networks are apart on all points."""
    points, largest, scale, agree, scored = 0, 0.0, 0.0, 0, True
    for call in calls:
        ours, theirs = reals(call(one)), reals(call(other))
        moved, most = apart(ours, theirs)
        largest, scale = max(largest, moved), max(scale, most)
        scored &= ours[0].ndim == 2 and len(ours[0]) == call.points and ours[0].shape[1] > 1
        agree += int((ours[0].argmax(1) == theirs[0].argmax(1)).sum()) if scored else 0
        points += call.points
    return Difference(points, largest, largest / scale if scale else largest, agree / points if scored else None)


def _expect_fit(model: nn.Module, data: Any, box: Any, nearly: float, time_limit: float) -> None:
    live = [path for path, module in model.named_modules() if isinstance(module, BatchNorm) and module.training]
    if live:
        raise AliveError(
            f"{live[0] or 'the model'} is a batch norm in training mode, whose outputs change from batch to batch",
            "Call model.eval() first: only then is it one function that can be kept",
        )
    expect(
        [
            (next(watchers(model), None) is None, "something is attached to the model; call its detach() first"),
            (data is not None or box is not None, "units are judged by data, or over a box: give one of them"),
            (data is not None or box != "data", 'box="data" is the range of the data, and there are none'),
            (0 <= nearly < 0.5, f"nearly is a share of the values, from 0 to 0.5, got {nearly}"),
            (not nearly or box is None, "what is nearly dead or linear is judged by data, and nothing is proved of it"),
            (time_limit >= 0, f"time_limit must be at least 0 seconds, got {time_limit}"),
        ]
    )


def _expect_runs(model: nn.Module, call: Call) -> None:
    try:
        call(model)
    except Exception as error:
        shapes = ", ".join(str(list(x.shape)) for x in call.leaves())
        raise AliveError(
            f"the model could not run on inputs {shapes}: {reason(error)}",
            "Check the shapes that forward() expects",
        ) from error


def _example(example: Any, box: Any, model: nn.Module) -> Any:
    """A batch that tells the shape of a point: the example, or one in the corner of the box."""
    if example is not None:
        return example
    sides = [side for side in box if isinstance(side, Tensor) and side.ndim]
    if not sides:
        raise AliveError(
            "two numbers make a box of no known shape",
            "Give data or an example beside them, or two tensors of the shape of a point",
        )
    kind = next((p.dtype for p in model.parameters()), torch.float32)
    return sides[0].detach().to(kind)[None]


def _sizes(layer: Layer) -> tuple[int, int]:
    return len(layer.module.weight), layer.module.weight.numel()


def _change(layer: Layer, before: dict[str, tuple[int, int]], gone: list[Gone], kept: str) -> LayerChange:
    units, connections = before[layer.path]
    own = tuple(sorted((g for g in gone if g.layer == layer.path), key=lambda g: g.unit))
    left = (0, 0) if any(g.why == "fused" for g in own) else _sizes(layer)
    return LayerChange(layer.path, units, left[0], connections, left[1], own, kept)
