"""Rooms whose names load on first use: what `lazy from .census import census` does where Python has it (3.15).

A room's `__init__` writes its imports below `if TYPE_CHECKING:`, where editors read them, and so does this.
"""

from __future__ import annotations

import ast
import linecache
import sys
from importlib import import_module
from types import ModuleType
from typing import Any

from .errors import near


class Room(ModuleType):
    """A package that imports the file behind a name when it is asked for that name."""

    _files: dict[str, str]  # public name -> the file or room it comes from, as in `from .census`; "." for a room itself

    def __getattr__(self, name: str) -> Any:
        if name not in self._files:
            hint = "" if name.startswith("_") else f": {near(name, dir(self))}"
            raise AttributeError(f"module {self.__name__!r} has no attribute {name!r}{hint}")
        if (file := self._files[name]) == ".":
            return import_module(f".{name}", self.__name__)
        self.__dict__[name] = thing = getattr(import_module(file, self.__name__), name)
        return thing

    def __setattr__(self, name: str, value: Any) -> None:
        if not (
            isinstance(value, ModuleType) and self._files.get(name, ".") != "."
        ):  # census.py is not what `census` means
            super().__setattr__(name, value)

    def __dir__(self) -> list[str]:
        return sorted({*self._files, *(name for name in self.__dict__ if name in self.__dict__.get("__all__", ()))})


def load_on_use(name: str) -> None:
    """Make a package a room whose `if TYPE_CHECKING:` says what comes from where."""
    module = sys.modules[name]
    source = "".join(linecache.getlines(str(module.__file__), module.__dict__))
    files = {
        alias.name: "." * node.level + (node.module or "")
        for block in ast.parse(source).body
        if isinstance(block, ast.If)
        for node in block.body
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
    }
    module.__dict__["_files"] = files
    module.__class__ = Room
