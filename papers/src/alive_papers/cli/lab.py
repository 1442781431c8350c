"""The command that shows a network die and come back, in the browser."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from alive.cli.words import aside, put


def lab(
    out: Annotated[Path | None, typer.Option(help="Write the page into this file, and open nothing.")] = None,
    pictures: Annotated[Path | None, typer.Option(hidden=True, help="Folder for pictures of the presets.")] = None,
) -> None:
    """Watch a deep thin network die and come back, in the browser; one page, no server, no other host."""
    from .. import lab

    if pictures is not None:
        from ..lab.gallery import draw

        for file in draw(pictures):
            put(file)
    elif out is not None:
        put(lab.write(out))
    elif (shown := lab.show()) is not None:
        aside(f"opened {shown} in the browser")
    else:
        aside("there is no browser to open here; alive lab --out lab.html writes the page")
