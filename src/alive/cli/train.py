"""The command that trains one network, and shows who is alive at the end."""

from __future__ import annotations

from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

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

EXAMPLE = 64  # points of which skips and layers are found
LOSS = "ce, bce, mse, or mine:loss(output, targets); by default what the targets ask for."
ZERO = "Start from zeros, with fading dropout and a penalty that leans to life (001)."
PHASE = "Phase skip connections out over this part of training, such as 0.7 (002)."
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
    aggregate: Annotated[str | None, choice("One number of all slacks", values.AGGREGATES)] = None,
    balance: Annotated[float | None, typer.Option(help="Share of staying on, the rest of staying off: .5.")] = None,
    margin: Annotated[float | None, typer.Option(help="By how much units and points are to be on, and off: 1.")] = None,
    conv: Annotated[str | None, choice("Units of a convolution", values.CONVS)] = None,
    zero_start: Annotated[bool, typer.Option("--zero-start", help=ZERO)] = False,
    farkas: Annotated[bool, typer.Option("--farkas", help="Give every layer a unit that is on, first of all.")] = False,
    phase_out: Annotated[float | None, typer.Option(help=PHASE)] = None,
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
    from ..penalties import Jumpstart, VANController
    from . import sources

    asked = {"aggregate": aggregate, "balance": balance, "pos_margin": margin, "neg_margin": margin, "conv": conv}
    options: dict[str, Any] = {name: value for name, value in asked.items() if value is not None}
    _expect_penalty(jumpstart, weight, final_weight, schedule, options, zero_start=zero_start, phase_out=phase_out)
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
    with training.join_ranks() as ranks:
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
        network, said = _rebuilt(network, points, farkas=farkas, skips=phase_out is not None)
        note(said if ranks.is_main else ())
        if resume and checkpoint is not None and ranks.is_main and not checkpoint.exists():
            note((f"there is no checkpoint {checkpoint} yet: training begins",))
        if (jumpstart is not None or zero_start) and ranks.is_main and compiler_fault():
            note((compiler_fault(),))
        keep: Any = None
        if phase_out is not None:
            steps = epochs * -(-len(points.train_y) // (settings.batch_size or len(points.train_y)))
            keep = VANController(network, phase_out_steps=max(1, round(phase_out * steps)))
        elif jumpstart is not None or zero_start:
            keep = _kept(network, planned, jumpstart, options, zero_start=zero_start, seed=typed.seed)
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
    if jumpstart is not None and not zero_start and training.in_vain(task, result, points):
        state = keep.state_dict()
        with Jumpstart(network, planned, mode=jumpstart, **options) as keep:
            keep.load_state_dict(state)
            _say_if_drowned(network, points, task, keep)


def _rebuilt(network: nn.Module, points: Data, *, farkas: bool, skips: bool) -> tuple[nn.Module, tuple[str, ...]]:
    """The network with Farkas layers, or gates on its skips, as asked; and what was done."""
    import torch

    from .. import surgery
    from ..train import Points

    if not farkas and not skips:
        return network, ()
    inputs, _ = Points(points, next(network.parameters())).batch(torch.arange(min(len(points.train_y), EXAMPLE)))
    example: Any = dict(zip(points.names, inputs, strict=True)) if points.names else inputs
    said: tuple[str, ...] = ()
    if farkas:
        done = surgery.to_farkas(network, example if points.names or len(inputs) > 1 else inputs[0])
        network, said = done.model, tuple(str(done).splitlines())
    return (surgery.phase_out(network, example) if skips else network), said


def _kept(
    network: nn.Module, planned: Any, mode: str | None, options: dict[str, Any], *, zero_start: bool, seed: int
) -> Jumpstart:
    """The penalty, attached; with a zero start as that has it."""
    import torch

    from ..penalties import Jumpstart
    from ..penalties import zero_start as start_at_zero

    if not zero_start:
        return Jumpstart(network, planned, mode=mode or "UP", **options)
    chance = torch.Generator().manual_seed(seed)
    return start_at_zero(network, weight=planned, mode=mode or "UP", generator=chance, **options)


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
    jumpstart: str | None,
    weight: str | None,
    final_weight: float | None,
    schedule: str,
    options: dict[str, Any],
    *,
    zero_start: bool,
    phase_out: float | None,
) -> None:
    """Refuse options of a penalty without a penalty, two that would both keep the network, an incomplete schedule."""
    usual = (weight, final_weight, schedule) == (None, None, "constant") and not options
    moves = schedule in ("linear", "cosine")
    aggregate = options.get("aggregate", "meansq")
    fits = weight is not None or zero_start or aggregate == "meansq"
    kept = jumpstart is not None or zero_start
    expect(
        [
            (
                kept or usual,
                "--weight, --schedule, --aggregate, --balance, --margin and --conv need a penalty: add --jumpstart UP",
            ),
            (
                not kept or phase_out is None,
                "--phase-out moves the skips itself: leave --jumpstart and --zero-start out",
            ),
            (phase_out is None or 0 < phase_out <= 1, f"--phase-out is a part of training, as 0.7, got {phase_out}"),
            (not moves or final_weight is not None, f"a {schedule} schedule needs an end: add --final-weight 0"),
            (schedule != "constant" or final_weight is None, "--final-weight needs a way there: add --schedule linear"),
            (
                fits,
                f"--aggregate {aggregate} has no weight that fits every network: add --weight 1e-4, as the papers did",
            ),
        ]
    )
