"""The command that draws who was alive while a network trained."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from .words import put, show, wrote


def watch(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="What alive.watch(model, probe, path=FILE) wrote.")],
    html: Annotated[Path | None, typer.Option(help="Write a self-contained page.")] = None,
    tensorboard: Annotated[Path | None, typer.Option(help="Folder for curves and a picture, for TensorBoard.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the numbers of every census as JSON.")] = False,
) -> None:
    """Draw who was alive over time, from the history that alive.watch keeps while a network trains."""
    import json

    from ..files import expect_writable, write_atomically
    from ..history import History

    if html is not None:
        expect_writable(html)
    history = History.read(file)
    if html is not None:
        from ..history.page import page

        write_atomically(html, page(history, f"Who was alive: {file.name}", source=str(file)).encode())
        wrote(html)
    if tensorboard is not None:
        from ..history.board import to_tensorboard

        wrote(to_tensorboard(history, tensorboard))
    if as_json:
        put(json.dumps([{"step": moment.step, **moment.scalars} for moment in history.moments], indent=2))
        return
    from ..history.terminal import Shown

    show(Shown(history))
