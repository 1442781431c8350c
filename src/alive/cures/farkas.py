"""Layers of which one unit is always on."""

from typing import Any

import alive

from .cure import Cure


class Farkas(Cure):
    """Farkas layers, by which no point can die."""

    words = "give every layer a unit that is on where all others are off"
    changes = "in each layer one unit is replaced; all others stay"

    def fault(self, model: Any) -> str:
        can = any(isinstance(part, alive.nn.farkas.Farkas) for part in model.modules())
        return "" if can else "none of its layers can be a Farkas layer"

    def model(self, model: Any, x: Any) -> Any:
        return alive.surgery.to_farkas(model, x[:64]).model


CURES = {"farkas": Farkas()}
