"""The demonstration's claims: what is dead cannot learn, and the penalty makes it learn."""

from __future__ import annotations

import json
from dataclasses import replace
from io import StringIO

import numpy as np
import pytest
import torch
from matplotlib.text import Text
from rich.console import Console

from alive import census
from alive.data import moons
from alive.nn import Rectangular
from alive.train import task_loss
from alive_papers import demo
from alive_papers.experiments import EXPERIMENTS
from alive_papers.fleet import train_supply
from alive_papers.report.moons import NOTES, answer
from alive_papers.report.save import save_figure
from alive_papers.run import Store, run

DEMO, TABLE1 = EXPERIMENTS["demo"], EXPERIMENTS["001-T1"]
METHODS = ["ReLU", "ReLU+BN", "Sep-P", "Sep-U", "Sep-UP", "ReLU, mirrored"]


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


@pytest.fixture(scope="module")
def rows(tmp_path_factory):
    """Two seeds, trained to the end."""
    cells = DEMO.cells(seeds=2)
    with Store(tmp_path_factory.mktemp("demo") / "alive.sqlite") as store:
        run(cells, store)
        return store.rows(cells)


def test_the_demo_is_table_1_and_the_mirrored_start():
    published, shown = ({cell.key for cell in each.cells(seeds=10)} for each in (TABLE1, DEMO))
    assert published < shown
    assert {cell.label for cell in DEMO.cells() if cell.key not in published} == {"ReLU, mirrored"}


def test_the_table_has_the_numbers_of_the_experiment(rows):
    shown = {summary.method: summary for summary in demo.summarise(rows)}
    assert list(shown) == METHODS
    for claim in TABLE1.claims:
        method, _, part = claim.id.rpartition("-")
        if part == "loss":  # which the demo does not show
            continue
        best = shown[method].best_train if part == "train" else shown[method].best_test
        assert best == claim.measure(rows)


def test_what_is_counted_in_training_is_what_a_census_finds(rows):
    """The traces that are drawn end with the network that is kept."""
    for row in rows:
        found = census(row.network(), moons().train_x)
        counted = (row.last.dead_units, row.last.linear_units, row.last.dead_points)
        assert counted == tuple(row.trace[name][-1] for name in ("dead_units", "linear_units", "dead_points"))
        if row.cell.label != "ReLU+BN":  # behind fifty norms the last digit decides about many a point
            assert counted == pytest.approx((found.units.dead, found.units.linear, found.points.dead), abs=2)


def test_over_ten_seeds_relu_stays_at_chance_and_the_cures_do_not(tmp_path):
    cells = [cell for cell in DEMO.cells(seeds=10) if cell.label in ("ReLU", "Sep-UP", "ReLU, mirrored")]
    with Store(tmp_path / "alive.sqlite") as store:
        run(cells, store)
        found = {claim.id: claim.measure(store.rows(cells)) for claim in DEMO.claims}
    assert {claim.id: claim.verdict(found[claim.id]) for claim in DEMO.claims} == dict.fromkeys(found, "reproduced")
    assert {measured.n for measured in found.values()} == {10}


class Watched:
    """A supply that hands out another's members and counts those that end; Ctrl-C may come with the first of them."""

    def __init__(self, supply, *, unplugged):
        self.supply, self.unplugged, self.finished = supply, unplugged, 0

    def more(self):
        return self.supply.more()

    def ended(self, some):
        self.supply.ended(some)
        self.finished += sum(each.result.finished for each in some)
        if self.unplugged:
            self.unplugged = False
            raise KeyboardInterrupt


def test_an_interrupted_demo_goes_on_and_repeats_nothing(alive, monkeypatch):
    runs = []

    def watched(supply, data, **options):
        runs.append(Watched(supply, unplugged=not runs))
        return train_supply(runs[-1], data, **options)

    monkeypatch.setattr("alive_papers.run.work.train_supply", watched)
    code, out, err = alive("demo", "--threads", 2)
    assert (code, out) == (130, "")
    assert "the same command goes on from there" in err
    code, out, err = alive("demo")
    assert code == 0
    assert [0 < each.finished < 6 for each in runs] == [True, True]
    assert sum(each.finished for each in runs) == 6
    assert out.splitlines()[-1] == "alive-demo/results.json"
    assert "6 networks: about 10 seconds" in err


def test_summaries_are_means_with_sample_deviations(rows):
    summary = demo.summarise(rows)[3]
    dead = torch.tensor([float(row.last.dead_units) for row in rows if row.cell.label == "Sep-U"])
    assert (summary.method, summary.seeds, summary.trained) == ("Sep-U", 2, 2)
    assert summary.dead_units.ours == pytest.approx(dead.mean().item())
    assert summary.dead_units.spread == pytest.approx(dead.std().item())


def test_a_network_that_broke_in_its_first_step_is_shown(rows, tmp_path):
    empty = {name: [] for name in rows[0].trace}
    broken = [replace(row, best_train=0.0, best_test=None, last=None, trace=empty) for row in rows[:6]]
    assert "·" in printed(demo.table(broken))
    demo.write(broken, tmp_path)
    assert json.loads((tmp_path / "results.json").read_text())["networks"][0]["last"] is None


# The pictures and the table explain themselves.


def test_one_seed_is_worded_for_one_and_the_table_says_what_the_names_mean(rows):
    said = " ".join(printed(demo.table(rows[:6])).split())
    assert "one seed" in said
    assert "mean" not in said
    assert "0 of 1" not in said
    assert "Sep-UP: with the penalty on units and points" in said
    assert "mean ± standard deviation over 2 seeds" in " ".join(printed(demo.table(rows)).split())


def printed(table):
    console = Console(file=StringIO(), width=120, color_system=None)
    console.print(table)
    return console.file.getvalue()


def words_of(figure):
    return [text.get_text() for text in figure.findobj(Text) if text.get_text()]


def test_the_pictures_name_network_data_seed_and_methods(rows, tmp_path, monkeypatch):
    drawn = {}

    def keep(figure, path, **_):
        drawn[path.name] = words_of(figure)
        save_figure(figure, path)

    monkeypatch.setattr("alive_papers.report.moons.save_figure", keep)
    demo.write(rows, tmp_path)
    short = drawn.pop("in-short.svg")
    assert {"plain ReLU", "with the penalty", "mirrored start", "dead points"} <= set(short)
    assert set(drawn) == {"decision-maps.png", "alive-over-time.png"}
    for words in drawn.values():
        said = "\n".join(words)
        for word in ("50 hidden layers of 4 ReLU units", "MOONS, 85 training points", "1000 epochs", "seed 10"):
            assert word in said
        for method in METHODS:
            assert NOTES[method] in words
            assert any(text.startswith(method) for text in words)
        for name in ("Sep-U, Sep-P, Sep-UP", "mirrored start"):
            assert name in said
    assert "A dead unit is off for every point" in "\n".join(drawn["alive-over-time.png"])
    assert drawn["decision-maps.png"].count("one answer everywhere") == 1, "plain ReLU"


def test_an_empty_map_says_why():
    assert answer(np.array([[0.2, 0.7]])) == ""
    assert answer(np.full((2, 2), 0.48)) == "one answer everywhere"
    assert answer(np.array([[0.6, 0.9]])) == "one answer everywhere"
    assert answer(np.array([[0.6, np.nan]])) == "not a number"
