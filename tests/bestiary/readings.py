"""Beasts that can be read in more than one way."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from case import Layer
from notebook import noted
from torch import nn


def read(how: Any) -> Callable[[nn.Module, Any], list[Layer]]:
    """The truth of a model that makes its notes as its `reading` says."""

    def truth(model: nn.Module, batch: Any) -> list[Layer]:
        model.reading = how
        return noted(model, batch)

    return truth
