"""Where data lie: the folder ALIVE_DATA names, the user's cache, and where the system's packages put data sets."""

from __future__ import annotations

import os
import sys
from pathlib import Path

from alive.errors import AliveError

from ..catalogue import ImageSet

SETTING = "ALIVE_DATA"
CACHES = {"win32": ("AppData", "Local"), "darwin": ("Library", "Caches")}  # below the user's home


class NotThere(AliveError):
    """A data set of which this machine has no files, or not all."""


def cache() -> Path | None:
    """This user's cache folder; none for a user without a home."""
    if given := os.environ.get("XDG_CACHE_HOME"):
        return Path(given, "alive")
    if sys.platform == "win32" and (local := os.environ.get("LOCALAPPDATA")):
        return Path(local, "alive")
    own = Path(os.path.expanduser("~"))  # unchanged if no home is known
    if own == Path("~"):
        return None
    return own.joinpath(*CACHES.get(sys.platform, (".cache",)), "alive")


def home() -> Path | None:
    """Where data sets are put: the folder that ALIVE_DATA names, else the user's cache."""
    given = os.environ.get(SETTING)
    return Path(os.path.expanduser(given)) if given else cache()


def folders(name: str) -> list[Path]:
    """Where a data set is looked for, first the user's own choice, last the system's packages."""
    shared = os.environ.get("XDG_DATA_DIRS") or "/usr/local/share:/usr/share"
    roots = [home(), cache(), *(Path(part, "datasets") for part in shared.split(os.pathsep) if part)]
    return list(dict.fromkeys(root / name for root in roots if root is not None))


def present(folder: Path, known: ImageSet) -> tuple[dict[str, Path], list[str]]:
    """The files of a set that a folder holds, plain before gzipped, and the names of those it lacks."""
    there: dict[str, Path] = {}
    for file in known.files:
        plain = folder / file.name
        choices = [plain] if known.parquet else [plain, plain.with_name(f"{plain.name}.gz")]
        if found := [path for path in choices if path.is_file()]:
            there[file.name] = found[0]
    return there, [file.name for file in known.files if file.name not in there]


def find(known: ImageSet) -> dict[str, Path]:
    """The files of a set, from the first folder that holds them all; refuses with what is missing and how to get it."""
    looked = folders(known.name)
    lacks = {}
    for folder in looked:
        there, lacks[folder] = present(folder, known)
        if not lacks[folder]:
            return there
    partly = {folder: names for folder, names in lacks.items() if len(names) < len(known.files)}
    if partly:
        folder, names = next(iter(partly.items()))
        cause = f"{known.title} in {folder} lacks {', '.join(names)}"
    else:
        cause = f"{known.title} is not there: looked for {known.files[0].name} and the others in {_listed(looked)}"
    raise NotThere(
        cause,
        f"Run `alive data get {known.name}`; or take its files from {known.package} with --from PATH; "
        f"or let {SETTING} name the folder that holds {known.name}/",
    )


def _listed(paths: list[Path]) -> str:
    return ", ".join(map(str, paths))
