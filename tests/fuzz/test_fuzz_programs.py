"""Random programs: every count is right, or said to be unknown."""

from __future__ import annotations

from collections.abc import Iterable

import pytest
from fuzz import counts, failures, fuzz, outcome, shrunk, table
from program import program_of, random_program

import alive

BAD = ("overclaimed", "silent", "crash")


def expect_truth(seeds: Iterable[int]) -> None:
    found = fuzz(seeds)
    print(table(found))
    print(counts(found))
    bad = [one for one in found if one.word in BAD]
    shown = "\n\n".join(map(str, failures(bad, BAD, most=5)))
    assert not bad, f"{counts(found)}; the smallest of the first five:\n\n{shown}"
    assert sum(one.word == "right" for one in found) >= len(found) / 2, counts(found)


@pytest.mark.contract
def test_no_count_of_a_random_program_is_wrong_without_a_word() -> None:
    expect_truth(range(150))


@pytest.mark.slow
@pytest.mark.parametrize("first", range(0, 2000, 250))
def test_no_count_of_two_thousand_programs_is_wrong_without_a_word(first: int) -> None:
    expect_truth(range(first, first + 250))


def test_a_program_is_the_same_at_every_call() -> None:
    for seed in range(20):
        program = random_program(seed)
        assert str(program_of(seed, program.choices)) == str(program) == str(random_program(seed))


def test_a_census_of_other_data_is_silent(monkeypatch) -> None:
    def elsewhere(model, batches, **options):
        return counted(model, [-x for x in batches], **options)

    program = program_of(1, [("linear", 1), ("relu", 2)])
    assert outcome(program).word == "right"
    counted = alive.census
    monkeypatch.setattr(alive, "census", elsewhere)
    assert outcome(program).word == "silent"


def test_only_what_a_failure_needs_is_left() -> None:
    program = program_of(4, [("linear", 1), ("relu", 2), ("transpose", 3), ("linear", 4), ("roll", 5), ("relu", 6)])
    assert len(program.steps) == 6
    small = shrunk(program, lambda p: {"transpose", "relu"} <= set(dict(p.choices)))
    assert [kind for kind, _ in small.choices] == ["linear", "relu", "transpose"]  # a ReLU comes after weights only
