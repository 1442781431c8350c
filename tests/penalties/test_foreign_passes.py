"""What is exported, traced, transformed or run without values is no step: nothing of it reaches the next."""

from __future__ import annotations

import copy
import io
from collections.abc import Callable
from threading import Thread
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from kept import Grads, close, grads
from torch import Tensor, nn
from torch._subclasses import FakeTensorMode
from torch.autograd import forward_ad
from torch.autograd import functional as whole
from torch.func import (
    functional_call,
    functionalize,
    grad,
    hessian,
    jacfwd,
    jacrev,
    jvp,
    linearize,
    vjp,
    vmap,
)
from torch.fx.experimental.proxy_tensor import make_fx

from alive.errors import AliveError
from alive.penalties import Jumpstart

X = torch.randn(7, 3, generator=torch.Generator().manual_seed(0))


class Part(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.a = nn.Linear(width, 4)

    def forward(self, x: Tensor) -> Tensor:
        return F.relu(self.a(x))


def model_of() -> nn.Sequential:
    torch.manual_seed(2)
    return nn.Sequential(Part(3), Part(4), nn.Linear(4, 5), nn.ELU(), nn.Linear(5, 4), nn.ReLU(), nn.Linear(4, 2))


def step(model: nn.Module, keep: Jumpstart) -> tuple[Tensor, Grads]:
    y = model(X)
    penalty = keep.penalty()
    (y.square().mean() + penalty).backward()
    return penalty.detach(), grads(model)


def weights(model: nn.Module) -> Grads:
    return {name: p.detach() for name, p in model.named_parameters()}


def call(model: nn.Module, w: Grads, x: Tensor = X) -> Tensor:
    return functional_call(model, w, (x,)).square().mean()


def saved(model: nn.Module, **how: Any) -> None:
    torch.onnx.export(model, (X,), io.BytesIO(), **how)


def fake(model: nn.Module) -> None:
    with FakeTensorMode(allow_non_fake_inputs=True):
        model(torch.randn(7, 3))


def on_meta(model: nn.Module) -> None:
    functional_call(model, {name: p.to("meta") for name, p in model.named_parameters()}, (X.to("meta"),))


def fake_weights(model: nn.Module) -> None:
    mode = FakeTensorMode()
    given = {name: mode.from_tensor(p) for name, p in model.named_parameters()}
    functional_call(model, given, (mode.from_tensor(X),))


def dual(model: nn.Module) -> None:
    with forward_ad.dual_level():
        model(forward_ad.make_dual(X, torch.ones_like(X)))


def in_a_thread(run: Callable[[], Any]) -> None:
    thread = Thread(target=run)
    thread.start()
    thread.join()


TRACED: dict[str, Callable[[nn.Module], Any]] = {
    "export": lambda m: torch.export.export(m, (X,)),
    "strict export": lambda m: torch.export.export(m, (X,), strict=True),
    "export of any batch": lambda m: torch.export.export(m, (X,), dynamic_shapes=({0: torch.export.Dim.DYNAMIC},)),
    "jit.trace": lambda m: torch.jit.trace(m, (X,)),
    "fx": torch.fx.symbolic_trace,
    "onnx by script": lambda m: saved(m, dynamo=False),
    "make_fx before dispatch": lambda m: make_fx(m, pre_dispatch=True)(X),
}
ENDED: dict[str, Callable[[nn.Module], Any]] = {
    "make_fx": lambda m: make_fx(m)(X),
    "make_fx fake": lambda m: make_fx(lambda w, x: call(m, w, x), tracing_mode="fake")(weights(m), X),
    "FakeTensorMode": fake,
    "grad": lambda m: grad(lambda w: call(m, w))(weights(m)),
    "vmap": lambda m: vmap(m)(X[:, None].expand(-1, 2, -1)),
    "vmap of grad": lambda m: vmap(grad(lambda w, x: call(m, w, x)), (None, 0))(
        weights(m), X[:, None].expand(-1, 2, -1)
    ),
    "jacrev": lambda m: jacrev(m)(X),
    "jacfwd": lambda m: jacfwd(m)(X),
    "hessian": lambda m: hessian(lambda x: m(x).sum())(X),
    "jvp": lambda m: jvp(m, (X,), (X,)),
    "vjp": lambda m: vjp(m, X)[1](torch.ones(7, 2)),
    "functionalize": lambda m: functionalize(m)(X),
    "linearize": lambda m: linearize(m, X)[1](X),
    "dual numbers": dual,
    "jacobian": lambda m: whole.jacobian(m, X),
    "jacobian by vmap": lambda m: whole.jacobian(m, X, vectorize=True),
    "jacobian forward": lambda m: whole.jacobian(m, X, vectorize=True, strategy="forward-mode"),
    "hvp": lambda m: whole.hvp(lambda x: m(x).square().sum(), X, X),
    "grad in a thread": lambda m: in_a_thread(lambda: grad(lambda w: call(m, w))(weights(m))),
}
HOLLOW: dict[str, Callable[[nn.Module], Any]] = {"meta": on_meta, "fake weights": fake_weights}
FOREIGN = TRACED | ENDED | HOLLOW
WHY = (
    dict.fromkeys(TRACED, "exported or traced")
    | dict.fromkeys(ENDED, "has ended, and the pass with it")
    | dict.fromkeys(HOLLOW, "without values")
    | {"strict export": "no forward pass"}  # of which nothing is left at all
)

quiet = pytest.mark.filterwarnings("ignore")  # those of tracers, of which there are many


@pytest.fixture(scope="module")
def wanted() -> tuple[Tensor, Grads]:
    model = model_of()
    with Jumpstart(model, 1.0) as keep:
        return step(model, keep)


@quiet
@pytest.mark.parametrize("name", FOREIGN)
def test_nothing_foreign_reaches_the_next_step(wanted, name: str) -> None:
    model = model_of()
    with Jumpstart(model, 1.0) as keep:
        FOREIGN[name](model)
        model.zero_grad()
        penalty, found = step(model, keep)
    torch.testing.assert_close(penalty, wanted[0])
    assert all(type(gradient) is Tensor for gradient in found.values())
    close(found, wanted[1])


@quiet
@pytest.mark.parametrize("name", [name for name in FOREIGN if name != "jit.trace"])  # it runs the model too, as it is
def test_a_penalty_of_foreign_passes_alone_is_refused(name: str) -> None:
    model = model_of()
    with Jumpstart(model, 1.0) as keep:
        FOREIGN[name](model)
        with pytest.raises(AliveError, match=WHY[name]):
            keep.penalty()


def program(model: nn.Module, how: str) -> str:
    made = TRACED[how](model)
    if how == "jit.trace":
        return made.code
    return made.graph_module.code if "export" in how else made.code


@quiet
@pytest.mark.parametrize("how", ["export", "strict export", "export of any batch", "fx", "make_fx before dispatch"])
def test_an_exported_program_is_that_of_the_bare_model(how: str) -> None:
    expected = program(model_of(), how)
    with Jumpstart(model := model_of()):
        assert program(model, how) == expected


@quiet
def test_what_jit_traces_computes_what_the_bare_model_computes_and_no_more() -> None:
    def operations(model: nn.Module) -> list[str]:
        traced = torch.jit.trace(model, (X,))
        return [node.kind() for node in traced.inlined_graph.nodes() if node.kind().startswith(("aten::", "prim::Py"))]

    with Jumpstart(model := model_of()):
        attached = [kind for kind in operations(model) if kind != "aten::size"]
    assert attached == operations(model_of())


# Inside the same, what was measured can be read.


def value(model: nn.Module, keep: Jumpstart, w: Grads, x: Tensor = X) -> Tensor:
    return call(model, w, x) + keep.penalty()


@quiet
@pytest.mark.twin
@pytest.mark.parametrize("how", ["real", "fake", "symbolic"])
def test_a_step_traced_with_its_penalty_gives_the_eager_gradients(how: str) -> None:
    model = model_of()

    def gradients(w: Grads, x: Tensor) -> Grads:
        return dict(zip(w, torch.autograd.grad(value(model, keep, w, x), list(w.values())), strict=True))

    given = {name: p.detach().requires_grad_() for name, p in model.named_parameters()}
    with Jumpstart(model, 1.0) as keep:
        traced = make_fx(gradients, tracing_mode=how)(given, X)
    other = {name: (p + 0.1).detach().requires_grad_() for name, p in given.items()}
    for w in (given, other):
        close(traced(w, X), gradients_of(model, w))


def gradients_of(model: nn.Module, w: Grads) -> Grads:
    other = copy.deepcopy(model)
    other.load_state_dict(w)
    with Jumpstart(other, 1.0) as keep:
        (other(X).square().mean() + keep.penalty()).backward()
    return grads(other)


@quiet
@pytest.mark.twin
def test_forward_mode_gives_the_derivative_of_loss_and_penalty() -> None:
    model = model_of()
    w = weights(model)
    ahead = {name: torch.randn_like(p) for name, p in w.items()}
    slope = sum((gradients_of(model, w)[name] * ahead[name]).sum() for name in w)
    with Jumpstart(model, 1.0) as keep:
        total, tangent = jvp(lambda w: value(model, keep, w), (w,), (ahead,))
        torch.testing.assert_close(tangent, slope, check_dtype=False)  # torch's own: a number times a dual is a double
        torch.testing.assert_close(total, call(model, w) + keep.penalty())
        with forward_ad.dual_level():
            duals = {name: forward_ad.make_dual(w[name], ahead[name]) for name in w}
            total = value(model, keep, duals)
            torch.testing.assert_close(forward_ad.unpack_dual(total).tangent, slope, check_dtype=False)


@quiet
def test_a_transform_reads_its_own_passes_and_leaves_those_outside_alone(wanted) -> None:
    model = model_of()
    w = weights(model)
    with Jumpstart(model, 1.0) as keep:
        model(X)
        inner = grad(lambda w: value(model, keep, w))(w)
        close(inner, gradients_of(model, w))
        torch.testing.assert_close(keep.penalty(), wanted[0])


@pytest.mark.parametrize("transform", [vmap, lambda f: grad(lambda x: f(x).sum()), functionalize])
def test_the_same_transform_again_does_not_read_what_the_first_left(transform: Callable[..., Any]) -> None:
    model, x = model_of(), torch.stack([X, X])
    found: list[float] = []
    with Jumpstart(model, 1.0) as keep:

        def read(x: Tensor) -> Tensor:
            y = model(x)
            found.append(keep.penalty().sum().detach())
            return y

        transform(read)(x)
        transform(model)(x)
        transform(read)(x)
        assert str(found[0]) == str(found[1])
        with pytest.raises(AliveError, match="no forward pass"):
            keep.penalty()


@quiet
def test_whole_derivatives_can_read_their_own_passes(wanted) -> None:
    model = model_of()
    with Jumpstart(model, 1.0) as keep:

        def loss(x: Tensor) -> Tensor:
            return model(x).square().mean() + keep.penalty()

        found = whole.jacobian(loss, X)
        x = X.clone().requires_grad_()
        torch.testing.assert_close(found, torch.autograd.grad(loss(x), x)[0])


def test_a_transform_that_fails_leaves_nothing(wanted) -> None:
    model = model_of()

    def broken(x: Tensor) -> Tensor:
        return model(x[:, :2])

    with Jumpstart(model, 1.0) as keep:
        with pytest.raises(RuntimeError):
            jacrev(broken)(X)
        with pytest.raises(AliveError, match="no forward pass"):
            keep.penalty()
        torch.testing.assert_close(step(model, keep)[0], wanted[0])


def test_a_pass_that_is_refused_at_its_end_leaves_nothing() -> None:
    class Pair(nn.Sequential):
        def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
            y = super().forward(x)
            return y, y

    model = Pair(*model_of())
    with Jumpstart(model, 1.0, include_output=True) as keep:
        with pytest.raises(AliveError, match="returns one tensor"):
            model(X)
        with pytest.raises(AliveError, match="no forward pass"):
            keep.penalty()


def test_passes_in_inference_mode_cost_nothing(wanted) -> None:
    model = model_of()
    with Jumpstart(model, 1.0) as keep:
        with torch.inference_mode():
            model(X)
        with pytest.warns(UserWarning, match="under torch.no_grad"):
            assert keep.penalty() == 0
        with torch.inference_mode():
            model(X)
        torch.testing.assert_close(step(model, keep)[0], wanted[0])


def test_a_copy_made_between_pass_and_penalty_takes_nothing_away(wanted) -> None:
    model = model_of()
    with Jumpstart(model, 1.0) as keep:
        model(X)
        other = copy.deepcopy(model)
        other(X).sum().backward()
        torch.testing.assert_close(keep.penalty(), wanted[0])


def test_a_penalty_asked_for_inside_forward_reads_this_pass_alone(wanted) -> None:
    class Whole(nn.Module):
        def __init__(self, inner: nn.Module) -> None:
            super().__init__()
            self.inner, self.keep = inner, None

        def forward(self, x: Tensor) -> Tensor:
            y = self.inner(x)
            return y.square().mean() + self.keep.penalty()

    model = Whole(model_of())
    with Jumpstart(model, 1.0) as model.keep:
        for _ in range(2):
            model(X).backward()
            close({name.removeprefix("inner."): g for name, g in grads(model).items()}, wanted[1])
        model.eval()
        with pytest.warns(UserWarning, match="in eval mode"):
            model(X)
        with pytest.raises(AliveError, match="no forward pass"):
            model.keep.penalty()
