"""Experiments from name to page: what `alive reproduce` and `alive report` do."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from itertools import count, product
from pathlib import Path
from typing import TYPE_CHECKING

from rich.table import Table
from rich.text import Text

from alive.errors import AliveError, expect, expect_one_of
from alive.files import expect_writable

from .experiments import EXPERIMENTS, Cell, Experiment
from .experiments.measure import mean
from .experiments.recorded import Book, Made
from .experiments.spec import SCALES
from .experiments.verdicts import Part, judge, older
from .run import Bar, Run, Store, run, run_on_ray
from .run.rows import table as table_of
from .run.rows import write_table

if TYPE_CHECKING:
    from .report.ledger import Source

WHERE = ("local", "ray")
OWN = "Show your own in Python: alive_papers.study.report(store, folder, experiments=[yours])"
COLOURS = {"reproduced": "green", "differs": "red", "not decided": "yellow", "partial": "dim", "not run": "dim"}


def reproduce(
    names: Sequence[str],
    *,
    seeds: int,
    scale: str,
    architecture: str,
    path: Path,
    depths: Collection[int] = (),
    widths: Collection[int] = (),
    data: str | None = None,
    claims: Collection[str] = (),
    threads: int | None = None,
    on: str = "local",
    address: str | None = None,
) -> Iterator[Part]:
    """Run experiments one after the other into the store; all names are checked before the first begins.

    Given depths, widths or claims, only networks of these are trained; what else there is to an experiment stays
    undone. On other data, or at sizes that an experiment does not have, it is another one, without claims.
    """
    expect_one_of("place to run", on, WHERE)
    expect(
        [
            (address is None or on == "ray", "only a Ray cluster has an address; add --on ray"),
            (threads is None or threads >= 1, f"threads must be at least 1, got {threads}"),
        ]
    )
    for name in names:
        expect_one_of("experiment", name, EXPERIMENTS)
        for claim in claims:
            expect_one_of(f"claim of {name}", claim, [each.id for each in EXPERIMENTS[name].claims])
    made = [_asked(EXPERIMENTS[name], scale, architecture, depths, widths, data) for name in names]
    parts = [each.cells(scale, seeds=seeds, architecture=architecture) for each in made]
    some = [_some_of(*each, depths, widths, claims) for each in zip(made, parts, strict=True)]
    for experiment, cells, wanted in zip(made, parts, some, strict=True):
        name = experiment.name
        with Store(path) as store:
            store.check()
            if name in EXPERIMENTS:
                store.ask(Run(name, scale, architecture, seeds))
            if on == "ray":
                run_on_ray(wanted, store, address=address, threads=threads, bar=Bar())
            else:
                run(wanted, store, threads=threads, bar=Bar())
            yield Part(experiment, scale, architecture, seeds, store.rows(cells), cells)


def _asked(
    experiment: Experiment,
    scale: str,
    architecture: str,
    depths: Collection[int],
    widths: Collection[int],
    data: str | None,
) -> Experiment:
    """The experiment itself, if it has networks of these sizes; else the same methods at these, or on these data."""
    cells = experiment.cells(scale, architecture=architecture)
    there = [{getattr(cell.member, what) for cell in cells} for what in ("depth", "width")]
    if data is None and there[0].issuperset(depths) and there[1].issuperset(widths):
        return experiment
    return experiment.on(data, depths=depths, widths=widths)


def _some_of(
    experiment: Experiment,
    cells: list[Cell],
    depths: Collection[int],
    widths: Collection[int],
    claims: Collection[str],
) -> list[Cell]:
    """The cells of these depths and widths that one of the claims reads; of all, where none is named."""
    read = {cell.key for each in experiment.claims if each.id in claims for cell in each.reads(cells)}
    some = [
        cell
        for cell in cells
        if (not depths or cell.member.depth in depths)
        and (not widths or cell.member.width in widths)
        and (not claims or cell.key in read)
    ]
    expect([(bool(some), f"{experiment.name} has no such networks at the scale asked for")])
    return some


def report(path: Path, folder: Path, *, experiments: Sequence[Experiment] = ()) -> list[Path]:
    """Draw and write all that was asked for, as far as it is done; returns the files.

    `experiments` are your own, which alive does not know: as many seeds of each as the store holds.
    """
    from .report.page import write_report

    if folder.is_dir():
        expect_writable(folder / "index.html")
    with _opened(path) as store:
        known = [asked for asked in store.runs() if asked.experiment in EXPERIMENTS]
        own = [part for experiment in experiments for part in _own_parts(store, experiment)]
        parts = [*(_part(store, asked) for asked in known), *own]
        shown = _keys(row.cell for part in own for row in part.rows)
        others = _others(store, shown | _keys(cell for asked in known for cell in _cells(asked)))
        if not parts and not others:
            raise AliveError(f"the store {path} is empty", "Run `alive reproduce 001-T1` first")
        if not parts:
            raise AliveError(f"{path} holds {others}", OWN)
        return write_report(parts, store.made_on(), folder, note=others and f"{path.name} also holds {others}. {OWN}.")


def pictures(path: Path, folder: Path, kind: str) -> list[Path]:
    """Draw the figures of all that was asked for, as png, svg or pdf; returns the files."""
    from .report.page import write_pictures

    with _opened(path) as store:
        parts = [_part(store, asked) for asked in store.runs() if asked.experiment in EXPERIMENTS]
        files = write_pictures(parts, folder, kind)
    if not files:
        raise AliveError(f"{path} holds nothing that has a picture", "Run `alive reproduce 001-T1` first")
    return files


def rows(path: Path, file: Path, kind: str, *, traces: bool = False) -> Path:
    """Write the rows of a store as csv or parquet; returns the file."""
    expect_writable(file)
    with Store(path, create=False) as store:
        write_table(table_of(store, traces=traces), file, kind)
    return file


def evidence(paths: Sequence[Path], folder: Path) -> Path:
    """Write the page of all claims: numbers of these stores, and those that come with the package."""
    from .report.evidence import PAGE, write_evidence

    if folder.is_dir():
        expect_writable(folder / PAGE)
    return write_evidence(_sources(paths), Book.read(), folder)


def record(paths: Sequence[Path], file: Path) -> Book:
    """Write the numbers of all complete runs of these stores to a file, beside the better ones it holds already."""
    from .report.ledger import book_of

    expect_writable(file)
    book = book_of(_sources(paths), Book.read(file))
    book.write(file)
    return book


def listing(path: Path) -> Table:
    """All experiments, and how much of what was asked for is done."""
    parts: dict[str, list[str]] = {}
    others = ""
    if path.exists():
        with _opened(path) as store:
            for asked in store.runs():
                if asked.experiment in EXPERIMENTS:
                    parts.setdefault(asked.experiment, []).append(_state(store, asked))
            known = [asked for asked in store.runs() if asked.experiment in EXPERIMENTS]
            others = _others(store, _keys(cell for asked in known for cell in _cells(asked)))
    grid = Table(header_style="bold", pad_edge=False)
    for column in ("experiment", "what", "networks\nquick / middle / paper", "done"):
        grid.add_column(column)
    for name, experiment in EXPERIMENTS.items():
        sizes = " / ".join(str(len(experiment.cells(scale))) if scale in experiment.scales else "·" for scale in SCALES)
        grid.add_row(name, experiment.title, sizes, "\n".join(parts.get(name, ["[dim]not run[/]"])))
    grid.caption = others and Text(f"{path} also holds {others}")
    return grid


def table(part: Part) -> Table:
    """The claims of one experiment, for a terminal; where it has none, what each method reached at each size."""
    if not part.experiment.claims:
        return _reached(part)
    grid = Table(title=f"{part.experiment.name}: {part.experiment.title}", header_style="bold", pad_edge=False)
    grid.add_column("claim")
    for column in ("published", "ours", "n", "verdict"):
        grid.add_column(column, justify="right")
    for judged in judge(part):
        n = str(judged.measured.n if judged.measured else 0)
        verdict = f"[{COLOURS[judged.verdict]}]{judged.verdict}[/]"
        grid.add_row(judged.claim.sentence, judged.published, judged.ours, n, verdict)
    if not part.complete:
        grid.caption = f"{len(part.rows):,} of {part.asked:,} networks; a claim is judged when all of its own are there"
    return grid


def _reached(part: Part) -> Table:
    """Best test accuracy of every method at every depth and width, mean and standard deviation over seeds."""
    from .report.ledger import said

    grid = Table(title=f"{part.experiment.name}: best test accuracy", header_style="bold", pad_edge=False)
    grid.add_column("method")
    found: dict[tuple[str, int, int], list[float]] = {}
    for row in part.rows:
        at = row.cell.label, row.member.depth, row.member.width
        found.setdefault(at, []).append(row.best_train if row.best_test is None else row.best_test)
    sizes = sorted({at[1:] for at in found})
    for depth, width in sizes:
        grid.add_column(f"{depth}x{width}", justify="right")
    for label in dict.fromkeys(at[0] for at in found):
        cells = [mean(found.get((label, *size), [])) for size in sizes]
        grid.add_row(label, *("–" if cell is None else said(cell) for cell in cells))
    return grid


@contextmanager
def _opened(path: Path) -> Iterator[Store]:
    """Open a store to read it, and check all of it: no number of a damaged one is shown."""
    with Store(path, create=False) as store:
        store.check()
        yield store


def _others(store: Store, shown: set[str]) -> str:
    """What else a store holds beside the networks of these keys, in words; empty if nothing."""
    methods = store.holds(but=shown)
    if not methods:
        return ""
    total = sum(methods.values())
    kinds = ", ".join(f"{number} {method}" for method, number in sorted(methods.items()))
    named = sorted({asked.experiment for asked in store.runs()} - EXPERIMENTS.keys())
    strange = f" (it has runs of {', '.join(named)}, which alive does not know)" if named else ""
    return f"{total} network{'s' * (total > 1)} ({kinds}) that `alive reproduce` did not ask for{strange}"


def as_stored(store: Store, cells: Sequence[Cell]) -> list[Cell]:
    """The cells at the newest engine revision of which the store has rows; at today's if it has none.

    A report shows an old store as it was trained; only a run asks for today's engine.
    """
    by_engine: dict[str, list[Cell]] = {}
    for cell in cells:
        by_engine.setdefault(cell.member.engine, []).append(cell)
    kept = {name: _revision(store, own) for name, own in by_engine.items()}
    return [cell.at(kept[cell.member.engine]) for cell in cells]


def _revision(store: Store, cells: Sequence[Cell]) -> int:
    """The newest revision of these cells' engine of which there is a row."""
    today = cells[0].revision
    held = (each for each in range(today, 0, -1) if store.finished(cell.at(each).key for cell in cells))
    return today if today == 1 else next(held, today)


