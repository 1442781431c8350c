"""What was measured: trials kept as they finish, and the book of them that comes with the package."""

from __future__ import annotations

import json
import statistics
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from importlib.resources import files
from pathlib import Path

from alive._version import __version__
from alive.errors import AliveError, expect
from alive.files import write_atomically
from alive.processes import LOOK
from alive.store import Records, typed

from ..run.machine import hardware, versions
from .patients import PATIENTS
from .trial import ADVICE, HEALTHY, TRIED, Trial, treat

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
            book: Book = typed(cls, found)
        except FileNotFoundError:
            return cls()
        except (OSError, ValueError, TypeError, RecursionError) as error:
            raise AliveError(f"{file} holds no trials: {error}", "Name another file") from None
        return book

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
        scores = [row.score for row in self.of(patient, HEALTHY) if row.score is not None]
        expect([(bool(scores), f"there is no score of the healthy network of {patient}, which sets the bar")])
        return statistics.fmean(scores)

    def bar(self, patient: str) -> float:
        """The score from which on a patient trains: half way from chance to the healthy network."""
        chance = PATIENTS[patient].sample.chance
        return chance + (self.healthy(patient) - chance) / 2

    def summary(self, patient: str, cure: str) -> Summary:
        """A cure on a patient, over its seeds."""
        scores = tuple(row.score for row in self.of(patient, cure) if row.score is not None)
        bar = self.bar(patient)
        return Summary(patient, cure, scores, sum(score >= bar for score in scores))


class Trials(Records[Trial]):
    """The store of trials."""

    KIND, HOLDS, BEFORE = Trial, "trials", "alive-clinic.jsonl"
    OPTION, FIRST = "--rows", "Run `alive clinic` first"


def run(wanted: Sequence[tuple[str, str, int]], store: Trials, tick: Callable[[Trial], None]) -> list[Trial]:
    """Do the trials that the store does not hold yet, beside others who do; all that were wanted. Ctrl-C keeps them."""
    ahead, done = list(wanted), dict[tuple[str, str, int], Trial]()
    with store.working() as free:
        while ahead:
            kept = {row.key: row for row in store.all()}
            for patient, cure, seed in ahead:
                row = kept.get(key := (patient, cure, seed, __version__))
                if row is None and free(key):
                    store.add(row := treat(PATIENTS[patient], cure, seed))
                if row is not None:
                    done[patient, cure, seed] = row
                    tick(row)
            before, ahead = len(ahead), [each for each in ahead if each not in done]
            if len(ahead) == before:
                time.sleep(LOOK)  # other processes hold the rest: they finish it, or die
    return [done[each] for each in wanted]


def _line(row: Trial) -> str:
    return json.dumps(asdict(row), ensure_ascii=False)


def made(rows: Iterable[Trial], command: str) -> Book:
    """A book of rows made today, here, by a command; those of this version, by patient, cure and seed."""
    hard, cures = hardware(), [HEALTHY, *TRIED, ADVICE]
    kept = [row for row in rows if row.version == __version__ and row.patient in PATIENTS and row.cure in cures]
    kept.sort(key=lambda row: (list(PATIENTS).index(row.patient), cures.index(row.cure), row.seed))
    return Book(
        tuple(kept),
        datetime.now(UTC).date().isoformat(),
        f"{hard['processor'] or 'unknown'}, {hard['cores']} cores, {hard['system']}",
        ", ".join(f"{name} {number}" for name, number in sorted(versions().items()) if name != "numba"),
        command,
    )
