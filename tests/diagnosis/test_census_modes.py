"""A census leaves every module in the mode it was in, through its own train() if it has one."""

from __future__ import annotations

import copy

import pytest
import torch
from torch import Tensor, nn
from torch.nn.parallel import DataParallel

from alive import AliveError, census

X = torch.randn(6, 3, generator=torch.Generator().manual_seed(0))


class Lora(nn.Linear):
    """As loralib writes it: what was learned is added to the frozen weight in eval mode, and beside it in training."""

    def __init__(self, ins: int, outs: int, rank: int = 2) -> None:
        super().__init__(ins, outs)
        self.weight.requires_grad_(False)
        self.a, self.b = nn.Parameter(torch.randn(rank, ins)), nn.Parameter(torch.randn(outs, rank))
        self.merged, self.calls = False, list[bool]()

    def train(self, mode: bool = True) -> nn.Module:
        super().train(mode)
        self.calls.append(mode)
        if mode == self.merged:
            self.weight.data += (-1 if mode else 1) * self.b.data @ self.a.data
            self.merged = not mode
        return self

    def forward(self, x: Tensor) -> Tensor:
        y = super().forward(x)
        return y if self.merged else y + x @ self.a.t() @ self.b.t()


def adapted() -> nn.Sequential:
    torch.manual_seed(1)
    return nn.Sequential(Lora(3, 5), nn.ReLU(), nn.BatchNorm1d(5), Lora(5, 2))


def same(model: nn.Module, state: dict[str, Tensor]) -> bool:
    return all(torch.equal(model.state_dict()[name], value) for name, value in state.items())


def test_merged_weights_are_taken_apart_again_to_the_last_bit() -> None:
    model = adapted()
    state = copy.deepcopy(model.state_dict())
    census(model, X)
    assert [layer.merged for layer in (model[0], model[3])] == [False, False]
    assert all(module.training for module in model.modules())
    assert same(model, state)
    model(X).sum().backward()
    assert all(layer.a.grad is not None and layer.a.grad.abs().sum() > 0 for layer in (model[0], model[3]))


def test_the_census_sees_the_merged_weights() -> None:
    model = adapted()
    z = model[0](X)
    found = census(model, X)
    torch.testing.assert_close(found.layers[0].top, z.amax(0).detach())


def test_a_model_in_eval_mode_is_not_called_at_all() -> None:
    model = adapted().eval()
    state = copy.deepcopy(model.state_dict())
    for layer in (model[0], model[3]):
        layer.calls.clear()
    census(model, X)
    assert model[0].calls == model[3].calls == []
    assert model[0].merged
    assert model[3].merged
    assert same(model, state)


def test_a_part_in_eval_mode_stays_there_and_is_not_called() -> None:
    model = adapted()
    model[0].eval()
    model[2].eval()
    state, modes = copy.deepcopy(model.state_dict()), [module.training for module in model.modules()]
    for layer in (model[0], model[3]):
        layer.calls.clear()
    census(model, X)
    assert model[0].calls == []
    assert model[3].calls == [False, True]
    assert [module.training for module in model.modules()] == modes
    assert model[0].merged
    assert not model[3].merged
    assert same(model, state)


@pytest.mark.parametrize("wrap", [nn.Sequential, DataParallel])
def test_a_wrapped_model_is_left_alike(wrap: type[nn.Module]) -> None:
    model = wrap(adapted())
    state = copy.deepcopy(model.state_dict())
    census(model, X)
    assert all(module.training for module in model.modules())
    assert not any(module.merged for module in model.modules() if isinstance(module, Lora))
    assert same(model, state)


def test_a_pass_that_fails_restores_as_well() -> None:
    model = adapted()
    state = copy.deepcopy(model.state_dict())
    with pytest.raises(AliveError, match="could not run"):
        census(model, X[:, :2])
    assert not model[0].merged
    assert model[0].training
    assert same(model, state)


class KeepsNormsStill(nn.Module):
    """Its train() leaves a part in eval mode; its eval() is its own too."""

    def __init__(self) -> None:
        super().__init__()
        self.a, self.norm, self.evals = nn.Linear(3, 4), nn.BatchNorm1d(4), 0

    def train(self, mode: bool = True) -> nn.Module:
        super().train(mode)
        self.norm.eval()
        return self

    def eval(self) -> nn.Module:
        self.evals += 1
        return super().eval()

    def forward(self, x: Tensor) -> Tensor:
        assert not self.training
        return self.norm(self.a(x)).relu()


def test_a_model_with_modes_of_its_own_has_its_way_and_then_its_flags() -> None:
    model = KeepsNormsStill()
    model.train()
    census(model, X)
    assert (model.training, model.a.training, model.norm.training, model.evals) == (True, True, False, 1)
    model.norm.train()
    census(model, X)
    assert (model.training, model.norm.training) == (True, True)
