"""What a training run leaves behind: a row an epoch, and why it ended."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from ..errors import AliveError

WORDS = {"accuracy": "accuracy", "r2": "R²", "loss": "loss"}  # what people call each score


@dataclass(frozen=True, slots=True)
class Epoch:
    """One epoch, counted from 0.

    `loss` (of the task) and `penalty` are means over the epoch's training passes. `train` and `test` are the score of
    the network after the epoch, in eval mode: accuracy for labels, R² ("r2") for real targets, "loss" for a loss of
    one's own. They are None without a test set, and where the score is not defined: R² of constant targets.

    Differs from the paper: Keras reports training accuracy as a running mean while the weights still move.

    >>> Epoch(0, 0.7, 0.1, 0.5, None).columns()
    {'epoch': 0, 'loss': 0.7, 'penalty': 0.1, 'train_accuracy': 0.5, 'test_accuracy': None}
    """

    epoch: int
    loss: float
    penalty: float
    train: float | None
    test: float | None
    score: str = "accuracy"

    @property
    def train_accuracy(self) -> float:
        """The training score, where it is an accuracy."""
        _expect_accuracy(self.score)
        return self.train  # type: ignore[return-value]

    @property
    def test_accuracy(self) -> float | None:
        """The test score, where it is an accuracy."""
        _expect_accuracy(self.score)
        return self.test

    def columns(self) -> dict[str, Any]:
        """All numbers by the names of their columns, in which the score has its own."""
        scores = {f"train_{self.score}": self.train, f"test_{self.score}": self.test}
        return {"epoch": self.epoch, "loss": self.loss, "penalty": self.penalty, **scores}

    @classmethod
    def of(cls, columns: Mapping[str, Any]) -> Epoch:
        """The row that has these columns.

        >>> Epoch.of(Epoch(0, 0.7, 0.1, 0.5, None, "r2").columns())
        Epoch(epoch=0, loss=0.7, penalty=0.1, train=0.5, test=None, score='r2')
        """
        first = ("epoch", "loss", "penalty")
        score = next((each for each in WORDS if f"train_{each}" in columns), "accuracy")
        if set(columns) != {*first, f"train_{score}", f"test_{score}"}:
            raise KeyError(f"a row with the columns {', '.join(columns)}")
        epoch, loss, penalty = (columns[name] for name in first)
        return cls(epoch, loss, penalty, columns[f"train_{score}"], columns[f"test_{score}"], score)

    def __str__(self) -> str:
        return told(self.score, self.train, self.test)


@dataclass(frozen=True, slots=True)
class EpochHealth:
    """One recorded epoch, counted from 0, and the health of the network on the training set after it.

    Loss and penalty are means over the epoch's steps; all else is of the network after it, in eval mode. A point is
    dead if no unit of some hidden layer answers to it.
    """

    epoch: int
    loss: float
    penalty: float
    train_accuracy: float
    test_accuracy: float | None
    dead_units: int
    linear_units: int
    dead_points: int


@dataclass(frozen=True, slots=True)
class Best:
    """The best scores over all epochs, train and test separately, as papers 001 and 004 report.

    The largest accuracy or R², the smallest loss.
    """

    train: float | None
    test: float | None
    score: str = "accuracy"

    @property
    def train_accuracy(self) -> float | None:
        """The best training score, where it is an accuracy."""
        _expect_accuracy(self.score)
        return self.train

    @property
    def test_accuracy(self) -> float | None:
        """The best test score, where it is an accuracy."""
        _expect_accuracy(self.score)
        return self.test

    def __str__(self) -> str:
        return told(self.score, self.train, self.test)


@dataclass(frozen=True, slots=True)
class Result:
    """All rows; `stopped` says why a run ended early, or is None; `seconds` includes runs that were resumed.

    >>> result = Result((Epoch(0, 0.7, 0.1, 1.0, 0.5), Epoch(1, 0.6, 0.0, 0.9, 0.8)), None, 1.5)
    >>> result.best
    Best(train=1.0, test=0.8, score='accuracy')
    >>> result.last.epoch
    1
    """

    rows: tuple[Epoch, ...]
    stopped: str | None
    seconds: float

    @property
    def last(self) -> Epoch | None:
        """The last whole epoch, if there was one."""
        return self.rows[-1] if self.rows else None

    @property
    def best(self) -> Best:
        """The best scores, None where none was measured."""
        score = self.rows[0].score if self.rows else "accuracy"
        return Best(_best(score, (r.train for r in self.rows)), _best(score, (r.test for r in self.rows)), score)


def told(score: str, train: float | None, test: float | None, *, digits: int = 4) -> str:
    """Scores in words.

    >>> told("accuracy", 0.9, 0.8)
    'train accuracy 0.9000, test 0.8000'
    >>> told("r2", None, None)
    'train R² undefined (constant targets)'
    """
    first = "undefined (constant targets)" if train is None else f"{train:.{digits}f}"
    tested = "" if test is None else f", test {test:.{digits}f}"
    return f"train {WORDS[score]} {first}{tested}"


def _best(score: str, values: Iterable[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return (min if score == "loss" else max)(known, default=None)


def _expect_accuracy(score: str) -> None:
    if score != "accuracy":
        raise AliveError(f"the score of this run is {WORDS[score]}, not accuracy", "Read row.train and row.test")
