"""Whether a layer can be dead, by trying every vertex in rational arithmetic."""

from __future__ import annotations

from fractions import Fraction
from itertools import combinations

import numpy as np

from alive.theory.exact import fractions


def solved(rows, values):
    """One solution of a square or wide system in fractions, or None if its rows are dependent."""
    table = [[*row, value] for row, value in zip(rows, values, strict=True)]
    pivots = []
    for place, row in enumerate(table):
        column = next((j for j in range(len(row) - 1) if row[j]), None)
        if column is None:
            return None
        pivots.append(column)
        table[place] = row = [value / row[column] for value in row]
        for other in range(len(table)):
            if other != place and table[other][column]:
                factor = table[other][column]
                table[other] = [a - factor * b for a, b in zip(table[other], row, strict=True)]
    x = [Fraction()] * (len(table[0]) - 1) if table else []
    for row, column in zip(table, pivots, strict=True):
        x[column] = row[-1]
    return x


def can_be_dead(weight, bias, box=None):
    """Whether W x + b <= 0 somewhere: a system that has a solution has one where rows of full rank are equalities."""
    rows = [fractions(row) for row in weight.double().tolist()]
    limits = [-b for b in fractions(bias.double().tolist())]
    inputs = len(rows[0])
    if box is not None:
        for place in range(inputs):
            for sign, end in ((1, box[1]), (-1, box[0])):
                rows.append([Fraction(sign * (j == place)) for j in range(inputs)])
                limits.append(Fraction(sign * end))
    rank = np.linalg.matrix_rank(np.array(rows, dtype=float))
    for chosen in combinations(range(len(rows)), int(rank)):
        x = solved([rows[j] for j in chosen], [limits[j] for j in chosen]) if rank else [Fraction()] * inputs
        if x is not None and all(
            sum(a * b for a, b in zip(row, x, strict=True)) <= limit for row, limit in zip(rows, limits, strict=True)
        ):
            return True
    return False
