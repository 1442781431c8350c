"""The lab: one page that trains a deep thin network in the browser and shows who is dead.

`source/` holds what the page is made of, in TypeScript; `make lab` builds `page.html` from it. What is built comes with
the package, so that nothing but a browser is needed.
"""

from __future__ import annotations

import os
import sys
import webbrowser
from importlib.resources import files
from pathlib import Path

from alive.files import write_atomically


def page() -> str:
    """The page, whole: it asks no other host for anything.

    >>> page().startswith("<!doctype html>")
    True
    """
    return files(__package__).joinpath("page.html").read_text(encoding="utf-8")


def write(path: Path) -> Path:
    """Write the page into a file."""
    write_atomically(path, page().encode())
    return path


def show() -> Path | None:
    """Open the page in a browser, and give its path; nothing where there is no screen to show it on."""
    where = Path(str(files(__package__).joinpath("page.html")))
    return where if _has_screen() and webbrowser.open(where.resolve().as_uri()) else None


def _has_screen() -> bool:
    """Whether a browser could show anything: elsewhere a text browser might take over the terminal."""
    if sys.platform in ("darwin", "win32") or "BROWSER" in os.environ:
        return True
    return bool(os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY"))
