"""From rows to the numbers of a claim: pure functions, each made for one question."""

from __future__ import annotations

import statistics
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

from .cell import Row
from .spec import Measure, Measured

TRAINS = 0.95  # best training accuracy from which we say that a network trains
CHANCE = 44 / 85  # the larger class of MOONS
Where = Callable[[Row], bool]


def where(label: str, *, widths: Iterable[int] | None = None, depths: Iterable[int] | None = None) -> Where:
    """Which rows: of a method, and of some widths and depths."""
    some_widths = None if widths is None else frozenset(widths)
    some_depths = None if depths is None else frozenset(depths)

    def holds(row: Row) -> bool:
        wide = some_widths is None or row.member.width in some_widths
        deep = some_depths is None or row.member.depth in some_depths
        return row.cell.label == label and wide and deep

    return holds


def trains(row: Row) -> bool:
    """Whether the network learnt the training set, at its best epoch."""
    return row.best_train >= TRAINS


def mean(values: Sequence[float]) -> Measured | None:
    """Mean, number and standard deviation.

    >>> mean([1.0, 3.0])
    Measured(ours=2.0, n=2, spread=1.4142135623730951)
    """
    if not values:
        return None
    return Measured(statistics.fmean(values), len(values), statistics.stdev(values) if len(values) > 1 else 0.0)


def best_accuracy(rows_of: Where, *, test: bool = False) -> Measure:
    """Best accuracy, mean over the networks."""

    def measure(rows: Sequence[Row]) -> Measured | None:
        best = [row.best_test if test else row.best_train for row in rows if rows_of(row)]
        return mean([value for value in best if value is not None])

    return measure


def error_percent(rows_of: Where) -> Measure:
    """Test error in percent at the best epoch, mean over the networks."""
    found = best_accuracy(rows_of, test=True)

    def measure(rows: Sequence[Row]) -> Measured | None:
        best = found(rows)
        return None if best is None else Measured(100 * (1 - best.ours), best.n, 100 * best.spread)

    return measure


def over_seeds(rows_of: Where, value: Callable[[Sequence[Row]], float]) -> Measure:
    """A number of the networks of each seed, mean over the seeds."""

    def measure(rows: Sequence[Row]) -> Measured | None:
        return mean([value(some) for some in _by_seed(row for row in rows if rows_of(row)).values()])

    return measure


def share(rows_of: Where, holds: Callable[[Row], bool]) -> Measure:
    """Share of the networks for which something holds; the spread is that of the share between seeds."""
    return over_seeds(rows_of, lambda rows: statistics.fmean(map(holds, rows)))


def count(rows_of: Where, holds: Callable[[Row], bool]) -> Measure:
    """For how many networks something holds, mean over seeds."""
    return over_seeds(rows_of, lambda rows: float(sum(map(holds, rows))))


def worst_accuracy(rows_of: Where) -> Measure:
    """The lowest of all networks' best test accuracies, mean over seeds."""
    return over_seeds(rows_of, lambda rows: min(row.best_test or 0.0 for row in rows))


def top_accuracy(rows_of: Where, *, test: bool = False) -> Measure:
    """The highest of all networks' best accuracies, mean over seeds."""
    return over_seeds(rows_of, lambda rows: max(_best(row, test=test) for row in rows))


def deepest(rows_of: Where) -> Measure:
    """Depth of the deepest network that trains, mean over seeds; 0 where none does."""
    return over_seeds(rows_of, _deepest)


def deepest_ratio(ours: str, theirs: str, *, widths: Iterable[int]) -> Measure:
    """How many times deeper one method trains than another at equal width: mean over widths, then over seeds."""
    widths = tuple(widths)

    def measure(rows: Sequence[Row]) -> Measured | None:
        seeds = _by_seed(rows)
        found = [r for some in seeds.values() if (r := _ratio(some, ours, theirs, widths)) is not None]
        return mean(found)

    return measure


def lead(ours: Where, theirs: Where, *, test: bool = False) -> Measure:
    """How much more best accuracy one method has than another, mean over the networks both have."""

    def measure(rows: Sequence[Row]) -> Measured | None:
        return mean([mine - other for _, mine, other in _pairs(rows, ours, theirs, test=test)])

    return measure


def wins(ours: Where, theirs: Where, *, test: bool = True) -> Measure:
    """At how many spots one method has the better accuracy, mean over seeds."""

    def measure(rows: Sequence[Row]) -> Measured | None:
        won: dict[int, float] = defaultdict(float)
        for seed, mine, other in _pairs(rows, ours, theirs, test=test):
            won[seed] += mine > other
        return mean(list(won.values()))

    return measure


def _pairs(rows: Sequence[Row], ours: Where, theirs: Where, *, test: bool) -> list[tuple[int, float, float]]:
    """Seed and best accuracies of two methods at every spot both have."""
    one, other = ({spot(row): _best(row, test=test) for row in rows if some(row)} for some in (ours, theirs))
    return [(at.seed, one[at], other[at]) for at in sorted(one.keys() & other.keys())]


def _best(row: Row, *, test: bool) -> float:
    return (row.best_test if test else row.best_train) or 0.0


class Spot(NamedTuple):
    """Where in a grid a network stands, whatever its method."""

    seed: int
    depth: int
    width: int
    lr: float
    data: str


def spot(row: Row) -> Spot:
    """Where in its grid the network of a row stands."""
    net = row.member
    return Spot(net.seed, net.depth, net.width, net.lr, row.cell.data)


def _by_seed(rows: Iterable[Row]) -> dict[int, list[Row]]:
    seeds: dict[int, list[Row]] = defaultdict(list)
    for row in rows:
        seeds[row.member.seed].append(row)
    return dict(sorted(seeds.items()))


def _deepest(rows: Iterable[Row]) -> float:
    return float(max((row.member.depth for row in rows if trains(row)), default=0))


def _ratio(rows: Sequence[Row], ours: str, theirs: str, widths: tuple[int, ...]) -> float | None:
    pairs = [
        tuple(_deepest(row for row in rows if where(label, widths=(width,))(row)) for label in (ours, theirs))
        for width in widths
    ]
    ratios = [first / second for first, second in pairs if second]
    return statistics.fmean(ratios) if ratios else None
