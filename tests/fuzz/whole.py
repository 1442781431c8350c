"""Random whole programs against the judge: what became of each, its smallest form where it failed, and a table.

python tests/fuzz/whole.py 0 2000
python tests/fuzz/whole.py 0 2000 hinge "in chunks"    leaves out these ingredients
python tests/fuzz/whole.py 17                          shows one program, as it is and as small as it can be
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Sequence
from pathlib import Path
from typing import NamedTuple

sys.path.append(str(Path(__file__).parents[1] / "bestiary"))

import torch
import whole_calls
import whole_choices
import whole_ends
import whole_layers
import whole_maps
import whole_moves
import whole_ways
from fuzz import modes_left
from judge import Verdict, judge
from whole_draft import ENDINGS, IDEAS, OPENINGS, Whole, random_whole, runs

WORDS = ("right", "told", "silent", "crash")
WRITTEN_IN = (whole_calls, whole_choices, whole_ends, whole_layers, whole_maps, whole_moves, whole_ways)


class Outcome(NamedTuple):
    """A program, and the worst that can be said of census, penalty, the model afterwards and torch's stacks."""

    program: Whole
    word: str
    verdict: Verdict
    left: int = 0

    @property
    def kind(self) -> tuple[str, str, bool, bool]:
        """What a smaller program must share to be the same failure."""
        return self.verdict.census, self.verdict.penalty, self.verdict.untouched, bool(self.left)

    def __str__(self) -> str:
        v = self.verdict
        found = f"{self.word}: census {v.census}, penalty {v.penalty}" + ", changed" * (not v.untouched)
        left = f"\n{self.left} modes left on torch's stacks" if self.left else ""
        return f"program {self.program.seed}: {found}{left}\n{self.program}\n{v.why}"


def outcome(program: Whole) -> Outcome:
    """What alive makes of a program."""
    verdict = judge(program.case())
    left = modes_left()
    words = [verdict.census, verdict.penalty, "right" if verdict.untouched else "silent", "crash" if left else "right"]
    return Outcome(program, max(words, key=WORDS.index), verdict, left)


def smaller(program: Whole) -> Iterable[Whole]:
    """Programs of one idea less, of one batch less, or with the plainest opening and ending."""
    choices, sizes = program.choices, program.sizes
    for number in range(1, len(choices) - 1):
        yield program.but([*choices[:number], *choices[number + 1 :]])
    for number in range(len(sizes) if len(sizes) > 1 else 0):
        yield program.but(choices, [*sizes[:number], *sizes[number + 1 :]])
    if choices[0][0] != "table":
        yield program.but([("table", 1), *choices[1:]])
    if choices[-1][0] != "plain":
        yield program.but([*choices[:-1], ("plain", 1)])
    if len(set(sizes)) > 1:
        yield program.but(choices, [max(sizes)] * len(sizes))


def shrunk(program: Whole, fails: Callable[[Whole], bool]) -> Whole:
    """A program without what it does not need to fail."""
    while True:
        for less in smaller(program):
            if runs(less) and fails(less):
                program = less
                break
        else:
            return program


def smallest(found: Outcome) -> Outcome:
    """The same failure in as little as we find."""
    return outcome(shrunk(found.program, lambda program: outcome(program).kind == found.kind))


def fuzz(seeds: Iterable[int], without: Collection[str] = ()) -> list[Outcome]:
    """The outcome of every seed."""
    return [outcome(random_whole(seed, without)) for seed in seeds]


def counts(found: Sequence[Outcome]) -> str:
    """How many are right, told, and so on."""
    words = Counter(one.word for one in found)
    return ", ".join(f"{words[word]} {word}" for word in WORDS)


def table(found: Sequence[Outcome]) -> str:
    """For every ingredient, what became of the programs that have it."""
    lines = ["| ingredient | programs | " + " | ".join(WORDS) + " |", "|---|--:|" + "--:|" * len(WORDS)]
    for name in [*OPENINGS, *IDEAS, *ENDINGS, "all"]:
        having = Counter(one.word for one in found if name in {*one.program.kinds, "all"})
        lines.append(f"| {name} | {having.total()} | " + " | ".join(str(having[word]) for word in WORDS) + " |")
    return "\n".join(lines)


def failures(found: Sequence[Outcome], words: Sequence[str], most: int = 1000) -> list[Outcome]:
    """The smallest forms of what failed, one for every set of ingredients."""
    small: dict[tuple[object, ...], Outcome] = {}
    for one in [one for one in found if one.word in words][:most]:
        least = smallest(one)
        small.setdefault((*least.kind, *sorted(set(least.program.kinds))), least)
    return sorted(small.values(), key=lambda one: len(str(one.program)))


def main() -> None:
    """The table of a range of seeds, and the smallest program of every kind of failure."""
    torch.set_num_threads(1)
    numbers = [int(word) for word in sys.argv[1:3] if word.isdigit()]
    if len(numbers) == 1:
        found = outcome(random_whole(numbers[0]))
        print(found, end="\n\n")
        if found.word in WORDS[2:]:
            print(smallest(found))
        return
    found = fuzz(range(*numbers), sys.argv[3:])
    print(table(found), counts(found), sep="\n")
    for one in failures(found, WORDS[2:], most=40):
        print("\n", one, sep="")


if __name__ == "__main__":
    main()
