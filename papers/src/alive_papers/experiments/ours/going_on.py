"""Learners that must go on learning: pixels or bits that change, and agents whose world does."""

from __future__ import annotations

from collections.abc import Sequence

from ...studies import Run
from ...studies.continual import METHODS as TO_GO_ON
from ...studies.record import Options
from ...studies.ways import AGENTS
from ..cell import Cell, Row
from ..measure import mean
from ..spec import Claim, Experiment, Figure, Measure, Measured


def _learners(scale: str, architecture: str, seed: int) -> list[Cell]:
    tasks, each, width, points = (200, 1000, 256, None) if scale == "paper" else (30, 60, 64, 6000)
    own = _own(each, decay=1.0)
    return [
        Cell(
            Run(
                "continual",
                f"{tasks} tasks",
                method,
                seed,
                steps=tasks * each,
                width=width,
                lr=3e-3,
                options=(("tasks", tasks), *own.get(method, ())),
            ),
            data="mnist",
            points=points,
            trace=tasks,
        )
        for method in TO_GO_ON
    ]


def _own(each: int, decay: float = 0.0) -> dict[str, Options]:
    """The numbers of the methods, where a task has so many steps."""
    return {
        "L2": (("decay", decay),),
        "continual backprop": (("rate", 1e-3),),
        "Jumpstart": (("weight", 0.1),),  # of 0.01 and 0.1 the better one on seed 3
        "CCBP": (("every", each), ("rate", 0.1)),  # of 0.01 and 0.1 on seed 3
        "by gradient": (("every", each),),
        "by firing": (("patience", 50),),
        "L2 to the start": (("weight", 1e-3),),
        "clipping": (("bound", 2.0),),
    }


def _agents(scale: str, architecture: str, seed: int) -> list[Cell]:
    tasks, each = (20, 20_000) if scale == "paper" else (5, 2000)
    own = _own(200)
    return [
        Cell(
            Run(
                "agents",
                kind,
                method,
                seed,
                steps=tasks * each,
                width=64,
                lr=1e-3,
                options=(("tasks", tasks), *own.get(method, ())),
            ),
            trace=tasks,
        )
        for kind in (("DQN", "PPO") if scale == "paper" else ("DQN",))
        for method in AGENTS
    ]


def _followers(scale: str, architecture: str, seed: int) -> list[Cell]:
    tasks, each = (500, 1000) if scale == "paper" else (60, 100)
    own = _own(each, decay=0.01)  # of 0.01, 0.1 and 1 the best on seed 3
    return [
        Cell(
            Run(
                "drift",
                f"{tasks} flips",
                method,
                seed,
                steps=tasks * each,
                width=16,
                lr=1e-2,
                options=(("tasks", tasks), *own.get(method, ())),
            ),
            trace=tasks,
        )
        for method in TO_GO_ON
    ]


def score(method: str) -> Measure:
    """The score of a method, mean over seeds."""

    def measure(rows: Sequence[Row]) -> Measured | None:
        return mean([row.best_test or 0.0 for row in rows if row.cell.label == method])

    return measure


def score_lead(ours: str, theirs: str) -> Measure:
    """How much higher the score of one method is than that of another, seed by seed."""

    def measure(rows: Sequence[Row]) -> Measured | None:
        by = {(row.cell.label, row.member.seed): row.best_test or 0.0 for row in rows}
        shared = [seed for label, seed in by if label == ours and (theirs, seed) in by]
        return mean([by[ours, seed] - by[theirs, seed] for seed in shared])

    return measure


def _going_on(what: str) -> tuple[Claim, ...]:
    """How much every way learns in the last fifth of the tasks."""
    return (
        Claim("plain", f"Plain: {what} over the last fifth of the tasks", score("plain"), (0, 1)),
        *(
            Claim(
                f"{method}-lead",
                f"{method} learns more than plain there, by a hundredth at least: by how much",
                score_lead(method, "plain"),
                (0.01, 1),
            )
            for method in TO_GO_ON
            if method != "plain"
        ),
        Claim(
            "jumpstart-cbp",
            "Jumpstart learns more than continual backprop: by how much",
            score_lead("Jumpstart", "continual backprop"),
            (0, 1),
        ),
    )


COURSES = (Figure("courses", "courses", "Over the tasks: mean over seeds, and their spread"),)

CONTINUAL = Experiment(
    name="continual",
    title="Online Permuted MNIST: accuracy, dead and dormant units over tasks",
    paper="ours",
    grid=_learners,
    claims=_going_on("accuracy"),
    figures=COURSES,
)

DRIFT = Experiment(
    name="drift",
    title="Slowly changing regression: variance explained, dead and dormant units over tasks",
    paper="ours",
    grid=_followers,
    claims=_going_on("variance explained"),
    figures=COURSES,
)

AGENTS_OVER_TASKS = Experiment(
    name="agents",
    title="Agents that see a pole another way in each task: how long they balance, dead and dormant units",
    paper="ours",
    grid=_agents,
    claims=(
        Claim("plain", "Plain: how long the pole stands in the last fifth of the tasks", score("plain"), (0, 1)),
        *(
            Claim(
                f"{method}-lead",
                f"{method} balances longer than plain there, by a hundredth of what is possible: by how much",
                score_lead(method, "plain"),
                (0.01, 1),
            )
            for method in AGENTS
            if method != "plain"
        ),
    ),
    figures=COURSES,
)
