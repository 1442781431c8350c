"""A model under cures: made by them, and trained as they say."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from inspect import signature
from typing import Any

import torch
from torch import Tensor, nn

from ..errors import AliveError, fault
from .cure import PLACES, Cure

MISSING = {
    "x": "it needs inputs that are one tensor, given by place",
    "keep": "there is no penalty that it could change",
    "make_model": "nothing is known that makes the model anew",
}


class Treatment:
    """A model under cures, its optimiser, and its training step; AliveError where a cure cannot be applied.

    optimiser  makes the optimiser of the model that the cures have made
    x          the training inputs, where they are one tensor
    make_model makes the model as its owner does
    keep       the penalty that is attached, if there is one
    """

    def __init__(
        self,
        cures: Sequence[Cure],
        model: nn.Module,
        optimiser: Callable[[nn.Module], torch.optim.Optimizer],
        x: Tensor | None = None,
        make_model: Callable[[], nn.Module] | None = None,
    ) -> None:
        self._at = {place: _unique(cures, place) for places in PLACES.values() for place in places}
        self.model, self.x, self.make_model = model, x, make_model
        self.keep: Any = None
        self._make("model")
        if not isinstance(self.model, nn.Module):
            raise AliveError(
                f"it gives a {type(self.model).__name__}, not a torch.nn.Module", "Let it return the model"
            )
        for why in filter(None, (cure.fault(self.model) for cure in cures)):
            raise AliveError(why, "Leave it out")
        self._make("keep")
        self.optimiser = optimiser(self.model)
        self._make("optimiser")
        self._make("schedule")

    def step(self, loss: Tensor) -> Tensor:
        """One step downhill on the loss of the task and what the cures add to it; the loss with that."""
        self.loss = loss
        self._make("loss")
        self.optimiser.zero_grad()
        self.loss.backward()
        self._make("gradients")
        self.optimiser.step()
        self._make("stepped")
        return self.loss

    def __enter__(self) -> Treatment:
        return self

    def __exit__(self, *_: object) -> None:
        if self.keep is not None:
            self.keep.__exit__(None, None, None)

    def _make(self, place: str) -> None:
        for text, method in self._at[place].items():
            given = {name: getattr(self, name, None) for name in signature(method).parameters}
            missing = [name for name, value in given.items() if value is None]
            if missing and place == "loss":  # of a penalty that a later cure has let go of
                continue
            if missing:
                raise AliveError(
                    MISSING.get(missing[0], f"it asks for {missing[0]}, which is not there"), "Leave it out"
                )
            if place == "keep" and "keep" not in given:  # one at a time
                self.__exit__()
            try:
                setattr(self, place, method(**given))
            except Exception as error:
                raise fault(" ".join(text.split()), error) from error


def _unique(cures: Sequence[Cure], place: str) -> dict[str, Callable[..., Any]]:
    """What cures do at a place, by how it reads: what reads the same is done once."""
    found = ((cure.text(place), cure.at(place)) for cure in cures)
    return {text: method for text, method in found if method is not None}
