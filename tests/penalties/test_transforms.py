"""The penalty inside torch.func, on tensors without values, and in part compiled: plain torch measures there."""

from __future__ import annotations

import copy

import pytest
import torch
from kept import Grads, close, grads
from torch import Tensor, nn
from torch._subclasses import FakeTensorMode
from torch.func import functional_call, grad, jacrev, vmap

from alive.penalties import Jumpstart

X = torch.randn(7, 3, generator=torch.Generator().manual_seed(0))


def model_of(inplace: bool = False) -> nn.Sequential:
    torch.manual_seed(2)
    return nn.Sequential(nn.Linear(3, 5), nn.ReLU(inplace), nn.Linear(5, 4), nn.ELU(inplace=inplace), nn.Linear(4, 2))


def eager(model: nn.Module, x: Tensor) -> Grads:
    with Jumpstart(model, 1.0) as keep:
        (model(x).square().mean() + keep.penalty()).backward()
    return grads(model)


@pytest.mark.twin
@pytest.mark.parametrize("inplace", [False, True])
def test_torch_func_gives_the_eager_gradients(inplace: bool) -> None:
    model = model_of(inplace)
    with Jumpstart(model, 1.0) as keep:

        def loss(weights: Grads) -> Tensor:
            return functional_call(model, weights, X).square().mean() + keep.penalty()

        found = grad(loss)({name: p.detach() for name, p in model.named_parameters()})
    close(found, eager(model, X))


@pytest.mark.twin
def test_a_batch_of_models_gets_each_its_own_gradients() -> None:
    model = model_of()
    weights = {name: torch.stack([p.detach(), -p.detach()]) for name, p in model.named_parameters()}
    with Jumpstart(model, 1.0) as keep:

        def loss(weights: Grads) -> Tensor:
            return functional_call(model, weights, X).square().mean() + keep.penalty()

        found = vmap(grad(loss))(weights)
    for k in range(2):
        model.load_state_dict({name: both[k] for name, both in weights.items()})
        close({name: both[k] for name, both in found.items()}, eager(model, X))


def test_the_jacobian_of_an_attached_model_is_that_of_the_bare_one() -> None:
    model = model_of()
    expected = jacrev(model)(X)
    with Jumpstart(model):
        torch.testing.assert_close(jacrev(model)(X), expected)


@pytest.mark.parametrize("inplace", [False, True])
def test_tensors_without_values_have_a_penalty_without_value(inplace: bool) -> None:
    model = model_of(inplace)
    with Jumpstart(model) as keep, FakeTensorMode(allow_non_fake_inputs=True):
        model(torch.randn(7, 3))
        assert keep.penalty().shape == ()
    empty = copy.deepcopy(model).to("meta")
    with Jumpstart(empty) as keep:
        empty(X.to("meta"))
        keep.penalty().backward()
        assert all(p.grad.is_meta for p in empty[0].parameters())


@pytest.mark.twin
@pytest.mark.parametrize("whole", [False, True])
def test_a_model_compiled_in_part_gives_the_eager_penalty_and_gradients(whole: bool) -> None:
    torch._dynamo.reset()
    model = nn.Sequential(model_of(), nn.Linear(2, 3), nn.ReLU())
    wanted = eager(copy.deepcopy(model), X)
    model[0] = torch.compile(model[0], backend="aot_eager")
    run = torch.compile(model, backend="aot_eager") if whole else model
    with Jumpstart(run, 1.0) as keep:
        for _ in range(2):
            (run(X).square().mean() + keep.penalty()).backward()
            found = {name.replace("_orig_mod.", ""): gradient for name, gradient in grads(model).items()}
            close(found, wanted, rtol=1e-4, atol=1e-6)
    torch._dynamo.reset()
