"""Whose an entry is: the rules of the hand-tracked truth, on arrays of labels in plain numpy.

A label is the number of a point or of a unit, or a word: NONE (depends on no point; made by no weighted operation), RAW
(a feature of the input, before any weighted operation), or nobody's: MANY (a sum or statistic over several) and MIXED
(several that met in one entry).
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence, Set
from contextlib import contextmanager
from dataclasses import dataclass

import numpy as np

Labels = np.ndarray  # of int64
NONE, MIXED, RAW, MANY = -1, -2, -3, -4
_HUGE = np.iinfo(np.int64).max

_fresh = itertools.count(10**9)
_pairs: dict[tuple[int, int], int] = {}
_parents: dict[int, tuple[int, int]] = {}


def one(labels: Labels, axes: int | Sequence[int], keepdims: bool = False, several: int = MANY) -> Labels:
    """The owner of whatever is made from all entries along some axes: the only one, or nobody.

    Statistics over several owners beside entries of one owner take nothing away from him.
    """
    axes = tuple(axes) if isinstance(axes, Sequence) else axes
    low = np.where(labels >= 0, labels, _HUGE).min(axes, keepdims=keepdims, initial=_HUGE)
    high = labels.max(axes, keepdims=keepdims, initial=-9)
    word = np.full_like(high, NONE)
    for label in (RAW, MANY, MIXED):
        word = np.where((labels == label).any(axes, keepdims=keepdims), label, word)
    return np.where(high < 0, word, np.where(low == high, low, several))


def both(a: Labels, b: Labels) -> Labels:
    """The owner of an element-wise combination, entry by entry."""
    return one(np.stack(np.broadcast_arrays(a, b)), 0, several=MIXED)


def units_of_both(a: Labels, b: Labels) -> Labels:
    """The units of an element-wise combination of two tensors.

    Units that meet one to one, as in a residual sum, make units; a gate or a bias that is the same for several units
    leaves them as they are; anything else, such as an outer sum, has no units.
    """
    raw = any((x == RAW).any() and (not (x == RAW).all() or a.shape != b.shape) for x in (a, b))
    a, b = np.broadcast_arrays(a, b)
    if raw:  # save in a skip from the input itself, no layer is made of its features
        return np.full(a.shape, RAW)
    met = (a >= 0) & (b >= 0)
    if not met.any():
        return both(a, b)
    pairs = set(zip(a[met].tolist(), b[met].tolist(), strict=True))
    left, right = ({pair[side] for pair in pairs} for side in (0, 1))
    if len(pairs) == len(left) == len(right):
        joined = np.vectorize(MEETINGS[_reading.meeting], otypes=[np.int64])(a[met], b[met])
    elif len(pairs) == len(left):
        joined = a[met]
    elif len(pairs) == len(right):
        joined = b[met]
    else:
        joined = np.full(met.sum(), MIXED)
    result = both(a, b)
    result[met] = joined
    return result


@dataclass(frozen=True)
class Reading:
    """Where units can be read in more than one way, which.

    meeting     two units that meet one to one are a new one, or the first, or the second
    cats        of tensors side by side along an axis of units, each has units of its own
    repeats     copies along an axis of units are units of their own
    by_weights  where the data decide which weights come before an activation, each of the weights makes a layer
    padding     what is padded with constants is of nobody until it is seen whose slice it lies in
    """

    meeting: str = "new"
    cats: bool = False
    repeats: bool = False
    by_weights: bool = False
    padding: bool = False


PLAIN = Reading()
_reading = PLAIN


def all_readings(steps: Set[str]) -> list[Reading]:
    """The readings that can differ where there are these kinds of steps; the plain one first."""
    meetings = list(MEETINGS) if steps & {"skip", "glu", "squeeze and excite"} else ["new"]
    choices = [
        [False, True] if steps & kinds else [False]
        for kinds in (
            {"cat", "stack", "unbind"},
            {"repeat", "repeat_interleave", "index_select"},
            {"branch by data", "experts"},
            {"pad"},
        )
    ]
    return [Reading(*how) for how in itertools.product(meetings, *choices)]


@contextmanager
def reading(how: Reading) -> Iterator[None]:
    """Read units in this way meanwhile."""
    global _reading
    before, _reading = _reading, how
    try:
        yield
    finally:
        _reading = before


def families(labels: Labels) -> frozenset[int]:
    """The operations, of a program's steps, that made these units."""
    return frozenset(family for unit in set(labels.flatten().tolist()) for family in _made_by(unit))


