"""Random programs against the judge: what became of each, its smallest form where it failed, and a table.

python tests/fuzz/fuzz.py 0 2000
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import NamedTuple

sys.path.append(str(Path(__file__).parents[1] / "bestiary"))

import torch
from judge import Verdict, _tally_fits, judge, truths
from program import FAMILIES, Program, case_of, program_of, random_program, shows_all_points
from relus import SPELLINGS
from torch.overrides import _len_torch_function_stack
from torch.utils._python_dispatch import _len_torch_dispatch_stack, _pop_mode

import alive

WORDS = ("right", "told", "overclaimed", "silent", "crash")


class Outcome(NamedTuple):
    """A program, and the worst that can be said of census, penalty and the model afterwards.

    overclaimed  alive tells of units or points that are nobody's by our rules, and nothing else is wrong
    """

    program: Program
    word: str
    verdict: Verdict

    def __str__(self) -> str:
        found = f"{self.word}: census {self.verdict.census}, penalty {self.verdict.penalty}"
        return f"program {self.program.seed}: {found}\n{self.program}\n{self.verdict.why}"


def outcome(program: Program) -> Outcome:
    """What alive makes of a program."""
    verdict = judge(case_of(program))
    left = modes_left()
    words = [verdict.census, verdict.penalty, "right" if verdict.untouched else "silent", "crash" if left else "right"]
    word = max(words, key=WORDS.index)
    if word == "silent" and verdict.untouched and verdict.census == "silent" and _claims_only_too_much(program):
        word = "overclaimed"
    return Outcome(program, word, verdict)


def modes_left() -> int:
    """How many modes were left on torch's stacks, where they would see whatever comes after; takes them off."""
    count = 0
    while _len_torch_dispatch_stack():
        _pop_mode()
        count += 1
    while _len_torch_function_stack():
        torch._C._pop_torch_function_stack()
        count += 1
    return count


def _claims_only_too_much(program: Program) -> bool:
    """Whether the census is right wherever there is something to be right about."""
    model, batches = case_of(program).make()
    census = alive.census(model, batches, point_axis=program.point_axis)
    found = truths([model.eval().track(x)[1] for x in batches])
    if len(found) != len(census.layers):
        return False
    for layer, true in zip(census.layers, found, strict=True):
        for claimed, ends in ((layer.units, true.units), (layer.points, true.points)):
            if ends and not _tally_fits(claimed, Counter(true.states(ends).values())):
                return False
    return any(not true.units or not true.points for true in found)


def shrunk(program: Program, fails: Callable[[Program], bool]) -> Program:
    """A program without steps that it does not need to fail."""
    number = len(program.choices)
    while number:
        number -= 1
        smaller = program_of(program.seed, [*program.choices[:number], *program.choices[number + 1 :]])
        if len(smaller.choices) < len(program.choices) and smaller.steps and fails(smaller):
            program, number = smaller, len(smaller.choices)
    return program


def smallest(found: Outcome) -> Outcome:
    """The same failure in as few steps as we find."""

    def fails(program: Program) -> bool:
        return shows_all_points(program) and outcome(program).word == found.word

    return outcome(shrunk(found.program, fails))


def fuzz(seeds: Iterable[int]) -> list[Outcome]:
    """The outcome of every seed."""
    return [outcome(random_program(seed)) for seed in seeds]


def counts(found: Sequence[Outcome]) -> str:
    """How many are right, told, and so on."""
    words = Counter(one.word for one in found)
    return ", ".join(f"{words[word]} {word}" for word in WORDS)


def table(found: Sequence[Outcome]) -> str:
    """For every kind of step, what became of the programs that have it."""
    kinds = [kind for table, _ in FAMILIES.values() for kind in table if kind != "relu"]
    lines = ["| step | programs | " + " | ".join(WORDS) + " |", "|---|--:|" + "--:|" * len(WORDS)]
    for kind in ["tokens", *kinds, *SPELLINGS, "all"]:
        having = Counter(one.word for one in found if kind in {*steps_of(one.program), "all"})
        lines.append(f"| {kind} | {having.total()} | " + " | ".join(str(having[word]) for word in WORDS) + " |")
    return "\n".join(lines)


def steps_of(program: Program) -> list[str]:
    """The kinds of its steps; of activations, their spellings."""
    steps = zip(program.choices, program.steps, strict=True)
    return [step.text if "relu" in kind else kind for (kind, _), step in steps]


def failures(found: Sequence[Outcome], words: Sequence[str], most: int = 1000) -> list[Outcome]:
    """The smallest forms of what failed, one for every set of steps."""
    small: dict[tuple[str, ...], Outcome] = {}
    for one in [one for one in found if one.word in words][:most]:
        least = smallest(one)
        small.setdefault((least.word, *sorted(set(steps_of(least.program)))), least)
    return sorted(small.values(), key=lambda one: len(one.program.steps))


def main() -> None:
    """The table of a range of seeds, and the smallest program of every kind of failure."""
    torch.set_num_threads(1)
    first, last = (int(word) for word in sys.argv[1:3])
    found = fuzz(range(first, last))
    for one in failures(found, WORDS[2:]):
        print(one, end="\n\n")
    print(table(found), counts(found), sep="\n")


if __name__ == "__main__":
    main()
