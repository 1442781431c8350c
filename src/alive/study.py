"""Experiments from name to page: what `alive reproduce` and `alive report` do."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from rich.table import Table

from .errors import AliveError, expect_one_of
from .experiments import EXPERIMENTS
from .files import expect_writable
from .report.page import Part, judge, write_report
from .run import Bar, Run, Store, run

COLOURS = {"reproduced": "green", "differs": "red", "not run": "dim"}


def reproduce(
    names: Sequence[str], *, seeds: int, scale: str, architecture: str, path: Path, threads: int | None = None
) -> Iterator[Part]:
    """Run experiments one after the other into the store; all names are checked before the first begins."""
    for name in names:
        expect_one_of("experiment", name, EXPERIMENTS)
        EXPERIMENTS[name].cells(scale, seeds=seeds, architecture=architecture)
    for name in names:
        cells = EXPERIMENTS[name].cells(scale, seeds=seeds, architecture=architecture)
        with Store(path) as store:
            store.ask(Run(name, scale, architecture, seeds))
            run(cells, store, threads=threads, bar=Bar())
            yield Part(EXPERIMENTS[name], scale, architecture, seeds, store.rows(cells), len(cells))


def report(path: Path, folder: Path) -> list[Path]:
    """Draw and write all that was asked for, as far as it is done; returns the files."""
    if folder.is_dir():
        expect_writable(folder / "index.html")
    with Store(path, create=False) as store:
        parts = [_part(store, asked) for asked in store.runs() if asked.experiment in EXPERIMENTS]
        if not parts:
            raise AliveError(f"the store {path} is empty", "Run `alive reproduce 001-T1` first")
        return write_report(parts, store.made_on(), folder)


def listing(path: Path) -> Table:
    """All experiments, and how much of what was asked for is done."""
    parts: dict[str, list[str]] = {}
    if path.exists():
        with Store(path, create=False) as store:
            for asked in store.runs():
                if asked.experiment in EXPERIMENTS:
                    parts.setdefault(asked.experiment, []).append(_state(store, asked))
    grid = Table(header_style="bold", pad_edge=False)
    for column in ("experiment", "what", "networks\nquick / paper", "done"):
        grid.add_column(column)
    for name, experiment in EXPERIMENTS.items():
        sizes = " / ".join(str(len(experiment.cells(scale))) for scale in ("quick", "paper"))
        grid.add_row(name, experiment.title, sizes, "\n".join(parts.get(name, ["[dim]not run[/]"])))
    return grid


def table(part: Part) -> Table:
    """The claims of one experiment, for a terminal."""
    grid = Table(title=f"{part.experiment.name}: {part.experiment.title}", header_style="bold", pad_edge=False)
    grid.add_column("claim")
    for column in ("published", "ours", "n", "verdict"):
        grid.add_column(column, justify="right")
    for judged in judge(part):
        n = str(judged.measured.n if judged.measured else 0)
        verdict = f"[{COLOURS[judged.verdict]}]{judged.verdict}[/]"
        grid.add_row(judged.claim.sentence, judged.published, judged.ours, n, verdict)
    return grid


def _part(store: Store, asked: Run) -> Part:
    experiment = EXPERIMENTS[asked.experiment]
    cells = experiment.cells(asked.scale, seeds=asked.seeds, architecture=asked.architecture)
    return Part(experiment, asked.scale, asked.architecture, asked.seeds, store.rows(cells), len(cells))


def _state(store: Store, asked: Run) -> str:
    cells = EXPERIMENTS[asked.experiment].cells(asked.scale, seeds=asked.seeds, architecture=asked.architecture)
    done = len(store.finished(cell.key for cell in cells))
    variant = "" if asked.architecture == "dense" else f" {asked.architecture}"
    return f"{asked.scale}{variant}, seeds {asked.seeds}: {done} of {len(cells)}"
