"""The command that judges a network before any training."""

from __future__ import annotations

from typing import Annotated

import typer

from ..errors import AliveError
from .words import BatchNorm, DataSource, Init, Seed, interruptible, pure, show


def preflight(
    model: Annotated[
        str | None,
        typer.Argument(metavar="MODEL", help="depth x width such as 50x4, or package.module:make_model."),
    ] = None,
    depth: Annotated[int | None, typer.Option(help="Hidden layers, instead of MODEL.")] = None,
    width: Annotated[int | None, typer.Option(help="Units a hidden layer, instead of MODEL.")] = None,
    data: DataSource = "moons",
    init: Init = "glorot",
    batch_norm: BatchNorm = False,
    draws: Annotated[
        int | None, typer.Option(min=1, help="Fresh networks; by default as many as take seconds.")
    ] = None,
    points: Annotated[int | None, typer.Option(min=1, help="Training points looked at, at most.")] = None,
    seed: Seed = 10,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON, and nothing else.")] = False,
) -> None:
    """Say before any training how likely a network is born dead, and what to change."""
    sizes = [size for size in (depth, width) if size is not None]
    if len(sizes) != (2 if model is None else 0):
        raise AliveError("say which network", "Give depth x width such as 50x4, or --depth 50 --width 4, and not both")
    from .. import sources
    from ..preflight import preflight as judge

    chosen = model or f"{depth}x{width}"
    if ":" in chosen:
        sources.expect_plain(init=init, batch_norm=batch_norm)
    with interruptible(), pure(as_json):
        found = judge(
            chosen,
            sources.data(data),
            init=init,
            batch_norm=batch_norm,
            draws=draws,
            points=points,
            seed=seed,
        )
    if as_json:
        print(found.to_json())
    else:
        show(found)