def _keys(cells: Iterable[Cell]) -> set[str]:
    """The cells at every revision of their engines up to today's."""
    return {cell.at(each).key for cell in cells for each in range(1, cell.engine.revision + 1)}


def _own_parts(store: Store, experiment: Experiment) -> list[Part]:
    """What a store holds of your own experiment: for each scale and architecture, all seeds up to the last begun."""
    parts, shown = [], set[str]()
    for scale, architecture in product(experiment.scales, experiment.architectures):
        cells: list[Cell] = []
        for seeds in count(1):
            more = as_stored(store, experiment.cells(scale, seeds=seeds, architecture=architecture))
            if not store.finished(cell.key for cell in more[len(cells) :]):
                break
            cells = more
        if {cell.key for cell in cells} - shown:  # scales may be alike
            shown |= {cell.key for cell in cells}
            parts.append(Part(experiment, scale, architecture, seeds - 1, store.rows(cells), cells))
    return parts


def _cells(asked: Run) -> list[Cell]:
    return EXPERIMENTS[asked.experiment].cells(asked.scale, seeds=asked.seeds, architecture=asked.architecture)


def _part(store: Store, asked: Run) -> Part:
    cells = as_stored(store, _cells(asked))
    return Part(EXPERIMENTS[asked.experiment], asked.scale, asked.architecture, asked.seeds, store.rows(cells), cells)


