import math

import pytest
import torch
from torch import nn

from alive.errors import AliveError
from alive.train import OPTIMISERS, Settings
from alive.train.settings import groups
from alive_papers.networks import FixupNet


def made(settings: Settings, model: nn.Module | None = None) -> torch.optim.Optimizer:
    model = model or nn.Linear(2, 3)
    return OPTIMISERS[settings.optimiser](groups(model, list(model.parameters()), settings), settings)


def test_defaults_are_the_papers() -> None:
    (group,) = made(Settings()).param_groups
    assert (group["lr"], group["eps"], group["betas"], group["weight_decay"]) == (0.01, 1e-7, (0.9, 0.999), 0)


def test_sgd_takes_its_settings() -> None:
    (group,) = made(Settings(optimiser="sgd", lr=0.3, momentum=0.5, weight_decay=0.1)).param_groups
    assert (group["lr"], group["momentum"], group["weight_decay"]) == (0.3, 0.5, 0.1)


def test_biases_are_spared_decay_if_asked() -> None:
    weights, biases = made(Settings(weight_decay=0.1, decay_biases=False)).param_groups
    assert ([p.dim() for p in weights["params"]], weights["weight_decay"]) == ([2], 0.1)
    assert ([p.dim() for p in biases["params"]], biases["weight_decay"]) == ([1], 0.0)


def test_a_model_may_group_its_own_parameters() -> None:
    first, second = made(Settings(lr=0.1, weight_decay=0.2), FixupNet(1, 3, stages=(1, 1), base=4)).param_groups
    assert (first["lr"], first["weight_decay"]) == (0.1, 0.2)
    assert (second["lr"], second["weight_decay"]) == (pytest.approx(0.01), 0.0)


def test_the_output_layer_may_have_a_rate_of_its_own() -> None:
    model = nn.Sequential(nn.Linear(2, 3), nn.ReLU(), nn.Linear(3, 1))
    hidden, output = made(Settings(lr=0.1, output_lr=0.5), model).param_groups
    assert (hidden["lr"], hidden["params"]) == (0.1, list(model[0].parameters()))
    assert (output["lr"], output["params"]) == (0.5, list(model[2].parameters()))
    with pytest.raises(AliveError, match="FixupNet names rates of its own in parameter_groups"):
        made(Settings(output_lr=0.5), FixupNet(1, 3, stages=(1, 1), base=4))
    with pytest.raises(AliveError, match="output_lr must be finite and above 0, got 0"):
        Settings(output_lr=0)


def test_files_from_before_the_rate_of_the_output_still_fit() -> None:
    assert "output_lr" not in Settings().record
    assert Settings(output_lr=0.5).record == Settings().record | {"output_lr": 0.5}


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
