"""Writing a figure: PNG, SVG or PDF by the name of the file, whole or not at all."""

from __future__ import annotations

from base64 import b64encode
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING, Any

from alive.errors import AliveError
from alive.files import write_atomically

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def save_figure(figure: Figure, path: Path, *, bottom: float = 0.0, laid_out: bool = True) -> None:
    """Lay the figure out, leaving a strip of `bottom` free, and write it; unless `laid_out`, only crop its margins."""
    picture = BytesIO()
    options: dict[str, Any] = {"format": path.suffix.removeprefix(".") or "png", "dpi": 140}
    if options["format"] != "png":
        options["metadata"] = {"Date": None} if options["format"] == "svg" else {"CreationDate": None}
    if laid_out:
        figure.tight_layout(rect=(0, bottom, 1, 1))
        figure.savefig(picture, **options)
    else:
        figure.savefig(picture, **options, bbox_inches="tight")
    write_atomically(path, picture.getvalue())


def make_folder(folder: Path) -> None:
    """Make a folder for pictures and pages, or say why not."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise AliveError(
            f"cannot make the folder {folder}: {error.strerror}", "Choose a folder that can be written"
        ) from None


def inlined(path: Path) -> str:
    """A picture as a data URI, so that a page is one file."""
    kind = "svg+xml" if path.suffix == ".svg" else "png"
    return f"data:image/{kind};base64,{b64encode(path.read_bytes()).decode()}"
