"""A pass belongs to the step whose backward goes through it: what was sent before penalty() is dropped, or refused."""

from __future__ import annotations

import copy
import weakref
from collections.abc import Callable, Iterator

import pytest
import torch
import torch.nn.functional as F
from kept import Grads, close, grads
from torch import Tensor, nn
from torch.nn.utils.parametrizations import spectral_norm
from torch.utils.checkpoint import checkpoint

from alive.errors import AliveError
from alive.penalties import Jumpstart


class Checkpointed(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.part, self.head = nn.Sequential(nn.Linear(3, 5), nn.LeakyReLU(0.2), nn.Linear(5, 4)), nn.Linear(4, 1)

    def forward(self, x: Tensor) -> Tensor:
        return self.head(F.leaky_relu(checkpoint(self.part, x, use_reentrant=False), 0.2))


class Transposed(nn.Module):
    """Its units are moved away from where they were made, and its activation is spelled as a function in place."""

    def __init__(self) -> None:
        super().__init__()
        self.a, self.b = nn.Linear(3, 5), nn.Linear(5, 1)

    def forward(self, x: Tensor) -> Tensor:
        return self.b(F.elu(self.a(x).t(), inplace=True).t())


class Residual(nn.Module):
    """Its last pre-activation comes of a sum, whose node saves nothing that could be freed."""

    def __init__(self) -> None:
        super().__init__()
        self.a, self.b, self.c = nn.Linear(3, 5), nn.Linear(5, 5), nn.Linear(5, 1)

    def forward(self, x: Tensor) -> Tensor:
        h = self.a(x)
        return self.c(F.gelu(h + self.b(F.relu(h))))


def stack(activation: nn.Module) -> nn.Module:
    return nn.Sequential(nn.Linear(3, 5), activation, nn.Linear(5, 4), copy.deepcopy(activation), nn.Linear(4, 1))


CRITICS: dict[str, Callable[[], nn.Module]] = {
    "relu": lambda: stack(nn.ReLU()),
    "relu in place": lambda: stack(nn.ReLU(inplace=True)),
    "leaky": lambda: stack(nn.LeakyReLU(0.2)),
    "leaky in place": lambda: stack(nn.LeakyReLU(0.2, inplace=True)),
    "gelu": lambda: stack(nn.GELU()),
    "spectral norm": lambda: nn.Sequential(spectral_norm(nn.Linear(3, 5)), nn.LeakyReLU(0.2), nn.Linear(5, 1)).eval(),
    "checkpointed": Checkpointed,
    "transposed": Transposed,
    "residual": Residual,
    "compiled": lambda: torch.compile(stack(nn.LeakyReLU(0.2)), backend="aot_eager"),
    "compiled in part": lambda: nn.Sequential(
        torch.compile(stack(nn.GELU()), backend="aot_eager"), nn.Linear(1, 4), nn.ELU()
    ),
}


@pytest.fixture(autouse=True)
def fresh_compiler() -> Iterator[None]:
    torch._dynamo.reset()
    yield
    torch._dynamo.reset()


def critic_of(name: str) -> nn.Module:
    torch.manual_seed(7)
    model = CRITICS[name]()
    if name == "spectral norm":
        model.training = True  # the model trains, and its power iteration stands still
    return model


def step(model: nn.Module, keep: Jumpstart, x: Tensor) -> Grads:
    (model(x).square().mean() + keep.penalty()).backward()
    return grads(model)


def alone(name: str, x: Tensor, **rule: str) -> Grads:
    model = critic_of(name)
    with Jumpstart(model, 1.0, **rule) as keep:
        return step(model, keep, x)


X, Z = torch.randn(2, 7, 3, generator=torch.Generator().manual_seed(0))


@pytest.mark.filterwarnings("ignore:The .grad attribute")  # the compiler's own
@pytest.mark.parametrize(
    ("name", "mode", "frozen"),
    [
        # To compile takes a second or two: each mode once, frozen and not; `make slow` tries the others.
        pytest.param(
            name, mode, frozen, marks=pytest.mark.slow if "compiled" in name and frozen == (mode == "UP") else []
        )
        for name in CRITICS
        for mode in ("UP", "L")
        for frozen in (False, True)
    ],
)
def test_a_generator_trained_through_a_watched_critic_leaves_nothing_behind(name: str, mode: str, frozen: bool) -> None:
    critic, generator = critic_of(name), nn.Linear(3, 3)
    expected = alone(name, X, mode=mode)
    with Jumpstart(critic, 1.0, mode=mode) as keep:
        for _ in range(2):
            critic.requires_grad_(not frozen)
            critic(generator(Z)).mean().backward()
            critic.requires_grad_(True)
            critic.zero_grad()
            close(step(critic, keep, X), expected)


@pytest.mark.parametrize("name", CRITICS)
def test_the_penalty_after_backward_is_refused_with_cause_and_cure(name: str) -> None:
    model = critic_of(name)
    with Jumpstart(model, 1.0) as keep:
        model(X).mean().backward()
        with pytest.raises(AliveError, match=r"freed its graph.*\n?.*before backward\(\)"):
            keep.penalty()
        with pytest.raises(AliveError, match="no forward pass"):
            keep.penalty()


@pytest.mark.twin
@pytest.mark.parametrize("name", CRITICS)
def test_a_graph_that_was_kept_can_take_the_penalty_after_the_loss(name: str) -> None:
    model, expected = critic_of(name), alone(name, X)
    with Jumpstart(model, 1.0) as keep:
        model(X).square().mean().backward(retain_graph=True)
        keep.penalty().backward()
    close(grads(model), expected)


@pytest.mark.twin
@pytest.mark.parametrize("name", [name for name in CRITICS if "compiled" not in name])  # torch: once is enough there
def test_a_gradient_penalty_comes_together_with_ours(name: str) -> None:
    def terms(model: nn.Module) -> Tensor:
        x = X.clone().requires_grad_()
        y = model(x)
        (slope,) = torch.autograd.grad(y.sum(), x, create_graph=True)
        return y.mean() + (slope.norm(dim=1) - 1).square().mean()

    model, bare = critic_of(name), critic_of(name)
    with Jumpstart(model, 1.0) as keep:
        (terms(model) + keep.penalty()).backward()
    terms(bare).backward()
    with Jumpstart(bare, 1.0) as keep:
        bare(X)
        keep.penalty().backward()
    close(grads(model), grads(bare))


def test_a_pass_of_which_only_the_upper_part_was_freed_is_gone_too() -> None:
    model = nn.ModuleList([nn.Sequential(nn.Linear(3, 5), nn.GELU()), nn.Sequential(nn.Linear(5, 4), nn.GELU())])

    class Two(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.parts = model

        def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
            h = self.parts[0](x)
            return h, self.parts[1](h)

    two = Two()
    with Jumpstart(two, 1.0) as keep:
        h, y = two(X)
        torch.autograd.grad(y.sum(), h)
        with pytest.raises(AliveError, match="freed its graph"):
            keep.penalty()


@pytest.mark.parametrize("sent", [0, 1])
@pytest.mark.parametrize("activation", [nn.ReLU, nn.GELU])
def test_one_head_sent_takes_the_trunk_with_it(activation: type[nn.Module], sent: int) -> None:
    class Heads(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.trunk = nn.Sequential(nn.Linear(3, 5), activation())
            self.heads = nn.ModuleList([nn.Sequential(nn.Linear(5, 4), activation()) for _ in range(2)])

        def forward(self, x: Tensor) -> list[Tensor]:
            h = self.trunk(x)
            return [head(h) for head in self.heads]

    model = Heads()
    with Jumpstart(model, 1.0) as keep:
        model(X)[sent].sum().backward()
        with pytest.raises(AliveError, match="freed its graph"):
            keep.penalty()


def test_of_two_passes_the_one_that_was_not_sent_is_read() -> None:
    model, expected = critic_of("leaky"), alone("leaky", X)
    with Jumpstart(model, 1.0) as keep:
        y = model(X)
        model(Z).mean().backward()
        model.zero_grad()
        (y.square().mean() + keep.penalty()).backward()
    close(grads(model), expected)


def test_an_evaluation_after_a_pass_that_was_sent_costs_nothing_and_is_told_once() -> None:
    model = critic_of("relu")
    with Jumpstart(model, 1.0) as keep:
        model(X).mean().backward()
        model.eval()(X)
        with pytest.warns(UserWarning, match="freed its graph"):
            assert keep.penalty() == 0
        model.train()(X).mean().backward()
        model.eval()(X)
        assert keep.penalty() == 0
        model(X)
        with pytest.warns(UserWarning, match="in eval mode"):
            assert keep.penalty() == 0
        model(X)
        assert keep.penalty() == 0


@pytest.mark.parametrize("name", ["relu", "leaky", "checkpointed"])
def test_passes_that_were_sent_do_not_pile_up(name: str) -> None:
    model = critic_of(name)
    with Jumpstart(model, 1.0) as keep:
        for _ in range(120):  # a warning would be an error
            model(X).mean().backward()
            assert len(keep._recorder.passes.kept) == 1


@pytest.mark.parametrize("name", [name for name in CRITICS if "compiled" not in name])
def test_a_pass_that_was_read_is_let_go_at_once(name: str) -> None:
    model = critic_of(name)

    def seen(x: Tensor) -> weakref.ref[Tensor]:
        loss = model(x).mean() + keep.penalty()
        assert loss.requires_grad
        return weakref.ref(x)

    with Jumpstart(model, 1.0) as keep:
        x = X.clone()
        alive = seen(x)
        assert alive() is x
        del x
        assert alive() is None
