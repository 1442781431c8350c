"""Inputs on a scale that networks can learn from."""

from __future__ import annotations

from typing import Any

import alive

from .cure import Cure


class Standardise(Cure):
    """A first layer that gives the inputs mean 0 and spread 1."""

    words = "bring the inputs to mean 0 and spread 1"
    changes = "the network reads the inputs on another scale, measured on the training points"

    def applies(self, census: alive.Census) -> bool:
        return census.input is not None

    def model(self, model: Any, x: Any) -> Any:
        import torch

        return torch.nn.Sequential(alive.nn.Standardise(x), model)


CURES = {"standardise": Standardise()}
