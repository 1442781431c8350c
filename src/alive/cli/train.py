"""The command that trains one network, and shows who is alive at the end."""

from __future__ import annotations

from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from ..errors import AliveError, expect, near
from . import values
from .own import Typed, loss_of, note, takes
from .words import choice, fail, put, say, show

if TYPE_CHECKING:
    from torch import nn

    from ..data import Data
    from ..penalties import Jumpstart, Schedule
    from ..train import Logger, Task

LOSS = "ce, bce, mse, or mine:loss(output, targets); by default what the targets ask for."
WEIGHT = "Weight of the penalty; by default one that fits every network; auto: each layer finds its own."


@takes("weights")
def train(
    typed: Typed,
    loss: Annotated[str | None, choice(LOSS, values.LOSSES, open_=True)] = None,
    epochs: Annotated[int, typer.Option(help="Times over the data.")] = 1000,
    lr: Annotated[float, typer.Option(help="Learning rate.")] = 0.01,
    output_lr: Annotated[float | None, typer.Option(help="That of the output layer, where it is another.")] = None,
    batch_size: Annotated[int | None, typer.Option(help="Points a step; by default all of them.")] = None,
    optimiser: Annotated[str, choice("Optimiser", values.OPTIMISERS)] = "adam",
    shuffle: Annotated[bool, typer.Option("--shuffle", help="New order each epoch.")] = False,
    jumpstart: Annotated[str | None, choice("Keep alive", values.MODES, what="mode")] = None,
    weight: Annotated[str | None, typer.Option(help=WEIGHT)] = None,
    final_weight: Annotated[float | None, typer.Option(help="Weight at the end, for a schedule.")] = None,
    schedule: Annotated[str, choice("Course of the weight", values.SHAPES)] = "constant",
    aggregate: Annotated[str, choice("One number of all slacks", values.AGGREGATES)] = "meansq",
    checkpoint: Annotated[Path | None, typer.Option(help="File to save to, and to resume from.")] = None,
    resume: Annotated[
        bool, typer.Option("--resume", help="Go on from the checkpoint; where there is none yet, begin.")
    ] = False,
    save_every: Annotated[float, typer.Option(min=0, help="Seconds between two writes of the checkpoint.")] = 60.0,
    csv: Annotated[Path | None, typer.Option(help="A line an epoch; replaces an older log.")] = None,
    tensorboard: Annotated[Path | None, typer.Option(help="Folder for TensorBoard.")] = None,
) -> None:
    """Train one network, with or without the penalty; Ctrl-C and SIGTERM leave a checkpoint to resume from."""
    from .. import train as training
    from ..data.memory import labelled
    from ..functional.way import compiler_fault
    from ..penalties import Jumpstart
    from . import sources

    _expect_penalty(jumpstart, weight, final_weight, schedule, aggregate)
    settings = training.Settings(
        epochs=epochs,
        batch_size=batch_size,
        optimiser=optimiser,
        lr=lr,
        output_lr=output_lr,
        shuffle=shuffle,
        seed=typed.seed,
    )
    planned = _plan_weight(weight, final_weight, schedule)
    with training.joined() as ranks:
        own, real = loss_of(loss), loss == "mse" or None
        opened = sources.opened(typed, targets=True, real=real)
        network = opened.model()
        points = labelled(opened.data, real=real, model=network, name=opened.source)
        network.to(ranks.device)
        seen = training.first(network, points, settings.batch_size)
        task = training.task_of(seen, loss if loss in values.LOSSES else own)
        if ranks.is_main:
            as_floats = "the model reads the whole numbers of its inputs as floats"
            note((*opened.notes, *[as_floats] * (seen.data is not points), *task.said))
        task, points = replace(task, name=loss or task.name), seen.data
        if resume and checkpoint is not None and ranks.is_main and not checkpoint.exists():
            note((f"there is no checkpoint {checkpoint} yet: training begins",))
        if jumpstart is not None and ranks.is_main and compiler_fault():
            note((compiler_fault(),))
        keep = Jumpstart(network, planned, mode=jumpstart, aggregate=aggregate) if jumpstart is not None else None
        with keep or nullcontext():
            result = training.train(
                network,
                points,
                settings,
                loss=task,
                keep=keep,
                loggers=_loggers(csv, tensorboard),
                checkpoint=checkpoint,
                resume=resume,
                checkpoint_every=save_every,
                progress=training.progress_bar(),
                ranks=ranks,
            )
    if not ranks.is_main:
        return
    _show_census(network, points)
    if result.last is not None:
        put(f"last  {result.last}\nbest  {result.best}")
    if result.stopped:
        fail(result.stopped, 1)
    if jumpstart is not None and training.in_vain(task, result, points):
        assert keep is not None
        state = keep.state_dict()
        with Jumpstart(network, planned, mode=jumpstart, aggregate=aggregate) as keep:
            keep.load_state_dict(state)
            _say_if_drowned(network, points, task, keep)


