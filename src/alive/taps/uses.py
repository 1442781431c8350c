"""Uses of the same weights in one pass: on the same points again, as in a recurrence, or on others, as in chunks."""

from __future__ import annotations

from collections.abc import Hashable
from typing import NamedTuple

import torch
from torch import Tensor

from ..provenance import Layout, Owners
from ..provenance.owners import names_of


class _Use(NamedTuple):
    """A use: the number of the call that began it, its units, and the points met so far; None where that is all."""

    number: int
    units: Tensor | None
    points: Tensor | None


class Uses:
    """The same weights on other points are one layer of more points; on the same points again, they are a new one."""

    def __init__(self) -> None:
        self._found: dict[tuple[str, Hashable], list[_Use]] = {}

    def new(self, base: str, made_by: Hashable) -> int:
        """The number of a use to which no call can bring more points."""
        uses = self._found.setdefault((base, made_by), [])
        uses.append(_Use(0, None, None))
        return len(uses)

    def of(
        self, base: str, made_by: Hashable, number: int, layout: Layout, owners: Owners, points: int
    ) -> tuple[int, int | None]:
        """Which use of its weights a call is, from 1 on; and the call that began it, if this one brings more points."""
        uses = self._found.setdefault((base, made_by), [])
        met = names_of(owners.point) if layout.known else None
        if met is None or len(met) == points:
            return self.new(base, made_by), None
        if not len(met):  # an expert that no point was sent to
            return 1, None
        units = names_of(owners.unit)
        for place, use in enumerate(uses):
            if use.units is None or use.points is None or not torch.equal(use.units, units):
                continue
            if not bool(torch.isin(met, use.points).any()):
                both = torch.cat([use.points, met])
                uses[place] = use._replace(points=both if len(both) < points else None)
                return place + 1, use.number
        uses.append(_Use(number, units, met))
        return len(uses), None
