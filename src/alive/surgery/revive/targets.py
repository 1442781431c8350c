"""Which units are to be reset: those of each layer that are dead in a census, or dormant."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from fnmatch import fnmatchcase

import torch
from torch import Tensor

from ...diagnosis import Census, Dormancy
from ...functional import State
from ...taps.selections import LATENT


@dataclass(frozen=True, slots=True, eq=False)
class Target:
    """Units of one layer to reset, of so many; what each tells on average and how much, where it is known.

    `spared` are dead here and alive in another layer that reads the same maker, the one that is `alive_in`.
    """

    name: str
    label: str
    made_by: str
    units: Tensor
    count: int
    means: Tensor | None = None
    sizes: Tensor | None = None
    noun: str = "unit"
    spared: Tensor = field(default_factory=lambda: torch.empty(0, dtype=torch.long))
    alive_in: str = ""


def targets(found: Census | Dormancy, layers: Sequence[str], tau: float | None) -> list[Target]:
    """The units asked for, those of one maker together: dead, or dormant, wherever they are met; all without τ.

    Where few of the units are chosen, behind an activation or before it, the choice decides: it is what is read.
    """
    some = (layers,) if isinstance(layers, str) else tuple(layers)
    makers: dict[str, Target] = {}
    for target in _by_layer(found, tau):
        if some and not any(fnmatchcase(name, one) for one in some for name in (target.name, target.label)):
            continue
        key = target.made_by or target.name
        known = makers.setdefault(key, target)
        if known is not target and known.count == target.count:
            makers[key] = _both(known, target)
        elif known is not target:  # parts of what one module makes: which part is whose is not told
            makers[key] = replace(known, made_by="")
    return list(makers.values())


def _both(one: Target, other: Target) -> Target:
    """What is to be reset of the units that two layers read."""
    if (one.noun == LATENT) != (other.noun == LATENT):
        last = one if one.noun == LATENT else other
        return replace(last, units=torch.cat([one.units, other.units]).unique())
    both = torch.isin(one.units, other.units)
    spared = torch.cat([one.spared, one.units[~both], other.units[~torch.isin(other.units, one.units)]]).unique()
    return replace(one, units=one.units[both], spared=spared, alive_in=other.label if len(spared) else one.alive_in)


def _by_layer(found: Census | Dormancy, tau: float | None) -> Iterator[Target]:
    if isinstance(found, Census):
        for layer in found.layers:
            units = (layer.states == State.DEAD).nonzero().flatten().cpu()
            yield Target(
                layer.name, layer.label or layer.name, layer.made_by, units, len(layer.states), noun=layer.noun
            )
        return
    for own in found.layers:
        if own.size is not None:
            count = len(own.size)
            units = torch.arange(count) if tau is None else own.dormant(tau)
            yield Target(own.name, own.label, own.made_by, units, count, own.means, own.sizes)
