"""Random whole programs: every count is right, or said to be unknown."""

from __future__ import annotations

import copy
from collections.abc import Iterable
from types import SimpleNamespace

import pytest
import torch
from judge import judge
from torch import Tensor
from whole import counts, failures, fuzz, outcome, shrunk, table
from whole_draft import ENDINGS, IDEAS, OPENINGS, Whole, random_whole, runs

import alive

BAD = ("silent", "crash")
PLAIN = [("table", 1), ("linear", 2), ("plain", 3)]
MIXES = {
    "BatchNorm",
    ".mean(0",
    ".amax(0",
    ".detach()",
    "median()",
    ".sum()",
    "h.mean()",
    ".var(0",
    "x.mean",
    "h[0",
    "sorted(",
}
CHANCE = {"rand", "dropout"}
ONCE_WRONG = {  # without a word: the smallest program of each kind, its batches, and the seed where that matters
    "numbers of copied weights, where points are unknown": (
        [("table", 1), ("pairs of points", 714670834), ("a weight copied over the points", 202270586), ("plain", 1)],
        [2],
        60270,
    ),
    "a sum over one feature, behind a head of each batch": (
        [
            ("table", 1),
            ("a head by an integer", 268986207),
            ("a weight copied over the points", 882690177),
            ("plain", 1),
        ],
        [3, 4, 3, 6],
        64040,
    ),
    "weights by row, by what threads made": (
        [
            ("table", 1),
            ("in threads", 363861723),
            ("windows of a sequence", 629373349),
            ("weights stacked and gathered", 208200338),
            ("plain", 1),
        ],
        [8],
        74574,
    ),
    "a chunk as large as a batch before": (
        [("table", 457697243), ("in chunks", 260688029), ("plain", 1)],
        [2, 3, 1, 7],
        72194,
    ),
    "chunks of nobody known, after a batch of one point": (
        [("table", 685104111), ("a support set", 538138980), ("in chunks", 268515251), ("plain", 1)],
        [1, 6],
        74464,
    ),
    "gradient of a norm of what is dead, to float precision": (
        [("images", 695131753), ("a list of states", 75793884), ("normalised activations", 694120071), ("plain", 1)],
        [8],
        70391,
    ),
    "two layers for two parts of the rows, of which one is empty": (
        [("table", 2), ("two layers for two parts of the rows", 1), ("plain", 3)],
        [4, 3, 4],
        1,
    ),
    "two layers for two parts of the rows, of which one is empty, then the other": (
        [("table", 871934667), ("two layers for two parts of the rows", 13100907), ("plain", 1)],
        [3, 1, 4, 8],
        200605,
    ),
    "rows summed in as many buckets as there are points": (
        [("table", 4), ("rows in another order", 3), ("rows summed in buckets", 8), ("plain", 3)],
        [4, 3, 4],
        3,
    ),
    "loss of several rows of the one point that was chosen": (
        [
            ("table", 118854915),
            ("rows chosen", 375310647),
            ("cut by lengths", 27077274),
            ("cross entropy", 812925020),
        ],
        [2],
        100678,
    ),
    "cross entropy of what threads made": (
        [("table", 23641362), ("in threads", 797803979), ("cross entropy", 395266236)],
        [8],
    ),
    "hinge of what threads made": ([("table", 1), ("in threads", 963524647), ("hinge", 861595096)], [5]),
    "loss of a first batch of one point": (
        [("table", 1), ("a support set", 852301449), ("two branches", 717294712), ("cross entropy", 668941398)],
        [1, 3],
    ),
    "loss where points are unknown": (
        [
            ("table", 1),
            ("pairs of points", 250209435),
            ("written into a buffer", 891329078),
            ("cross entropy", 212181565),
        ],
        [6],
    ),
    "loss of one point alone": ([("table", 120042823), ("cross entropy", 332594923)], [1]),
    "loss of one row of two": ([("table", 1), ("rows chosen", 423969214), ("cross entropy", 729857151)], [2]),
    "loss of some rows of what threads made": (
        [("table", 145661718), ("in threads", 184508799), ("rows chosen", 2883983), ("cross entropy", 830636553)],
        [4],
    ),
    "rows chosen where weights by row meet what threads made": (
        [
            ("table", 1),
            ("in threads", 373361903),
            ("weights stacked and gathered", 574841998),
            ("rows chosen", 552208952),
            ("plain", 1),
        ],
        [5],
    ),
    "two layers side by side, behind two others in one batch of two": (
        [
            ("table", 966937517),
            ("stochastic depth", 624844448),
            ("two layers and their sum", 509109078),
            ("plain", 611563833),
        ],
        [3, 8],
    ),
    "gradient of a sharp softmax, to float precision": (
        [
            ("tokens", 836218179),
            ("modulated", 353187078),
            ("sequence", 118562567),
            ("normalised over the batch", 234763920),
            ("plain", 300246789),
        ],
        [8],
    ),
    "rows that experts chose, of points that are there twice": (
        [
            ("table", 390831267),
            ("rows chosen", 729138546),
            ("expert choice", 469658956),
            ("two views of every point", 23388054),
            ("plain", 1),
        ],
        [4],
    ),
    "rows that experts chose, all of one point": (
        [
            ("table", 1),
            ("rows chosen", 670660838),
            ("expert choice", 103532955),
            ("two views of every point", 535233736),
            ("head", 185963349),
        ],
        [3],
    ),
    "chunks, another number in each batch": (
        [("table", 1), ("in chunks", 131141665), ("cross entropy", 292818496)],
        [2, 6, 6, 8],
    ),
    "columns by the order of points": ([("table", 1), ("columns by data", 473244755), ("plain", 1)], [1, 5]),
    "columns by data, twice": (
        [
            ("time first", 711012024),
            ("columns by data", 394095310),
            ("stochastic depth", 274271533),
            ("plain", 908420474),
        ],
        [7],
    ),
    "columns by data, behind what came from outside": (
        [("table", 948971801), ("a list of states", 805229825), ("columns by data", 738109949), ("plain", 1)],
        [7, 7],
    ),
    "weights by row, of one row at first": (
        [("tokens", 858431147), ("weights stacked and gathered", 568873689), ("maps", 169883159), ("head", 704839746)],
        [1, 3, 7],
    ),
    "numbers by feature behind experts": (
        [("table", 1), ("experts", 616537969), ("each feature by itself", 6882553), ("plain", 1)],
        [5, 5],
    ),
    "the larger of data and zeros, all dead": ([("table", 1), ("a ReLU in other words", 23719117), ("plain", 1)], [1]),
    "the larger of data and zeros, all linear": (
        [("table", 1), ("two branches", 508353222), ("rows in another order", 532799200), ("plain", 455129146)],
        [3],
    ),
    "rows of nobody known, another number in each batch": (
        [("table", 1), ("a support set", 336032166), ("each point by itself", 576216508), ("plain", 1)],
        [7, 8],
    ),
    "a choice that Python reads in one batch of two": (
        [("table", 583611724), ("weights stacked and gathered", 307954224), ("experts", 804715944), ("plain", 1)],
        [4, 1],
    ),
    "the best of points that have weights each": (
        [
            ("table", 777239414),
            ("heads of attention", 549429987),
            ("linear", 874123347),
            ("weights stacked and gathered", 544018463),
            ("rows chosen", 273754354),
            ("mean", 323375336),
        ],
        [2, 2, 6, 4],
    ),
    "weights by row behind kernels as groups": (
        [("kernels as groups", 251794983), ("weights stacked and gathered", 363363487), ("plain", 1)],
        [4, 1],
    ),
    "one point and one unit": (
        [("sequences", 685974812), ("weights by formula", 736256675), ("in chunks", 790207473), ("plain", 1)],
        [1, 8],
    ),
    "numbers by feature behind weights by row": (
        [
            ("images", 14546705),
            ("weights stacked and gathered", 170905373),
            ("each feature by itself", 81345936),
            ("rows in another order", 179370957),
            ("plain", 231040265),
        ],
        [7, 7],
    ),
    "points one by one, another number in each batch": (
        [("table", 1), ("each point by itself", 401861020), ("plain", 1)],
        [7, 3, 5, 8],
    ),
}


