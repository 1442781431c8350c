"""Names of taps, and of their units: the same in every pass, whichever of them a pass meets and in whatever order."""

from __future__ import annotations

from collections.abc import Hashable

import torch
from torch import Tensor

from ..provenance import Layout, Scattered
from ..provenance.families import COPY, ROW, Runs

Units = dict[tuple[Hashable, int], int]
"""The place of each unit of a layer, by its family and its number there."""


class Names:
    """What the layers of a model are called, and which of their units has which number."""

    def __init__(self) -> None:
        self._names: dict[Hashable, str] = {}
        self._bases: dict[str, str] = {}
        self._taken: dict[str, int] = {}  # how many names begin with each base
        self._first: dict[str, Runs] = {}  # the units of each name, as they were met first
        self._units: dict[str, Units] = {}  # of those names whose units were met in other ways since

    def of(self, base: str, made_by: Hashable, runs: Runs | None, use: int) -> str:
        """A name for what these weights feed to this activation at a use; other units have another."""
        key: tuple[Hashable, ...] = (base, made_by, use)
        name = self._names.get(key)
        if name is not None and runs is not None and self._first.get(name, runs) != runs:
            known, first = self._known(name), self._first[name]
            families = {family for family, _ in known}
            is_other = families.isdisjoint(family for family, _, _ in runs) and not _are_kin(first, runs)
            is_part = bool(_beside(first)) and _beside(first) == _beside(runs)
            if is_other and not is_part and not (_are_copies(first, (ROW,)) and _are_copies(runs, (ROW,))):
                key = (*key, runs)
                name = self._names.get(key)
        if name is None:
            taken = self._taken[base] = self._taken.get(base, 0) + 1
            name = self._names[key] = f"{base}#{taken}" if taken > 1 else base
            self._bases[name] = base
        if runs is not None:
            self._first.setdefault(name, runs)
        return name

    def lined_up(self, name: str, z: Tensor, points: int, layout: Layout, runs: Runs | None) -> Layout:
        """The layout with the units numbered as in the passes before; new ones come behind."""
        first = self._first.get(name)
        if runs is None or first is None or runs == first or not layout.units:
            return layout
        known = self._known(name)
        families = {family for family, _ in known}
        is_new = families.isdisjoint(family for family, _, _ in runs)
        if is_new and _are_kin(first, runs):  # the same units, with a term more or less in their sums
            known.update({unit: place for place, unit in enumerate(_units(runs))})
        places = [known.setdefault(unit, len(known)) for unit in _units(runs)]
        if places == list(range(len(places))):
            return layout
        return _renumber(z, points, layout, torch.tensor(places), len(known))

    def _known(self, name: str) -> Units:
        if name not in self._units:
            self._units[name] = {unit: place for place, unit in enumerate(_units(self._first[name]))}
        return self._units[name]


def _units(runs: Runs) -> list[tuple[Hashable, int]]:
    return [(family, number) for family, start, stop in runs for number in range(start, stop)]


def maker(made_by: str, runs: Runs | None) -> Hashable:
    """Who makes these units: weights; or each of the layers that were put side by side, in any order."""
    beside = _beside(runs or ())
    return (made_by, beside) if beside else made_by


def _beside(runs: Runs) -> frozenset[Runs | None]:
    """Of units of layers that were put side by side, all that were, also those that were left empty; else nothing."""
    parts = [family for family, _, _ in runs]
    if not all(isinstance(part, tuple) and part[0] == "cat" for part in parts):
        return frozenset()
    return frozenset().union(*(part[2] for part in parts))  # type: ignore[index]


def _are_kin(a: Runs, b: Runs) -> bool:
    """Whether as many units are sums of which some terms are the same, or known one by one in one pass alone."""
    if sum(stop - start for _, start, stop in a) != sum(stop - start for _, start, stop in b):
        return False
    return _are_copies(a) != _are_copies(b) or not _terms(a).isdisjoint(_terms(b))


def _are_copies(runs: Runs, kinds: tuple[str, ...] = (COPY, ROW)) -> bool:
    """Whether weights were copied for their points, so that each unit is known by its own numbers."""
    return any(isinstance(family, tuple) and family[0] in kinds for family, _, _ in runs)


def _terms(runs: Runs) -> set[Hashable]:
    """The families that units are of, or those of the terms of their sums."""
    found: set[Hashable] = set()
    for family, start, stop in runs:
        parts = family[1] if isinstance(family, tuple) and family[0] == "sum" else None
        found |= {(family, start, stop)} if parts is None else {t for part in parts if part for t in _terms(part)}
    return found


def _renumber(z: Tensor, points: int, layout: Layout, places: Tensor, width: int) -> Layout:
    """The layout with other numbers for its units."""
    if isinstance(layout.place, Scattered):
        assert layout.place.units is not None
        point, unit = layout.place.points, places[layout.place.units]
    else:
        cells = layout.arrange(torch.arange(z.numel()).view(z.shape), points)
        rows, columns = torch.arange(len(cells))[:, None, None], places[None, :, None]
        point, unit = (torch.empty(z.numel(), dtype=torch.long) for _ in range(2))
        point[cells], unit[cells] = rows.expand_as(cells), columns.expand_as(cells)
        point, unit = point.view(z.shape) if layout.points else None, unit.view(z.shape)
    return layout._replace(place=Scattered(z.shape, point, unit, width), fixed=False, axes=None)