def _made_by(unit: int) -> frozenset[int]:
    if unit not in _parents:
        return frozenset({unit // 100 if unit < 10**9 else NONE})
    a, b = _parents[unit]
    return _made_by(a) | _made_by(b)


def _pair(a: int, b: int) -> int:
    if a == b:
        return a
    if (a, b) not in _pairs:
        _pairs[a, b] = next(_fresh)
        _parents[_pairs[a, b]] = a, b
    return _pairs[a, b]


MEETINGS: dict[str, Callable[[int, int], int]] = {"new": _pair, "first": lambda a, b: a, "second": lambda a, b: b}


def told_apart(labels: Labels, before: Labels, axis: int) -> Labels:
    """Copies of a unit that lie along an axis of units, as units of their own where they are read so."""
    if not _reading.repeats:
        return labels
    lines = np.moveaxis(before, axis, -1).reshape(-1, before.shape[axis])
    if lines.shape[1] == 1 or any(len(set(line)) < len(line) for line in lines.tolist()):
        return labels  # along this axis there were no units, or positions as well
    return np.apply_along_axis(_numbered, axis, labels)


def parted(parts: Sequence[Labels], points: Sequence[Labels], axis: int) -> Labels:
    """Tensors side by side along an axis of units, or in another order; units of several may be read as each one's own.

    Not where they are of different points: units would be made from points.
    """
    varies = any((part != np.take(part, [0], axis)).any() for part in parts)
    varies |= any(part.shape == parts[0].shape and (part != parts[0]).any() for part in parts)
    shared = any(_names(a) & _names(b) for a, b in itertools.combinations(parts, 2))
    same_points = all(not a or not b or a & b for a, b in itertools.combinations(map(_names, points), 2))
    if _reading.cats and varies and shared and same_points:
        parts = [_renamed(part, number) for number, part in enumerate(parts)]
    return np.concatenate(parts, axis)


def _names(labels: Labels) -> set[int]:
    return set(labels[labels >= 0].tolist())


def _renamed(labels: Labels, number: int) -> Labels:
    return np.vectorize(lambda unit: unit if unit < 0 else _pair(unit, 10**15 + number), otypes=[np.int64])(labels)


def _numbered(line: Labels) -> Labels:
    times: dict[int, int] = {}
    for place, unit in enumerate(line.tolist()):
        times[unit] = times.get(unit, -1) + 1
        line[place] = unit if unit < 0 or not times[unit] else _pair(unit, 10**15 + times[unit])
    return line


def padded(labels: Labels) -> Labels:
    """Padding, as it is made."""
    return labels if _reading.padding else settled(labels)


def settled(labels: Labels) -> Labels:
    """Entries of nobody's making, such as padding, belong to their slice where the rest of it has one owner.

    An axis can say so if no slice across it has two owners; where there is only one owner, all is his.
    """
    empty = labels == NONE
    if not empty.any() or empty.all():
        return labels
    owners = np.unique(labels[~empty])
    if len(owners) == 1:
        return np.full_like(labels, owners[0])
    said = [np.broadcast_to(owner, labels.shape) for owner in _owners_by_slice(labels)]
    filled = one(np.stack([*said, np.full_like(labels, NONE)]), 0)
    return np.where(empty, filled, labels)


def _owners_by_slice(labels: Labels) -> list[Labels]:
    """For every axis that can tell, the owner of each slice across it."""
    found = []
    for axis in range(labels.ndim):
        slices = [set(part[part != NONE].tolist()) for part in np.moveaxis(labels, axis, 0)]
        if all(len(owners) <= 1 for owners in slices):
            shape = [1] * labels.ndim
            shape[axis] = -1
            found.append(np.array([next(iter(owners), NONE) for owners in slices]).reshape(shape))
    return found