def expect_truth(seeds: Iterable[int]) -> None:
    found = fuzz(seeds)
    print(table(found))
    print(counts(found))
    bad = [one for one in found if one.word in BAD]
    shown = "\n\n".join(map(str, failures(bad, BAD, most=5)))
    assert not bad, f"{counts(found)}; the smallest of the first five:\n\n{shown}"
    assert sum(one.word == "right" for one in found) >= 0.5 * len(found), counts(found)


@pytest.mark.parametrize("kind", ONCE_WRONG)
def test_what_was_once_wrong_without_a_word_is_not(kind: str) -> None:
    choices, sizes, *seed = ONCE_WRONG[kind]
    later = [name for name, entry in IDEAS.items() if entry.write.__module__ == "whole_ways"]  # not drawn from then
    found = outcome(Whole(*(seed or [0]), choices, sizes, later))
    assert found.word in ("right", "told"), str(found)


@pytest.mark.contract
def test_no_count_of_a_whole_program_is_wrong_without_a_word() -> None:
    expect_truth(range(100))


@pytest.mark.slow
@pytest.mark.parametrize("first", range(0, 10_000, 500))
def test_no_count_of_ten_thousand_whole_programs_is_wrong_without_a_word(first: int) -> None:
    expect_truth(range(first, first + 500))


