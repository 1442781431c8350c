"""Beyond the papers: one setting for all networks against the best of seven weights, which must be searched for."""

from __future__ import annotations

import statistics
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from alive.train import Settings

from ...fleet import Member
from ...net import Net, Options
from ..cell import Cell, Row
from ..spec import FIRST_SEED, Claim, Experiment, Measure, Measured

SWEEP = tuple(float(f"{10 ** (5 * step / 3 - 8):.2g}") for step in range(7))  # 1e-8 to 1e2
PLAIN, ONE, AUTO = "plain", "one setting", "auto"
CLOSE = 0.02  # of the best: what counts as good as it


@dataclass(frozen=True, slots=True)
class Task:
    """A network on its data, with the rates of the two optimisers.

    `sgd` is the rate at which most was learnt on seeds from 100 on, by whichever penalty; None where none was looked
    for, and then only Adam is run.
    seeds    no more than so many are run, for the sake of time
    small    whether it belongs to the quick scale
    """

    data: str
    depth: int
    width: int
    adam: float
    sgd: float | None
    epochs: int
    batch: int | None = None
    seeds: int = 20
    small: bool = True
    points: int | None = None
    test_points: int | None = None
    fleet: bool = True

    def cells(self, seed: int) -> list[Cell]:
        """Plain, the one setting, "auto", and the sweep of the papers' sum, under each optimiser."""
        settings: list[tuple[str, Options | None]] = [
            (PLAIN, None),
            (ONE, (("aggregate", "meansq"),)),
            (AUTO, (("weight", "auto"), ("aggregate", "meansq"))),
            *((f"{weight:g}", (("weight", weight), ("aggregate", "sumsq"))) for weight in SWEEP),
        ]
        make = self._member if self.fleet else self._net
        optimisers = ("adam",) if self.sgd is None else ("adam", "sgd")
        return [make(seed, optimiser, *setting) for optimiser in optimisers for setting in settings]

    def _member(self, seed: int, optimiser: str, name: str, penalty: Options | None) -> Cell:
        images = self.points is not None
        made = Member(
            self.depth,
            self.width,
            "ReLU" if penalty is None else "Sep-UP",
            seed,
            architecture="conv" if images else "dense",
            running=images,
            epochs=self.epochs,
            batch_size=self.batch,
            shuffle=self.batch is not None,
            optimiser=optimiser,
            lr=getattr(self, optimiser),
            **dict(penalty or ()),  # type: ignore[arg-type]
        )
        return Cell(made, self.data, unscaled=images, points=self.points, test_points=self.test_points)

    def _net(self, seed: int, optimiser: str, name: str, penalty: Options | None) -> Cell:
        training = Settings(
            epochs=self.epochs,
            batch_size=self.batch,
            lr=getattr(self, optimiser),
            optimiser=optimiser,
            shuffle=True,
        )
        options: Options = (("init", "glorot"),)
        net = Net("rectangle", self.depth, self.width, name, seed, options, penalty, training=training)
        return Cell(net, self.data)


TASKS = (
    Task("moons", 20, 4, adam=0.01, sgd=0.03, epochs=1000),
    Task("moons", 50, 4, adam=0.01, sgd=0.03, epochs=1000),
    Task("moons", 50, 10, adam=0.01, sgd=0.03, epochs=1000),
    Task("moons", 100, 25, adam=0.01, sgd=0.03, epochs=1000, seeds=5, small=False),
    Task("digits", 40, 16, adam=0.003, sgd=0.01, epochs=50, batch=50),
    Task("friedman", 30, 16, adam=0.001, sgd=0.01, epochs=20, batch=50, seeds=3, fleet=False),
    *(
        Task(data, depth, width, 1e-3, None, 4, 50, 5, False, 2000, 1000)
        for data, depth, width in (("mnist", 28, 4), ("mnist", 44, 8), ("cifar10", 25, 10))
    ),
)


def _grid(scale: str, architecture: str, seed: int) -> list[Cell]:
    return [
        cell
        for task in TASKS
        if (scale == "paper" or task.small) and seed < FIRST_SEED + task.seeds
        for cell in task.cells(seed)
    ]


def setting(row: Row) -> str:
    """What the penalty of a row is called: plain, one setting, auto, or its weight."""
    net = row.member
    if isinstance(net, Member):
        if not net.kind.axes:
            return PLAIN
        return AUTO if net.weight == "auto" else ONE if net.aggregate == "meansq" else f"{net.weight:g}"
    return net.method


Place = tuple[str, str, str]  # data, size, optimiser
Scores = Mapping[str, Mapping[int, float]]  # by setting and seed


def score(row: Row) -> float:
    """The best accuracy or R² over the epochs: of the training points on MOONS, whose test set has 15; else of test."""
    return row.best_train if row.cell.data == "moons" else row.best_test or 0.0


