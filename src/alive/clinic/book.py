"""What was measured: rows in a file as they finish, and the book of them that comes with the package."""

from __future__ import annotations

import json
import statistics
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from importlib.resources import files
from pathlib import Path

from .._version import __version__
from ..errors import AliveError
from ..files import write_atomically
from ..run.machine import hardware, versions
from .cures import CURES
from .patients import PATIENTS
from .trial import ADVICE, HEALTHY, Trial

OURS = "recorded.json"


@dataclass(frozen=True, slots=True)
class Summary:
    """One cure on one patient over its seeds; no score where it cannot be applied."""

    patient: str
    cure: str
    scores: tuple[float, ...]
    trains: int

    @property
    def mean(self) -> float:
        """The mean score."""
        return statistics.fmean(self.scores)

    @property
    def spread(self) -> float:
        """The standard deviation over seeds; 0 for one."""
        return statistics.stdev(self.scores) if len(self.scores) > 1 else 0.0


@dataclass(frozen=True, slots=True)
class Book:
    """Trials, and when, on what and by which command they were made."""

    rows: tuple[Trial, ...] = ()
    date: str = ""
    hardware: str = ""
    versions: str = ""
    command: str = ""

    @classmethod
    def read(cls, path: Path | None = None) -> Book:
        """The book of a file, by default the one that comes with the package."""
        file = files(__package__) / OURS if path is None else path
        try:
            found = json.loads(file.read_text(encoding="utf-8"))
            return cls(**found | {"rows": tuple(Trial(**row) for row in found["rows"])})
        except FileNotFoundError:
            return cls()
        except (OSError, ValueError, TypeError, KeyError) as error:
            raise AliveError(f"{file} holds no trials: {error}", "Name another file") from None

    def write(self, path: Path) -> None:
        """Write the book, a row a line."""
        head = {name: value for name, value in asdict(self).items() if name != "rows"}
        lines = ",\n".join(f"  {_line(row)}" for row in self.rows)
        text = json.dumps(head, indent=1, ensure_ascii=False)[:-2]
        write_atomically(path, f'{text},\n "rows": [\n{lines}\n ]\n}}\n'.encode())

    def of(self, patient: str, cure: str) -> tuple[Trial, ...]:
        """The trials of one cure on one patient."""
        return tuple(row for row in self.rows if (row.patient, row.cure) == (patient, cure))

    def patients(self) -> list[str]:
        """The patients that were tried, in their order."""
        return [name for name in PATIENTS if any(row.patient == name for row in self.rows)]

    def healthy(self, patient: str) -> float:
        """The mean score of the healthy network."""
        return statistics.fmean(row.score for row in self.of(patient, HEALTHY) if row.score is not None)

    def bar(self, patient: str) -> float:
        """The score from which on a patient trains: half way from chance to the healthy network."""
        chance = PATIENTS[patient].sample.chance
        return chance + (self.healthy(patient) - chance) / 2

    def summary(self, patient: str, cure: str) -> Summary:
        """A cure on a patient, over its seeds."""
        scores = tuple(row.score for row in self.of(patient, cure) if row.score is not None)
        bar = self.bar(patient)
        return Summary(patient, cure, scores, sum(score >= bar for score in scores))


def read_rows(path: Path) -> list[Trial]:
    """The rows of a file of JSON lines; none where there is no file yet."""
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except FileNotFoundError:
        return []
    try:
        return [Trial(**json.loads(line)) for line in lines]
    except (ValueError, TypeError) as error:
        raise AliveError(f"{path} holds no trials: {error}", "Name another file, or remove it") from None


def write_rows(path: Path, rows: Sequence[Trial]) -> None:
    """All rows, a line each."""
    write_atomically(path, "".join(f"{_line(row)}\n" for row in rows).encode())


def _line(row: Trial) -> str:
    return json.dumps(asdict(row), ensure_ascii=False)


def made(rows: Iterable[Trial], command: str) -> Book:
    """A book of rows made today, here, by a command; those of this version, by patient, cure and seed."""
    hard, cures = hardware(), [HEALTHY, *CURES, ADVICE]
    kept = [row for row in rows if row.version == __version__ and row.patient in PATIENTS and row.cure in cures]
    kept.sort(key=lambda row: (list(PATIENTS).index(row.patient), cures.index(row.cure), row.seed))
    return Book(
        tuple(kept),
        datetime.now(UTC).date().isoformat(),
        f"{hard['processor'] or 'unknown'}, {hard['cores']} cores, {hard['system']}",
        ", ".join(f"{name} {number}" for name, number in sorted(versions().items()) if name != "numba"),
        command,
    )
