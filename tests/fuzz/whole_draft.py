"""Whole programs as source: a class that is written line by line, and the truth of it between the lines.

A line of truth stands beside the others and is left out of the model that alive is given, so that what it computes
leaves no trace there. In it, `p` is the point of every row of `h`, −1 for nobody's.
"""

from __future__ import annotations

import itertools
import random
import textwrap
import warnings
from collections.abc import Callable, Collection, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from types import SimpleNamespace
from typing import Any

import torch
import torch.nn.functional as F
import whole_words
from case import Case, Layer
from notebook import page
from torch import nn
from torch.utils.checkpoint import checkpoint

WIDTHS = (1, 2, 3, 4, 4, 5, 6)
TRUTH = "~"
NAMES = {"torch": torch, "nn": nn, "F": F, "checkpoint": checkpoint, "ThreadPoolExecutor": ThreadPoolExecutor} | {
    k: v for k, v in vars(whole_words).items() if not k.startswith("_")
}


class Draft:
    """A program that is being written: h [rows, features] goes from idea to idea."""

    def __init__(self, seed: int, without: Collection[str] = ()) -> None:
        self.chance = random.Random(seed)
        self.lines: list[str] = []
        self.parts: dict[str, str] = {}
        self.inputs: dict[str, str] = {}
        self.readings: dict[str, tuple[Any, ...]] = {}
        self.x = ""
        self.point_axis = 0
        self.f = 0
        self.moved = False  # whether the rows of h are no more those of the batch
        self.depth = 0
        self.style = self.one_of(("mixed", "mixed", "module", "functional"))
        self.written: list[str] = []
        self.without = frozenset(without)
        self._count = 0

    def write(self, entry: Entry) -> None:
        """The lines of an idea."""
        self.written.append(entry.name)
        entry.write(self)

    def one_of(self, options: Sequence[Any]) -> Any:
        """One of these."""
        return self.chance.choice(options)

    def maybe(self, share: float = 0.5) -> bool:
        """True in so many cases."""
        return self.chance.random() < share

    def width(self, least: int = 1) -> int:
        """A number of features."""
        return self.one_of([w for w in WIDTHS if w >= least])

    def name(self, stem: str) -> str:
        """A name that nothing else has."""
        self._count += 1
        return f"{stem}{self._count}"

    def part(self, stem: str, source: str) -> str:
        """A part of the model, made by this expression; returns how forward calls it."""
        name = self.name(stem)
        self.parts[name] = source
        return f"s.{name}"

    def input(self, stem: str, source: str) -> str:
        """An input beside x, as an expression of n, the size of the batch, and i, its number."""
        name = self.name(stem)
        self.inputs[name] = source
        return name

    def reading(self, stem: str, *values: Any) -> str:
        """Something that can be read in several ways, as lines of truth call it."""
        name = self.name(stem)
        self.readings[name] = values
        return f"how.{name}"

    def do(self, *lines: str) -> None:
        """Lines of forward; those that begin with ~ are truth."""
        self.lines += [
            ("    " * self.depth) + line if line[0] != TRUTH else f"~{'    ' * self.depth}{line[1:]}" for line in lines
        ]

    @contextmanager
    def inside(self, head: str) -> Iterator[None]:
        """Lines below an `if` or a `for`."""
        self.do(head)
        self.depth += 1
        yield
        self.depth -= 1

    def see(self, z: str = "z", p: str = "p", what: str = "", **more: Any) -> None:
        """A line of truth: what the next activation sees. `what` may hold braces, as in "step {t}"."""
        name = self.name("site ")
        extra = "".join(f", {key}={value}" for key, value in more.items())
        self.do(f'~seen({z}, {p}, f"{" ".join([name, what]).strip()}"{extra})')

    def relu(self, z: str = "z") -> str:
        """A ReLU in some spelling."""
        if self.style == "module" or (self.style == "mixed" and self.maybe(0.3)):
            self.parts.setdefault("relu", "nn.ReLU()")
            return f"s.relu({z})"
        if self.style == "functional" or self.maybe():
            return self.one_of((f"F.relu({z})", f"torch.relu({z})", f"{z}.relu()"))
        return self.one_of(
            (
                f"{z}.clamp(min=0)",
                f"torch.where({z} > 0, {z}, 0.0)",
                f"({z} * ({z} > 0))",
                f"torch.maximum({z}, torch.zeros_like({z}))",
                f"F.relu({z}, inplace=True)",
                f"{z}.masked_fill({z} < 0, 0.0)",
                f"torch.clamp({z}, 0.0)",
            )
        )

    def activation(self) -> tuple[str, dict[str, float]]:
        """h = relu(z), or what is like it, and where that begins and ends to pass a signal."""
        if self.maybe(0.85):
            return f"h = {self.relu()}", {}
        return self.one_of(
            (
                ("h = F.relu6(z)", {"ceiling": 6.0}),
                ("h = z.clamp(0, 1)", {"ceiling": 1.0}),
                ("h = F.hardtanh(z)", {"cutoff": -1.0, "ceiling": 1.0}),
                ("h = F.leaky_relu(z, 0.1)", {}),
                ("h = F.silu(z)", {}),
                ("h = F.gelu(z)", {}),
                ("h = z.relu_()", {}),
            )
        )

    def layer(self, expression: str, width: int, p: str = "p", what: str = "", **more: Any) -> None:
        """z, what is true of it, and h = relu(z), of a new width."""
        activation, ends = self.activation()
        self.do(f"z = {expression}")
        self.see("z", p, what, **more, **ends)
        self.do(activation)
        self.f = width


