"""The state of one pass: what it is of, how it is understood, and what was met in it so far."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from typing import Any, NamedTuple

from torch import Tensor

from ..provenance import INPUTS, Owners, Tracker, tensors
from .batch import Batch
from .book import Entry
from .kinds import Masks, Seen
from .sizes import Sizes
from .trace import Mark, Trace
from .uses import Uses


class Crossing(NamedTuple):
    """A call that data went through: how sure it is a layer (see `paths`), and what lies behind it."""

    base: str
    number: int
    entry: Entry
    sure: int
    behind: int


class PassState:
    """One pass over a batch, or all that one batch takes."""

    def __init__(self) -> None:
        self.points = 0
        self.unclear = ""  # why no points can be told
        self.batch: Batch | None = None  # of which the pass is a part
        self.tracker: Tracker | None = None  # where the pass is followed operation by operation
        self.sizes: Sizes | None = None  # where it cannot be
        self.trace = Trace()
        self.is_traced = False
        self.masks, self.uses = Masks(), Uses()
        self.crossings: list[Crossing] = []
        self._calls: dict[str, int] = {}  # of each base name
        self._missed: dict[str, int] = {}  # one-sided operations of each name that no call shows

    def begin(self, points: int | None, unclear: str = "") -> None:
        """A pass over so many points begins; None where nothing shows how many."""
        self.points, self.unclear, self.is_traced = points or 0, unclear, False
        self.crossings, self._calls, self._missed = [], {}, {}

    def read(self, shapes: tuple[Any, ...], inputs: Any) -> None:
        """Its trace begins."""
        self.is_traced, self.uses = True, Uses()
        self.trace.begin(shapes, tensors(inputs))

    def mark(self, z: Tensor) -> Mark | None:
        """Where in the trace z is; None where that is not seen."""
        return self.trace.mark(z) if self.is_traced else None

    def next_call(self, base: str) -> int:
        """The number that the next call of this base name will have."""
        return self._calls.get(base, 0) + 1

    def call(self, base: str) -> int:
        """A call of this base name comes: its number."""
        number = self._calls[base] = self.next_call(base)
        return number

    def miss(self, name: str) -> str:
        """A one-sided operation that no call shows: its name among those of this name."""
        number = self._missed[name] = self._missed.get(name, 0) + 1
        return name if number == 1 else f"{name}#{number}"

    @property
    def doubt(self) -> str:
        """Why no points can be told; empty where they can."""
        return self.batch.why if self.batch is not None and self.batch.doubtful else self.unclear

    def quiet(self) -> AbstractContextManager[None]:
        """Inside, nothing is followed."""
        return self.tracker.quiet() if self.tracker is not None else nullcontext()

    def is_constant(self, t: Tensor) -> bool:
        """Whether a tensor depends on no data, as far as this pass shows."""
        with self.quiet():
            return self.tracker is None or not self.tracker.owners(t).data

    def of_points(self, seen: Seen) -> Seen:
        """Of two tensors that may be the pre-activations, the one that depends on points."""
        if self.tracker is None or seen.other is None or not self.is_constant(seen.z):
            return seen
        return seen._replace(z=seen.other)

    def cross(self, y: Any, owners: Owners, base: str, number: int, entry: Entry, sure: int) -> None:
        """The result of a call has the owners of its input, and lies behind it."""
        assert self.tracker is not None
        if isinstance(y, Tensor) and y.ndim == owners.point.ndim:
            bit = 1 << INPUTS + len(self.crossings)
            self.tracker.enter(y, owners._replace(crossed=owners.crossed | bit, behind=owners.behind | bit))
            self.tracker.cross(y, bit)
            self.crossings.append(Crossing(base, number, entry, sure, owners.behind))
