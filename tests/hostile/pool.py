"""Worker processes that open one spoiled file after the other, and what each of them did.

torch and alive are loaded once; workers are forked from there, and again when one dies. A file may take ten seconds of
a processor and, with all that is loaded, a gigabyte; its answer is one line, or success.
"""

from __future__ import annotations

import io
import json
import os
import random
import re
import resource
import select
import signal
import sys
import traceback
import warnings
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from time import process_time
from typing import NamedTuple

from samples import FILE, HERE, Sample
from spoil import spoiled

SECONDS = 10
BYTES = 10**9
LINE = 600
ANEW = 250  # files after which a worker is forked anew: what one left behind is none of the next
BACKSTOP = 6 * 10**9  # of addresses: a file that takes all memory must not take the machine with it


class Outcome(NamedTuple):
    """What a file did: its exit code, or what it was killed by; the fault, if any; what was said."""

    code: int
    fault: str
    seconds: float
    megabytes: int
    said: str


class Job(NamedTuple):
    """One file: of which format, by which number; number 0 is the sound file."""

    format: str
    number: int


def content(sample: Sample, job: Job) -> bytes:
    """The bytes of a file: the same for the same job, on every machine."""
    return sample.data if job.number == 0 else spoiled(sample.data, random.Random(f"{job.format} {job.number}"))


def outcomes(
    known: dict[str, Sample], jobs: Sequence[Job], folder: Path, processes: int = 1
) -> Iterator[tuple[Job, Outcome]]:
    """Open every file; give what it did as soon as that is known. Those that are no bombs are opened once before."""
    _warm({name: sample for name, sample in known.items() if not sample.is_bomb}, folder)
    shares = [list(jobs[k::processes]) for k in range(processes)]
    crews = {}
    for number, share in enumerate(shares):
        if share:
            crew = _forked(known, share, folder / f"worker{number}")
            crews[crew.reader] = crew
    while crews:
        for reader in select.select(list(crews), [], [])[0]:
            crew = crews[reader]
            line = crew.lines.readline()
            if line:
                yield crew.left.pop(0), Outcome(*json.loads(line))
                continue
            del crews[reader]
            crew.lines.close()
            code = os.waitstatus_to_exitcode(os.waitpid(crew.pid, 0)[1])
            if code != 0 and crew.left:
                yield crew.left.pop(0), Outcome(code, _killed(code), SECONDS, 0, "")
            if crew.left:
                again = _forked(known, crew.left, crew.folder)
                crews[again.reader] = again


class _Crew(NamedTuple):
    pid: int
    reader: int
    lines: io.TextIOWrapper
    left: list[Job]
    folder: Path


def _killed(code: int) -> str:
    return f"took more than {SECONDS} s" if -code in (signal.SIGPROF, signal.SIGALRM) else f"ended with {code}"


def _warm(known: dict[str, Sample], folder: Path) -> None:
    """Open every sound file once, with success, so that workers are born with all that is needed loaded."""
    here = folder / "warm"
    here.mkdir(parents=True, exist_ok=True)
    for name, sample in known.items():
        with _quietly(here):
            code = _opened(sample, Job(name, 0), here, folder)
        said = (here / "err").read_text()
        assert code in (0, 1) or "sha256" in said, f"the sound file of {name}: {said}"  # packages are none of MNIST


def _forked(known: dict[str, Sample], jobs: list[Job], folder: Path) -> _Crew:
    reader, writer = os.pipe()
    folder.mkdir(parents=True, exist_ok=True)
    sys.stdout.flush()
    pid = os.fork()
    if pid == 0:
        try:
            os.close(reader)
            _work(known, jobs[:ANEW], folder, writer)
            os._exit(0)
        except BaseException:
            traceback.print_exc()
            os._exit(70)
    os.close(writer)
    return _Crew(pid, reader, os.fdopen(reader, "r"), jobs, folder)