Idea = Callable[[Draft], None]


@dataclass(frozen=True)
class Entry:
    """An idea by its name, how often it is taken, and where it fits.

    moves  it changes which rows there are, so it cannot be beside another
    whole  it needs the rows of the batch as they came
    outer  it cannot be written below an `if` or a `for`
    beside it brings tensors beside x, with their points first
    """

    name: str
    write: Idea
    share: float
    moves: bool
    whole: bool
    outer: bool
    beside: bool


IDEAS: dict[str, Entry] = {}
OPENINGS: dict[str, Entry] = {}
ENDINGS: dict[str, Entry] = {}


def idea(
    name: str, share: float = 1.0, *, among: dict[str, Entry] | None = None, **fitting: bool
) -> Callable[[Idea], Idea]:
    """Enter an idea: decorates the function that writes it; the rest are fields of Entry."""

    def enter(write: Idea) -> Idea:
        where = {"moves": False, "whole": False, "outer": False, "beside": False} | fitting
        (IDEAS if among is None else among)[name] = Entry(name, write, share, **where)
        return write

    return enter


def fits(entry: Entry, draft: Draft, *, still: bool = False) -> bool:
    """Whether an idea can be written now; `still`: where no rows may move."""
    below = still or draft.depth > 0
    if entry.beside and draft.point_axis:
        return False
    return not ((entry.whole and draft.moved) or (entry.moves and below) or (entry.outer and draft.depth))


def drawn(draft: Draft, *, still: bool = False) -> Entry:
    """An idea that fits."""
    entries = [entry for entry in IDEAS.values() if fits(entry, draft, still=still) and entry.name not in draft.without]
    return draft.chance.choices(entries, [entry.share for entry in entries])[0]


Choice = tuple[str, int]


