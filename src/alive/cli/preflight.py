"""The command that judges a network before any training."""

from __future__ import annotations

from dataclasses import replace
from typing import Annotated, Any

import typer

from ..errors import AliveError
from .own import Forward, Typed, function_of, note, takes
from .words import pure, put, show


@takes("split", "points", "point_axis", model=None)
def preflight(
    typed: Typed,
    depth: Annotated[int | None, typer.Option(help="Hidden layers, instead of MODEL.")] = None,
    width: Annotated[int | None, typer.Option(help="Units a hidden layer, instead of MODEL.")] = None,
    draws: Annotated[
        int | None, typer.Option(min=1, help="Fresh networks; by default as many as take seconds.")
    ] = None,
    forward: Forward = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON, and nothing else.")] = False,
) -> None:
    """Say before any training how likely a network is born dead or loses its signal, and what to change."""
    sizes = [size for size in (depth, width) if size is not None]
    if len(sizes) != (2 if typed.model is None else 0):
        raise AliveError("say which network", "Give depth x width such as 50x4, or --depth 50 --width 4, and not both")
    from ..forecast import by_size
    from ..forecast import preflight as judge
    from ..nn import parse_rectangle
    from . import sources

    typed = replace(typed, model=typed.model or f"{depth}x{width}")
    common: dict[str, Any] = {"draws": draws, "points": typed.points, "seed": typed.seed}
    with pure(as_json):
        opened = sources.opened(typed)
        if opened.make.own:
            own: dict[str, Any] = {"forward": function_of(forward), "point_axis": typed.axis}
            found = judge(opened.make, opened.part(), name=typed.model, source=opened.source, **own, **common)
        else:
            depth, width = parse_rectangle(typed.model)
            common |= {"init": typed.init, "batch_norm": typed.batch_norm}
            found = by_size(depth, width, opened.part(), **common)
    note(opened.notes)
    if as_json:
        put(found.to_json())
    else:
        show(found)
