"""A compiled model gives the eager penalty and gradients."""

from __future__ import annotations

import copy
from collections.abc import Iterator

import pytest
import torch
from kept import MODELS, Grads, close, step
from torch import Tensor

from alive.errors import AliveError
from alive.penalties import Jumpstart


@pytest.fixture
def fresh_compiler() -> Iterator[None]:
    torch._dynamo.reset()
    yield
    torch._dynamo.reset()


def same(compiled: tuple[Tensor, Grads], eager: tuple[Tensor, Grads]) -> None:
    torch.testing.assert_close(compiled[0], eager[0])
    found = {name.removeprefix("_orig_mod."): gradient for name, gradient in compiled[1].items()}
    close(found, eager[1], rtol=1e-4, atol=1e-5)


@pytest.mark.twin
@pytest.mark.usefixtures("fresh_compiler")
@pytest.mark.parametrize("name", MODELS)
def test_a_compiled_model_gives_the_eager_penalty_and_gradients(built, name: str) -> None:
    model, x, _ = built(name)
    eager = step(copy.deepcopy(model), x)
    compiled = torch.compile(model, backend="aot_eager")
    same(step(compiled, x), eager)


@pytest.mark.twin
@pytest.mark.usefixtures("fresh_compiler")
@pytest.mark.filterwarnings("ignore")  # inductor's own
def test_inductor_gives_the_eager_penalty_and_gradients(built) -> None:
    from torch._inductor import config

    model, x, _ = built("conv")
    eager = step(copy.deepcopy(model), x)
    # One process, and plain code: else most of the time goes to what this processor can do.
    with config.patch({"compile_threads": 1, "cpp.vec_isa_ok": False}):
        same(step(torch.compile(model), x), eager)


@pytest.mark.usefixtures("fresh_compiler")
def test_a_model_compiled_in_place_is_penalised_pass_after_pass(built) -> None:
    model, x, _ = built("dense")
    expected = step(copy.deepcopy(model), x)[0]
    model.compile(backend="aot_eager")
    with Jumpstart(model, 1.0) as keep:
        for _ in range(3):
            model(x)
            torch.testing.assert_close(keep.penalty(), expected)


@pytest.mark.usefixtures("fresh_compiler")
@pytest.mark.parametrize("name", ["dense", "conv"])
def test_attaching_after_the_first_compiled_call_compiles_anew(built, name: str) -> None:
    model, x, _ = built(name)
    eager = step(copy.deepcopy(model), x)
    compiled = torch.compile(copy.deepcopy(model), backend="aot_eager")
    compiled(x)
    same(step(compiled, x), eager)


@pytest.mark.usefixtures("fresh_compiler")
def test_attaching_late_to_a_model_compiled_in_place_is_right_or_told(built) -> None:
    model, x, _ = built("dense")
    expected = step(copy.deepcopy(model), x)[0]
    model.compile(backend="aot_eager")
    model(x)
    with Jumpstart(model, 1.0) as keep:
        model(x)
        try:
            torch.testing.assert_close(keep.penalty(), expected)
        except AliveError as error:
            assert "a compiled model must be attached before its first call" in str(error)  # noqa: PT017


@pytest.mark.usefixtures("fresh_compiler")
@pytest.mark.parametrize("plain_first", [True, False])
def test_a_model_beside_another_of_its_class_has_its_own_graph(plain_first: bool) -> None:
    """Both compiled, one of them attached: neither runs by the other's graph."""
    models = [torch.nn.Sequential(torch.nn.Linear(8, 8), torch.nn.ReLU(), torch.nn.Linear(8, 8)) for _ in range(2)]
    plain, attached = (torch.compile(model, backend="aot_eager") for model in models)
    x = torch.randn(16, 8)
    with Jumpstart(copy.deepcopy(models[1]), 1.0) as each:
        each._recorder._model(x)
        expected = each.penalty()
    with Jumpstart(models[1], 1.0) as keep:
        for _ in range(3):
            for model in (plain, attached) if plain_first else (attached, plain):
                model(x)
            torch.testing.assert_close(keep.penalty(), expected)
            assert not keep._recorder.passes.kept


class Whole(torch.nn.Module):
    """A layer large enough for the operator, and a small one; the penalty is part of what is compiled."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = torch.nn.Conv2d(3, 32, 3), torch.nn.Linear(32, 8)

    def forward(self, x: Tensor) -> Tensor:
        return self.second(torch.relu(self.first(x)).mean((2, 3))).relu()


@pytest.mark.twin
@pytest.mark.usefixtures("fresh_compiler")
def test_a_whole_step_is_one_graph_for_every_batch_size() -> None:
    model = Whole()
    twin = copy.deepcopy(model)
    from torch._dynamo.testing import CompileCounterWithBackend

    counters = CompileCounterWithBackend("aot_eager")
    with Jumpstart(model, 1.0) as keep, Jumpstart(twin, 1.0) as eager:

        def loss(x: Tensor) -> Tensor:
            return model(x).square().mean() + keep.penalty()

        compiled = torch.compile(loss, backend=counters, fullgraph=True, dynamic=True)
        for batch in (16, 12, 20, 14, 9):
            x = torch.randn(batch, 3, 20, 20)
            mine, theirs = compiled(x), twin(x).square().mean() + eager.penalty()
            torch.testing.assert_close(mine, theirs)
            found, expected = (
                torch.autograd.grad(each, [*m.parameters()]) for each, m in ((mine, model), (theirs, twin))
            )
            for a, b in zip(found, expected, strict=True):
                torch.testing.assert_close(a, b, rtol=1e-4, atol=1e-5)
    assert counters.frame_count <= 3  # not one for each batch: the first pass, the next, and any other
    assert any("alive" in str(node.target) for graph in counters.graphs for node in graph.graph.nodes)
