"""A model and its data, from what was typed: found, made, loaded and sampled."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from time import monotonic
from typing import Any

import torch
from torch import nn

from ...data import Batches, Data, read
from ...data.calls import tensors
from ...data.files import Contents, is_known
from ...data.intake import Both, by_name
from ...data.memory import labelled, split_off_test
from ...errors import AliveError, expect_one_of
from ...load import BATCH_SIZE
from ...screen import bars
from .. import values
from ..own import Typed
from . import folders
from .imports import called, module
from .models import Maker, maker

SOON = 2.0  # seconds that need no bar


@dataclass(slots=True, eq=False)
class Opened:
    """What makes a model, and all of its data; `source` names the data, `notes` say what was decided up to now."""

    typed: Typed
    make: Maker
    data: Any
    source: str
    notes: tuple[str, ...]
    sample: str = ""  # which points were taken, if not all

    def model(self) -> nn.Module:
        """The model under the seed, with the weights that were asked for."""
        with torch.random.fork_rng(devices=[]):  # points are drawn alike for every model
            torch.manual_seed(self.typed.seed)
            network = self.make() if self.make.own else self.make(self.data)
        if self.typed.weights is not None:
            from ...train.checkpoint import load_weights

            told = load_weights(network, self.typed.weights)
            self.notes += (f"{self.typed.weights}: {told}",) if told else ()
        return network

    def part(self, split: str | None = None) -> Any:
        """The training or the test points, or both; as typed unless said otherwise."""
        return part(self.data, split or self.typed.split)

    def batches(self, network: nn.Module) -> Batches:
        """The points that were asked for, in batches that fit the model; a file that runs is tried on the first."""
        typed, found = self.typed, read(self.part(), network, self.typed.axis)
        meta = getattr(network, "meta", {})
        if size := typed.batch_size or max(meta.get(BATCH_SIZE) or 0, 0):  # many files take one point at a time
            found = found.resized(size)
        if typed.points is not None:
            found, self.sample = found.sample(typed.points, typed.seed, typed.axis)
        if BATCH_SIZE in meta:
            from ...load.first_batch import try_first

            self.notes += try_first(Path(typed.model), network, found)
        self.notes += (self.sample,) if self.sample else ()
        return found


def opened(typed: Typed, *, targets: bool = False, real: bool | None = None) -> Opened:
    """Find the model, then read all of its data; the model is not made yet.

    For a depth x width network the data are a record of floats; without `targets` they need none, and `real` is as in
    `alive.data.tensors`.
    """
    torch.manual_seed(typed.seed)  # for what is made on import
    make = maker(typed.model, typed.arg or (), init=typed.init, batch_norm=typed.batch_norm)
    source, notes = typed.data or "moons", tuple[str, ...]()
    if typed.data is None and make.own:
        place = "" if typed.model.startswith(folders.PREFIX) else typed.model.rpartition(":")[0]
        if not place or not callable(getattr(module(place), "make_data", None)):
            raise AliveError(
                f"{typed.model} needs data",
                "Add --data with a file, a name such as digits, or mine:make_data; or write make_data() beside the "
                "model",
            )
        source = f"{place}:make_data"
        notes = (f"data: {source}, which lies beside the model",)
    torch.manual_seed(typed.seed)  # for data that are drawn
    raw = data(source, target=typed.target)
    notes += raw.notes if isinstance(raw, Contents) else ()
    if typed.model.startswith(folders.PREFIX) and not make.fixed:
        notes += (f"{typed.model} holds a configuration alone: its weights are a fresh start",)
    if not make.own:
        raw = labelled(raw, real=real, name=source, targets=targets).as_floats()
    return Opened(typed, make, raw, source, notes)


def tracked(batches: Batches, typed: Typed) -> Iterator[Any]:
    """The same batches; where they take longer than some seconds, a bar shows how many points were seen."""
    total, axis = batches.length if batches.length is not None else typed.points, typed.axis or 0
    began, seen, bar = monotonic(), 0, bars()
    try:
        for batch in batches:
            yield batch
            first = next(tensors(batch), None)
            seen += first.shape[axis] if first is not None and first.ndim > axis else 1
            if monotonic() - began > SOON:
                if not bar.tasks:
                    bar.start()
                    bar.add_task("", total=total)
                bar.update(bar.tasks[0].id, completed=seen, description=f"{seen:,} points")
    finally:
        bar.stop()


def data(source: str, *, target: str | None = None) -> Any:
    """The data behind what was typed: a known set, the contents of a file, or what the user's own function gives."""
    known = is_known(source)  # a path may hold a colon
    if target is not None and not known:
        raise AliveError("--target names a column of a table", "Leave it out, or give a .csv or .parquet file")
    if known or ":" not in source:
        return by_name(source, target)
    made = split_off_test(source, called(source))
    if isinstance(made, Contents):
        return made
    known = isinstance(made, Data | Iterable) or hasattr(made, "__getitem__") or hasattr(made, "__array__")
    if not known or isinstance(made, type | nn.Module | str | int | float):
        raise AliveError(
            f"{source} gave a {type(made).__name__}, not data",
            "Let it return inputs x, (x, y), (x, y, test_x, test_y), a mapping, a data set, a DataLoader or batches",
        )
    return made


def part(found: Any, split: str = "train") -> Any:
    """The training or the test points, or both."""
    expect_one_of("split", split, values.SPLITS)
    if split == "train":
        return replace(found, test=None) if isinstance(found, Contents) else found
    if not isinstance(found, Contents | Data) or found.test is None:
        name = found.name if isinstance(found, Contents | Data) else "the data"
        raise AliveError(f"{name} has no test points", "Use --split train")
    if isinstance(found, Data):
        (given, y), (more, z) = found.parts
        if split == "all":
            more, z = tuple(map(torch.cat, zip(given, more, strict=True))), torch.cat([y, z])
        return found.with_parts((more, z))
    if split == "test":
        return replace(found, train=found.test, test=None)
    return Both((replace(found, test=None), replace(found, train=found.test, test=None)))
