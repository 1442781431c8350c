"""Planted cases have what they say, and alive is right about all of them."""

from __future__ import annotations

import pytest
import torch

from alive_papers.benchmarks.detectors import Said, by_alive, cases, judged

TRUTH = {"3 of 16 units dead": 3, "14 of 16 units dead": 14, "F.relu, 14 of 16 units dead": 14}
TRUTH |= {"top-k, 40 of 64 latents dead": 40, "convolution, 6 of 8 channels dead": 6}


def test_cases_are_planted_as_they_are_called_and_alive_is_right():
    found = {case.name: case for case in cases()}
    assert len(found) == 8
    for name, case in found.items():
        assert case.dead == TRUTH.get(name, 0), name
        said = by_alive(case)
        assert said.dead == case.dead, name
    assert found["5 of 16 units linear"].linear == by_alive(found["5 of 16 units linear"]).linear == 5
    rare = found["one unit on at one point of 2000"]
    assert int((rare.units(rare.x)[:, 0] > 0).sum()) == 1


@pytest.mark.parametrize(
    ("said", "dead", "words"),
    [
        (Said(3), 3, "right"),
        (Said(2), 3, "WRONG: 2"),
        (Said(alarm="half"), 3, "an alarm without a count (half)"),
        (Said(), 3, "missed"),
        (Said(), 0, "rightly silent"),
        (Said(alarm="half"), 0, "FALSE ALARM (half)"),
        (Said(0, seen=False), 3, "not seen, and not said"),
        (Said(0, seen=False, owns_up=True), 3, "not seen, and says so"),
    ],
)
def test_what_is_said_is_judged_by_the_truth(said, dead, words):
    told, wrong = judged(said, dead, 0, asks_linear=False)
    assert told == words
    assert (wrong == 0) == (words in ("right", "rightly silent") or words.startswith("an alarm"))


def test_the_generator_is_left_alone():
    state = torch.get_rng_state()
    list(cases())
    assert torch.equal(torch.get_rng_state(), state)
