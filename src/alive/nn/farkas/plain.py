"""What everything with a guarantee can do: state it, and become an ordinary layer with the same outputs."""

from __future__ import annotations

from abc import ABC, abstractmethod

from torch import nn

from ...torch_private import children_of


class Guaranteed(nn.Module, ABC):
    """A layer or block whose largest pre-activation is bounded from below at every input."""

    @abstractmethod
    def guarantee(self) -> float:
        """Give that bound."""

    @abstractmethod
    def to_plain(self) -> nn.Module:
        """Give the ordinary module that computes the same; this one is left as it is."""

    def speaks_for(self) -> nn.Module | None:
        """Give the part whose own guarantee is not asked for, if there is one."""
        return None


def guarantees(model: nn.Module) -> dict[str, float]:
    """By path, the least that the largest pre-activation of each Farkas layer or residual block can be.

    >>> from alive.nn.farkas import FarkasLinear
    >>> found = guarantees(nn.Sequential(FarkasLinear(2, 3), nn.ReLU(), FarkasLinear(3, 3), nn.ReLU()))
    >>> list(found), min(found.values()) > 0.0009
    (['0', '2'], True)
    """
    bounded = {path: module for path, module in model.named_modules() if isinstance(module, Guaranteed)}
    inner = [module.speaks_for() for module in bounded.values()]
    return {path: m.guarantee() for path, m in bounded.items() if not any(m is part for part in inner)}


def materialised(model: nn.Module) -> nn.Module:
    """The model with every Farkas layer as an ordinary one; the containers of the given model are changed.

    Parts used twice stay shared. A model that is itself a Farkas layer comes back as the plain layer.
    """
    return _plain(model, {})


def _plain(module: nn.Module, made: dict[nn.Module, nn.Module]) -> nn.Module:
    if module not in made:
        made[module] = module.to_plain() if isinstance(module, Guaranteed) else module
        for name, child in list(children_of(module).items()) if made[module] is module else ():
            if child is not None:
                module.add_module(name, _plain(child, made))
    return made[module]
