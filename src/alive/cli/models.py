"""Commands for one model: count its dead and linear units and points, train it."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ..errors import AliveError, expect
from .words import BatchNorm, DataSource, Init, ModelSource, Seed, fail, interruptible, pure, say, show

if TYPE_CHECKING:
    from ..diagnosis import Census


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
    from .. import diagnosis, sources
    from ..diagnosis.render import page
    from ..files import expect_writable, write_atomically

    limits = [diagnosis.Limit.parse(text) for text in fail_on or []]
    if html is not None:
        expect_writable(html)
    with interruptible(), pure(as_json):
        points = sources.data(data)
        network = sources.model(model, points, init=init, batch_norm=batch_norm, seed=seed)
        if weights is not None:
            from ..train.checkpoint import load_weights

            load_weights(network, weights)
        found = diagnosis.census(network, sources.points(points, split), keep_points=keep_points)
    if html is not None:
        write_atomically(html, page(found, f"Census of {model} on {data}").encode())
    if as_json:
        print(found.to_json())
    else:
        show(found)
    _check(found, limits)


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
    csv: Annotated[Path | None, typer.Option(help="A line an epoch; replaces an older log.")] = None,
    tensorboard: Annotated[Path | None, typer.Option(help="Folder for TensorBoard.")] = None,
    init: Init = "glorot",
    batch_norm: BatchNorm = False,
    seed: Seed = 10,
) -> None:
    """Train one network, with or without the penalty; Ctrl-C leaves a checkpoint to resume from."""
    from contextlib import nullcontext

    from .. import sources
    from .. import train as training
    from ..diagnosis import census as count
    from ..penalties import Jumpstart, Schedule
    from ..train.ranks import joined

    _expect_penalty(jumpstart, weight, final_weight, schedule, aggregate)
    settings = training.Settings(
        epochs=epochs, batch_size=batch_size, optimiser=optimiser, lr=lr, shuffle=shuffle, seed=seed
    )
    points = sources.data(data)
    network = sources.model(model, points, init=init, batch_norm=batch_norm, seed=seed)
    planned = Schedule(weight, final_weight, schedule)
    keep = Jumpstart(network, planned, mode=jumpstart, aggregate=aggregate) if jumpstart is not None else None
    loggers: list[training.Logger] = [] if csv is None else [training.CsvLogger(csv)]
    if tensorboard is not None:
        loggers.append(training.TensorBoardLogger(tensorboard))
    with keep or nullcontext(), interruptible(), joined() as ranks:
        network.to(ranks.device)
        result = training.train(
            network,
            points,
            settings,
            keep=keep,
            loggers=loggers,
            checkpoint=checkpoint,
            resume=resume,
            progress=training.progress_bar(),
            ranks=ranks,
        )
    if not ranks.is_main:
        return
    try:
        show(count(network, sources.points(points)))
    except AliveError as error:  # a network without one-sided units has been trained all the same
        say(str(error))
    if result.last is not None:
        print(f"last  {_accuracies(result.last)}\nbest  {_accuracies(result.best)}")
    if result.stopped:
        fail(result.stopped, 1)


def _expect_penalty(
    jumpstart: str | None, weight: float, final_weight: float | None, schedule: str, aggregate: str
) -> None:
    """Refuse words about a penalty that is not asked for, and a schedule that is half said."""
    usual = (weight, final_weight, schedule, aggregate) == (1e-4, None, "constant", "sumsq")
    moves = schedule in ("linear", "cosine")
    expect(
        [
            (jumpstart is not None or usual, "--weight, --schedule and --aggregate need a penalty: add --jumpstart UP"),
            (not moves or final_weight is not None, f"a {schedule} schedule needs an end: add --final-weight 0"),
            (schedule != "constant" or final_weight is None, "--final-weight needs a way there: add --schedule linear"),
        ]
    )


def _check(found: Census, limits: list[Any]) -> None:
    failed = [f"{a} holds, it is {a.value(found):g}{'%' * a.percent}" for a in limits if a.holds(found)]
    unsure = [f"{a} cannot be ruled out, for not all is known" for a in limits if a.is_open(found)]
    if failed or unsure:
        fail("; ".join([*failed, *unsure]), 1)


def _accuracies(row: Any) -> str:
    test = "" if row.test_accuracy is None else f", test {row.test_accuracy:.4f}"
    return f"train accuracy {row.train_accuracy:.4f}{test}"