def _plan_weight(
    weight: str | None, final_weight: float | None, schedule: str
) -> float | Literal["auto"] | Schedule | None:
    """The weight as typed, or its course."""
    from ..penalties import Schedule
    from ..penalties.multipliers import WEIGHT

    try:
        given = weight if weight is None or weight == "auto" else float(weight)
    except ValueError:
        raise AliveError(f"--weight is a number or auto, got {weight!r}", near(weight, ["auto"])) from None
    if schedule == "constant":
        return given  # type: ignore[return-value]
    if isinstance(given, str):
        raise AliveError("--weight auto finds its own course", "Leave out --schedule and --final-weight")
    return Schedule(WEIGHT if given is None else given, final_weight, schedule)


def _loggers(csv: Path | None, tensorboard: Path | None) -> list[Logger]:
    from ..train import CsvLogger, TensorBoardLogger

    found: list[Logger] = [] if csv is None else [CsvLogger(csv)]
    return found if tensorboard is None else [*found, TensorBoardLogger(tensorboard)]


def _show_census(network: nn.Module, points: Data) -> None:
    """Who is alive at the end, on the training points, and how much signal and gradient is left."""
    from ..diagnosis import census

    try:
        show(census(network, points, gradient=True))
    except AliveError as error:  # a network without one-sided units trains all the same
        say(str(error))


def _say_if_drowned(network: nn.Module, points: Data, task: Task, keep: Jumpstart) -> None:
    """Where nothing was learned: whether it is the penalty's own weight that stood in the way."""
    import torch

    from ..diagnosis import census
    from ..findings import drowned
    from ..penalties import pull
    from ..train import POINTS_AT_ONCE, Points

    held = Points(points, next(network.parameters()))
    network.train()
    keep.set_progress(1.0)
    inputs, y = held.batch(torch.arange(len(points.train_y))[:POINTS_AT_ONCE])
    pulled = pull(network, keep, task.loss(held.answer(network, inputs), y))
    keep.detach()
    if (found := drowned.see(census(network, points), pulled)) is not None:
        say(f"{found.found}. Lower --weight, or leave --jumpstart out.")


def _expect_penalty(
    jumpstart: str | None, weight: str | None, final_weight: float | None, schedule: str, aggregate: str
) -> None:
    """Refuse options of a penalty without a penalty, and an incomplete schedule."""
    usual = (weight, final_weight, schedule, aggregate) == (None, None, "constant", "meansq")
    moves = schedule in ("linear", "cosine")
    fits = weight is not None or aggregate == "meansq"
    expect(
        [
            (jumpstart is not None or usual, "--weight, --schedule and --aggregate need a penalty: add --jumpstart UP"),
            (not moves or final_weight is not None, f"a {schedule} schedule needs an end: add --final-weight 0"),
            (schedule != "constant" or final_weight is None, "--final-weight needs a way there: add --schedule linear"),
            (
                fits,
                f"--aggregate {aggregate} has no weight that fits every network: add --weight 1e-4, as the papers did",
            ),
        ]
    )
