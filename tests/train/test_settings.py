import math

import pytest
import torch
from torch import nn

from alive.errors import AliveError
from alive.train import OPTIMISERS, Settings


def test_defaults_are_the_papers() -> None:
    adam = OPTIMISERS["adam"]([nn.Parameter(torch.zeros(1))], Settings())
    group = adam.param_groups[0]
    assert (group["lr"], group["eps"], group["betas"], group["weight_decay"]) == (0.01, 1e-7, (0.9, 0.999), 0)


def test_sgd_takes_its_settings() -> None:
    sgd = OPTIMISERS["sgd"]([nn.Parameter(torch.zeros(1))], Settings(lr=0.3, momentum=0.5, weight_decay=0.1))
    group = sgd.param_groups[0]
    assert (group["lr"], group["momentum"], group["weight_decay"]) == (0.3, 0.5, 0.1)


def test_all_faults_together() -> None:
    with pytest.raises(AliveError) as caught:
        Settings(
            epochs=0,
            batch_size=2.5,  # type: ignore[arg-type]
            optimiser="adamm",
            lr=math.nan,
            momentum=1,
            weight_decay=-1,
            eps=0,
            seed=-1,
        )
    for said in ("epochs", "batch_size", "did you mean 'adam'", "lr", "momentum", "weight_decay", "eps", "seed"):
        assert said in str(caught.value)
