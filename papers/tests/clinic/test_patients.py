"""Patients and cures: the same seed makes the same network, and a cure changes what it says and nothing else."""

from __future__ import annotations

import pytest
import torch
from sklearn.metrics import accuracy_score, r2_score
from torch import nn

import alive
from alive.diagnosis.advice.remedies import ORDER, REMEDIES
from alive.errors import AliveError
from alive.nn import initialise_
from alive_papers.clinic import CURES, PATIENTS
from alive_papers.clinic.case import WORST, Case, score, train
from alive_papers.clinic.samples import flat_digits, friedman, moons, reviews

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


def tried(name: str, **changes: object) -> Case:
    torch.manual_seed(0)
    case = Case(nn.Sequential(nn.Linear(64, 8), nn.ReLU(), nn.Linear(8, 10)), flat_digits(), seed=1).but(**changes)
    return CURES[name].apply(case)


@pytest.mark.parametrize("name", ["kaiming", "glorot", "mirrored"])
def test_a_start_is_that_of_initialise(name: str) -> None:
    twin = nn.Sequential(nn.Linear(64, 8), nn.ReLU(), nn.Linear(8, 10))
    initialise_(twin, name, generator=torch.Generator().manual_seed(1))
    assert torch.equal(weights(tried(name)), weights(Case(twin, flat_digits())))


def test_cures_change_the_rate_the_clipping_and_the_penalty() -> None:
    assert tried("rate/10").lr == pytest.approx(1e-4)
    assert tried("rate/100").lr == pytest.approx(1e-5)
    assert tried("clip").clip == 1.0
    assert tried("UP mean").penalty == {"mode": "UP", "aggregate": "mean", "weight": 0.3}
    heavy = {"mode": "U", "weight": 5.0}
    assert tried("weight/100", penalty=heavy).penalty == {"mode": "U", "weight": 0.05}
    assert tried("no penalty", penalty=heavy).penalty == {}


@pytest.mark.parametrize("name", ["weight/100", "no penalty"])
def test_a_penalty_that_is_not_there_cannot_be_changed(name: str) -> None:
    with pytest.raises(AliveError, match="no penalty"):
        tried(name)


def test_token_ids_cannot_be_standardised() -> None:
    with pytest.raises(AliveError, match="real points"):
        CURES["standardise"].apply(PATIENTS["deep-text"].case(0))


# What the advice prints is what the clinic did.


@pytest.mark.twin
@pytest.mark.parametrize("name", REMEDIES)
def test_the_lines_of_a_remedy_do_what_the_cure_did(name: str) -> None:
    """Run as printed, after `import alive, torch`; then weights, rate and penalty are those of the cure."""
    penalty = {"weight": 7.0} if name == "no penalty" else {}
    cured, plain = tried(name, penalty=penalty), tried("nothing", penalty=penalty)
    before = weights(plain)
    optimiser = torch.optim.Adam(plain.model.parameters(), lr=plain.lr)
    names = {"alive": alive, "torch": torch, "model": plain.model, "x": plain.sample.train_x, "optimiser": optimiser}
    names |= {"loss": torch.zeros(()), **({"keep": alive.Jumpstart(plain.model, **penalty)} if penalty else {})}
    torch.manual_seed(1)  # the seed of the case, for starts
    for line in REMEDIES[name].code:
        names["model"].train()(names["x"])  # each step begins with a pass
        exec(line, names)
    assert optimiser.param_groups[0]["lr"] == pytest.approx(cured.lr)
    assert [type(part) for part in names["model"].modules()] == [type(part) for part in cured.model.modules()]
    assert torch.equal(weights(plain.but(model=names["model"])), weights(cured))
    starts = {"torch", "kaiming", "glorot", "mirrored"} & set(name.split(", "))
    assert torch.equal(weights(plain), before) == (not starts)
    if cured.penalty:
        assert repr(names["keep"]) == repr(alive.Jumpstart(cured.model, **cured.penalty))
    assert bool(list(alive.taps.watchers(plain.model))) == bool(cured.penalty)


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
