"""Where rows go while a run is under way: a CSV file, TensorBoard, the terminal."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import suppress
from os import PathLike
from pathlib import Path
from typing import Any, Protocol, TextIO

from rich.progress import MofNCompleteColumn

from ..errors import AliveError, require
from ..files import expect_writable, unwritable, write_atomically
from ..screen import bars
from .result import WORDS, Epoch, told

HEADERS = {score: ",".join(Epoch(0, 0.0, 0.0, None, None, score).columns()) + "\n" for score in WORDS}


class Logger(Protocol):
    """Takes each row of a run; a resumed run begins with a row later than 0."""

    def row(self, row: Epoch) -> None:
        """Take the row of the epoch just finished."""

    def close(self) -> None:
        """The run is over, well or not."""


class Progress(Logger, Protocol):
    """A logger that is told how many epochs there are."""

    def start(self, epochs: int, done: int) -> None:
        """The run will have `epochs`, of which `done` are behind it."""


class CsvLogger:
    """One line an epoch; a resumed run replaces the lines from its first epoch on, so that none appears twice.

    >>> from tempfile import mkdtemp
    >>> path = Path(mkdtemp()) / "rows.csv"
    >>> log = CsvLogger(path)
    >>> log.row(Epoch(0, 0.7, 0.1, 0.5, None))
    >>> log.close()
    >>> path.read_text().splitlines()
    ['epoch,loss,penalty,train_accuracy,test_accuracy', '0,0.7,0.1,0.5,']
    """

    def __init__(self, path: str | PathLike[str]) -> None:
        self.path = Path(path)
        self._file: TextIO | None = None
        expect_writable(self.path)  # a path that cannot be written shall stop the run before it begins
        self._before(0)

    def row(self, row: Epoch) -> None:
        """Write one line and flush it."""
        values = row.columns().values()
        line = ",".join("" if value is None else repr(value) for value in values) + "\n"
        try:
            if self._file is None:
                write_atomically(self.path, (HEADERS[row.score] + self._before(row.epoch, row.score)).encode())
                self._file = self.path.open("a", newline="", encoding="utf-8")
            self._file.write(line)
            self._file.flush()
        except OSError as error:
            with suppress(OSError):  # closing tries to write once more
                self.close()
            self._file = None
            raise unwritable(self.path, error) from None

    def close(self) -> None:
        """Close the file."""
        if self._file is not None:
            self._file.close()
            self._file = None

    def _before(self, epoch: int, score: str | None = None) -> str:
        """The lines of earlier epochs with this score; one torn by a crash, which has no end, is not among them."""
        try:
            lines = self.path.read_text(encoding="utf-8", errors="replace").splitlines(keepends=True)
        except FileNotFoundError:
            return ""
        except OSError as error:
            raise AliveError(f"cannot read {self.path}: {error.strerror}", "Choose another path for the log") from None
        if lines and lines[0] not in HEADERS.values():
            raise AliveError(f"{self.path} exists and is not a log of training", "Choose another path for the log")
        if lines and score is not None and lines[0] != HEADERS[score]:
            return ""
        whole = [line for line in lines[1:] if line.endswith("\n") and line.split(",")[0].isdigit()]
        return "".join(line for line in whole if int(line.split(",")[0]) < epoch)


class TensorBoardLogger:
    """One curve a column, for TensorBoard to show."""

    def __init__(self, folder: str | PathLike[str]) -> None:
        with require("a log for TensorBoard", "alive[tensorboard]"):
            from torch.utils.tensorboard import SummaryWriter
        self.folder = Path(folder)
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise unwritable(self.folder, error) from None
        expect_writable(self.folder / "events")
        self._open: Callable[..., Any] = SummaryWriter
        self._writer: Any = None

    def row(self, row: Epoch) -> None:
        """Add one point to each curve."""
        columns = row.columns()
        self.log({name: v for name, v in columns.items() if name != "epoch" and v is not None}, row.epoch)

    def log(self, numbers: Mapping[str, float], step: int) -> None:
        """Add one point to each curve; a resumed run hides what an earlier one drew from here on."""
        if self._writer is None:
            self._writer = self._open(str(self.folder), purge_step=step)
        for name, value in numbers.items():
            self._writer.add_scalar(name, value, step)

    def close(self) -> None:
        """Write what is left."""
        if self._writer is not None:
            self._writer.close()
            self._writer = None


def progress_bar(*, show: bool | None = None) -> Progress:
    """A bar on the terminal with epoch, loss, score and time left; elsewhere a line a minute, see `bars`."""
    return _Bar(show)


class _Bar:
    def __init__(self, show: bool | None) -> None:
        self._bars = bars("epoch", MofNCompleteColumn(), show=show)
        self._task = self._bars.add_task("", total=None)

    def start(self, epochs: int, done: int) -> None:
        self._bars.update(self._task, total=epochs, completed=done)
        self._bars.start()

    def row(self, row: Epoch) -> None:
        told_scores = told(row.score, row.train, row.test, digits=3).removeprefix("train ")
        told_all = f"loss {row.loss:.4f}, {told_scores}"
        self._bars.update(self._task, advance=1, description=told_all)

    def close(self) -> None:
        self._bars.stop()
