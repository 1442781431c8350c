"""A model and its data, from what was typed: found, made, loaded and sampled."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from time import monotonic
from typing import Any

import torch
from torch import fx, nn

from ...data.files import Contents
from ...errors import AliveError, expect
from ...feed import batches
from ...feed.calls import taken
from ...feed.forms import Form, Stream, resized
from ...feed.raw import read
from ...screen import bars
from ...surgery.load.bounded import Bounded
from ...surgery.load.exported import BATCH_SIZE
from ...surgery.load.onnx import OnnxNetwork
from ...train.checkpoint import load_weights
from . import folders
from .models import expect_plain, expect_size, is_own, maker, model
from .points import beside, data, part, record

SOON = 2.0  # seconds that need no bar


@dataclass(frozen=True, slots=True)
class Typed:
    """The options about a model and its data, as they were typed."""

    model: str
    data: str | None = None
    args: tuple[str, ...] = ()
    weights: Path | None = None
    target: str | None = None
    split: str = "train"
    points: int | None = None
    batch_size: int | None = None
    point_axis: int | None = 0
    init: str = "glorot"
    batch_norm: bool = False
    seed: int = 10

    def __post_init__(self) -> None:
        expect(
            [
                (self.points is None or self.points >= 1, f"--points must be at least 1, got {self.points}"),
                (
                    self.batch_size is None or self.batch_size >= 1,
                    f"--batch-size must be at least 1, got {self.batch_size}",
                ),
            ]
        )


@dataclass(frozen=True, slots=True, eq=False)
class Opened:
    """A model and its data; `source` names the data, `notes` say what was decided, `sample` which points were taken."""

    model: nn.Module
    data: Form
    source: str
    notes: tuple[str, ...]
    sample: str


def opened(typed: Typed) -> Opened:
    """Find the model, then its data, then make and load the model, then take the points asked for."""
    raw, source, notes = _read(typed)
    built: dict[str, Any] = {"init": typed.init, "batch_norm": typed.batch_norm, "seed": typed.seed, "args": typed.args}
    network = model(typed.model, raw, **built)
    if typed.weights is not None and (said := load_weights(network, typed.weights)):
        notes += (f"{typed.weights}: {said}",)
    form, sample = _chosen(typed, part(raw, typed.split), network)
    if isinstance(network, OnnxNetwork):
        notes += (_checked(network, form),)
    elif isinstance(network, fx.GraphModule) and BATCH_SIZE in network.meta and form.length is not None:
        _rehearsed(Path(typed.model), network, form)
    return Opened(network, form, source, (*notes, sample) if sample else notes, sample)


def _batch_size(network: nn.Module) -> int | None:
    """How many points a file takes at once, where it was written for so many alone."""
    size: int | None = None
    if isinstance(network, OnnxNetwork):
        size = network.batch_size
    elif isinstance(network, fx.GraphModule):
        size = network.meta.get(BATCH_SIZE)
    return size if size is not None and size > 0 else None


def _checked(network: OnnxNetwork, form: Form) -> str:
    """Compare the first batch with onnxruntime, and say so."""
    given = taken(network, next(iter(form)))
    worst = network.check(given.args, given.keywords)
    return f"run in torch, operation by operation; outputs differ from onnxruntime's by at most {worst:.1g}"


def _rehearsed(path: Path, network: nn.Module, form: Form) -> None:
    """Run the first batch through a program while what it makes is counted: a line of it may ask for 10^9 numbers.

    It leaves no trace: buffers and chance are as before.
    """
    before = {name: buffer.clone() for name, buffer in network.named_buffers()}
    try:
        with torch.no_grad(), torch.random.fork_rng():
            given = taken(network, next(iter(form)))
            with Bounded(path, [given.args, given.keywords]):
                network(*given.args, **given.keywords)
    except AliveError:
        raise
    except NotImplementedError:  # an older torch has no rehearsal of torch.cond
        pass
    except Exception as error:
        said = " ".join(str(error).split())[:200] or type(error).__name__
        raise AliveError(f"{path} cannot be run on these data: {said}", "Give data that fit it") from None
    for name, buffer in network.named_buffers():
        buffer.data.copy_(before[name])


def found(typed: Typed) -> tuple[Any, str, tuple[str, ...]]:
    """The data alone, what they are called, and what was decided; the model is found, and not made."""
    raw, source, notes = _read(typed)
    return part(raw, typed.split), source, notes


def _read(typed: Typed) -> tuple[Any, str, tuple[str, ...]]:
    """All of the data, once the model is known to exist."""
    own = is_own(typed.model)
    if own:
        made = maker(typed.model, typed.args)
        expect_plain(init=typed.init, batch_norm=typed.batch_norm)
    elif typed.args:
        raise AliveError("--arg is for models of your own", "Use --init and --batch-norm for a depth x width network")
    else:
        expect_size(typed.model)
    source, notes = source_of(typed.model, typed.data)
    torch.manual_seed(typed.seed)  # for data that are drawn; models are seeded anew
    raw = data(source, target=typed.target)
    notes += raw.notes if isinstance(raw, Contents) else ()
    if own and typed.model.startswith(folders.PREFIX) and not made.fixed:
        notes += (f"{typed.model} holds a configuration alone: its weights are a fresh start",)
    return raw if own else record(source, raw), source, notes


def source_of(model: str, data: str | None) -> tuple[str, tuple[str, ...]]:
    """Which data: those that were named, make_data beside a model of the user's own, MOONS for depth x width."""
    if data is not None or not is_own(model):
        return data or "moons", ()
    found = beside(model)
    if found is None:
        raise AliveError(
            f"{model} needs data",
            "Add --data with a file, a name such as digits, or mine:make_data; or write make_data() beside the model",
        )
    return found, (f"data: {found}, which lies beside the model",)


def _chosen(typed: Typed, found: Any, network: nn.Module) -> tuple[Form, str]:
    """The points asked for, in batches as asked for, and in words which they are if not all."""
    form, sample = read(found, network, typed.point_axis), ""
    size = typed.batch_size or _batch_size(network)  # many files take one point at a time
    if size is not None:
        form = resized(form, size)
    if typed.points is not None:
        form, sample = batches.sample(form, network, typed.points, typed.seed, typed.point_axis)
    return form, sample


def tracked(form: Form, points: int | None, point_axis: int | None) -> Stream:
    """The same batches; where they take longer than some seconds, a bar shows how many points were seen."""
    return Stream(_with_bar(form, form.length if form.length is not None else points, point_axis or 0), point_axis)


def _with_bar(form: Form, total: int | None, axis: int) -> Iterator[Any]:
    began, seen, bar = monotonic(), 0, bars()
    try:
        for batch in form:
            yield batch
            first = next(batches.tensors(batch), None)
            seen += first.shape[axis] if first is not None and first.ndim > axis else 1
            if monotonic() - began > SOON:
                if not bar.tasks:
                    bar.start()
                    bar.add_task("", total=total)
                bar.update(bar.tasks[0].id, completed=seen, description=f"{seen:,} points")
    finally:
        bar.stop()
