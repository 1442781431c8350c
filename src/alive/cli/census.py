"""The command that counts the dead and linear units and points of a model."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from . import values
from .own import Forward, Paired, Typed, function_of, loss_of, note, read_paired, takes
from .words import choice, command, pure, show, wrote
from .written import FailOn, Form, Ignore, Json, Limits, Out, asked

LOSS = "Also the gradient of a loss: ce, bce, mse, or mine:loss(output, targets)."


@takes("split", "points", "weights", "batch_size", "point_axis")
def census(
    typed: Typed,
    forward: Forward = None,
    gradient: Annotated[bool, typer.Option("--gradient", help="Also the gradient that arrives at each layer.")] = False,
    loss: Annotated[str | None, choice(LOSS, values.LOSSES, open_=True)] = None,
    everything: Annotated[bool, typer.Option("--all", "-v", help="All findings; all layers in their order.")] = False,
    format: Form = None,
    as_json: Json = False,
    out: Out = None,
    html: Annotated[Path | None, typer.Option(help="Also write a self-contained page.")] = None,
    fail_on: FailOn = None,
    ignore: Ignore = None,
    threshold: Limits = None,
    keep_points: Annotated[bool, typer.Option("--keep-points", help="In JSON: where each point died.")] = False,
    rare: Annotated[
        float, typer.Option(help="Units on, or off, for less than this share of their values are told.")
    ] = 1e-3,
    paired: Paired = None,
) -> None:
    """Count the dead, linear and nonlinear units and points of a model over a data set."""
    from .. import Declared, diagnosis
    from ..data.calls import few_threads
    from ..files import expect_writable
    from ..render.sheet import census_sheet
    from . import sources

    wanted = asked("census", format, as_json=as_json, files=out, ignore=ignore, threshold=threshold, fail_on=fail_on)
    if html is not None:
        expect_writable(html)
    with pure(wanted.is_pure):
        opened = sources.opened(typed)
        network = opened.model()
        with few_threads(network):
            found = diagnosis.census(
                network,
                sources.tracked(opened.batches(network), typed),
                keep_points=keep_points,
                forward=function_of(forward),
                point_axis=typed.axis,
                declared=Declared(paired=read_paired(paired)),
                gradient=gradient or wanted.wants_gradient,
                loss=loss_of(loss),
                rare=rare,
            )
    note(opened.notes)
    if html is not None:
        from ..files import write_atomically
        from ..render import Origin, page

        origin = Origin(command=command(), model=typed.model, data=opened.source, sample=opened.sample)
        write_atomically(html, page(found, f"Census of {typed.model} on {opened.source}", origin).encode())
        wrote(html)
    if wanted.shows_table:
        from ..render import table

        show(table(found, everything=everything))
    wanted.finish(census_sheet, found, opened)
