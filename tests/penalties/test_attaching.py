"""Jumpstart attaches to a model and lets go of it without a trace."""

from __future__ import annotations

import copy
import io
import pickle

import pytest
import torch
from hooks import hooks_of
from kept import MODELS
from torch import Tensor, nn

from alive.errors import AliveError
from alive.penalties import Jumpstart


@pytest.mark.parametrize("name", MODELS)
def test_detach_restores_hooks_state_and_output(built, name: str) -> None:
    model, x, _ = built(name)
    model.eval()
    before, state, expected = hooks_of(model), copy.deepcopy(model.state_dict()), model(x)
    with Jumpstart(model) as keep:
        model(x)
        assert model.state_dict().keys() == state.keys()
    keep.detach()
    assert hooks_of(model) == before
    assert all(torch.equal(state[key], value) for key, value in model.state_dict().items())
    assert torch.equal(model(x), expected)


def test_training_output_is_bitwise_that_of_the_bare_model(built) -> None:
    for name in MODELS:
        model, x, _ = built(name)
        expected = copy.deepcopy(model)(x)
        with Jumpstart(model):
            assert torch.equal(model(x), expected)


def test_a_second_attachment_is_refused_anywhere_in_the_model(built) -> None:
    model, x, _ = built("resnet")
    with Jumpstart(model):
        for part in (model, model.blocks, model.blocks[0], nn.Sequential(model)):
            with pytest.raises(AliveError, match="attached to this model, or a part of it, already"):
                Jumpstart(part)
    with Jumpstart(model.blocks[1]), pytest.raises(AliveError, match=r"detach\(\) first"):
        Jumpstart(model)
    with Jumpstart(model) as keep:
        model(x)
        keep.penalty()


def repickled(model: nn.Module) -> nn.Module:
    return pickle.loads(pickle.dumps(model))


def reloaded(model: nn.Module) -> nn.Module:
    file = io.BytesIO()
    torch.save(model, file)
    file.seek(0)
    return torch.load(file, weights_only=False)


@pytest.mark.parametrize("again", [copy.deepcopy, repickled, reloaded])
def test_a_copy_of_an_attached_model_is_a_free_model(built, again) -> None:
    model, x, _ = built("resnet")
    model.eval()
    with Jumpstart(model) as keep:
        twin = again(model)
        assert torch.equal(twin(x), model(x))
        with pytest.warns(UserWarning, match="in eval mode"):
            keep.penalty()
        twin(x)
        with pytest.raises(AliveError, match="no forward pass"):
            keep.penalty()
        twin.train()
        with Jumpstart(twin) as other:
            twin(x)
            assert other.penalty() > 0
        assert all(not any(hooks.values()) for hooks in hooks_of(twin))


def test_a_part_that_is_called_by_itself_is_penalised_after_passes_through_the_whole() -> None:
    """As in reinforcement learning: the whole policy acts on one point, and its parts learn from batches."""

    class Policy(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.read, self.body = nn.Sequential(nn.Flatten()), nn.Sequential(nn.Linear(3, 4), nn.ReLU())

        def forward(self, x: Tensor) -> Tensor:
            return self.body(self.read(x))

    model, x = Policy(), torch.randn(8, 3)
    with Jumpstart(model) as keep:
        found = []
        for _ in range(3):
            with torch.no_grad():
                model(x[:1])
            model.body(model.read(x))
            found.append(keep.penalty().item())
    with Jumpstart(model.body) as keep:
        model.body(x)
        alone = keep.penalty().item()
    assert found == pytest.approx([alone] * 3)
    assert alone > 0
