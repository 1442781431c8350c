"""One sink for numbers, `log(numbers, step)`: a CSV file, TensorBoard, Weights & Biases, MLflow, trackio."""

from __future__ import annotations

import csv
import io
from collections.abc import Mapping
from numbers import Integral
from os import PathLike
from pathlib import Path
from types import TracebackType
from typing import Any, Protocol, Self

from ..errors import AliveError, expect, require
from ..files import expect_writable, write_atomically
from ..train import Epoch, TensorBoardLogger

Numbers = Mapping[str, float]


class Sink(Protocol):
    """Where numbers go: each call gives those of one step."""

    def log(self, numbers: Numbers, step: int) -> None:
        """Take the numbers of a step."""

    def close(self) -> None:
        """No more will come."""


class Closing:
    """A sink is closed at the end of its `with` block."""

    def close(self) -> None:
        """Nothing to close by default."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()


class CsvSink(Closing):
    """A row a step and a column a name; a new name makes a new column, and a step that comes again replaces its row.

    >>> from tempfile import mkdtemp
    >>> path = Path(mkdtemp()) / "numbers.csv"
    >>> with CsvSink(path) as sink:
    ...     sink.log({"loss": 0.5}, 0)
    ...     sink.log({"loss": 0.25, "dead_units": 3}, 1)
    >>> path.read_text().splitlines()
    ['step,loss,dead_units', '0,0.5,', '1,0.25,3.0']
    """

    def __init__(self, path: str | PathLike[str]) -> None:
        self.path = Path(path)
        expect_writable(self.path)
        self._names, self._rows = self._read()

    def log(self, numbers: Numbers, step: int) -> None:
        """Write the file anew if it must change, else add a line; in both cases nothing is left half written."""
        found = checked(numbers)
        expect([(isinstance(step, Integral), f"a step is a whole number, got {step!r}")])
        fresh = [name for name in found if name not in self._names]
        begins = not self._rows or not self.path.exists()
        behind = not begins and step <= max(self._rows)
        self._names += fresh
        self._rows = {at: row for at, row in self._rows.items() if at <= step}  # a resumed run begins again here
        self._rows[step] = self._rows.get(step, {}) | found
        if fresh or begins or behind:
            write_atomically(self.path, self._text(self._rows, header=True).encode())
        else:
            with self.path.open("a", newline="", encoding="utf-8") as file:
                file.write(self._text({step: found}, header=False))

    def _text(self, rows: Mapping[int, Numbers], *, header: bool) -> str:
        text = io.StringIO()
        writer = csv.writer(text, lineterminator="\n")
        if header:
            writer.writerow(["step", *self._names])
        for step, row in rows.items():
            writer.writerow([step, *(repr(row[name]) if name in row else "" for name in self._names)])
        return text.getvalue()

    def _read(self) -> tuple[list[str], dict[int, dict[str, float]]]:
        """What an earlier run has written; a line torn by a crash is left out."""
        try:
            lines = [
                line for line in self.path.read_text(encoding="utf-8").splitlines(keepends=True) if line[-1] == "\n"
            ]
        except FileNotFoundError:
            return [], {}
        except UnicodeDecodeError:
            lines = ["no text"]
        rows = list(csv.reader(lines))
        try:
            expect([(not rows or rows[0][:1] == ["step"], "")])
            names = rows[0][1:] if rows else []
            read = {
                int(row[0]): {name: float(cell) for name, cell in zip(names, row[1:], strict=True) if cell}
                for row in rows[1:]
            }
        except ValueError:
            raise AliveError(f"{self.path} exists and is not a log of numbers", "Choose another path") from None
        return names, read


class TensorBoardSink(Closing):
    """One curve a name, for TensorBoard to show."""

    def __init__(self, folder: str | PathLike[str]) -> None:
        self._logger = TensorBoardLogger(folder)

    def log(self, numbers: Numbers, step: int) -> None:
        """Add one point to each curve."""
        self._logger.log(checked(numbers), step)

    def close(self) -> None:
        """Write what is left."""
        self._logger.close()


class WandbSink(Closing):
    """A run of Weights & Biases: the one you have (`run`), or one of its own, made of `settings` as wandb.init takes.

    `WandbSink(project="mine", mode="offline")` sends nothing anywhere; `wandb sync` does, later.
    """

    def __init__(self, run: Any = None, **settings: Any) -> None:
        with require("WandbSink", "alive[wandb]"):
            import wandb
        self._own = run is None
        self.run = wandb.init(**settings) if run is None else run

    def log(self, numbers: Numbers, step: int) -> None:
        """One row of the run."""
        self.run.log(checked(numbers), step=step)

    def close(self) -> None:
        """Finish the run, if it is our own."""
        if self._own:
            self.run.finish()


class MlflowSink(Closing):
    """A run of MLflow: the one you name (`run_id`), or a new one, in the store at `uri` (a folder, sqlite:///file)."""

    def __init__(self, uri: str | None = None, *, experiment: str = "alive", run_id: str | None = None) -> None:
        with require("MlflowSink", "alive[mlflow]"):
            from mlflow.tracking import MlflowClient
        self._client, self._own = MlflowClient(tracking_uri=uri), run_id is None
        if run_id is None:
            known = self._client.get_experiment_by_name(experiment)
            where = self._client.create_experiment(experiment) if known is None else known.experiment_id
            run_id = self._client.create_run(where).info.run_id
        self.run_id = run_id

    def log(self, numbers: Numbers, step: int) -> None:
        """All numbers of the step in one call."""
        from time import time

        from mlflow.entities import Metric

        now = int(time() * 1000)
        metrics = [Metric(name, value, now, step) for name, value in checked(numbers).items()]
        self._client.log_batch(self.run_id, metrics=metrics)

    def close(self) -> None:
        """End the run, if it is our own."""
        if self._own:
            self._client.set_terminated(self.run_id)


class TrackioSink(Closing):
    """A run of trackio, made of `settings` as trackio.init takes: `TrackioSink(project="mine")`."""

    def __init__(self, **settings: Any) -> None:
        with require("TrackioSink", "alive[trackio]"):
            import trackio
        self.run = trackio.init(**settings)

    def log(self, numbers: Numbers, step: int) -> None:
        """One row of the run."""
        self.run.log(checked(numbers), step=step)

    def close(self) -> None:
        """Finish the run."""
        self.run.finish()


class Rows:
    """A sink as a logger of `alive.train.train`, which gives a row an epoch.

    >>> from tempfile import mkdtemp
    >>> path = Path(mkdtemp()) / "rows.csv"
    >>> rows = Rows(CsvSink(path))
    >>> rows.row(Epoch(0, 0.7, 0.1, 0.5, None))
    >>> path.read_text().splitlines()[0]
    'step,loss,penalty,train_accuracy'
    """

    def __init__(self, sink: Sink) -> None:
        self.sink = sink

    def row(self, row: Epoch) -> None:
        """Take the row of the epoch just finished."""
        columns = row.columns()
        self.sink.log({name: v for name, v in columns.items() if name != "epoch" and v is not None}, row.epoch)

    def close(self) -> None:
        """The run is over."""
        self.sink.close()


def checked(numbers: Numbers) -> dict[str, float]:
    """The numbers as floats; what is none is refused by its name.

    >>> checked({"dead_units": 3})
    {'dead_units': 3.0}
    """
    found = {}
    for name, value in numbers.items():
        try:
            found[name] = float(value)
        except (TypeError, ValueError):
            raise AliveError(f"{name!r} is {value!r}, and a log takes numbers", "Leave it out") from None
    return found
