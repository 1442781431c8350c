"""The command line: each command a few lines that call the library. Asking for help imports no torch."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NoReturn

import typer

from ._version import __version__
from .errors import AliveError, expect_one_of

if TYPE_CHECKING:
    from .demo import Job
    from .diagnosis import Census

app = typer.Typer(
    no_args_is_help=True,
    rich_markup_mode="rich",
    pretty_exceptions_enable=False,
    help="Find, cure and prove away dead and linear units and dead points of PyTorch networks.",
)

ModelSource = Annotated[
    str,
    typer.Argument(metavar="MODEL", help="package.module:make_model (or a module itself), or depth x width: 50x4"),
]
DataSource = Annotated[
    str, typer.Option(help="moons, digits, a .npz or .safetensors file, or package.module:make_data")
]
Seed = Annotated[int, typer.Option(help="Seed of the start, and of training.")]
Init = Annotated[str, typer.Option(help="Start of a depth x width network: glorot, kaiming, torch, zeros, mirrored.")]
BatchNorm = Annotated[bool, typer.Option("--batch-norm", help="Batch norm in a depth x width network.")]


def main() -> None:
    """Run the command line; what is refused is said in one line."""
    try:
        app()
    except AliveError as error:
        _fail(str(error), 2)
    except BrokenPipeError:
        sys.stderr.close()


def _fail(text: str, code: int) -> NoReturn:
    from rich.console import Console
    from rich.text import Text

    Console(stderr=True, highlight=False, soft_wrap=True).print(Text.assemble(("alive: ", "bold red"), text))
    raise SystemExit(code)


@contextmanager
def _interruptible() -> Iterator[None]:
    """Say what Ctrl-C left behind; typer itself would only say that it aborted."""
    try:
        yield
    except KeyboardInterrupt as stop:
        _fail(f"interrupted{f': {stop}' if str(stop) else ''}", 130)


def _version(asked: bool) -> None:
    if asked:
        print(f"alive {__version__}")
        raise typer.Exit


@app.callback()
def _root(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Say the version.")
    ] = False,
) -> None:
    pass


@app.command()
def demo(
    seeds: Annotated[int, typer.Option(help="Networks a method; from two on, means with standard deviations.")] = 1,
    epochs: Annotated[int, typer.Option(help="Epochs a network; the paper has 1000.")] = 1000,
    out: Annotated[Path, typer.Option(help="Folder for the pictures and numbers.")] = Path("alive-demo"),
    workers: Annotated[int | None, typer.Option(help="Processes; by default one a core.")] = None,
) -> None:
    """Train the papers' 50x4 network on MOONS six ways, and show who was alive."""
    from . import demo as study

    jobs, processes = study.prepare(out, seeds=seeds, epochs=epochs, workers=workers)
    with _interruptible():
        outcomes = _with_bars(jobs, lambda tick: study.run(jobs, out, workers=processes, tick=tick))
    _print(study.table(study.summarise(outcomes)))
    for file in study.write(outcomes, out):
        print(file)


@app.command()
def census(
    model: ModelSource,
    data: DataSource = "moons",
    split: Annotated[str, typer.Option(help="Which points: train, test or all.")] = "train",
    weights: Annotated[Path | None, typer.Option(help="A .safetensors file or checkpoint to load first.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON, and nothing else.")] = False,
    html: Annotated[Path | None, typer.Option(help="Also write a self-contained page.")] = None,
    fail_on: Annotated[
        list[str] | None, typer.Option(help='Exit with 1 if this holds: "dead_units>0", "dead_points>=5%".')
    ] = None,
    keep_points: Annotated[bool, typer.Option("--keep-points", help="In JSON: where each point died.")] = False,
    init: Init = "glorot",
    batch_norm: BatchNorm = False,
    seed: Seed = 10,
) -> None:
    """Count the dead, linear and nonlinear units and points of a model over a data set."""
    from . import diagnosis, sources
    from .diagnosis.render import page
    from .files import expect_writable, write_atomically

    limits = [diagnosis.Limit.parse(text) for text in fail_on or []]
    if html is not None:
        expect_writable(html)
    points = sources.data(data)
    network = sources.model(model, points, init=init, batch_norm=batch_norm, seed=seed)
    if weights is not None:
        from .train.checkpoint import load_weights

        load_weights(network, weights)
    found = diagnosis.census(network, sources.points(points, split), keep_points=keep_points)
    if html is not None:
        write_atomically(html, page(found, f"Census of {model} on {data}").encode())
    if as_json:
        print(found.to_json())
    else:
        _print(found)
    _check(found, limits)


