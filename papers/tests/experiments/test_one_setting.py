"""One setting against a sweep: the grid, how it is judged, and that real targets have a score."""

from __future__ import annotations

import math
from itertools import product

import numpy as np
import pytest

from alive.data import friedman
from alive.penalties.multipliers import WEIGHT
from alive.train import Settings
from alive_papers.experiments import EXPERIMENTS, Cell, Row
from alive_papers.experiments.effort import effort
from alive_papers.experiments.ours.one_setting import AUTO, ONE, PLAIN, SWEEP, TASKS, places, standing, table
from alive_papers.fleet import Member
from alive_papers.net import Net, train_net

STUDY = EXPERIMENTS["one-setting"]
WEIGHTS = [f"{weight:g}" for weight in SWEEP]


def rows_of(scores: dict[str, list[float]]) -> list[Row]:
    """Rows of the 20x4 networks under Adam with these scores, seed by seed."""
    by_name = dict(zip([PLAIN, ONE, AUTO, *WEIGHTS], range(10), strict=True))
    found = []
    for name, values in scores.items():
        for seed, value in enumerate(values):
            cell = TASKS[0].cells(seed)[by_name[name]]
            found.append(Row(cell, value, 0.1, None, None, {}))
    return found


def test_the_sweep_is_seven_weights_over_ten_decades() -> None:
    steps = np.diff(np.log10(SWEEP))
    assert (SWEEP[0], SWEEP[-1], len(SWEEP)) == (1e-8, 1e2, 7)
    assert np.allclose(steps, 10 / 6, atol=0.02)


def test_every_network_has_all_settings() -> None:
    cells = STUDY.cells("paper", seeds=1)
    assert len(cells) == (6 * 2 + 3) * (3 + 7), "six networks under Adam and SGD, three of images under Adam"
    sizes = {(cell.data, cell.member.depth, cell.member.width) for cell in cells}
    dense = {("moons", 20, 4), ("moons", 50, 4), ("moons", 50, 10), ("moons", 100, 25), ("digits", 40, 16)}
    assert sizes == dense | {("friedman", 30, 16), ("mnist", 28, 4), ("mnist", 44, 8), ("cifar10", 25, 10)}
    untouched = [cell.member for cell in cells if isinstance(cell.member, Member) and cell.member.aggregate == "meansq"]
    assert {member.weight for member in untouched} == {WEIGHT, "auto"}


def test_the_best_weight_and_the_one_that_others_would_choose() -> None:
    """Against a search through all choices that shares no code."""
    chance = np.random.default_rng(0)
    scores = {name: chance.random(4).tolist() for name in (PLAIN, ONE, AUTO, *WEIGHTS)}
    (found,) = map(standing, places(rows_of(scores)).values())
    assert found.best == max(math.fsum(scores[name]) / 4 for name in WEIGHTS)
    assert math.fsum(scores[found.weight]) / 4 == found.best
    fair = []
    for left in range(4):
        others = {name: sum(v for seed, v in enumerate(scores[name]) if seed != left) for name in WEIGHTS}
        fair.append(scores[max(others, key=others.get)][left])  # type: ignore[arg-type]
    assert found.fair == pytest.approx(sum(fair) / 4)
    assert (found.plain, found.one, found.auto) == tuple(
        pytest.approx(sum(scores[name]) / 4) for name in (PLAIN, ONE, AUTO)
    )


def test_claims_and_table_of_a_hit_and_a_miss() -> None:
    scores = {name: [0.5, 0.5] for name in WEIGHTS} | {PLAIN: [0.4, 0.4], "0.001": [1.0, 1.0]}
    rows = rows_of(scores | {ONE: [0.97, 1.0], AUTO: [0.9, 1.0]})
    judged = {claim.id: claim.measure(rows) for claim in STUDY.claims}
    assert {name: found.ours for name, found in judged.items() if found} == {
        "one-close": 1.0,
        "auto-close": 0.0,
        "one-close-fair": 1.0,
        "auto-close-fair": 0.0,
        "never-below-plain": 1.0,
    }
    line = table(rows).splitlines()[-1]
    assert "| 0.985 | 0.950 ✗ | 1.000 (0.001) | 1.000 |" in line
    assert STUDY.claims[0].measure(rows[:-1]) is not None, "a seed that is missing leaves the others"
    assert STUDY.claims[0].measure([row for row in rows if row.best_train != 0.4]) is None, "no plain network"


def test_a_regression_has_a_row_with_its_r2() -> None:
    data = friedman()
    net = Net("rectangle", 2, 16, "ReLU", 1, training=Settings(epochs=4, batch_size=50, lr=0.01))
    done = train_net(net, data)
    row = Row.of(Cell(net, "friedman"), done)
    assert row.best_test == max(each.test for each in done.result.rows if each.test is not None)
    assert 0.3 < row.best_test < 1
    assert row.last is not None
    assert row.last.test_accuracy == done.result.rows[-1].test
    assert row.trace["test_accuracy"][-1] == pytest.approx(row.last.test_accuracy, rel=1e-4)


def test_effort_of_a_study_of_both_engines_counts_both() -> None:
    found = effort(STUDY, "quick")
    assert (found.members, sum(load.networks for load in found.loads)) == (4 * 20, 20)
    assert " and " in found.needs
    assert all(unit in found.arithmetic for unit in ("80 networks, each epochs", "20 networks × 20 epochs"))


def test_labels_tell_all_settings_apart() -> None:
    rows = [Row(cell, 0.5, 0.5, None, None, {}) for seed, task in product((10, 11), TASKS) for cell in task.cells(seed)]
    assert len(places(rows)) == 15
    assert all(len(found) == 10 for found in places(rows).values())
