"""Signal beside life: spread, rank and gradient of every layer against hooks and autograd; verdicts that are right."""

from __future__ import annotations

import math
from collections.abc import Callable
from itertools import pairwise
from typing import Any, NamedTuple

import pytest
import torch
from torch import Tensor, nn

from alive import Census, census
from alive.diagnosis import Limit
from alive.errors import AliveError


def mlp(depth: int, width: int, inputs: int = 8) -> nn.Sequential:
    sizes = [inputs, *[width] * depth]
    pairs = [(nn.Linear(a, b), nn.ReLU()) for a, b in pairwise(sizes)]
    return nn.Sequential(*(module for pair in pairs for module in pair), nn.Linear(width, 3))


def convolutions(depth: int, width: int) -> nn.Sequential:
    sizes = [1, *[width] * depth]
    pairs = [(nn.Conv2d(a, b, 3, padding=1), nn.ReLU(inplace=True)) for a, b in pairwise(sizes)]
    return nn.Sequential(
        *(module for pair in pairs for module in pair), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(width, 10)
    )


class Block(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.conv1, self.conv2 = (nn.Conv2d(width, width, 3, padding=1) for _ in range(2))
        self.norm1, self.norm2 = nn.BatchNorm2d(width), nn.BatchNorm2d(width)
        self.inner, self.outer = nn.ReLU(inplace=True), nn.ReLU(inplace=True)

    def forward(self, x: Tensor) -> Tensor:
        return self.outer(x + self.norm2(self.conv2(self.inner(self.norm1(self.conv1(x))))))


def resnet() -> nn.Sequential:
    net = nn.Sequential(
        nn.Conv2d(1, 8, 3, padding=1),
        nn.BatchNorm2d(8),
        nn.ReLU(),
        *(Block(8) for _ in range(4)),
        nn.AdaptiveAvgPool2d(2),
        nn.Flatten(),
        nn.Linear(32, 10),
    )
    net.train()
    for _ in range(20):  # so that its norms know the data, as after some steps of training
        net(torch.randn(64, 1, 8, 8))
    return net.eval()


class Transformer(nn.Module):
    """Embedding, pre-norm attention and ReLU, as they are written by hand."""

    def __init__(self, width: int = 32, depth: int = 4) -> None:
        super().__init__()
        self.embed = nn.Embedding(50, width)
        self.attend = nn.ModuleList(nn.MultiheadAttention(width, 4, batch_first=True) for _ in range(depth))
        self.norms = nn.ModuleList(nn.LayerNorm(width) for _ in range(2 * depth))
        self.up = nn.ModuleList(nn.Linear(width, 4 * width) for _ in range(depth))
        self.down = nn.ModuleList(nn.Linear(4 * width, width) for _ in range(depth))
        self.acts = nn.ModuleList(nn.ReLU() for _ in range(depth))
        self.head = nn.Linear(width, 50)

    def forward(self, ids: Tensor) -> Tensor:
        x = self.embed(ids)
        for k, attend in enumerate(self.attend):
            h = self.norms[2 * k](x)
            x = x + attend(h, h, h, need_weights=False)[0]
            x = x + self.down[k](self.acts[k](self.up[k](self.norms[2 * k + 1](x))))
        return self.head(x)


class Case(NamedTuple):
    make: Callable[[], nn.Module]
    data: Callable[[], Tensor]
    unit_axis: int
    gone: bool


CASES = {
    "30x16, torch's start": Case(lambda: mlp(30, 16), lambda: torch.randn(300, 8), 1, True),
    "30 convolutions, torch's start": Case(lambda: convolutions(30, 8), lambda: torch.randn(40, 1, 8, 8), 1, True),
    "a healthy ResNet": Case(resnet, lambda: torch.randn(40, 1, 8, 8), 1, False),
    "a healthy transformer": Case(Transformer, lambda: torch.randint(50, (30, 12)), 2, False),
    "4x32, healthy": Case(lambda: mlp(4, 32), lambda: torch.randn(200, 8), 1, False),
}


class Truth(NamedTuple):
    spread: float
    rank: float
    gradient: float
    silent: float


def spread_of(z: Tensor) -> float:
    rows = z.double().flatten(1)
    return float((rows.var(0, correction=0).mean() / rows.square().mean()).sqrt())


def rank_of(means: Tensor) -> float:
    """By singular values of the points less their mean [N, C]."""
    values = torch.linalg.svdvals(means - means.mean(0))
    share = values[values > 1e-3 * values[0]] / values[values > 1e-3 * values[0]].sum()
    return math.exp(-float((share * share.log()).sum()))


def brute_force(model: nn.Module, x: Tensor, unit_axis: int, loss: Any = None) -> tuple[list[Truth], float]:
    """Hooks on the ReLUs and autograd, in one batch; and the spread of the output."""
    kept: list[Tensor] = []
    relus = [module for module in model.modules() if isinstance(module, nn.ReLU)]
    was = [(relu.inplace, relu) for relu in relus]
    for relu in relus:
        relu.inplace = False
    handles = [relu.register_forward_pre_hook(lambda module, args: kept.append(args[0])) for relu in relus]
    try:
        output = model(x)
    finally:
        for handle in handles:
            handle.remove()
        for inplace, relu in was:
            relu.inplace = inplace
    if loss is None:
        direction = torch.randn(output.shape[1:], generator=torch.Generator().manual_seed(0)).double()
        target = (output.double() * (direction / direction.norm())).sum()
    else:
        target = loss(output)
    *gradients, last = torch.autograd.grad(target, [*kept, output])
    scale = float(last.double().flatten(1).norm(dim=1).mean())
    found = []
    for z, g in zip(kept, gradients, strict=True):
        z = z.detach().double()
        arrived = g.double().flatten(1).norm(dim=1)
        means = z.movedim(unit_axis, 1).flatten(2).mean(2) if z.ndim > 2 else z
        shares = float(arrived.mean()) / scale, float((arrived == 0).double().mean())
        found.append(Truth(spread_of(z), rank_of(means), *shares))
    return found, spread_of(output.detach())


@pytest.mark.twin
@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("batch", [None, 7])
def test_signal_equals_hooks_and_autograd(name: str, batch: int | None) -> None:
    torch.manual_seed(1)
    make, data, unit_axis, gone = CASES[name]
    model, x = make().eval(), data()
    found = census(model, x if batch is None else list(x.split(batch)), gradient=True)
    truth, at_the_end = brute_force(model, x, unit_axis)
    assert bool(found.gone) == gone
    assert len(truth) == len(found.layers)
    for layer, true in zip(found.layers, truth, strict=True):
        # Below what single precision resolves, the batches round differently.
        assert layer.signal.spread == pytest.approx(true.spread, rel=1e-3, abs=2e-7)
        assert layer.signal.gradient == pytest.approx(true.gradient, rel=1e-3)
        assert layer.signal.silent == true.silent
        if true.spread > 1e-5:
            assert layer.signal.rank == pytest.approx(true.rank, rel=0.02)
    assert found.output is not None
    assert found.output.spread == pytest.approx(at_the_end, rel=1e-3, abs=2e-7)
    if x.is_floating_point():
        assert found.input is not None
        assert found.input.spread == pytest.approx(spread_of(x), rel=1e-4)


@pytest.mark.twin
def test_the_gradient_of_a_loss_is_in_shares_of_that_at_the_output() -> None:
    torch.manual_seed(2)
    model, x, y = mlp(6, 12), torch.randn(50, 8), torch.randint(3, (50,))
    found = census(model, (x, y), loss=nn.functional.cross_entropy)
    truth, _ = brute_force(model, x, 1, loss=lambda output: nn.functional.cross_entropy(output, y))
    for layer, true in zip(found.layers, truth, strict=True):
        assert layer.signal.gradient == pytest.approx(true.gradient, rel=1e-4)


def test_verdicts_name_the_place_and_what_is_wrong_there() -> None:
    torch.manual_seed(0)
    deep = census(mlp(30, 16), torch.randn(300, 8), gradient=True)
    assert deep.gone.startswith("all points have become one from ")
    first, last = deep.layers[0], deep.layers[-1]
    assert [word for word, _ in deep.losses] == ["merged", "vanished"]
    assert f"{first.signal.gradient:.1e} at the first layer" in deep.gone
    assert deep.words(first) == ("vanished",)
    assert deep.words(last) == ("bends nothing", "merged")
    shallow = census(mlp(4, 32), torch.randn(300, 8), gradient=True)
    assert shallow.gone == ""
    assert not any(map(shallow.words, shallow.layers))


def test_points_that_are_told_apart_again_have_not_merged() -> None:
    """A large common bias, and a norm behind it that takes it away."""
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.LayerNorm(16), nn.Linear(16, 16), nn.ReLU(), nn.Linear(16, 1))
    with torch.no_grad():
        model[0].bias.fill_(3000.0)
    found = census(model, torch.randn(100, 8), gradient=True)
    assert "merged" in found.words(found.layers[0])
    assert "merged" not in found.words(found.layers[1])
    assert not found.gone.startswith("all points")


