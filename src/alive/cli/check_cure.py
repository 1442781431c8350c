"""The command that puts a cure of the user's own training code on trial."""

from __future__ import annotations

from typing import Annotated

import typer

from .words import fail, put


def check_cure(
    make: Annotated[str, typer.Argument(metavar="MAKE", help="mine:make_model, which gives (model, optimiser, ...).")],
    step: Annotated[str, typer.Argument(metavar="STEP", help="mine:step, one training step, the cure included.")],
    data: Annotated[str, typer.Option(help="mine:make_data or a file, as alive census takes it.")],
    steps: Annotated[int, typer.Option(help="Steps to run once the dead are planted.")] = 60,
    share: Annotated[float, typer.Option(help="Share of the layer's units that are planted dead.")] = 0.25,
    layer: Annotated[str | None, typer.Option(help="Name or label; else what is chosen from, or the widest.")] = None,
    seed: Annotated[int, typer.Option(help="Of everything drawn.")] = 0,
) -> None:
    """Try a cure for dead units in your own training code on some that are dead by design; exit code 1 for a fault."""
    from .. import check_cure as run
    from .own import function_of
    from .sources.imports import called

    made, trained = function_of(make), function_of(step)
    assert made is not None
    assert trained is not None
    found = run(made, trained, called(data) if ":" in data else data, steps=steps, share=share, layer=layer, seed=seed)
    put(str(found))
    if found.faults:
        fail(f"faults: {', '.join(found.faults)}.", 1)
