"""The limits of the advice, measured again: inputs that cannot be learned from, penalties that drown the task."""

from __future__ import annotations

import statistics
from collections.abc import Callable

import pytest
import torch
from torch import Tensor

from alive.cures import find
from alive.cures.jumpstart import Weighed
from alive.diagnosis import census
from alive.findings.drowned import DROWNS
from alive.findings.scale import FAR, LARGE, SMALL, UNEVEN, Limits, scale
from alive_papers.clinic import PATIENTS
from alive_papers.clinic.book import Book
from alive_papers.clinic.case import Case, score, train, treated
from alive_papers.clinic.round import pulled, seen
from alive_papers.clinic.samples import friedman, plain

CHANGES: dict[str, tuple[Limits, Callable[[Tensor, float], Tensor]]] = {
    "too large": (LARGE, lambda x, by: x * by / 0.577),  # of size `by`
    "too small": (SMALL, lambda x, by: x / by / 0.577),
    "far from zero": (FAR, lambda x, by: x - 0.5 + 0.29 * by),
    "uneven": (UNEVEN, lambda x, by: torch.cat([(x[:, :1] - 0.5) * by, x[:, 1:] - 0.5], 1)),
}
BOOK = Book.read()
BAR = BOOK.bar("large-inputs")
PENALTIES = ("U sum", "P sum", "UP sum", "U mean", "UP mean", "mirrored, UP mean")


def reached(name: str, by: float) -> list[float]:
    """R² of three networks, and what the advice says of their inputs, printed."""
    found, said = [], ("", False)
    for seed in range(3):
        torch.manual_seed(seed)
        sample = friedman().with_inputs(name, lambda x: CHANGES[name][1](x, by))
        case = Case(plain(10, 32, 32, 32, 1), sample, epochs=25, seed=seed)
        said = scale(census(case.model, sample.train_x).input)
        train(case)
        found.append(score(case.model, sample))
    print(f"{name} {by:g}: {[round(each, 2) for each in found]} {'grave' if said[1] else 'odd' if said[0] else 'fine'}")
    return found


@pytest.mark.slow
@pytest.mark.parametrize("name", CHANGES)
def test_the_limits_are_where_networks_stop_to_train(name: str) -> None:
    limits = CHANGES[name][0]
    fine = statistics.fmean(reached(name, 1.0))
    assert statistics.fmean(reached(name, limits.odd / 2)) > fine - 0.15
    assert statistics.fmean(reached(name, limits.odd * 2)) < fine - 0.05
    assert any(each >= BAR for each in reached(name, limits.grave / 2))
    assert all(each < BAR for each in reached(name, limits.grave * 2))


@pytest.mark.slow
@pytest.mark.parametrize("name", [name for name in PATIENTS if name != "drowned"])
@pytest.mark.filterwarnings("ignore:.*one unit")
def test_a_penalty_that_helped_hardly_pulls_after_training(name: str) -> None:
    for row in (row for cure in PENALTIES for row in BOOK.of(name, cure)):
        if row.score is None or row.score < BOOK.bar(name):
            continue
        torch.manual_seed(row.seed)
        case = PATIENTS[name].case(row.seed)
        treatment = treated(case, row.cure)
        before = pulled(case, treatment.model, treatment.keep)
        train(case, treatment)
        penalty = next(cure for cure in find(row.cure) if isinstance(cure, Weighed))
        after = pulled(case, treatment.model, penalty.keep(treatment.model))
        print(f"{name}, {row.cure}, seed {row.seed}: {before:.3g} at the start, {after:.3g} after training")
        assert after < DROWNS / 10


@pytest.mark.parametrize("seed", range(3))
def test_a_penalty_that_drowned_the_task_pulls_hard_after_training(seed: int) -> None:
    _, pull = seen(PATIENTS["drowned"], seed)
    assert pull is not None
    assert pull > 10 * DROWNS
