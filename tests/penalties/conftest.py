"""The models a penalty is tested on."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from kept import MODELS, Kept
from torch import Tensor, nn


@pytest.fixture
def built() -> Callable[[str], tuple[Kept, Tensor, int]]:
    def build(name: str) -> tuple[Kept, Tensor, int]:
        torch.manual_seed(3)
        make, shape, axis = MODELS[name]
        model = make()
        for module in model.modules():
            if isinstance(module, nn.BatchNorm2d):
                nn.init.constant_(module.weight, 0.2)  # so that some slack is left
        return model, 0.3 * torch.randn(shape), axis

    return build
