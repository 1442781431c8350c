"""Things by name: those that come with alive, and those that installed packages add through entry points.

A package adds to a registry with a line in its pyproject.toml, such as

    [project.entry-points."alive.starts"]
    halved = "alive_plugin:halved_"

Names are known without importing anything; a package is imported when its thing is asked for. docs/extending.md has
the groups.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, ItemsView, Iterator, Mapping, ValuesView
from functools import cache
from importlib.metadata import EntryPoint, entry_points
from traceback import walk_tb
from typing import Any, TypeVar, cast

from .errors import AliveError

T = TypeVar("T")


class Registry(Mapping[str, T]):
    """What is known by name, as a mapping: our own first, then what packages add under the entry points of a group.

    Our own names cannot be taken; a text among our own things, "alive.cli.train:train", is imported when it is asked
    for, as those of packages are. What cannot be loaded is refused with the reason where it is asked for, and left out
    of values() and items() with a warning. `fault` says what is wrong with a thing; nothing where it will do.

    >>> starts = Registry("alive.starts_of_nobody", "start", {"zeros": 0})
    >>> list(starts), "ones" in starts
    (['zeros'], False)
    """

    def __init__(
        self,
        group: str,
        what: str,
        own: Mapping[str, T | str],
        *,
        fault: Callable[[str, Any], str] = lambda name, thing: "",
    ) -> None:
        self.own: dict[str, Any] = dict(own)
        self._group, self._what, self._fault = group, what, fault
        self._loaded: dict[str, T] = {}
        self._refused: dict[str, AliveError] = {}

    def __getitem__(self, name: str) -> T:
        if name in self.own:
            if isinstance(thing := self.own[name], str):
                thing = self.own[name] = EntryPoint(name, thing, self._group).load()
            return cast(T, thing)
        if name in self._refused:
            raise self._refused[name]
        if name not in _added(self._group):
            raise KeyError(name)
        if name not in self._loaded:
            self._loaded[name] = self._load(name)
        return self._loaded[name]

    def __contains__(self, name: object) -> bool:
        return name in self.own or name in _added(self._group)

    def __iter__(self) -> Iterator[str]:
        return iter({**self.own, **_added(self._group)})

    def __len__(self) -> int:
        return len({*self.own, *_added(self._group)})

    def values(self) -> ValuesView[T]:
        """All things that can be loaded."""
        return self._load_all().values()

    def items(self) -> ItemsView[str, T]:
        """All things that can be loaded, and their names."""
        return self._load_all().items()

    def __repr__(self) -> str:
        return f"Registry({self._group!r}, {list(self)})"

    def _load_all(self) -> dict[str, T]:
        """All that can be loaded; of what cannot, one warning."""
        for name in self:
            if name not in self._refused:
                try:
                    self[name]
                except AliveError as error:
                    warnings.warn(str(error), stacklevel=4)
        return {name: self[name] for name in self if name not in self._refused}

    def _load(self, name: str) -> T:
        """Import what a package adds; any failure of it becomes one sentence that names the package."""
        found = _added(self._group)[name]
        try:
            if len(found) > 1:
                packages = " and ".join(_package(point) for point in found)
                raise AliveError(f"{packages} both add the {self._what} {name!r}", "Uninstall one of them")
            thing = _import(found[0], self._what)
            fault = self._fault(name, thing)
            if fault:
                raise AliveError(f"the package {_package(found[0])} adds the {self._what} {name!r}, and {fault}")
        except AliveError as error:
            self._refused[name] = error
            raise
        return thing  # type: ignore[no-any-return]


def names_added(group: str) -> tuple[str, ...]:
    """The names that installed packages add to a group; nothing is imported."""
    return tuple(_added(group))


def package_at_fault(error: BaseException) -> str:
    """The package that adds to alive and in whose code an error arose; empty where none has to do with it."""
    known = _entry_points()
    added = [point for group in known.groups if group.startswith("alive.") for point in known.select(group=group)]
    packages = {point.module.split(".")[0]: _package(point) for point in added}
    frames = (frame.f_globals.get("__name__", "") for frame, _ in walk_tb(error.__traceback__))
    found = [packages[top] for top in (name.split(".")[0] for name in frames) if top in packages]
    return next((each for each in found if each != "alive-papers"), "")


def _import(point: EntryPoint, what: str) -> Any:
    try:
        return point.load()
    except Exception as error:  # whatever a stranger's import may raise
        said = " ".join(f"{type(error).__name__}: {error}".split()).rstrip(".: ")
        raise AliveError(
            f"the package {_package(point)} adds the {what} {point.name!r}, which cannot be loaded: {said}",
            f"Repair it, or: pip uninstall {_package(point)}",
        ) from None


def _package(point: EntryPoint) -> str:
    return point.dist.name if point.dist is not None else point.module


_entry_points = cache(entry_points)  # of all groups: to look through every installed package takes a while


@cache
def _added(group: str) -> dict[str, tuple[EntryPoint, ...]]:
    """The entry points of a group by name; the same package found twice on the path counts once."""
    found: dict[str, dict[tuple[str, str], EntryPoint]] = {}
    for point in _entry_points().select(group=group):
        found.setdefault(point.name, {}).setdefault((_package(point), point.value), point)
    return {name: tuple(points.values()) for name, points in found.items()}
