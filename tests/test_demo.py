"""The demonstration's claims: what is dead cannot learn, and the penalty makes it learn."""

from __future__ import annotations

from io import StringIO

import numpy as np
import pytest
import torch
from matplotlib.text import Text
from rich.console import Console

from alive import census, demo
from alive.data import moons
from alive.nn import Rectangular
from alive.report import Panel
from alive.report.save import save_figure
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


# The pictures and the table explain themselves.


def test_one_seed_is_worded_for_one_and_the_table_says_what_the_names_mean():
    outcomes = [demo.train_one(demo.Job(method, seed=10, epochs=1)) for method in demo.METHODS[:2]]
    said = " ".join(printed(demo.table(demo.summarise(outcomes))).split())
    assert "one seed" in said
    assert "mean" not in said
    assert "0 of 1" not in said
    assert "Sep-UP: with the penalty on units and points" in said
    two = [*outcomes, demo.train_one(demo.Job(demo.METHODS[0], seed=11, epochs=1))]
    assert "mean ± standard deviation over 2 seeds" in " ".join(printed(demo.table(demo.summarise(two))).split())


def printed(table):
    console = Console(file=StringIO(), width=120, color_system=None)
    console.print(table)
    return console.file.getvalue()


def words_of(figure):
    return [text.get_text() for text in figure.findobj(Text) if text.get_text()]


def test_the_pictures_name_network_data_seed_and_methods(tmp_path, monkeypatch):
    drawn = {}

    def keep(figure, path, **_):
        drawn[path.name] = words_of(figure)
        save_figure(figure, path)

    monkeypatch.setattr("alive.report.moons.save_figure", keep)
    outcomes = [demo.train_one(demo.Job(method, seed=10, epochs=2)) for method in demo.METHODS]
    demo.write(outcomes, tmp_path)
    assert set(drawn) == {"decision-maps.png", "alive-over-time.png"}
    for words in drawn.values():
        said = "\n".join(words)
        for word in ("50 hidden layers of 4 ReLU units", "MOONS, 85 training points", "2 epochs", "seed 10"):
            assert word in said
        for method in demo.METHODS:
            assert method.note in words
            assert any(text.startswith(method.name) for text in words)
        for name in ("Sep-U, Sep-P, Sep-UP", "dead unit", "dead point", "mirrored start"):
            assert name in said
    one = sum(
        bool((o.panel.probability > 0.5).all() or (o.panel.probability <= 0.5).all()) for o in outcomes
    )  # plain ReLU among them
    assert one >= 1
    assert drawn["decision-maps.png"].count("one answer everywhere") == one


def panel(probability):
    none = np.zeros(1)
    return Panel("x", probability, (0, 1, 0, 1), np.zeros(1, np.int64), none, none, none, none)


def test_an_empty_map_says_why():
    split = np.array([[0.2, 0.7]])
    assert panel(split).answer == ""
    assert panel(np.full((2, 2), 0.48)).answer == "one answer everywhere"
    assert panel(np.array([[0.6, 0.9]])).answer == "one answer everywhere"
    assert panel(np.array([[0.6, np.nan]])).answer == "not a number"
