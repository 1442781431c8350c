"""Open so many spoiled files of every format, and write what happened to a page: tests/hostile/run.py --each 900."""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections import defaultdict
from pathlib import Path
from time import monotonic

import torch

sys.path.insert(0, str(Path(__file__).parent))
from bombs import bombs
from pool import Job, Outcome, outcomes
from samples import samples

HEAD = """# Spoiled files

`make hostile` opens spoiled files of every format that alive reads, each by its number: the same number is the same
file everywhere. One to three of these are done to it: bits are flipped, it is cut, parts change places, runs of one
byte and extreme numbers are written into it, fields of its JSON are swapped, deleted, nested or made extreme, entries
of its archive are spoiled, doubled or packed. Each is opened by the command a user would type, and must end in success
or in one line of at most 600 characters, in at most 10 seconds of one processor and 1 GB of memory, torch included.

| format | files | success | one line | slowest | most memory | else |
|---|--:|--:|--:|--:|--:|--:|
"""


def main() -> int:
    """Run, report on the way, and write the page."""
    asked = argparse.ArgumentParser()
    asked.add_argument("--each", type=int, default=100, help="files of each format")
    asked.add_argument("--first", type=int, default=1, help="number of the first")
    asked.add_argument("--only", action="append", help="a format")
    asked.add_argument("--bombs", action="store_true", help="also small files that open to much")
    asked.add_argument("--processes", type=int, default=1)
    asked.add_argument("--page", type=Path)
    given = asked.parse_args()
    torch.set_num_threads(1)
    began, found = monotonic(), defaultdict[str, list[Outcome]](list)
    with tempfile.TemporaryDirectory() as place:
        known = {name: sample for name, sample in samples(Path(place)).items() if not given.only or name in given.only}
        jobs = [Job(name, given.first + k) for k in range(given.each) for name in known]
        if given.bombs:
            known |= bombs(Path(place))
            jobs += [Job(name, 0) for name, sample in known.items() if sample.is_bomb]
        for job, outcome in outcomes(known, jobs, Path(place), given.processes):
            found[job.format].append(outcome)
            if outcome.fault:
                print(f"{job.format} {job.number}: {outcome.fault}\n  {outcome.said[-1200:]}", flush=True)
    faults = sum(bool(outcome.fault) for each in found.values() for outcome in each)
    files = sum(map(len, found.values()))
    said = f"{files:,} files, {faults} that did something else, in {(monotonic() - began) / 60:.0f} minutes"
    print(said)
    if given.page is not None:
        rows = "".join(map(_row, found.items()))
        given.page.write_text(f"{HEAD}{rows}\n{said}; torch {torch.__version__}, {given.processes} processes.\n")
    return int(faults > 0)


def _row(each: tuple[str, list[Outcome]]) -> str:
    name, found = each
    good = [outcome for outcome in found if not outcome.fault]
    counts = f"{len(found):,} | {sum(o.code != 2 for o in good):,} | {sum(o.code == 2 for o in good):,}"
    worst = f"{max(o.seconds for o in found):.1f} s | {max(o.megabytes for o in found)} MB"
    return f"| {name} | {counts} | {worst} | {len(found) - len(good)} |\n"


if __name__ == "__main__":
    raise SystemExit(main())
