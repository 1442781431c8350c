"""Where units die today: latents of sparse autoencoders, units of learners that go on learning, codes of codebooks."""

from __future__ import annotations

from collections.abc import Sequence

from ...studies import Run
from ...studies.codebook import METHODS as AGAINST_DEAD_CODES
from ...studies.record import Options
from ...studies.sae import METHODS as AGAINST_DEAD_LATENTS
from ..cell import Cell, Row
from ..measure import mean
from ..spec import Claim, Experiment, Figure, Measure, Measured

# Of 1e-4, 1e-3, 1e-2 and 0.1 the one that left least unexplained on seed 3, of top-k at γ = 3 and 800 steps.
WEIGHTS = {"pre-activation": 1e-4, "Sep-U": 1e-2, "Sep-U, centring": 1e-2}
CODES = 256


def _settings(paper: bool) -> list[tuple[str, Options]]:
    """What autoencoders learn: a kind of choice, and how far the mean lies from zero in spreads."""
    gammas = {"topk": (0.0, 1.0, 3.0, 10.0), "batchtopk": (3.0,), "relu": (3.0,)}
    if paper:
        gammas = dict.fromkeys(gammas, (0.0, 1.0, 3.0, 10.0))
    made = [
        (f"{kind}, γ {gamma:g}", (("kind", kind), ("gamma", gamma))) for kind, own in gammas.items() for gamma in own
    ]
    return [*made, *((f"{kind}, network", (("kind", kind),)) for kind in (gammas if paper else ("topk",)))]


def _autoencoders(scale: str, architecture: str, seed: int) -> list[Cell]:
    paper = scale == "paper"
    size = {"steps": 4000 if paper else 500, "width": 512 if paper else 128}
    return [
        Cell(Run("sae", setting, method, seed, lr=5e-3, options=(*options, *_weight(method)), **size), data="digits")
        for setting, options in _settings(paper)
        for method in AGAINST_DEAD_LATENTS
    ]


def _weight(method: str) -> Options:
    return (("weight", WEIGHTS[method]),) if method in WEIGHTS else ()


def _quantisers(scale: str, architecture: str, seed: int) -> list[Cell]:
    steps, points = (10_000, None) if scale == "paper" else (400, 2000)
    return [
        Cell(
            Run(
                "codebook",
                "7x7 patches",
                method,
                seed,
                steps=steps,
                width=CODES,
                lr=2e-3,
                options=(("weight", 0.3),) if method == "Sep-U" else (),
            ),
            data="mnist",
            points=points,
            test_points=None if points is None else 1000,
        )
        for method in AGAINST_DEAD_CODES
    ]


LENS_WAYS = {
    "topk": ("none", "centring", "AuxK", "resampling", "Sep-U", "Sep-U, centring"),
    "gated": ("none", "centring", "resampling", "Sep-U", "Sep-U, centring"),
}


def _lenses(scale: str, architecture: str, seed: int) -> list[Cell]:
    size = {"steps": 10_000, "width": 1024} if scale == "paper" else {"steps": 500, "width": 256}
    return [
        Cell(
            Run(
                "lens",
                f"{kind}, γ {gamma:g}",
                method,
                seed,
                lr=3e-3,
                options=(("kind", kind), ("gamma", gamma)),
                **size,
            )
        )
        for kind, gamma in (("topk", 0.0), ("topk", 3.0), ("gated", 3.0))
        for method in LENS_WAYS[kind]
    ]


def end(row: Row, column: str) -> float:
    """The last number of a column of a run."""
    return row.trace[column][-1]


def setting(row: Row) -> str:
    """What a run learns."""
    return str(row.member.settings["setting"])


def measured(column: str, method: str, where: str) -> Measure:
    """A number at the end of the runs of one method in one setting, mean over seeds."""

    def measure(rows: Sequence[Row]) -> Measured | None:
        return mean([end(row, column) for row in rows if row.cell.label == method and setting(row) == where])

    return measure


