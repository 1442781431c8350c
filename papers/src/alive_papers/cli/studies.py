"""Commands for many networks: the demo, the benchmarks, the papers' experiments and their report."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from alive.cli.words import Stored, aside, choice, completing, fail, interruptible, put, show
from alive.errors import expect, expect_one_of

from . import values


def demo(
    seeds: Annotated[int, typer.Option(help="Networks a method; from two on, means with standard deviations.")] = 1,
    out: Annotated[Path, typer.Option(help="Folder for the pictures and numbers.")] = Path("alive-demo"),
    store: Stored = Path("alive.sqlite"),
    threads: Annotated[int | None, typer.Option(help="Networks at once; by default one a core.")] = None,
) -> None:
    """Train the papers' 50x4 network on MOONS six ways, and show who was alive; goes on where Ctrl-C ended it."""
    from .. import demo, study

    aside(demo.prepare(out, seeds=seeds))
    with interruptible():
        for part in study.reproduce(
            ["demo"], seeds=seeds, scale="quick", architecture="dense", path=store, threads=threads
        ):
            show(demo.table(part.rows))
            for file in demo.write(part.rows, out):
                put(file)


def bench(
    which: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="WHAT",
            help=f"Some of {', '.join(values.BENCHMARKS)}; by default all.",
            autocompletion=completing(values.BENCHMARKS),
        ),
    ] = None,
    rounds: Annotated[int, typer.Option(min=1, help="Interleaved rounds, of which the shortest counts.")] = 25,
) -> None:
    """Measure what things cost, as ratios; exit with 1 if a target is missed."""
    from ..benchmarks import BENCHMARKS

    for name in which or []:
        expect_one_of("benchmark", name, BENCHMARKS)
    missed = 0
    for name in which or BENCHMARKS:
        for figure in BENCHMARKS[name](rounds):
            put(figure)
            missed += not figure.reached
    if missed:
        fail(f"{missed} target{'s' * (missed > 1)} missed", 1)


def reproduce(
    names: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="EXPERIMENT",
            help="Such as 001-Fig1, which is Figure 1 of paper 001; without one, a list of all.",
            autocompletion=completing(values.EXPERIMENTS),
        ),
    ] = None,
    seeds: Annotated[int, typer.Option(help="Networks of each kind; the papers have one.")] = 1,
    scale: Annotated[str, choice("Small, the papers' grids with less data, or as the papers", values.SCALES)] = "quick",
    architecture: Annotated[
        str, choice("Dense, or the convolution that made the published heat maps", values.ARCHITECTURES)
    ] = "dense",
    depths: Annotated[
        str, typer.Option("--depths", "--depth", metavar="INTS", help="Only these depths, or others: 2,8.")
    ] = "",
    widths: Annotated[
        str, typer.Option("--widths", "--width", metavar="INTS", help="Only these widths, or others: 16,20.")
    ] = "",
    data: Annotated[
        str | None, typer.Option(help="The same methods on other data: digits, or a file such as mine.npz.")
    ] = None,
    claims: Annotated[
        list[str] | None, typer.Option("--claim", help="Only what this claim is measured on; give it again for more.")
    ] = None,
    store: Stored = Path("alive.sqlite"),
    threads: Annotated[int | None, typer.Option(help="Networks at once; by default one a core.")] = None,
    on: Annotated[
        str, choice("This machine, or the cores of a Ray cluster", values.WHERE, what="place to run")
    ] = "local",
    address: Annotated[
        str | None, typer.Option(help="Of the Ray cluster, host:port or auto; by default a Ray on this machine.")
    ] = None,
) -> None:
    """Run experiments of the papers, and ours; what is stored is not repeated, Ctrl-C keeps what is finished."""
    from .. import study

    if not names:
        show(study.listing(store))
        show(_papers())
        return
    with interruptible():
        for part in study.reproduce(
            names,
            seeds=seeds,
            scale=scale,
            architecture=architecture,
            path=store,
            depths=_numbers("depths", depths),
            widths=_numbers("widths", widths),
            data=data,
            claims=claims or (),
            threads=threads,
            on=on,
            address=address,
        ):
            show(study.table(part))


def report(
    stores: Annotated[
        list[Path] | None, typer.Option("--store", help="File that holds the finished networks; with --all, several.")
    ] = None,
    out: Annotated[Path, typer.Option(help="Folder for the page and the pictures.")] = Path("alive-report"),
    everything: Annotated[
        bool, typer.Option("--all", help="Every figure, table and claim of the papers: our number, or what it takes.")
    ] = False,
    record: Annotated[Path | None, typer.Option(hidden=True, help="File for the numbers of complete runs.")] = None,
) -> None:
    """Draw what the store holds: heat maps and pictures, and one page with every claim beside our numbers."""
    from .. import study

    usual = Path("alive.sqlite")
    if record is not None:
        study.record(stores or [usual], record)
        put(record)
    if everything:
        put(study.evidence(stores or [usual] * usual.exists(), out))
    elif record is None:
        expect([(len(stores or []) < 2, "one report is of one store; name one --store, or add --all")])
        for file in study.report((stores or [usual])[0], out):
            put(file)


def _numbers(what: str, text: str) -> tuple[int, ...]:
    """Whole numbers between commas."""
    parts = [part.strip() for part in text.split(",") if part.strip()]
    expect([(all(map(str.isdecimal, parts)), f"{what} are whole numbers between commas, such as 2,8, got {text!r}")])
    return tuple(map(int, parts))


def _papers() -> Any:
    """Which paper 000 to 004 are."""
    from rich.table import Table

    from ..experiments.papers import PAPERS

    grid = Table(box=None, pad_edge=False, show_header=False)
    for paper in PAPERS.values():
        grid.add_row(paper.number, str(paper))
    return grid