def test_points_that_differ_in_place_alone_have_not_merged() -> None:
    """One dot at one of 36 places: no mean or maximum over positions tells the points apart."""
    x = torch.eye(36).view(36, 1, 6, 6)
    model = nn.Sequential(nn.Conv2d(1, 4, 1), nn.ReLU(), nn.Conv2d(4, 4, 1), nn.ReLU(), nn.Flatten(), nn.Linear(144, 2))
    torch.manual_seed(3)
    for module in model:
        if hasattr(module, "reset_parameters"):
            module.reset_parameters()
    found = census(model, x.split(5), gradient=True)
    assert found.gone == ""
    assert found.layers[0].signal.spread == pytest.approx(spread_of(model[0](x).detach()), rel=1e-4)


def test_sequences_of_any_length_are_compared_by_the_means_of_units() -> None:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(3, 6), nn.ReLU(), nn.Linear(6, 1))
    parts = [torch.randn(5, length, 3) for length in (4, 9, 2)]
    found = census(model, parts)
    zs = [model[0](part).detach().double() for part in parts]
    means = torch.cat([z.mean(1) for z in zs])
    size = torch.cat([z.flatten() for z in zs]).square().mean()
    assert found.layers[0].signal.features is None
    assert found.layers[0].signal.spread == pytest.approx(
        float((means.var(0, correction=0).mean() / size).sqrt()), rel=1e-4
    )