def _work(known: dict[str, Sample], jobs: Sequence[Job], folder: Path, writer: int) -> None:
    resource.setrlimit(resource.RLIMIT_AS, (BACKSTOP, resource.RLIM_INFINITY))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    for job in jobs:
        signal.setitimer(signal.ITIMER_PROF, SECONDS + 2)
        signal.setitimer(signal.ITIMER_REAL, 20 * SECONDS)  # of waiting
        Path("/proc/self/clear_refs").write_text("5")  # the peak of memory begins anew
        began = process_time()
        with _quietly(folder):
            code = _opened(known[job.format], job, folder, folder.parent)
        took = process_time() - began
        outcome = Outcome(code, "", round(took, 3), _peak() // 2**20, (folder / "err").read_text(errors="replace"))
        outcome = outcome._replace(
            fault=fault(outcome, (folder / "out").read_text(errors="replace"), known[job.format])
        )
        os.write(writer, (json.dumps(outcome._replace(said=outcome.said[-1500:])) + "\n").encode())
        for number in (signal.ITIMER_PROF, signal.ITIMER_REAL):
            signal.setitimer(number, 0)


def fault(outcome: Outcome, out: str, sample: Sample) -> str:
    """What is wrong with an outcome; nothing if it is one line, or success, in time and in little memory."""
    said, lines = outcome.said, outcome.said.splitlines()
    rules = [
        (outcome.code in (0, 1, 2), f"exit code {outcome.code}"),
        ("Traceback" not in said, "a traceback"),
        ("alive itself failed" not in said, "a fault of alive"),
        (all(len(line) <= LINE for line in lines), f"a line of {max(map(len, lines), default=0)} characters"),
        (
            all(line.startswith(("alive: ", "note: ", "wrote ", "opened ")) for line in lines),
            "words of another program",
        ),
        (outcome.code != 2 or sum(line.startswith("alive: ") for line in lines) == 1, "not one line"),
        (not any((ord(c) < 32 and c not in "\n\t") or 127 <= ord(c) < 160 for c in said + out), "control characters"),
        (re.search(sample.says, said) is not None, f"not said: {sample.says}"),
        (outcome.seconds <= SECONDS, f"{outcome.seconds} s"),
        (outcome.megabytes * 2**20 <= BYTES, f"{outcome.megabytes} MB"),
    ]
    if outcome.code == 0 and not callable(sample.opens) and "--json" in sample.opens:
        rules.append((_is_json(out), "no JSON on stdout"))
    return "; ".join(text for holds, text in rules if not holds)


def _is_json(text: str) -> bool:
    try:
        json.loads(text)
    except ValueError:
        return False
    return True


def _peak() -> int:
    return int(Path("/proc/self/status").read_text().split("VmHWM:")[1].split()[0]) * 1024


class _quietly:
    """Descriptors 1 and 2 lead to the files out and err of a folder, which becomes the working folder."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def __enter__(self) -> None:
        self._before = os.getcwd(), os.dup(1), os.dup(2), sys.stdout, sys.stderr
        sys.stdout.flush()
        os.chdir(self._folder)
        for number, name in ((1, "out"), (2, "err")):
            made = os.open(name, os.O_CREAT | os.O_TRUNC | os.O_WRONLY)
            os.dup2(made, number)
            os.close(made)
        sys.stdout, sys.stderr = (os.fdopen(number, "w", closefd=False, encoding="utf-8") for number in (1, 2))

    def __exit__(self, *_: object) -> None:
        for stream in (sys.stdout, sys.stderr):
            with suppress(OSError):
                stream.flush()
        os.chdir(self._before[0])
        for number, kept in ((1, self._before[1]), (2, self._before[2])):
            os.dup2(kept, number)
            os.close(kept)
        sys.stdout, sys.stderr = self._before[3:]


def _opened(sample: Sample, job: Job, folder: Path, shared: Path) -> int:
    """Write the file, open it, and give the exit code."""
    from alive import cli
    from alive.cli.words import fail
    from alive.errors import AliveError

    file = folder / ("hf/config.json" if job.format.startswith("config") else f"spoiled{sample.ending}")
    file.parent.mkdir(exist_ok=True)
    for old in folder.glob("spoiled*"):
        old.unlink()
    file.write_bytes(content(sample, job))
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            if callable(sample.opens):
                try:
                    sample.opens(file)
                except AliveError as error:
                    fail(str(error), 2)
                return 0
            place = folder if job.format.startswith("config") else shared
            sys.argv = ["alive", *(w.replace(FILE, file.name).replace(HERE, str(place)) for w in sample.opens)]
            cli.main()
    except SystemExit as stop:
        return int(stop.code or 0)
    except BaseException:
        traceback.print_exc()
        return 99
    return 0