class Whole:
    """A program: its choices, its source, and the class that is made of it."""

    def __init__(
        self, seed: int, choices: Sequence[Choice], sizes: Sequence[int], without: Collection[str] = ()
    ) -> None:
        self.seed, self.choices, self.sizes, self.without = seed, list(choices), list(sizes), without
        self.draft = _written(Draft(seed, without), choices)
        self.kinds = list(dict.fromkeys(self.draft.written))
        self.recompile()

    def but(self, choices: Sequence[Choice], sizes: Sequence[int] | None = None) -> Whole:
        """Another program of these choices, or batches of these sizes."""
        return Whole(self.seed, choices, self.sizes if sizes is None else sizes, self.without)

    def recompile(self) -> None:
        """Make the classes from the source, as it is now."""
        self.model_class = _compiled(self.source(), "Net")
        self._true_class = _compiled(self.source(truth=True), "Net")

    def source(self, *, truth: bool = False) -> str:
        """The class, with or without the lines of truth."""
        lines = [line.removeprefix(TRUTH) for line in self.draft.lines if truth or line[0] != TRUTH]
        names = ", ".join(["x", *self.draft.inputs])
        made = [f"s.{name} = {source}" for name, source in self.draft.parts.items()]
        head = ["class Net(nn.Module):", "    def __init__(s):", "        super().__init__()"]
        begin = ["", f"    def forward(s, {names}{', *, how' * truth}):"]
        body = [*head, *(f"        {one}" for one in made), *begin, *(f"        {line}" for line in lines)]
        return "\n".join(body)

    def batches(self) -> list[Any]:
        """The batches: tensors if x is alone, else by name."""
        return [self._batch(i, n) for i, n in enumerate(self.sizes)]

    def _batch(self, i: int, n: int) -> Any:
        sources = {"x": self.draft.x, **self.draft.inputs}
        found = {name: eval(source, dict(NAMES), {"n": n, "i": i}) for name, source in sources.items()}
        return found["x"] if len(found) == 1 else found

    def make(self) -> tuple[nn.Module, Any]:
        """A fresh model and its batches."""
        return self.model_class(), self.batches()

    def truth(self, model: nn.Module, batch: Any, how: SimpleNamespace) -> list[Layer]:
        """The layers, by the class that has the lines of truth."""
        given = {"x": batch} if isinstance(batch, torch.Tensor) else batch
        plain = model.__class__
        model.__class__ = self._true_class
        try:
            with page() as notes:
                model(**given, how=how)
        finally:
            model.__class__ = plain
        return notes

    def case(self) -> Case:
        """As the judge takes it, in all its readings."""
        names = list(self.draft.readings)
        ways = [
            SimpleNamespace(**dict(zip(names, values, strict=True)))
            for values in itertools.product(*self.draft.readings.values())
        ]
        options = {"point_axis": self.draft.point_axis} if self.draft.point_axis else {}
        first, *others = [partial(self.truth, how=how) for how in ways[:16]]
        return Case(
            f"program {self.seed}", "whole", self.make, first, others=tuple(others), options=options, stepwise=True
        )

    def __str__(self) -> str:
        given = ", ".join(f"{name}={source}" for name, source in {"x": self.draft.x, **self.draft.inputs}.items())
        data = f"batches = [dict({given}) for i, n in enumerate({self.sizes})]"
        shown = [line.replace(TRUTH, "", 1) + "  # truth" * line.startswith(TRUTH) for line in self.draft.lines]
        head = self.source().split("    def forward")[0]
        names = ", ".join(["x", *self.draft.inputs])
        return head + f"    def forward(s, {names}):\n" + textwrap.indent("\n".join(shown), " " * 8) + "\n" + data


def _compiled(source: str, name: str) -> type[nn.Module]:
    space = dict(NAMES)
    exec(compile(source, "<whole program>", "exec"), space)
    return space[name]


def _written(draft: Draft, choices: Sequence[Choice]) -> Draft:
    """The program of these choices: an opening, ideas and an ending, each with a seed of its own."""
    for number, (name, own) in enumerate(choices):
        draft.chance = random.Random(own)
        table = OPENINGS if number == 0 else ENDINGS if number == len(choices) - 1 else IDEAS
        if fits(table[name], draft):
            draft.write(table[name])
    return draft


def random_whole(seed: int, without: Collection[str] = ()) -> Whole:
    """The program of a seed, of all ideas or without some."""
    chance = random.Random(seed)
    count = chance.choice((2, 2, 3, 3, 4, 5, 6))
    most = chance.randint(2, whole_words.MOST_POINTS)
    sizes = (
        [most] * count if chance.random() < 0.4 else [chance.randint(2, whole_words.MOST_POINTS) for _ in range(count)]
    )
    if chance.random() < 0.15:
        sizes[chance.randrange(count)] = 1

    def one_of(table: dict[str, Entry]) -> Choice:
        entries = [entry for entry in table.values() if entry.name not in without]
        return chance.choices(entries, [entry.share for entry in entries])[0].name, chance.randrange(10**9)

    choices = [one_of(OPENINGS), *(one_of(IDEAS) for _ in range(chance.randint(1, 4))), one_of(ENDINGS)]
    return valid(Whole(seed, choices, sizes, without))


def valid(program: Whole) -> Whole:
    """The program without the ideas with which it does not run, alone, in either mode."""
    while not runs(program) and len(program.choices) > 2:
        for number in reversed(range(1, len(program.choices) - 1)):
            shorter = program.but([*program.choices[:number], *program.choices[number + 1 :]])
            if runs(shorter):
                return shorter
        program = program.but([program.choices[0], *program.choices[2:]])
    return program


def runs(program: Whole) -> bool:
    """Whether the program runs by itself, with gradients, and its numbers are not too large to be exact."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            return all(_is_fine(program, mode) for mode in (True, False))
        except (RuntimeError, ValueError, IndexError):
            return False


def _is_fine(program: Whole, mode: bool) -> bool:
    torch.manual_seed(1)
    model, batches = program.make()
    model.train(mode)
    for batch in batches:
        out = model(batch) if isinstance(batch, torch.Tensor) else model(**batch)
        if out.requires_grad:
            out.sum().backward()
        if not out.numel() or not bool((out.abs() < 20.0).all()):
            return False
    return True