def lead(column: str, ours: str, theirs: str, where: str) -> Measure:
    """How much less of something one method has than another, seed by seed."""

    def measure(rows: Sequence[Row]) -> Measured | None:
        found: dict[str, dict[int, float]] = {ours: {}, theirs: {}}
        for row in rows:
            if row.cell.label in found and setting(row) == where:
                found[row.cell.label][row.member.seed] = end(row, column)
        shared = sorted(found[ours].keys() & found[theirs].keys())
        return mean([found[theirs][seed] - found[ours][seed] for seed in shared])

    return measure


SAE = Experiment(
    name="sae",
    title="Latents of sparse autoencoders that nothing chooses, and seven ways against it",
    paper="ours",
    grid=_autoencoders,
    claims=(
        Claim(
            "none-dead",
            "Off centre (γ = 3), top-k, nothing done: more than a third of the latents is dead",
            measured("dead", "none", "topk, γ 3"),
            (1 / 3, 1),
        ),
        Claim(
            "sep-dead",
            "With Sep-U on the margin to being chosen fewer than a twentieth is",
            measured("dead", "Sep-U", "topk, γ 3"),
            (0, 0.05),
        ),
        Claim(
            "sep-unexplained",
            "and less of the variance stays unexplained than with nothing done: by how much",
            lead("unexplained", "Sep-U", "none", "topk, γ 3"),
            (0, 1),
        ),
        Claim(
            "sep-auxk",
            "and less than with AuxK: by how much",
            lead("unexplained", "Sep-U", "AuxK", "topk, γ 3"),
            (0, 1),
        ),
        Claim(
            "sep-centring",
            "and less than with mean-centring: by how much",
            lead("unexplained", "Sep-U", "centring", "topk, γ 3"),
            (0, 1),
        ),
        Claim(
            "both-centring",
            "Sep-U with centring leaves less unexplained than centring alone, by a hundredth at least: by how much",
            lead("unexplained", "Sep-U, centring", "centring", "topk, γ 3"),
            (0.01, 1),
        ),
    ),
    figures=(Figure("measures", "measures", "Every way in every setting: mean and spread over seeds"),),
)


LENS = Experiment(
    name="lens",
    title="Dead latents on SAELens's synthetic data, in its own classes and by its own trainer",
    paper="ours",
    grid=_lenses,
    claims=(
        Claim("none-dead", "Off centre, nothing done: dead latents", measured("dead", "none", "topk, γ 3"), (1 / 3, 1)),
        Claim(
            "sep-dead",
            "Sep-U as a training class of SAELens leaves fewer dead: by how much",
            lead("dead", "Sep-U", "none", "topk, γ 3"),
            (0, 1),
        ),
        Claim(
            "gated-dead",
            "Gated ones, resampled by revive: fewer dead by",
            lead("dead", "resampling", "none", "gated, γ 3"),
            (0, 1),
        ),
        Claim(
            "sep-unexplained",
            "Sep-U with centring leaves less unexplained than centring alone: by how much",
            lead("unexplained", "Sep-U, centring", "centring", "topk, γ 3"),
            (0, 1),
        ),
    ),
    figures=(Figure("measures", "measures", "Every way: mean and spread over seeds"),),
)

CODEBOOK = Experiment(
    name="codebook",
    title="Codes of a vector quantiser that nothing chooses, and what helps",
    paper="ours",
    grid=_quantisers,
    claims=(
        Claim("none-dead", "Nothing done: share of dead codes", measured("dead", "none", "7x7 patches"), (0.1, 1)),
        Claim("sep-dead", "With Sep-U fewer than a tenth is dead", measured("dead", "Sep-U", "7x7 patches"), (0, 0.1)),
        Claim(
            "revive-dead",
            "With codes seeded anew fewer than a tenth is dead",
            measured("dead", "revive", "7x7 patches"),
            (0, 0.1),
        ),
        Claim(
            "revive-ema",
            "Codes seeded anew leave less unexplained than running means with a reset: by how much",
            lead("unexplained", "revive", "EMA, reset", "7x7 patches"),
            (0, 1),
        ),
    ),
    figures=(Figure("measures", "measures", "Every way: mean and spread over seeds"),),
)
