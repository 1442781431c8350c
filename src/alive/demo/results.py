"""What the demonstration shows: a table, two pictures and all numbers."""

from __future__ import annotations

import json
import shutil
import statistics
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from rich.table import Table

from ..data import Data, moons
from ..files import write_atomically
from ..report import decision_maps, lives
from .network import CHANCE, DEPTH, FIRST_SEED, METHODS, WEIGHT, WIDTH, Method, Outcome
from .run import WAITING

LEGEND = (
    "Sep-U, Sep-P, Sep-UP: separation constraints, in alive Jumpstart with mode U, P, UP: a term in the loss "
    "asks that each",
    "unit (U) be on for some point and off for another, each point (P) switch some unit on and another off, "
    "or both (UP).",
    "A dead unit is off for every point, a linear one for none; a dead point is mapped to all zeros by some layer.",
    "The mirrored start carries u and −u in pairs of units, so that nothing is lost on the way.",
)


@dataclass(frozen=True, slots=True)
class Summary:
    """One method over all seeds: each pair is (mean, standard deviation), which is 0 for one seed.

    `trained` counts the seeds whose best training accuracy is above chance, the larger class.
    """

    method: str
    seeds: int
    trained: int
    best_train: tuple[float, float]
    best_test: tuple[float, float]
    last_train: tuple[float, float]
    dead_units: tuple[float, float]
    linear_units: tuple[float, float]
    dead_points: tuple[float, float]
    published: tuple[float, float] | None


def summarise(outcomes: Sequence[Outcome]) -> list[Summary]:
    """The methods in their order, over their seeds."""
    return [_summary(method, of) for method in METHODS if (of := [o for o in outcomes if o.method == method.name])]


def _summary(method: Method, outcomes: Sequence[Outcome]) -> Summary:
    return Summary(
        method.name,
        len(outcomes),
        sum(outcome.best[0] > CHANCE + 1e-6 for outcome in outcomes),
        _spread(outcome.best[0] for outcome in outcomes),
        _spread(outcome.best[1] for outcome in outcomes),
        _spread(outcome.last[0] for outcome in outcomes),
        _spread(outcome.units.dead for outcome in outcomes),
        _spread(outcome.units.linear for outcome in outcomes),
        _spread(outcome.points.dead for outcome in outcomes),
        method.published,
    )


def _spread(values: Iterable[float]) -> tuple[float, float]:
    numbers = list(values)
    return statistics.fmean(numbers), statistics.stdev(numbers) if len(numbers) > 1 else 0.0


def table(summaries: Sequence[Summary]) -> Table:
    """The summaries for a terminal, beside the published figures."""
    seeds = max((s.seeds for s in summaries), default=1)
    over = "one seed" if seeds == 1 else f"mean ± standard deviation over {seeds} seeds"
    grid = Table(
        title=f"{DEPTH}x{WIDTH} network on MOONS, {over}; accuracies are the best over epochs, as the paper has them"
    )
    grid.caption = "; ".join(f"{method.name}: {method.note}" for method in METHODS)
    columns = (
        "above\nchance",
        "train",
        "test",
        "published\ntrain / test",
        "dead\nunits",
        "linear\nunits",
        "dead\npoints",
    )
    for column in ("method", *columns):
        grid.add_column(column, justify="left" if column == "method" else "right")
    for s in summaries:
        published = "·" if s.published is None else f"{s.published[0]:.4f} / {s.published[1]:.4f}"
        counts = [_pair(pair, 0 if s.seeds == 1 else 1) for pair in (s.dead_units, s.linear_units, s.dead_points)]
        accuracies = [_pair(pair, 4 if s.seeds == 1 else 3) for pair in (s.best_train, s.best_test)]
        trained = ("no", "yes")[s.trained] if s.seeds == 1 else f"{s.trained} of {s.seeds}"
        grid.add_row(s.method, trained, *accuracies, published, *counts)
    return grid


def _pair(pair: tuple[float, float], digits: int) -> str:
    mean, deviation = pair
    return f"{mean:.{digits}f} ± {deviation:.{digits}f}" if deviation else f"{mean:.{digits}f}"


def _about(data: Data, epochs: int) -> tuple[str, ...]:
    """What the networks of a picture share, and what their names mean."""
    network = f"{DEPTH} hidden layers of {WIDTH} ReLU units"
    points = f"MOONS, {len(data.train_y)} training points"
    times = f"{epochs} epoch{'s' * (epochs > 1)}"
    return (f"{network}; {points}; {times}; seed {FIRST_SEED}", *LEGEND)


def write(outcomes: Sequence[Outcome], folder: Path) -> list[Path]:
    """Write the pictures (of the first seed) and all numbers; returns the files."""
    data = moons()
    first = [o.panel for method in METHODS for o in outcomes if (o.method, o.seed) == (method.name, FIRST_SEED)]
    files = [folder / "decision-maps.png", folder / "alive-over-time.png", folder / "results.json"]
    about = _about(data, 1 + int(max(panel.epochs[-1] for panel in first)))
    decision_maps(first, data.train_x.double().numpy(), data.train_y.numpy(), files[0], about=about)
    lives(first, files[1], about=about)
    numbers: dict[str, Any] = {
        "network": f"{DEPTH}x{WIDTH}",
        "weight": WEIGHT,
        "summaries": [asdict(summary) for summary in summarise(outcomes)],
        "outcomes": [
            {"method": o.method, "seed": o.seed, "best": o.best, "last": o.last, "units": o.units._asdict()}
            | {"points": o.points._asdict(), "stopped": o.stopped, "seconds": round(o.seconds, 2)}
            for o in outcomes
        ],
    }
    write_atomically(files[2], json.dumps(numbers, indent=2).encode())
    shutil.rmtree(folder / WAITING, ignore_errors=True)
    return files
