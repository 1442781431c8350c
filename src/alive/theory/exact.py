"""Linear systems of inequalities decided in rational arithmetic: no tolerance, no rounding."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from fractions import Fraction
from math import sqrt
from sys import float_info
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

Row = list[Fraction]


class Decision(NamedTuple):
    """Either an x with G x <= h, or y >= 0 with y'G = 0 and y'h < 0, which shows that there is none."""

    x: Row | None
    y: Row | None


def fractions(values: Iterable[float]) -> Row:
    """The very numbers that floats hold."""
    return [Fraction(value) for value in values]


def nearest_float(value: Fraction) -> float:
    """The nearest float; for what lies beyond all floats, the largest."""
    largest = Fraction(float_info.max)
    return float(min(max(value, -largest), largest))


def root(value: Fraction) -> float:
    """The square root of a number above 0, which itself may lie beyond all floats.

    >>> root(Fraction(10) ** 400)
    1e+200
    """
    power = (value.numerator.bit_length() - value.denominator.bit_length()) // 2
    near_one = sqrt(value * Fraction(4) ** -power)
    return nearest_float(Fraction(near_one) * Fraction(2) ** power)


def dot(a: Iterable[Fraction], b: Iterable[Fraction]) -> Fraction:
    """Sum of products, exactly."""
    return sum((x * y for x, y in zip(a, b, strict=True) if x and y), Fraction())


def products(rows: NDArray[np.float64], x: Sequence[Fraction]) -> Row:
    """Matrix times vector, exactly; entries of x that are zero cost nothing."""
    live = [place for place, value in enumerate(x) if value]
    chosen = [x[place] for place in live]
    return [dot(fractions(row), chosen) for row in rows[:, live].tolist()]


def decide(rows: Sequence[Sequence[Fraction]], limits: Sequence[Fraction]) -> Decision:
    """Decide whether some x has rows x <= limits, by the simplex method with Bland's rule, which cannot cycle.

    Solved is the search for a refutation: maximise -limits'y with rows'y = 0, sum y <= 1, y >= 0. It begins at
    y = 0, which is always allowed; where the best is 0 the multipliers of its equations are an x.

    >>> decide([fractions([1]), fractions([-1])], fractions([1, -2])).y
    [Fraction(1, 2), Fraction(1, 2)]
    >>> decide([fractions([1]), fractions([-1])], fractions([2, -2])).x
    [Fraction(2, 1)]
    """
    inputs, count = len(rows[0]), len(rows)
    table, basis = _begin(rows, inputs)
    costs = [-limit for limit in limits] + [Fraction()] * (inputs + 2)
    for place in range(inputs):  # artificial variables stand at 0: any pivot takes them out
        column = next((j for j in range(count) if table[place][j]), None)
        if column is not None:
            _pivot(table, costs, basis, place, column)
    while (column := next((j for j in _may_enter(count, inputs) if costs[j] > 0), None)) is not None:
        _pivot(table, costs, basis, _find_leaving(table, basis, column, inputs, count), column)
    if costs[-1] < 0:  # the last entry holds minus the value reached
        y = [Fraction()] * count
        for place, column in enumerate(basis):
            if column < count:
                y[column] = table[place][-1]
        return Decision(None, y)
    return Decision([costs[count + place] for place in range(inputs)], None)


def _begin(rows: Sequence[Sequence[Fraction]], inputs: int) -> tuple[list[Row], list[int]]:
    """Columns: y, one artificial variable an equation, the slack of the sum, the right side."""
    count = len(rows)
    one, zero = Fraction(1), Fraction()
    table = [
        [row[place] for row in rows] + [one if other == place else zero for other in range(inputs)] + [zero, zero]
        for place in range(inputs)
    ]
    table.append([one] * count + [zero] * inputs + [one, one])
    return table, [*range(count, count + inputs), count + inputs]


def _may_enter(count: int, inputs: int) -> Iterable[int]:
    """Columns that may enter, in Bland's order: artificial variables never do."""
    yield from range(count)
    yield count + inputs


def _find_leaving(table: list[Row], basis: list[int], column: int, inputs: int, count: int) -> int:
    """The row whose variable reaches zero first; among equals the smallest variable."""
    bound = [
        (row[-1] / row[column], basis[place])
        for place, row in enumerate(table)
        if row[column] > 0 and not count <= basis[place] < count + inputs
    ]
    return basis.index(min(bound)[1])


def _pivot(table: list[Row], costs: Row, basis: list[int], place: int, column: int) -> None:
    """Let the variable of a column take the place of a row's."""
    scale = 1 / table[place][column]
    pivot = [value * scale if value else value for value in table[place]]
    table[place], basis[place] = pivot, column
    live = [j for j, value in enumerate(pivot) if value]
    for row in (*(row for other, row in enumerate(table) if other != place), costs):
        factor = row[column]
        if factor:
            for j in live:
                row[j] -= factor * pivot[j]
