"""What a training run leaves behind: a row an epoch, and why it ended."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Row:
    """One epoch, counted from 0.

    `loss` (of the task) and `penalty` are means over the epoch's training passes. The accuracies are of the network
    after the epoch, in eval mode; `test_accuracy` is None without a test set.

    Differs from the paper: Keras reports training accuracy as a running mean while the weights still move.
    """

    epoch: int
    loss: float
    penalty: float
    train_accuracy: float
    test_accuracy: float | None


@dataclass(frozen=True, slots=True)
class Best:
    """The largest accuracies over all epochs, train and test each for itself, as papers 001 and 004 report."""

    train_accuracy: float | None
    test_accuracy: float | None


@dataclass(frozen=True, slots=True)
class Result:
    """All rows; `stopped` says why a run ended early, or is None; `seconds` includes runs that were resumed.

    >>> result = Result((Row(0, 0.7, 0.1, 1.0, 0.5), Row(1, 0.6, 0.0, 0.9, 0.8)), None, 1.5)
    >>> result.best
    Best(train_accuracy=1.0, test_accuracy=0.8)
    >>> result.last.epoch
    1
    """

    rows: tuple[Row, ...]
    stopped: str | None
    seconds: float

    @property
    def last(self) -> Row | None:
        """The last whole epoch, if there was one."""
        return self.rows[-1] if self.rows else None

    @property
    def best(self) -> Best:
        """The best accuracies, None where none was measured."""
        tested = [row.test_accuracy for row in self.rows if row.test_accuracy is not None]
        return Best(max((row.train_accuracy for row in self.rows), default=None), max(tested, default=None))