def _sources(paths: Sequence[Path]) -> list[Source]:
    """Every run asked for in the stores."""
    from .report.ledger import Source

    sources = []
    for path in paths:
        with _opened(path) as store:
            for asked in store.runs():
                if asked.experiment in EXPERIMENTS:
                    part = _part(store, asked)
                    sources.append(Source.of(part, _made(store, part)))
    return sources


def _made(store: Store, part: Part) -> Made:
    """When and on what the rows of a part were made; the newest versions, and every kind of machine."""
    kinds = store.made(row.cell.key for row in part.rows)
    if not kinds:
        return Made("", "", "")
    date = datetime.fromtimestamp(kinds[0][0], UTC).date().isoformat()
    machines = [f"{hard['processor'] or 'unknown'}, {hard['cores']} cores, {hard['system']}" for _, hard, _ in kinds]
    versions = ", ".join(f"{name} {value}" for name, value in kinds[0][2].items())
    return Made(date, " and ".join(dict.fromkeys(machines)), versions)


def _state(store: Store, asked: Run) -> str:
    cells = as_stored(store, _cells(asked))
    done = len(store.finished(cell.key for cell in cells))
    variant = "" if asked.architecture == "dense" else f" {asked.architecture}"
    past = f", {older(cells)}" if older(cells) else ""
    return f"{asked.scale}{variant}, seeds {asked.seeds}: {done} of {len(cells)}{past}"
