"""Things of the user's own by name: `package.module:name` and `path/to/file.py:name`."""

from __future__ import annotations

import importlib
import importlib.util
import inspect
import os
import sys
import zlib
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import Any

from torch import nn

from ...errors import AliveError, expect_one_of, fault, near
from ...taps.lines import short

HERE = "Run from the folder that holds it, or write path/to/file.py:name"
MAIN = 'Put what it runs under: if __name__ == "__main__":'


def find(source: str) -> Any:
    """The object itself that `package.module:name` or `path/to/file.py:name` names; nothing is called."""
    place, colon, name = source.rpartition(":")
    if not colon or not place or not name:
        raise AliveError(f"{source!r} names nothing in a module", "Write mine:make_model for make_model in mine.py")
    found: Any = module(place)
    for step in name.split("."):
        if not hasattr(found, step):
            names = vars(found) if isinstance(found, ModuleType) else dir(found)
            expect_one_of(f"name in {place}:", step, [known for known in names if not known.startswith("_")])
        found = getattr(found, step)
    return found


def line_of(found: Any) -> str:
    """File and line of a thing of the user's own, as "mine.py:12"; empty where there is no such line."""
    try:
        found = type(found) if isinstance(found, nn.Module) else inspect.unwrap(found)
        file, line = inspect.getsourcefile(found), inspect.getsourcelines(found)[1]
    except (TypeError, OSError):
        return ""
    return f"{short(file)}:{max(line, 1)}" if file is not None else ""


def called(source: str) -> Any:
    """The object of that name; what a function or class gives."""
    found = find(source)
    if isinstance(found, nn.Module) or not callable(found):
        return found
    expect_callable(source, found, None)
    return call(source, found)


def call(source: str, function: Callable[..., Any], args: Mapping[str, Any] | None = None) -> Any:
    """What a function or class of the user's own gives."""
    with guard(f"calling {source}"):
        return function(**(args or {}))


def expect_callable(source: str, function: Any, args: Mapping[str, Any] | None) -> None:
    """Refuse arguments that a function does not take, and missing ones."""
    try:
        known = inspect.signature(function)
        known.bind(**(args or {}))
    except ValueError:  # compiled functions may have no signature
        return
    except TypeError as error:
        parameters = [p for p in known.parameters.values() if p.kind not in (p.VAR_POSITIONAL, p.VAR_KEYWORD)]
        names = [p.name for p in parameters]
        if strange := [name for name in args or {} if name not in names]:
            raise AliveError(f"{source} takes no argument {strange[0]!r}", near(strange[0], names)) from None
        lacking = [p.name for p in parameters if p.default is p.empty and p.name not in (args or {})]
        if args is None:
            raise AliveError(
                f"cannot call {source} without arguments: it needs {', '.join(lacking) or error}",
                "Wrap it in a function that needs none",
            ) from None
        said = " ".join(f"--arg {name}=..." for name in lacking)
        without = "with these arguments alone" if args else "without arguments"
        raise AliveError(
            f"cannot call {source} {without}: it needs {', '.join(lacking)}",
            f"Add {said}, or wrap it in a function that needs none",
        ) from None


def module(place: str) -> ModuleType:
    """The module of that name or file, looked for once; one that lies here goes before one that is installed."""
    return _module(place, Path.cwd())


@cache
def _module(place: str, here: Path) -> ModuleType:
    if place.endswith(".ipynb"):
        script = f"{place.removesuffix('.ipynb')}.py"
        raise AliveError(
            f"{place} is a notebook, not a module",
            f"Save its code as a file: jupyter nbconvert --to script {place}, then write {script}:make_model",
        )
    if place.endswith(".py") or os.sep in place:
        return _of_file(Path(place))
    if not all(part.isidentifier() for part in place.split(".")):
        raise AliveError(f"{place!r} is not a module name", "Write mine:make_model for make_model in mine.py")
    local = here.joinpath(*place.split("."))
    for file in (local.with_name(f"{local.name}.py"), local / "__init__.py"):
        if file.is_file():
            return _of_file(file, place)
    _go_first(here)
    return _import(place)


