"""Which inputs hold the points of the first one, position by position.

An input that is as long as the batch may hold something of each point, as a mask does, or be as long by chance, as a
memory, a grid of times or the edges of a ring. What shows that it is paired: an operation that lays it beside the first
input along the points, which could not run on other lengths; or batches of several lengths, where it has them all.
"""

from __future__ import annotations

from collections.abc import Sequence

from ..errors import expect_one_of

DECIDE = "say declared=alive.Declared(paired=[{names}]) if they are, paired=[] if not"


class Pairing:
    """What is known of the inputs of a model over its passes; `declared` names those that are paired."""

    def __init__(self, declared: Sequence[str] | None = None) -> None:
        self._declared = None if declared is None else {declared} if isinstance(declared, str) else set(declared)
        self._names: list[str] = []  # of the bits; the first input has the first
        self._shown = 1  # bits of inputs that are tied to the first by use
        self._ties: set[int] = set()
        self._lengths: dict[str, set[int]] = {}
        self._apart: set[str] = set()  # inputs that had another length

    def expect(self, names: Sequence[str]) -> None:
        """These are the inputs; whoever declares others is told."""
        for name in sorted(self._declared or ()):
            expect_one_of("input in paired", name, names[1:])

    def first(self, name: str) -> int:
        """The bit of the first input, whose points are the points."""
        self._names = self._names or [name]
        return 1

    def bit(self, name: str, length: int | None, points: int | None) -> int:
        """The bit of another input of that length in a batch of so many points; 0 if it holds none for sure."""
        if length != points:
            self._apart.add(name)
        if length != points or points is None or name in self._apart:
            return 0
        if self._declared is not None and name not in self._declared:
            return 0
        self._lengths.setdefault(name, set()).add(points)
        if name not in self._names:
            self._names.append(name)
        return 1 << self._names.index(name)

    def tie(self, some: int, others: int) -> None:
        """An operation lays these inputs beside those, point by point."""
        both = some | others
        met = {tied for tied in self._ties if tied & both}
        for tied in met:
            both |= tied
        self._ties = (self._ties - met) | {both}
        self._shown |= both if both & 1 else 0

    def open(self, inputs: int) -> tuple[str, ...]:
        """Of some inputs, by their bits, those of which nothing shows whether they are paired."""
        if self._declared is not None:
            return ()
        rest = self.by_position(inputs)
        return tuple(name for name in rest if name in self._apart or len(self._lengths[name]) < 2)

    def by_position(self, inputs: int) -> tuple[str, ...]:
        """Of some inputs, those that no operation lays beside the first: if they are paired, it is by position."""
        rest = inputs & ~self._shown
        return tuple(name for k, name in enumerate(self._names) if rest >> k & 1)

    def doubt(self, names: Sequence[str]) -> str:
        """Why no points are told where these inputs come in."""
        given, them = " and ".join(map(repr, names)), ", ".join(map(repr, names))
        return (
            f"{given} {'are' if len(names) > 1 else 'is'} as long as {self._names[0]!r}, and nothing shows that their "
            f"points are paired by position: {DECIDE.format(names=them)}"
        )
