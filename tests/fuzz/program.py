"""Random programs: modules whose forward is a list of steps, with the owner of every entry tracked by hand."""

from __future__ import annotations

import contextlib
import copy
from collections.abc import Sequence
from dataclasses import replace
from functools import partial

import numpy as np
import torch
from case import Case, Layer
from flows import FLOWS
from mixings import MIXINGS, SKIPS
from moves import MOVES
from owners import PLAIN, RAW, Reading, all_readings, families, reading
from relus import RELUS, activation
from steps import LARGEST, Draw, Known, Maker, said
from torch import Tensor, nn
from weighted import WEIGHTED, tokens

FAMILIES: dict[str, tuple[dict[str, tuple[Maker, int]], float]] = {
    "weighted": (WEIGHTED, 0.27),
    "relu": (RELUS, 0.21),
    "move": (MOVES, 0.35),
    "mixing": (MIXINGS, 0.04),
    "skip": (SKIPS, 0.10),
    "flow": (FLOWS, 0.03),
}
MAKERS: dict[str, Maker] = {name: maker for table, _ in FAMILIES.values() for name, (maker, _) in table.items()}
MAKERS |= {"tokens": tokens, "first relu": activation}
INPUTS = ("points", "points", "sequence", "sequence", "time first", "images", "images", "signals", "tokens")
MOST_LAYERS = 6  # over all batches: of more, the judge does not try which the penalty left out
Choice = tuple[str, int]  # which step, and the seed of its details


class Program(nn.Module):
    """A module whose forward is a list of steps; it comes with its data, one batch or two."""

    def __init__(self, seed: int, layout: str, batches: list[Tensor], point_axis: int, inline: bool) -> None:
        super().__init__()
        self.seed, self.layout, self.batches, self.point_axis, self.inline = seed, layout, batches, point_axis, inline
        self.steps = nn.ModuleList()
        self.choices: list[Choice] = []

    def forward(self, x: Tensor) -> Tensor:
        tensors = [x]
        for step in self.steps:
            run = step.forward if self.inline else step
            tensors.append(run(tensors[-1], tensors[:-1]))
        return 0.01 * tensors[-1]  # small beside the penalty, so that its gradient shows

    def track(self, x: Tensor, how: Reading = PLAIN) -> tuple[list[Known], list[Layer]]:
        """All tensors on the way with their owners, and what the activations saw."""
        shape = [1] * x.ndim
        shape[self.point_axis] = x.shape[self.point_axis]
        point = np.broadcast_to(np.arange(x.shape[self.point_axis]).reshape(shape), tuple(x.shape))
        known, seen = [Known(x, point, np.full(tuple(x.shape), RAW))], []
        with reading(how):
            for step in self.steps:
                known.append(step.track(known[-1], known[:-1], seen))
        if how.by_weights:
            seen = [replace(one, name=f"{one.name} {sorted(families(one.unit.numpy()))}") for one in seen]
        return known, [said(layer, x.shape[self.point_axis]) for layer in seen]

    def __str__(self) -> str:
        known, _ = self.track(self.batches[0])
        first = f"h0: {self.layout} {list(self.batches[0].shape)}, points along {self.point_axis}"
        lines = [first + ", two batches" * (len(self.batches) - 1)]
        for number, step in enumerate(self.steps, 1):
            lines.append(f"h{number} = {step.text}  -> {list(known[number].shape)}")
        return "\n".join(lines)


def random_program(seed: int) -> Program:
    """The program of a seed: a weighted step, some steps of all kinds, and an activation at the end."""
    draw = Draw(seed)
    program = _begin(seed)
    length = draw.chance.randint(3, 9)
    first = {"tokens": "tokens", "images": "conv", "signals": "conv"}.get(program.layout, "linear")
    while not program.steps:
        add(program, (first, _seed(draw)))
    for _ in range(4 * length):
        if len(program.steps) < length:
            add(program, _choose(draw, program))
    if program.choices[-1][0] != "relu":
        add(program, ("relu", _seed(draw)))
    if shows_all_points(program):
        return program
    early = ("first relu", _seed(draw))
    return program_of(seed, [program.choices[0], early, *program.choices[1:]])


def shows_all_points(program: Program) -> bool:
    """Whether every point is seen by some activation, by more than its padding: of others there is nothing to say."""
    passes = [program.train(mode).track(x, Reading(padding=True))[1] for x in program.batches for mode in (False, True)]
    points = set(range(program.batches[0].shape[program.point_axis]))
    return all(points <= {p for layer in seen for p in layer.point.flatten().tolist()} for seen in passes)


def program_of(seed: int, choices: Sequence[Choice]) -> Program:
    """The program of these choices; those that cannot be made where they come are left out."""
    program = _begin(seed)
    for choice in choices:
        add(program, choice)
    return program


