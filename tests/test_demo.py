"""The demonstration's claims: what is dead cannot learn, and the penalty makes it learn."""

from __future__ import annotations

import pytest
import torch

from alive import census, demo
from alive.data import moons
from alive.nn import Rectangular
from alive.train import task_loss


@pytest.mark.law
@pytest.mark.parametrize("seed", [10, 12, 13])
def test_where_every_point_is_dead_no_gradient_passes(seed):
    data = moons()
    model = Rectangular(2, 1, depth=50, width=4, generator=torch.Generator().manual_seed(seed))
    found = census(model, data.train_x)
    last = max(number for number, layer in enumerate(found.layers) if layer.points.dead == 85)
    task_loss(model(data.train_x), data.train_y).backward()
    for layer in model.hidden[: last + 1]:
        assert not layer.linear.weight.grad.any()
    assert model.output.bias.grad.any()


def test_a_short_run_keeps_its_books():
    outcome = demo.train_one(demo.Job(demo.METHODS[4], seed=10, epochs=4))
    assert outcome.units.total == 200
    assert outcome.points.total == 85
    assert outcome.panel.epochs.tolist() == [0, 1, 2, 3]
    assert outcome.panel.probability.shape == (120, 120)
    again = demo.train_one(demo.Job(demo.METHODS[4], seed=10, epochs=4))
    assert again.best == outcome.best
    assert (again.panel.probability == outcome.panel.probability).all()


@pytest.mark.twin
def test_an_outcome_survives_its_wait_on_disk():
    outcome = demo.train_one(demo.Job(demo.METHODS[5], seed=10, epochs=2))
    back = demo.Outcome.from_json(outcome.to_json())
    assert back.to_json() == outcome.to_json()
    assert (back.units, back.best, back.panel.extent) == (outcome.units, outcome.best, outcome.panel.extent)
    assert (back.panel.probability == outcome.panel.probability).all()


def test_an_interrupted_run_goes_on_and_repeats_nothing(tmp_path):
    jobs = [demo.Job(demo.METHODS[0], seed, epochs=2) for seed in (10, 11, 12)]

    def pull_the_plug(job: demo.Job, epochs: int) -> None:
        if len(list((tmp_path / demo.WAITING).iterdir())) == 1:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        demo.run(jobs, tmp_path, workers=1, tick=pull_the_plug)
    (kept,) = (tmp_path / demo.WAITING).iterdir()
    kept.write_text(kept.read_text().replace('"seconds": ', '"seconds": 1234'))
    outcomes = demo.run(jobs, tmp_path, workers=1, tick=lambda job, epochs: None)
    assert [outcome.seed for outcome in outcomes] == [10, 11, 12]
    assert sum(outcome.seconds > 1000 for outcome in outcomes) == 1, "the finished one was read, not trained again"


def test_summaries_are_means_with_sample_deviations():
    outcomes = [demo.train_one(demo.Job(demo.METHODS[0], seed=seed, epochs=1)) for seed in (10, 11)]
    (summary,) = demo.summarise(outcomes)
    dead = torch.tensor([float(o.units.dead) for o in outcomes])
    assert summary.seeds == 2
    assert summary.trained == 0
    assert summary.dead_units == pytest.approx((dead.mean().item(), dead.std().item()))


@pytest.mark.slow
def test_relu_stays_at_chance_and_sep_up_does_not(tmp_path):
    """001-T1 over ten seeds: about ten minutes."""
    jobs = [demo.Job(demo.METHODS[number], 10 + seed, 1000) for number in (0, 4) for seed in range(10)]
    outcomes = demo.run(jobs, tmp_path, workers=2, tick=lambda job, epochs: None)
    relu, sep = demo.summarise(outcomes)
    assert (relu.method, relu.trained) == ("ReLU", 0)
    assert sep.method == "Sep-UP"
    assert sep.trained >= 8
    assert sep.best_train[0] > 0.8