def _import(name: str, shown: str | None = None) -> ModuleType:
    importlib.invalidate_caches()
    shown = shown or name
    try:
        with guard(f"importing {shown!r}", letting=ModuleNotFoundError):
            return importlib.import_module(name)
    except ModuleNotFoundError as error:
        if error.name is None or not f"{name}.".startswith(f"{error.name}."):
            raise fault(f"importing {shown!r}", error) from error
        around = sorted(file.stem for file in Path.cwd().glob("*.py"))
        close = near(name, around).split(" Known")[0] if around and "did you" in near(name, around) else ""
        raise AliveError(f"cannot import {shown!r}: {error}", f"{close} {HERE}".strip()) from None


def _of_file(file: Path, name: str | None = None) -> ModuleType:
    """A module by its file: as a part of the packages it lies in, under its own name unless another module has it."""
    if not file.is_file():
        raise AliveError(
            f"{file} is a folder" if file.is_dir() else f"there is no file {file}",
            _neighbours(file) or "Correct the path",
        )
    file = file.resolve()
    root, steps = file.parent, [] if file.stem == "__init__" else [file.stem]
    while (root / "__init__.py").is_file():
        root, steps = root.parent, [root.name, *steps]
    if name is not None and len(name.split(".")) > len(steps):  # folders without __init__.py are packages too
        root, steps = Path.cwd().resolve(), name.split(".")
    _go_first(root)
    shown, dotted = name or file.name, ".".join(steps)
    if all(step.isidentifier() for step in steps) and not _is_taken(steps[0], root) and _is_found(dotted, file):
        found = _import(dotted, shown)
        if _file_of(found) == file:
            return found
    return _under_alias(file, root, steps, shown)


def _neighbours(file: Path) -> str:
    """The near name among the modules of the same folder."""
    around = sorted(str(other) for other in file.parent.glob("*.py")) if file.parent.is_dir() else []
    return near(str(file), around) if around else ""


def _is_taken(top: str, root: Path) -> bool:
    """Whether a module of this name is loaded already, from another place."""
    loaded = sys.modules.get(top)
    if loaded is None:
        return False
    places = [_file_of(loaded), *(Path(place).resolve() for place in getattr(loaded, "__path__", []))]
    return not any(place is not None and place.is_relative_to(root) for place in places)


def _is_found(dotted: str, file: Path) -> bool:
    """Whether importing that name finds this file: an installed package goes before folders without __init__.py."""
    importlib.invalidate_caches()
    try:
        spec = importlib.util.find_spec(dotted)
    except ModuleNotFoundError:
        return False
    except (Exception, SystemExit):  # a package that fails: importing it will tell
        return True
    return spec is not None and spec.origin is not None and Path(spec.origin).resolve() == file


def _file_of(found: ModuleType) -> Path | None:
    file = getattr(found, "__file__", None)
    return None if file is None else Path(file).resolve()


def _under_alias(file: Path, root: Path, steps: list[str], shown: str) -> ModuleType:
    """Load the module under a name that no other has, its packages too, so that they find each other."""
    alias = f"own_{zlib.crc32(f'{file}{file.stat().st_mtime_ns}'.encode()):08x}"
    folder = root / steps[0]
    is_package = (folder / "__init__.py").is_file()
    first = folder / "__init__.py" if is_package else file
    if alias not in sys.modules:
        inside = [str(folder)] if is_package else None
        spec = importlib.util.spec_from_file_location(alias, first, submodule_search_locations=inside)
        if spec is None or spec.loader is None:
            raise AliveError(f"{file} is not a Python module", "Let its name end in .py")
        sys.modules[alias] = made = importlib.util.module_from_spec(spec)
        try:
            with guard(f"importing {shown!r}"):
                spec.loader.exec_module(made)
        except BaseException:
            del sys.modules[alias]
            raise
    return _import(".".join([alias, *steps[1:]]), shown) if is_package and steps[1:] else sys.modules[alias]


def _go_first(folder: Path) -> None:
    """Let imports look here first, for good: what is called later may import its neighbours."""
    path = str(folder)
    if sys.path[:1] != [path]:
        sys.path[:] = [path, *(place for place in sys.path if place != path)]


@contextmanager
def guard(doing: str, letting: type[Exception] | tuple[type[Exception], ...] = ()) -> Iterator[None]:
    """Run the user's own code: it sees none of our arguments, and an error in it becomes one sentence."""
    words, sys.argv = sys.argv, sys.argv[:1]
    try:
        yield
    except SystemExit as stop:
        raise AliveError(f"{doing} ended the program (exit code {stop.code})", MAIN) from stop
    except letting:
        raise
    except Exception as error:
        raise fault(doing, error) from error
    finally:
        sys.argv = words
