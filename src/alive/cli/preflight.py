"""The command that judges a network before any training."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from ..errors import AliveError
from .own import Args, Forward, MayBeData, PointAxis, Split, Target, Traceback, axis_of, function_of, note, traced
from .words import BatchNorm, Init, Seed, interruptible, pure, put, show


def preflight(
    model: Annotated[
        str | None,
        typer.Argument(metavar="MODEL", help="depth x width such as 50x4, or mine:make_model, or file.py:make_model."),
    ] = None,
    depth: Annotated[int | None, typer.Option(help="Hidden layers, instead of MODEL.")] = None,
    width: Annotated[int | None, typer.Option(help="Units a hidden layer, instead of MODEL.")] = None,
    data: MayBeData = None,
    init: Init = "glorot",
    batch_norm: BatchNorm = False,
    draws: Annotated[
        int | None, typer.Option(min=1, help="Fresh networks; by default as many as take seconds.")
    ] = None,
    points: Annotated[int | None, typer.Option(min=1, help="Points looked at, at most.")] = None,
    split: Split = "train",
    target: Target = None,
    arg: Args = None,
    forward: Forward = None,
    point_axis: PointAxis = "0",
    seed: Seed = 10,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON, and nothing else.")] = False,
    whole: Traceback = False,
) -> None:
    """Say before any training how likely a network is born dead or loses its signal, and what to change."""
    sizes = [size for size in (depth, width) if size is not None]
    if len(sizes) != (2 if model is None else 0):
        raise AliveError("say which network", "Give depth x width such as 50x4, or --depth 50 --width 4, and not both")
    from ..forecast import by_size
    from ..forecast import preflight as judge
    from ..nn import parse_rectangle
    from . import sources

    chosen, made = model or f"{depth}x{width}", {"init": init, "batch_norm": batch_norm}
    typed = sources.Typed(chosen, data, tuple(arg or ()), target=target, split=split, **made, seed=seed)
    common: dict[str, Any] = {"draws": draws, "points": points, "seed": seed}
    with interruptible(), pure(as_json), traced(whole):
        opened = sources.opened(typed)
        if opened.make.own:
            own: dict[str, Any] = {"forward": function_of(forward), "point_axis": axis_of(point_axis)}
            found = judge(opened.make, opened.part(), name=chosen, source=opened.source, **own, **common)
        else:
            sizes = parse_rectangle(chosen)
            found = by_size(*sizes, opened.part(), init=init, batch_norm=batch_norm, **common)
    note(opened.notes)
    if as_json:
        put(found.to_json())
    else:
        show(found)