def _seed(draw: Draw) -> int:
    return draw.chance.randrange(10**9)


def _choose(draw: Draw, program: Program) -> Choice:
    shares = [share for _, share in FAMILIES.values()]
    table, _ = draw.chance.choices(list(FAMILIES.values()), shares)[0]
    name = draw.chance.choices(list(table), [weight for _, weight in table.values()])[0]
    if name == program.choices[-1][0] == "relu" and draw.maybe(0.8):
        return _choose(draw, program)
    return name, _seed(draw)


def _begin(seed: int) -> Program:
    draw = Draw(seed)
    layout = draw.one_of(INPUTS)
    count = 1 + draw.maybe(0.2)
    shape, axis = _shape(draw, layout)
    batches = [
        torch.randint(8, shape, generator=draw.torch)
        if layout == "tokens"
        else 1.5 * torch.randn(shape, generator=draw.torch)
        for _ in range(count)
    ]
    return Program(seed, layout, batches, axis, inline=draw.maybe())


def _shape(draw: Draw, layout: str) -> tuple[tuple[int, ...], int]:
    """The shape of a batch, and the axis of its points."""
    points = draw.one_of([1, 2, 2, 3, 3, 4, 4, 6])
    if layout == "time first":
        return (draw.size(), points, draw.size()), 1
    if layout == "images":
        return (points, draw.one_of([1, 2, 3, 4]), draw.one_of([2, 3, 4]), draw.one_of([2, 3, 4])), 0
    return (points, *(draw.size() for _ in range(1 if layout in ("points", "tokens") else 2))), 0


def add(program: Program, choice: Choice) -> None:
    """The step that was chosen, if it can be made here and the program still runs, in both modes, with gradients."""
    name, seed = choice
    known, _ = program.train().track(program.batches[0])
    draw = Draw.after(program.steps, seed)
    step = MAKERS[name](draw, known[-1], known[:-1])
    if step is None:
        return
    step.number = len(program.steps)
    program.steps.append(step)
    if _runs(program):
        program.choices.append(choice)
    else:
        del program.steps[-1]


def _runs(program: Program) -> bool:
    """Some steps fail where the data of the other mode, or batch, send another shape to them, or overwrite too much."""
    with contextlib.suppress(RuntimeError, ValueError, IndexError):
        if sum(len(program.track(x)[1]) for x in program.batches) > MOST_LAYERS:
            return False
        outputs = [_output(program, x, mode) for x in program.batches for mode in (False, True)]
        return all(_is_fine(output) for output in outputs) and len({output.shape for output in outputs}) == 1
    return False


def _output(program: Program, x: Tensor, training: bool) -> Tensor:
    output = copy.deepcopy(program).train(training)(x.clone())
    if output.requires_grad:
        output.sum().backward()
    return output


def _is_fine(output: Tensor) -> bool:
    """Neither empty nor large: large numbers are not exact enough to be judged."""
    return 0 < output.ndim <= 4 and 0 < output.numel() <= LARGEST and bool((output.abs() < 0.12).all())


def case_of(program: Program) -> Case:
    """The program as the judge takes it."""

    def make() -> tuple[nn.Module, list[Tensor]]:
        return copy.deepcopy(program).train(), [x.clone() for x in program.batches]

    first, *others = [partial(_layers, how=how) for how in readings_of(program)]
    options = {"point_axis": program.point_axis} if program.point_axis else {}
    return Case(f"program {program.seed}", "fuzz", make, first, others=tuple(others), options=options)


def _layers(program: Program, x: Tensor, how: Reading) -> list[Layer]:
    return program.track(x, how)[1]


def readings_of(program: Program) -> list[Reading]:
    """The ways to read its units that differ, in either mode."""
    found: dict[tuple[object, ...], Reading] = {}
    for how in all_readings(set(dict(program.choices))):
        read = (_read(program.train(mode), how) for mode in (False, True))
        found.setdefault(tuple(read), how)
    return list(found.values())


def _read(program: Program, how: Reading) -> tuple[tuple[int, ...], ...]:
    """Names, units and points of all layers, numbered as they come."""
    layers = [layer for x in program.batches for layer in program.track(x, how)[1]]
    names = list(dict.fromkeys(layer.name for layer in layers))
    return tuple((names.index(layer.name), *_numbered(layer.unit), *_numbered(layer.point)) for layer in layers)


def _numbered(labels: Tensor) -> list[int]:
    """Owners numbered as they come."""
    first: dict[int, int] = {}
    return [label if label < 0 else first.setdefault(label, len(first)) for label in labels.flatten().tolist()]
