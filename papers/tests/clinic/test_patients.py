"""Patients and cures: the same seed makes the same network, and a cure changes what it says and nothing else."""

from __future__ import annotations

import pytest
import torch
from sklearn.metrics import accuracy_score, r2_score
from torch import nn

from alive.cures import ORDER
from alive.nn import initialise_
from alive_papers.clinic import PATIENTS
from alive_papers.clinic.case import WORST, Case, score, train, treated
from alive_papers.clinic.samples import flat_digits, friedman, moons, plain, reviews

FRESH = [name for name, patient in PATIENTS.items() if name not in ("died", "dead-code")]  # made without training


def weights(case: Case) -> torch.Tensor:
    return torch.cat([p.detach().flatten() for p in case.model.parameters()])


@pytest.mark.contract
@pytest.mark.parametrize("name", FRESH)
def test_a_seed_makes_one_network_whatever_was_drawn_before(name: str) -> None:
    first = weights(PATIENTS[name].case(3))
    torch.rand(7)
    state = torch.random.get_rng_state()
    assert torch.equal(first, weights(PATIENTS[name].case(3)))
    assert torch.equal(state, torch.random.get_rng_state())
    by_hand = ("zeros", "constant")
    assert torch.equal(first, weights(PATIENTS[name].case(4))) == (name in by_hand)


def test_there_are_many_kinds_of_patients_and_findings() -> None:
    assert len(PATIENTS) >= 12
    assert {patient.kind for patient in PATIENTS.values()} == {"dense", "convolution", "text", "regression"}
    assert {patient.finding for patient in PATIENTS.values()} < set(ORDER)


@pytest.mark.parametrize("name", ["kaiming", "glorot", "mirrored"])
def test_a_start_is_that_of_initialise(name: str) -> None:
    model, twin = plain(64, 8, 10), plain(64, 8, 10)
    initialise_(twin, name, generator=torch.Generator().manual_seed(1))
    treated(Case(model, flat_digits(), seed=1), name)
    assert torch.equal(weights(Case(model, flat_digits())), weights(Case(twin, flat_digits())))


# Scores and training.


@pytest.mark.twin
def test_scores_are_those_of_sklearn() -> None:
    for sample, model in (
        (flat_digits(), nn.Linear(64, 10)),
        (moons(), nn.Linear(2, 1)),
        (friedman(), nn.Linear(10, 1)),
    ):
        output = model(sample.test_x).detach()
        if sample.loss == "mse":
            nn.init.zeros_(model.weight)
            model.weight.data[0, 3] = 2.0
            output = model(sample.test_x).detach()
            by_hand = max(WORST, r2_score(sample.test_y.numpy(), output.numpy()))
        else:
            answers = output.argmax(1) if sample.loss == "ce" else (output[:, 0] > 0).long()
            by_hand = accuracy_score(sample.test_y.numpy(), answers.numpy())
        assert score(model, sample) == pytest.approx(by_hand, abs=1e-5)


def test_an_output_that_is_no_number_has_the_worst_score() -> None:
    model = nn.Linear(10, 1)
    nn.init.constant_(model.bias, float("nan"))
    assert score(model, friedman()) == WORST


def test_chance_is_the_best_score_of_one_answer_for_all() -> None:
    for sample in (flat_digits(), moons(), reviews()):
        classes = int(sample.test_y.max()) + 1
        best = max(accuracy_score(sample.test_y, torch.full_like(sample.test_y, k)) for k in range(classes))
        assert sample.chance == pytest.approx(best)


def test_training_ends_with_the_step_that_breaks_it() -> None:
    case = PATIENTS["not-a-number"].case(0)
    train(case)
    assert not weights(case).isfinite().all()