def test_a_head_of_zeros_is_no_verdict_on_the_layers_below() -> None:
    """No gradient passes yet, and after one step it does: nothing has vanished."""
    torch.manual_seed(0)
    model, x = mlp(3, 16), torch.randn(100, 8)
    nn.init.zeros_(model[-1].weight)
    found = census(model, x, gradient=True)
    assert [layer.signal.silent for layer in found.layers] == [1.0] * 3
    assert found.gone == ""


def test_a_detached_branch_gets_no_gradient() -> None:
    class Stopped(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.a, self.b, self.c = nn.Linear(4, 8), nn.Linear(8, 8), nn.Linear(8, 2)

        def forward(self, x: Tensor) -> Tensor:
            return self.c(torch.relu(self.b(torch.relu(self.a(x)).detach())))

    found = census(Stopped(), torch.randn(30, 4), gradient=True)
    assert found["a → relu"].signal.gradient == 0
    assert found["b → relu"].signal.gradient > 0
    assert "cut off" in found.words(found["a → relu"])


def test_an_exploding_network_is_said_to_be_one() -> None:
    torch.manual_seed(0)
    model = mlp(20, 16)
    with torch.no_grad():
        for p in model.parameters():
            p.mul_(12.0)
    found = census(model, torch.randn(100, 8), gradient=True)
    assert "the gradient has exploded" in found.gone


@pytest.mark.parametrize("scale", [1e-30, 1e25])
def test_gradients_beyond_the_squares_of_single_precision(scale: float) -> None:
    torch.manual_seed(0)
    model, x = mlp(1, 8), torch.randn(20, 8)
    with torch.no_grad():
        model[-1].weight.mul_(scale)
    found = census(model, x, gradient=True)
    truth, _ = brute_force(model.double(), x.double(), 1)
    assert found.layers[0].signal.gradient == pytest.approx(truth[0].gradient, rel=1e-4)
    assert found.layers[0].signal.silent == 0


def test_a_frozen_model_is_measured_and_stays_frozen() -> None:
    torch.manual_seed(0)
    model, x = mlp(3, 8), torch.randn(20, 8)
    free = census(model, x, gradient=True)
    model.requires_grad_(False)
    frozen = census(model, x, gradient=True)
    assert [a.signal.gradient for a in frozen.layers] == [a.signal.gradient for a in free.layers]
    assert not any(p.requires_grad or p.grad is not None for p in model.parameters())


def test_the_census_leaves_no_gradient_behind() -> None:
    model = mlp(3, 8)
    census(model, torch.randn(20, 8), gradient=True)
    assert all(p.grad is None and p.requires_grad for p in model.parameters())


def test_nothing_is_said_of_one_point() -> None:
    found = census(mlp(2, 4), torch.randn(1, 8))
    assert found.layers[0].signal.spread is None
    assert found.gone == ""


def test_half_precision_resolves_less() -> None:
    torch.manual_seed(0)
    model = mlp(3, 16)
    found = census(model.bfloat16(), torch.randn(40, 8).bfloat16(), gradient=True)
    assert found.gone == ""
    assert found.layers[0].signal.resolution == torch.finfo(torch.bfloat16).eps


@pytest.mark.parametrize(
    ("loss", "said"),
    [
        (lambda output, y: output, "the loss gave [20, 3], not one number"),
        (lambda output, y: 3.0, "the loss gave float, not one number"),
        (lambda output, y: torch.tensor(1.0), "the loss does not depend on the model's output"),
    ],
)
def test_a_loss_that_is_none_is_refused(loss: Any, said: str) -> None:
    with pytest.raises(AliveError, match=said.replace("[", r"\[")):
        census(mlp(2, 4), torch.randn(20, 8), loss=loss)


@pytest.fixture(scope="module")
def deep() -> Census:
    torch.manual_seed(0)
    return census(mlp(30, 16), torch.randn(300, 8), gradient=True)


@pytest.mark.parametrize(
    ("text", "holds"),
    [
        ("gradient<1e-6", True),
        ("gradient<1e-30", False),
        ("spread<0.001", True),
        ("merged_layers>0", True),
        ("vanished_layers>=1", True),
        ("exploded_layers>0", False),
        ("flat_layers>50%", True),
        ("rank>100", False),
    ],
)
def test_limits_on_the_signal(text: str, holds: bool, deep: Census) -> None:
    limit = Limit.parse(text)
    assert limit.holds(deep) == holds
    assert not limit.is_open(deep)


def test_a_limit_on_a_gradient_that_was_not_measured_is_open() -> None:
    limit = Limit.parse("gradient<1e-6")
    assert limit.wants_gradient
    assert limit.is_open(census(mlp(2, 4), torch.randn(20, 8)))


# Cut off: autograd finds no way back.


class Severed(nn.Module):
    """Two hidden layers; `how` stands between them, `end` behind the output."""

    def __init__(self, how: Callable[[Tensor], Tensor], end: Callable[[Tensor], Tensor] = lambda y: y) -> None:
        super().__init__()
        self.a, self.b, self.c, self.how, self.end = nn.Linear(8, 9), nn.Linear(9, 9), nn.Linear(9, 3), how, end

    def forward(self, x: Tensor) -> Tensor:
        return self.end(self.c(self.b(self.how(self.a(x).relu())).relu()))


WAYS: dict[str, Callable[[Tensor], Tensor]] = {
    "detach": Tensor.detach,
    "data": lambda h: h.data,
    "numpy": lambda h: torch.from_numpy(h.detach().numpy()),
    "new tensor": lambda h: torch.tensor(h.tolist()),
}


@pytest.mark.parametrize("how", WAYS.values(), ids=WAYS)
def test_a_part_that_is_cut_off_is_told_and_is_not_grave(how: Callable[[Tensor], Tensor]) -> None:
    model, x = Severed(how), torch.randn(50, 8)
    assert torch.autograd.grad(model(x).sum(), model.a.weight, allow_unused=True) == (None,)
    found = census(model, [x[:20], x[20:]], gradient=True)
    cut = [[word for word in found.words(layer) if word != "bends nothing"] for layer in found.layers]
    assert cut == [["cut off"], []]
    (said,) = [advice for advice in found.findings if advice.rule == "ALV007"]
    assert "a → relu" in said.found
    assert not said.grave
    assert not found.gone
    assert Limit.parse("gradient<1e-6").holds(found)


@pytest.mark.parametrize("end", [Tensor.detach, lambda y: y.argmax(1), lambda y: y.round().int()])
def test_a_network_from_which_nothing_comes_back_can_hardly_learn(end: Callable[[Tensor], Tensor]) -> None:
    found = census(Severed(lambda h: h, end), torch.randn(50, 8), gradient=True)
    assert len(found.cut_off) == 2
    assert "no gradient comes back" in found.gone
    first = found.findings[0]
    assert first.grave
    assert first.rule == "ALV007"
    assert "detach()" in first.advice
    assert "was not measured" not in str(found)


def test_a_head_of_zeros_and_one_that_the_loss_leaves_out_are_no_alarm() -> None:
    model = mlp(2, 9)
    nn.init.zeros_(model[-1].weight)
    assert not census(model, torch.randn(50, 8), gradient=True).cut_off

    class Heads(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.body, self.value, self.policy = nn.Linear(8, 9), nn.Linear(9, 4), nn.Linear(9, 4)

        def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
            h = self.body(x).relu()
            return self.value(h).relu(), self.policy(h).relu()

    data = torch.randn(50, 8), torch.randn(50, 4)
    found = census(Heads(), data, loss=lambda output, y: nn.functional.mse_loss(output[1], y))
    assert [layer.label for layer in found.cut_off] == ["value → relu"]
    assert not any(advice.grave for advice in found.findings)
