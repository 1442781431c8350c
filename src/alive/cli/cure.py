"""The command that races cures on a model of the user's own."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Annotated

import typer

from ..cures import AS_IS, BOTH, CURES, NAMES
from ..errors import AliveError
from . import values
from .own import Typed, loss_of, note, takes
from .train import LOSS
from .words import aside, choice, command, completing, pure, put, show, wrote

STORE = Path("alive-cure.sqlite")
RACED = (*(name for name, each in CURES.own.items() if each.raced and name != AS_IS), BOTH)


@takes("points", seed=0)
def cure(
    typed: Typed,
    loss: Annotated[str | None, choice(LOSS, values.LOSSES, open_=True)] = None,
    minutes: Annotated[
        float | None,
        typer.Option(min=0, help="When to end and say what is known; by default 5, without end if steps are given."),
    ] = None,
    steps: Annotated[
        int | None,
        typer.Option(min=1, help="Steps of a cure that is not stopped as a loser; by default what the time allows."),
    ] = None,
    seeds: Annotated[int, typer.Option(min=1, help="Networks of each cure.")] = 3,
    lr: Annotated[float, typer.Option(help="Learning rate.")] = 0.001,
    batch_size: Annotated[int | None, typer.Option(min=1, help="Points a step; by default a loader's, or 64.")] = None,
    optimiser: Annotated[str, choice("Optimiser", values.OPTIMISERS)] = "adam",
    cures: Annotated[
        list[str] | None,
        typer.Option(
            "--cure",
            help=f"Only this cure beside the network as it is, as often as needed. By default {'; '.join(RACED)}; and "
            "what the census advises.",
            autocompletion=completing(NAMES),
        ),
    ] = None,
    store: Annotated[Path, typer.Option(help="File that keeps finished runs, to go on from after Ctrl-C.")] = STORE,
    jobs: Annotated[int | None, typer.Option(min=1, help="Processes; by default one a core.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON, and nothing else.")] = False,
    html: Annotated[Path | None, typer.Option(help="Also write a self-contained page.")] = None,
) -> None:
    """Race the cures that apply to a model, at equal budget on its own data and loss, and print the lines that win.

    Judged on held-out points. Losers are stopped early; Ctrl-C prints the best so far and keeps what is finished,
    `--minutes 0` in another terminal what is known while it runs.
    """
    from .. import race
    from ..files import expect_writable
    from ..functional.way import compiler_fault
    from . import sources

    if html is not None:
        expect_writable(html)
    with pure(as_json):
        opened = sources.opened(typed, targets=True)
        note((*opened.notes, *filter(None, [compiler_fault()])))
        found = race.cure(
            opened.make if opened.make.own else partial(opened.make, opened.data),
            opened.data,
            loss=loss if loss in values.LOSSES else loss_of(loss),
            steps=steps,
            minutes=minutes,
            seeds=seeds,
            seed=typed.seed,
            lr=lr,
            optimiser=optimiser,
            batch_size=batch_size,
            points=typed.points,
            cures=cures,
            store=_open_store(store),
            jobs=jobs,
            name=typed.model,
            source=opened.source,
        )
    note(found.notes)
    if html is not None:
        from ..files import write_atomically

        write_atomically(html, found.to_html(command()).encode())
        wrote(html)
    if as_json:
        put(found.to_json())
    else:
        show(found)


def _open_store(store: Path) -> Path | None:
    """The store; none where the usual one cannot be written here: the race runs all the same."""
    from ..files import expect_writable

    try:
        expect_writable(store)
    except AliveError as error:
        if store != STORE:
            raise
        aside(f"note: {error.cause}; finished runs are not kept, and after Ctrl-C all begins anew")
        return None
    return store
