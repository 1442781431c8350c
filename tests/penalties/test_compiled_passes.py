"""A compiled model with sizes that change, and a whole step compiled, give the eager penalty and gradients."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from kept import MODELS, Grads, Kept, close, grads
from torch import Tensor, nn
from torch.func import functional_call, grad

from alive.penalties import Jumpstart


@pytest.fixture(autouse=True)
def fresh_compiler() -> Iterator[None]:
    torch._dynamo.reset()
    torch._dynamo.utils.counters.clear()
    yield
    torch._dynamo.reset()


class ManyKinds(Kept):
    def __init__(self) -> None:
        super().__init__()
        self.a, self.b, self.c = nn.Linear(3, 6), nn.Linear(6, 5), nn.Linear(5, 2)

    def forward(self, x: Tensor) -> Tensor:
        x = F.threshold(F.relu6(self.a(x)), 0.1, 0.0)
        return self.c(F.gelu(F.elu(self.b(x))))


RULES: list[dict[str, Any]] = [{}, {"conv": "position", "aggregate": "norm", "balance": 0.3}]
# Each model with each rule, in parts and as a whole; `make slow` tries all that can be combined.
COMBINED = [
    pytest.param(name, rule, whole, id=f"{name}-{rule}-{whole}", marks=[] if whole == bool(rule) else pytest.mark.slow)
    for name in [*MODELS, "many kinds"]
    for rule in RULES
    for whole in (False, True)
]


@pytest.mark.twin
@pytest.mark.parametrize(("name", "rule", "whole"), COMBINED)
def test_batches_of_any_size_give_the_eager_gradients(name: str, rule: dict[str, Any], whole: bool) -> None:
    torch.manual_seed(3)
    make, shape, _ = MODELS.get(name, (ManyKinds, (7, 3), 1))
    model = make()
    eager = copy.deepcopy(model)
    compiled = torch.compile(model, dynamic=True, backend="aot_eager", fullgraph=whole)
    with Jumpstart(compiled, 1.0, **rule) as keep, Jumpstart(eager, 1.0, **rule) as slow:
        graphs = []
        for points in (5, 7, 9, 4):
            x = torch.randn(points, *shape[1:])
            (compiled(x).square().mean() + keep.penalty()).backward()
            (eager(x).square().mean() + slow.penalty()).backward()
            found = {name.removeprefix("_orig_mod."): gradient for name, gradient in grads(compiled).items()}
            close(found, grads(eager), rtol=1e-4, atol=1e-5)
            graphs.append(torch._dynamo.utils.counters["stats"]["unique_graphs"])
    assert graphs[1] == graphs[-1]  # no size is compiled for by itself


@pytest.mark.twin
def test_a_step_under_torch_func_may_be_compiled_whole() -> None:
    torch.manual_seed(2)
    model, x = nn.Sequential(nn.Linear(3, 5), nn.ReLU(), nn.Linear(5, 4), nn.ELU(), nn.Linear(4, 2)), torch.randn(7, 3)
    weights = {name: p.detach() for name, p in model.named_parameters()}
    with Jumpstart(model, 1.0) as keep:

        def loss(weights: Grads) -> Tensor:
            return functional_call(model, weights, (x,)).square().mean() + keep.penalty()

        close(torch.compile(grad(loss), backend="aot_eager")(weights), grad(loss)(weights))
