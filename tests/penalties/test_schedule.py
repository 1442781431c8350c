"""The weight of a penalty over training."""

from __future__ import annotations

import pytest

from alive.errors import AliveError
from alive.penalties import Schedule


@pytest.mark.parametrize(
    ("schedule", "expected"),
    [
        (Schedule(2.0), [2.0, 2.0, 2.0, 2.0, 2.0]),
        (Schedule(2.0, 1.0, "linear"), [2.0, 1.75, 1.5, 1.25, 1.0]),
        (Schedule(0.0, 1.0, shape="cosine"), [0.0, 0.14644660940672627, 0.5, 0.8535533905932737, 1.0]),
    ],
)
def test_shapes_go_from_start_to_end(schedule: Schedule, expected: list[float]) -> None:
    assert [schedule(t) for t in (0.0, 0.25, 0.5, 0.75, 1.0)] == pytest.approx(expected)


@pytest.mark.law
@pytest.mark.parametrize("shape", ["linear", "cosine"])
def test_progress_beyond_training_is_clipped(shape: str) -> None:
    schedule = Schedule(3.0, 1.0, shape)
    assert (schedule(-1.0), schedule(2.0)) == (3.0, pytest.approx(1.0))


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ((-1.0,), "not negative"),
        ((float("nan"),), "finite"),
        ((float("inf"),), "finite"),
        ((1.0, -1.0, "linear"), "end must be finite"),
        ((1.0, None, "linear"), "needs an end"),
        ((1.0, 0.5), "say shape='linear'"),
        ((1.0, 0.5, "cosin"), "did you mean 'cosine'"),
        (((1.0, 0.5),), r"weight must be a number, got \(1.0, 0.5\).*alive.Schedule\(start, end"),
        (("1",), "weight must be a number, got '1'"),
        ((1.0, "0", "linear"), "end must be a number, got '0'"),
    ],
)
def test_bad_values_are_refused(arguments: tuple, said: str) -> None:
    with pytest.raises(AliveError, match=said):
        Schedule(*arguments)


def test_all_faults_are_told_together() -> None:
    with pytest.raises(AliveError, match=r"unknown schedule shape.*weight must be.*end must be"):
        Schedule(-1.0, -1.0, "stairs")
