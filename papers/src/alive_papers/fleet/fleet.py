"""Train many networks at once, one a core, each from start to end inside the compiled engine."""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from pathlib import Path

from alive.data import Data
from alive.errors import AliveError, expect

from .architecture import batch_of
from .crew import Ended, cores, result_of, train_supply
from .member import Member
from .progress import FleetProgress
from .result import FleetResult, MemberResult

MEMORY = 2**33  # bytes one member may take


def train_fleet(
    members: Sequence[Member],
    data: Data,
    *,
    record_every: int = 1,
    threads: int | None = None,
    progress: FleetProgress | None = None,
) -> FleetResult:
    """Train every member on the data; their results do not depend on each other, nor on the number of threads.

    Each member begins as alive.nn makes it from its seed, and equals train.loop step by step but for rounding. A row
    is recorded every `record_every` epochs and after the last. A member whose loss is not finite is frozen before that
    step, and says so in `stopped`. Ctrl-C returns what there is. CPU only; by default one thread a core.

    >>> from alive.data import moons
    >>> fleet = [Member(2, 8, seed=seed, lr=0.05, epochs=60) for seed in range(3)]
    >>> [result.best.train_accuracy > 0.8 for result in train_fleet(fleet, moons()).members]
    [True, True, True]
    """
    expect_fit(members, data, record_every=record_every, threads=cores() if threads is None else threads)
    batch = _Batch(members, len(data.train_y))
    begun = time.perf_counter()
    interrupted = train_supply(batch, data, record_every=record_every, threads=threads, progress=progress)
    results = tuple(batch.results.get(i) or result_of(member, data) for i, member in enumerate(members))
    return FleetResult(results, time.perf_counter() - begun, interrupted)


class _Batch:
    """A supply of given members, all handed out at once, the longest first: then all cores end together."""

    def __init__(self, members: Sequence[Member], points: int) -> None:
        self.members = members
        self.order = sorted(range(len(members)), key=lambda i: -members[i].cost(points))
        self.handed = False
        self.results: dict[int, MemberResult] = {}

    def more(self) -> Sequence[Member]:
        some = [] if self.handed else [self.members[i] for i in self.order]
        self.handed = True
        return some

    def ended(self, some: Sequence[Ended]) -> None:
        for each in some:
            self.results[self.order[each.number]] = each.result


def expect_fit(members: Sequence[Member], data: Data, *, record_every: int = 1, threads: int = 1) -> int:
    """Refuse before the first step what must fail later, all faults together; else how many bytes will be taken."""
    if not members:
        raise AliveError("a fleet needs at least one member")
    data.expect_classes("a fleet")
    faults = [
        (record_every >= 1, f"record_every must be at least 1, got {record_every}"),
        (threads >= 1, f"threads must be at least 1, got {threads}"),
    ]
    for number, member in enumerate(members):
        who = f"member {number} ({member.depth}x{member.width} {member.method})"
        faults += [(holds, f"{who}: {text}") for holds, text in _misfits(member, data)]
    expect(faults)
    needed, there, at_once = _needed(members, data, threads), _free(), min(threads, len(members))
    if needed > there:
        raise AliveError(
            f"networks at once: {at_once}, which need about {needed / 2**30:.1f} GiB; {there / 2**30:.1f} are free",
            "Ask for fewer threads, a smaller batch_size or depth",
        )
    return needed


def _needed(members: Sequence[Member], data: Data, threads: int) -> int:
    """Bytes of the largest members that may train at once, and of the points as each architecture reads them."""
    each = sorted((member.form.memory(member, data) for member in members), reverse=True)
    points = sum(x.numel() for (x, *_), _ in data.parts)
    return sum(each[:threads]) + 4 * points * len({member.form for member in members})


def _free() -> float:
    """Bytes of memory that are free, or infinity where nobody tells."""
    try:
        text = Path("/proc/meminfo").read_text()
        return float(text.split("MemAvailable:")[1].split()[0]) * 1024
    except (OSError, IndexError, ValueError):
        return math.inf


def _misfits(member: Member, data: Data) -> list[tuple[bool, str]]:
    points = len(data.train_y)
    batch = batch_of(member, points)
    found = [
        (batch <= points, f"batch_size {batch} is larger than the {points} training points"),
        *member.form.misfits(member, data),
    ]
    if all(holds for holds, _ in found):
        needed = member.form.memory(member, data)
        found.append((needed <= MEMORY, f"needs about {needed / 2**30:.1f} GiB; choose a smaller batch_size or depth"))
    return found