def test_a_program_is_the_same_at_every_call() -> None:
    for seed in range(20):
        program = random_whole(seed)
        assert str(Whole(seed, program.choices, program.sizes)) == str(program) == str(random_whole(seed))


def test_alive_is_given_no_line_of_truth() -> None:
    for seed in range(50):
        program = random_whole(seed)
        assert "seen(" in program.source(truth=True)
        assert "seen(" not in program.source()
        assert "how" not in program.source().replace("show", "")


def test_every_idea_is_among_the_first_programs() -> None:
    met = {kind for seed in range(300) for kind in random_whole(seed).kinds}
    assert {*OPENINGS, *IDEAS, *ENDINGS} <= met


def test_nearly_every_idea_runs_wherever_it_is_put() -> None:
    written = [Whole(seed, [PLAIN[0], (name, seed), PLAIN[2]], [4, 3]) for name in IDEAS for seed in range(5)]
    assert sum(map(runs, written)) >= 0.95 * len(written)


def layers_of(program: Whole, batch: object) -> list:
    how = SimpleNamespace(**{name: values[-1] for name, values in program.draft.readings.items()})
    torch.manual_seed(5)
    model = program.model_class().eval()
    return program.truth(model, copy.deepcopy(batch), how)


def test_an_entry_of_a_point_changes_with_that_point_alone() -> None:
    """The points that a program writes down, by trial: one point of x is altered, and we look who moves."""
    checked = 0
    for seed in range(3000, 3300):
        program = random_whole(seed)
        source = program.source()
        if any(word in source for word in MIXES | CHANCE) or program.kinds[0] == "tokens":
            continue
        torch.manual_seed(7)
        batch = program.batches()[0]
        plain = layers_of(program, batch)
        for point in range(program.sizes[0]):
            other = copy.deepcopy(batch)
            x = other if isinstance(other, Tensor) else other["x"]
            x.select(program.draft.point_axis, point).add_(0.01)
            altered = layers_of(program, other)
            for a, b in zip(plain, altered, strict=True):
                if a.z.shape == b.z.shape and (a.unit == b.unit).all() and (a.point == b.point).all():
                    owners = a.point.expand_as(a.z)[(a.z - b.z).abs() > 1e-5]
                    assert set(owners.tolist()) <= {point, -1}, str(program)
                    checked += 1
    assert checked > 300


def counted_elsewhere(monkeypatch: pytest.MonkeyPatch) -> None:
    def elsewhere(model, batches, **options):
        return counted(model, [-x for x in batches], **options)

    counted = alive.census
    monkeypatch.setattr(alive, "census", elsewhere)


def test_a_census_of_other_data_is_silent(monkeypatch: pytest.MonkeyPatch) -> None:
    program = Whole(1, PLAIN, [6, 4])
    assert outcome(program).word == "right"
    counted_elsewhere(monkeypatch)
    found = outcome(program)
    assert (found.word, found.verdict.census, found.verdict.penalty) == ("silent", "silent", "right")


def test_a_wrong_truth_is_silent() -> None:
    """Points that are credited to others, in the program's own truth."""
    program = Whole(1, PLAIN, [6, 4])
    program.draft.lines = [
        line.replace("~p = torch.arange(len(x))", "~p = torch.arange(len(x)) // 2") for line in program.draft.lines
    ]
    wrong = Whole.__new__(Whole)
    wrong.__dict__ |= program.__dict__
    wrong.recompile()
    assert outcome(wrong).word == "silent"


def test_a_batch_that_is_run_twice_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    def again(model, batches, **options):
        for x in batches:
            model(x)
        return counted(model, batches, **options)

    counted = alive.census
    program = next(
        p
        for p in (Whole(1, [PLAIN[0], ("state that grows", k), PLAIN[2]], [4]) for k in range(9))
        if "Buffer" in str(p)
    )
    assert outcome(program).word == "right"
    monkeypatch.setattr(alive, "census", again)
    assert not judge(program.case()).untouched


def test_only_what_a_failure_needs_is_left(monkeypatch: pytest.MonkeyPatch) -> None:
    counted_elsewhere(monkeypatch)
    program = Whole(
        4, [("images", 1), ("linear", 2), ("gate", 3), ("rows in another order", 4), ("mean", 5)], [4, 3, 2]
    )
    found = outcome(program)
    small = shrunk(program, lambda p: "gate" in p.kinds and outcome(p).word == found.word)
    assert [name for name, _ in small.choices] == ["table", "gate", "plain"]
    assert len(small.sizes) == 1