def places(rows: Sequence[Row]) -> dict[Place, Scores]:
    """All scores of each network and optimiser, of the seeds that every setting has."""
    found: dict[Place, dict[str, dict[int, float]]] = defaultdict(lambda: defaultdict(dict))
    for row in rows:
        net = row.member
        training = net if isinstance(net, Member) else net.training  # type: ignore[attr-defined]
        found[row.cell.data, f"{net.depth}x{net.width}", training.optimiser][setting(row)][net.seed] = score(row)
    whole: dict[Place, Scores] = {}
    for place, scores in found.items():
        seeds = set.intersection(*(set(some) for some in scores.values()))
        if seeds and len(scores) == len(SWEEP) + 3:
            whole[place] = {name: {seed: some[seed] for seed in sorted(seeds)} for name, some in scores.items()}
    return whole


@dataclass(frozen=True, slots=True)
class Standing:
    """One network and optimiser: means over the seeds.

    best    of the seven weights on these very seeds, which favours it: it is the largest of seven means
    fair    the same if for each seed the weight is chosen by all others
    """

    plain: float
    one: float
    auto: float
    best: float
    weight: str
    fair: float | None
    seeds: int

    def close(self, name: str, *, fair: bool = False) -> bool:
        """Whether a setting is as good as the best weight, or less than 2 % below it."""
        best = (self.best if self.fair is None else self.fair) if fair else self.best
        return self.of(name) >= best - CLOSE * abs(best) - 1e-9

    def of(self, name: str) -> float:
        """The mean of the one setting, or of "auto"."""
        return {ONE: self.one, AUTO: self.auto}[name]


def standing(scores: Scores) -> Standing:
    """The means of one place.

    >>> seeds = {name: {1: 0.5, 2: 0.5} for name in (PLAIN, ONE, AUTO, *(f"{w:g}" for w in SWEEP))}
    >>> found = standing(seeds | {"1e-08": {1: 1.0, 2: 0.2}, "0.001": {1: 0.4, 2: 0.9}})
    >>> found.best, found.weight, round(found.fair, 2)
    (0.65, '0.001', 0.3)
    """
    means = {name: statistics.fmean(some.values()) for name, some in scores.items()}
    weights = [f"{weight:g}" for weight in SWEEP]
    best = max(weights, key=means.__getitem__)
    seeds = list(scores[best])
    fair = [
        scores[max(weights, key=lambda name: sum(scores[name][other] for other in seeds if other != seed))][seed]
        for seed in seeds
    ]
    return Standing(
        plain=means[PLAIN],
        one=means[ONE],
        auto=means[AUTO],
        best=means[best],
        weight=best,
        fair=statistics.fmean(fair) if len(seeds) > 1 else None,
        seeds=len(seeds),
    )


def _share(holds: Callable[[Standing], bool]) -> Measure:
    def measure(rows: Sequence[Row]) -> Measured | None:
        found = [float(holds(standing(scores))) for scores in places(rows).values()]
        return Measured(statistics.fmean(found), len(found), 0.0) if found else None

    return measure


def table(rows: Sequence[Row]) -> str:
    """The places as Markdown, one a line."""
    lines = [
        "| data | network | optimiser | seeds | plain | one setting | auto | best of 7 weights | its weight, "
        "chosen on other seeds |",
        "|---|---|---|--:|--:|--:|--:|--:|--:|",
    ]
    for (data, size, optimiser), scores in sorted(places(rows).items()):
        found = standing(scores)
        ours = " | ".join(f"{found.of(name):.3f}{'' if found.close(name) else ' ✗'}" for name in (ONE, AUTO))
        fair = "" if found.fair is None else f"{found.fair:.3f}"
        lines.append(
            f"| {data} | {size} | {optimiser} | {found.seeds} | {found.plain:.3f} | {ours} | "
            f"{found.best:.3f} ({found.weight}) | {fair} |"
        )
    return "\n".join(lines)


ONE_SETTING = Experiment(
    name="one-setting",
    title="One setting for all networks, against the best of seven weights",
    paper="ours",
    grid=_grid,
    claims=(
        Claim(
            "one-close",
            "The one setting is as good as the best of seven weights, or less than 2 % below: share of networks and "
            "optimisers",
            _share(lambda found: found.close(ONE)),
            (0.9, 1),
        ),
        Claim("auto-close", "The same of the weight auto", _share(lambda found: found.close(AUTO)), (0.9, 1)),
        Claim(
            "one-close-fair",
            "The one setting is as good as the weight that the other seeds would choose, or less than 2 % below",
            _share(lambda found: found.close(ONE, fair=True)),
            (0.9, 1),
        ),
        Claim(
            "auto-close-fair",
            "The same of the weight auto",
            _share(lambda found: found.close(AUTO, fair=True)),
            (0.9, 1),
        ),
        Claim(
            "never-below-plain",
            "Neither is below the plain network anywhere: share of networks and optimisers",
            _share(lambda found: min(found.one, found.auto) >= found.plain - 1e-9),
            (1, 1),
        ),
    ),
)