@app.command()
def train(
    model: ModelSource,
    data: DataSource = "moons",
    epochs: Annotated[int, typer.Option(help="Times over the data.")] = 1000,
    lr: Annotated[float, typer.Option(help="Learning rate.")] = 0.01,
    batch_size: Annotated[int | None, typer.Option(help="Points a step; by default all of them.")] = None,
    optimiser: Annotated[str, typer.Option(help="adam or sgd.")] = "adam",
    shuffle: Annotated[bool, typer.Option("--shuffle", help="New order each epoch.")] = False,
    jumpstart: Annotated[str | None, typer.Option(help="Keep alive: U, P, UP or L.")] = None,
    weight: Annotated[float, typer.Option(help="Weight of the penalty.")] = 1e-4,
    final_weight: Annotated[float | None, typer.Option(help="Weight at the end, for a schedule.")] = None,
    schedule: Annotated[str, typer.Option(help="constant, linear or cosine.")] = "constant",
    aggregate: Annotated[str, typer.Option(help="sumsq, sum, norm, mean or balanced.")] = "sumsq",
    checkpoint: Annotated[Path | None, typer.Option(help="File to save to, and to resume from.")] = None,
    resume: Annotated[bool, typer.Option("--resume", help="Go on from the checkpoint.")] = False,
    csv: Annotated[Path | None, typer.Option(help="A line an epoch.")] = None,
    tensorboard: Annotated[Path | None, typer.Option(help="Folder for TensorBoard.")] = None,
    init: Init = "glorot",
    batch_norm: BatchNorm = False,
    seed: Seed = 10,
) -> None:
    """Train one network, with or without the penalty; Ctrl-C leaves a checkpoint to resume from."""
    from contextlib import nullcontext

    from . import sources
    from . import train as training
    from .diagnosis import census as count
    from .penalties import Jumpstart, Schedule

    settings = training.Settings(
        epochs=epochs, batch_size=batch_size, optimiser=optimiser, lr=lr, shuffle=shuffle, seed=seed
    )
    points = sources.data(data)
    network = sources.model(model, points, init=init, batch_norm=batch_norm, seed=seed)
    planned = Schedule(weight, final_weight, schedule)
    keep = Jumpstart(network, planned, mode=jumpstart, aggregate=aggregate) if jumpstart else None
    loggers: list[training.Logger] = [] if csv is None else [training.CsvLogger(csv)]
    if tensorboard is not None:
        loggers.append(training.TensorBoardLogger(tensorboard))
    with keep or nullcontext(), _interruptible():
        result = training.train(
            network,
            points,
            settings,
            keep=keep,
            loggers=loggers,
            checkpoint=checkpoint,
            resume=resume,
            progress=training.progress_bar(),
        )
    _print(count(network, points.train_x))
    if result.last is not None:
        print(f"last  {_accuracies(result.last)}\nbest  {_accuracies(result.best)}")
    if result.stopped:
        _fail(result.stopped, 1)


@app.command()
def bench(
    which: Annotated[list[str] | None, typer.Argument(help="penalty, census, fleet; by default all.")] = None,
    rounds: Annotated[int, typer.Option(help="Interleaved rounds, of which the shortest counts.")] = 25,
) -> None:
    """Measure what the penalty and the census cost, as ratios; exit with 1 if a target is missed."""
    from .benchmarks import BENCHMARKS

    for name in which or []:
        expect_one_of("benchmark", name, BENCHMARKS)
    missed = 0
    for name in which or BENCHMARKS:
        for figure in BENCHMARKS[name](rounds):
            print(figure, flush=True)
            missed += not figure.reached
    if missed:
        _fail(f"{missed} target{'s' * (missed > 1)} missed", 1)


Stored = Annotated[Path, typer.Option("--store", help="File that holds the finished networks.")]


@app.command()
def reproduce(
    names: Annotated[
        list[str] | None, typer.Argument(metavar="EXPERIMENT", help="Such as 001-Fig1; without one, a list of all.")
    ] = None,
    seeds: Annotated[int, typer.Option(help="Networks of each kind; the papers have one.")] = 1,
    scale: Annotated[str, typer.Option(help="quick, or paper: the papers' own grids and epochs.")] = "quick",
    architecture: Annotated[
        str, typer.Option(help="dense, or keras_same: the convolution that made the published heat maps.")
    ] = "dense",
    store: Stored = Path("alive.sqlite"),
    threads: Annotated[int | None, typer.Option(help="Networks at once; by default one a core.")] = None,
) -> None:
    """Run experiments of the papers, and ours; what is stored is not repeated, Ctrl-C keeps what is finished."""
    from . import study

    if not names:
        _print(study.listing(store))
        return
    with _interruptible():
        for part in study.reproduce(
            names, seeds=seeds, scale=scale, architecture=architecture, path=store, threads=threads
        ):
            _print(study.table(part))


@app.command()
def report(
    store: Stored = Path("alive.sqlite"),
    out: Annotated[Path, typer.Option(help="Folder for the page and the pictures.")] = Path("alive-report"),
) -> None:
    """Draw what the store holds: heat maps and pictures, and one page with every claim beside our numbers."""
    from . import study

    for file in study.report(store, out):
        print(file)


def _print(renderable: object) -> None:
    from rich.console import Console

    console = Console()
    if not console.is_terminal:
        console = Console(width=120)
    console.print(renderable)


def _check(found: Census, limits: list[Any]) -> None:
    failed = [limit for limit in limits if limit.holds(found)]
    if failed:
        _fail("; ".join(f"{limit} holds, it is {limit.value(found):g}{'%' * limit.percent}" for limit in failed), 1)


def _accuracies(row: Any) -> str:
    test = "" if row.test_accuracy is None else f", test {row.test_accuracy:.4f}"
    return f"train accuracy {row.train_accuracy:.4f}{test}"


def _with_bars(jobs: list[Job], run: Callable[[Any], Any]) -> list[Any]:
    """Collect the outcomes of a run, with a bar a method."""
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeRemainingColumn

    with Progress(
        TextColumn("{task.description:>10}"),
        BarColumn(),
        TaskProgressColumn(),
        TimeRemainingColumn(),
        console=Console(stderr=True),
    ) as bars:
        total: dict[str, int] = {}
        for job in jobs:
            total[job.method.name] = total.get(job.method.name, 0) + job.epochs
        tasks = {name: bars.add_task(name, total=epochs) for name, epochs in total.items()}
        return list(run(lambda job, epochs: bars.advance(tasks[job.method.name], epochs)))
