"""Every kind of member equals a torch network with the same start, step by step."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
import torch
from torch import Generator, Tensor, nn
from torch.nn import functional as F

from alive import Jumpstart
from alive.data import Data, moons, tensors
from alive.nn import AnnealedDropout, Rectangular, lsuv_
from alive.penalties import Schedule
from alive.train import LrSchedule, Settings, train
from alive.train.task import accuracy, logits_of, task_loss
from alive_papers.fleet import METHODS, Fade, Gate, Member, mask, train_fleet
from alive_papers.fleet.keras_same import SameConv
from alive_papers.fleet.result import MemberResult
from alive_papers.fleet.tailored import leaky_gain, tailored_slope

pytestmark = pytest.mark.twin
MOONS = moons()
SEPARATIONS = [name for name, kind in METHODS.items() if kind.axes]


def blobs(classes: int = 3, points: int = 50) -> Data:
    chance = Generator().manual_seed(3)
    y = torch.arange(points) % classes
    x = torch.randn(points, 5, generator=chance) + y[:, None]
    return tensors(x, y, test_x=x[:20] + 0.1, test_y=y[:20], classes=classes, name="blobs")


def start(member: Member, data: Data, dropout: Callable[[], nn.Module] | None = None) -> Rectangular:
    return Rectangular(
        data.inputs,
        data.outputs,
        depth=member.depth,
        width=member.width,
        batch_norm=member.kind.batch_norm,
        init=member.init,
        dropout=dropout,
        generator=Generator().manual_seed(member.seed),
    )


def expect_same_rows(
    member: Member, data: Data, model: nn.Module, *, conv: str = "channel", rtol: float = 2e-4
) -> None:
    """Train both, and compare losses, penalties, accuracies and final weights."""
    shared = {"epochs", "batch_size", "shuffle", "optimiser", "lr", "momentum", "eps", "seed", "output_lr"}
    settings = Settings(**{name: getattr(member, name) for name in shared})
    axes = member.kind.axes
    rule = {"mode": axes, "balance": member.balance, "conv": conv, "aggregate": member.aggregate}
    keep = Jumpstart(model, member.weight, **rule) if axes else None
    theirs = train(model, data, settings, keep=keep)
    ours = train_fleet([member], data, threads=1).members[0]
    assert ours.stopped is theirs.stopped is None
    for column in ("loss", "penalty"):
        got, wanted = ([getattr(row, column) for row in rows] for rows in (ours.rows, theirs.rows))
        np.testing.assert_allclose(got, wanted, rtol=rtol, atol=1e-6)
    if member.kind.batch_norm and member.optimiser == "adam":
        # A bias before batch norm has gradient zero but for rounding, which Adam blows up to whole steps. The batch's
        # mean takes them out again, the running mean only later: what eval mode says is left to chance, in torch too.
        return
    for got, wanted in zip(ours.rows, theirs.rows, strict=True):
        assert abs(got.train_accuracy - wanted.train_accuracy) * len(data.train_y) < 1.5
        assert got.epoch == wanted.epoch
    torch.testing.assert_close(
        logits_of(ours.network(), data.train_x)[0], logits_of(model, data.train_x)[0], rtol=0.01, atol=2e-3
    )


def test_an_output_layer_with_a_rate_of_its_own() -> None:
    member = Member(4, 6, "Sep-UP", 1, epochs=20, lr=1e-3, output_lr=0.03)
    expect_same_rows(member, MOONS, start(member, MOONS))


@pytest.mark.parametrize("method", ["ReLU", "ReLU+BN", *SEPARATIONS])
def test_a_member_equals_the_loop(method: str) -> None:
    member = Member(6, 5, method=method, epochs=30, weight=1e-3, seed=4)
    expect_same_rows(member, MOONS, start(member, MOONS))


@pytest.mark.parametrize("method", SEPARATIONS)
def test_unsquared_slacks_and_an_uneven_balance(method: str) -> None:
    member = Member(3, 7, method=method, epochs=25, weight=1e-3, aggregate="sum", balance=0.7, seed=2)
    expect_same_rows(member, MOONS, start(member, MOONS))


@pytest.mark.parametrize("method", ["ReLU", "ReLU+BN", "Sep-UP"])
def test_mini_batches_in_shuffled_order_with_momentum(method: str) -> None:
    data = blobs()
    member = Member(
        3, 9, method=method, epochs=8, weight=1e-3, batch_size=16, shuffle=True, optimiser="sgd", lr=0.02, seed=6
    )
    expect_same_rows(member, data, start(member, data))


@pytest.mark.parametrize(
    "init", ["kaiming", "torch", "mirrored", "looks-linear", "orthogonal", "mean-orthogonal", "deterministic"]
)
def test_all_starts(init: str) -> None:
    member = Member(4, 6, method="Sep-UP", init=init, epochs=15, seed=3, lr=1e-3)
    expect_same_rows(member, MOONS, start(member, MOONS))


def test_one_unit_skips_the_points() -> None:
    member = Member(2, 1, epochs=10, seed=3)
    with pytest.warns(UserWarning, match="one unit"):
        expect_same_rows(member, MOONS, start(member, MOONS))


def test_a_moving_weight() -> None:
    member = Member(2, 4, weight=Schedule(1e-2, 0.0, "cosine"), epochs=20, seed=3)
    expect_same_rows(member, MOONS, start(member, MOONS))


class Masked(AnnealedDropout):
    """Dropout whose masks are those of the fleet; all layers share one count of steps."""

    def __init__(self, fade: Fade, seed: int, steps: list[int]) -> None:
        super().__init__(fade.p0, fade.epochs, first_epoch_p=fade.first_epoch_p)
        self.seed, self.steps, self.layer = seed, steps, steps[1]
        steps[1] += 1

    def forward(self, x: Tensor) -> Tensor:
        if not self.training:
            return x
        self.steps[0] += self.layer == 0
        kept = mask(self.seed, self.steps[0] - 1, self.layer, rows=x.shape[1], points=len(x), rate=self.p)
        return x * torch.from_numpy(kept.T)


@pytest.mark.parametrize("init", ["zeros", "glorot"])
def test_annealed_dropout_with_the_same_masks(init: str) -> None:
    """From zero every pre-activation is tied with every other: the gradient must be split as torch does."""
    fade = Fade(0.6, 12, first_epoch_p=0.1)
    member = Member(3, 4, init=init, balance=0.51, epochs=20, dropout=fade, batch_size=40, seed=7)
    steps = [0, 0]
    expect_same_rows(member, MOONS, start(member, MOONS, lambda: Masked(fade, member.seed, steps)))


@pytest.mark.parametrize("method", ["ReLU", "ReLU+BN", "Sep-U", "Sep-P", "Sep-UP", "Sep-L"])
def test_the_convolution_of_the_heat_maps(method: str) -> None:
    member = Member(4, 3, method=method, architecture="keras_same", epochs=20, seed=5, weight=1e-3)
    kind = member.kind
    model = SameConv(1, depth=4, width=3, batch_norm=kind.batch_norm, init=member.init, seed=member.seed)
    expect_same_rows(member, MOONS, model, conv="position")


def test_same_padding_is_what_keras_does() -> None:
    """out₀ = k₀x₀ + k₁x₁ and out₁ = k₀x₁ (spec 1.2)."""
    net = SameConv(1, depth=1, width=1, batch_norm=False, init="glorot", seed=0)
    x = torch.tensor([[2.0, 3.0]])
    k0, k1 = net.hidden[1].weight.flatten().tolist()
    z = net.hidden[:2](x.reshape(1, 1, 2, 1)).flatten().tolist()
    assert z == pytest.approx([2 * k0 + 3 * k1, 3 * k0])


class Skipping(nn.Module):
    """u_l = W relu(norm(u_{l−1})) + b + (1 − α_l) u_{l−1}, in plain torch."""

    def __init__(self, plain: Rectangular, depth: int, width: int) -> None:
        super().__init__()
        self.plain = plain
        self.alpha = [torch.zeros(width, requires_grad=True) for _ in range(depth)]

    def forward(self, x: Tensor) -> Tensor:
        u: Tensor | None = None
        for alpha, layer in zip(self.alpha, self.plain.hidden, strict=True):
            fresh = layer.linear(x)
            u = fresh if u is None else fresh + (1 - alpha) * u
            x = torch.relu(layer.norm(u) if hasattr(layer, "norm") else u)
        return self.plain.output(x)  # type: ignore[no-any-return]


class Farkas(nn.Module):
    """Hidden layers whose last unit is minus the sum of the others, its bias max(−Σ b + δ m, b_m)."""

    def __init__(self, plain: Rectangular, margin: float) -> None:
        super().__init__()
        self.margin, self.output = margin, plain.output
        self.weights = nn.ParameterList([layer.linear.weight[:-1].detach().clone() for layer in plain.hidden])
        self.biases = nn.ParameterList([layer.linear.bias.detach().clone() for layer in plain.hidden])

    def forward(self, x: Tensor) -> Tensor:
        for weight, bias in zip(self.weights, self.biases, strict=True):
            y = x @ weight.T
            last = torch.maximum(self.margin * len(bias) - bias[:-1].sum(), bias[-1])
            x = torch.relu(torch.cat([y + bias[:-1], -y.sum(1, keepdim=True) + last], dim=1))
        return self.output(x)


class Branches(nn.Module):
    """u_l = u_{l−1} + a_l (W relu(u_{l−1}) + b), a_l trained too."""

    def __init__(self, plain: Rectangular, first: float) -> None:
        super().__init__()
        self.plain = plain
        self.scale = nn.Parameter(torch.full((len(plain.hidden) - 1,), first))

    def forward(self, x: Tensor) -> Tensor:
        u = self.plain.hidden[0].linear(x)
        for a, layer in zip(self.scale, self.plain.hidden[1:], strict=True):
            u = u + a * layer.linear(torch.relu(u))
        return self.plain.output(torch.relu(u))  # type: ignore[no-any-return]


class Chain(nn.Module):
    """Layers of their own sizes and an activation that is called after each."""

    def __init__(self, layers: list[nn.Linear], activation: Callable[[Tensor], Tensor]) -> None:
        super().__init__()
        self.layers, self.activation = nn.ModuleList(layers), activation

    def forward(self, x: Tensor) -> Tensor:
        for layer in self.layers[:-1]:
            x = self.activation(layer(x))
        return self.layers[-1](x)  # type: ignore[no-any-return]


def torch_losses(member: Member, data: Data, model: nn.Module, alphas: list[Tensor]) -> list[float]:
    """A loop in plain torch, with the gates of a VAN after each step and a scheduled learning rate."""
    parameters = list(model.parameters())
    steps: torch.optim.Optimizer = (
        torch.optim.Adam(parameters, lr=member.lr, eps=member.eps)
        if member.optimiser == "adam"
        else torch.optim.SGD(parameters, lr=member.lr, momentum=member.momentum)
    )
    fade: torch.optim.lr_scheduler.LRScheduler = (
        torch.optim.lr_scheduler.CosineAnnealingLR(steps, member.epochs)
        if member.schedule.shape == "cosine"
        else torch.optim.lr_scheduler.MultiStepLR(steps, list(member.schedule.milestones), member.schedule.factor)
    )
    forces = [torch.full_like(alpha, member.gate.start) for alpha in alphas]
    losses = []
    for _ in range(member.epochs):
        steps.zero_grad()
        loss = task_loss(model(data.train_x), data.train_y)
        loss.backward()
        losses.append(loss.item())
        steps.step()
        fade.step()
        with torch.no_grad():
            for alpha, force in zip(alphas, forces, strict=True):
                alpha.copy_((alpha - member.gate.eta * (alpha.grad + force)).clip(0, 1))  # type: ignore[operator]
                force += member.gate.ratio * member.gate.eta * (alpha - 1)
                alpha.grad = None
    return losses


def expect_same_losses(member: Member, data: Data, model: nn.Module) -> MemberResult:
    wanted = torch_losses(member, data, model, [])
    ours = train_fleet([member], data, threads=1).members[0]
    np.testing.assert_allclose(ours.column("loss"), wanted, rtol=3e-4)
    return ours


@pytest.mark.parametrize("method", ["ReZero", "Fixup"])
@pytest.mark.parametrize("optimiser", ["adam", "sgd"])
def test_branches_times_a_trained_number(method: str, optimiser: str) -> None:
    """ReZero begins with a = 0, Fixup with a = 1 and zero weights in every branch and in the output."""
    member = Member(5, 4, method=method, optimiser=optimiser, lr=0.005, epochs=30, seed=9)
    plain = start(member, MOONS)
    if method == "Fixup":
        for part in (*plain.hidden[1:].parameters(), *plain.output.parameters()):
            nn.init.zeros_(part)
    model = Branches(plain, float(method == "Fixup"))
    first = logits_of(model, MOONS.train_x)[0]
    shallow = plain.output(torch.relu(plain.hidden[0].linear(MOONS.train_x)))
    torch.testing.assert_close(first.flatten(), shallow.flatten(), msg="every branch begins as nothing")
    expect_same_losses(member, MOONS, model)
    assert (model.scale - float(method == "Fixup")).abs().min() > 0, "all multipliers have been trained"


@pytest.mark.parametrize("init", ["looks-linear", "glorot"])
def test_concatenated_relus(init: str) -> None:
    """W reads [relu(z), relu(−z)]; the fleet's plain network of both rows computes the same."""
    member, data = Member(4, 6, method="CReLU", init=init, epochs=30, seed=3), blobs()
    plain = start(member, data)
    layers = []
    for layer in (*(layer.linear for layer in plain.hidden), plain.output):
        half = layer.out_features if layer is plain.output else 3
        cut = nn.Linear(layer.in_features, half)
        cut.load_state_dict({name: value[:half] for name, value in layer.state_dict().items()})
        layers.append(cut)
    model = Chain(layers, lambda z: torch.relu(torch.cat([z, -z], dim=1)))
    if init == "looks-linear":
        torch.testing.assert_close(model(data.train_x), plain(data.train_x))
    ours = expect_same_losses(member, data, model)
    got = logits_of(ours.network(), data.train_x)[0]
    torch.testing.assert_close(got, logits_of(model, data.train_x)[0], rtol=0.01, atol=2e-3)


@pytest.mark.parametrize("depth", [4, 30])
def test_tailored_leaky_relus(depth: int) -> None:
    member = Member(depth, 5, method="TAT", init="uniform-orthogonal", epochs=30, lr=0.002, seed=3)
    plain, slope = start(member, MOONS), tailored_slope(depth)
    assert (slope > 0.2) == (depth == 30)
    model = Chain(
        [*(layer.linear for layer in plain.hidden), plain.output],
        lambda z: leaky_gain(slope) * F.leaky_relu(z, slope),
    )
    ours = expect_same_losses(member, MOONS, model)
    got = logits_of(ours.network(), MOONS.train_x)[0]
    torch.testing.assert_close(got, logits_of(model, MOONS.train_x)[0], rtol=0.01, atol=2e-3)


@pytest.mark.parametrize("architecture", ["dense", "keras_same"])
def test_lsuv_starts_from_the_training_points(architecture: str) -> None:
    member = Member(4, 6, "ReLU", init="lsuv", architecture=architecture, epochs=15, seed=3, lr=1e-3)
    model = member.form.twin(member, (2,), 1)
    lsuv_(model, MOONS.train_x, generator=Generator().manual_seed(member.seed), output="output")
    assert model(MOONS.train_x).var().item() == pytest.approx(1, abs=0.1)
    expect_same_rows(member, MOONS, model)


@pytest.mark.parametrize("method", ["Residual", "Residual+BN", "VAN", "VAN+BN"])
@pytest.mark.parametrize("optimiser", ["adam", "sgd"])
def test_skips(method: str, optimiser: str) -> None:
    gate = Gate(eta=0.05, ratio=0.5)
    schedule = LrSchedule("step", milestones=(10, 20), factor=0.3)
    member = Member(5, 4, method=method, optimiser=optimiser, lr=0.005, epochs=30, gate=gate, schedule=schedule, seed=9)
    model = Skipping(start(member, MOONS), 5, 4)
    van = method.startswith("VAN")
    wanted = torch_losses(member, MOONS, model, model.alpha[1:] if van else [])
    ours = train_fleet([member], MOONS, threads=1).members[0]
    np.testing.assert_allclose(ours.column("loss"), wanted, rtol=3e-4)
    assert ours.last is not None
    if not (member.kind.batch_norm and optimiser == "adam"):  # see expect_same_rows
        assert abs(ours.last.train_accuracy - accuracy(logits_of(model, MOONS.train_x)[0], MOONS.train_y)) < 0.02
    if van:
        got = np.stack([alpha.detach().numpy() for alpha in model.alpha[1:]])
        np.testing.assert_allclose(ours.alpha[1:], got, rtol=1e-3, atol=1e-5)
        assert (ours.alpha[1:] > 0).all()


def test_a_van_whose_skips_have_closed_is_a_plain_network() -> None:
    member = Member(3, 4, method="VAN", lr=0.003, epochs=60, gate=Gate(eta=0.2, ratio=1.0))
    ours = train_fleet([member], MOONS, threads=1).members[0]
    assert (ours.alpha[1:] == 1).all()
    assert ours.last is not None
    assert accuracy(logits_of(ours.network(), MOONS.train_x)[0], MOONS.train_y) == ours.last.train_accuracy


@pytest.mark.parametrize("margin", [0.0, 0.1])
@pytest.mark.parametrize("init", ["glorot", "torch"])
def test_farkas(margin: float, init: str) -> None:
    member = Member(4, 4, method="Farkas", margin=margin, init=init, epochs=30, schedule=LrSchedule("cosine"), seed=3)
    model = Farkas(start(member, MOONS), margin)
    wanted = torch_losses(member, MOONS, model, [])
    ours = train_fleet([member], MOONS, threads=1).members[0]
    np.testing.assert_allclose(ours.column("loss"), wanted, rtol=3e-4)
    logits = logits_of(ours.network(), MOONS.train_x)[0]
    torch.testing.assert_close(logits, logits_of(model, MOONS.train_x)[0], rtol=0.01, atol=2e-3)
    if margin:
        assert ours.column("dead_points").max() == 0, "a strict Farkas layer has a live unit for every point"


def test_health_is_what_a_brute_force_count_finds() -> None:
    member = Member(12, 3, method="ReLU", epochs=20, seed=1)
    ours = train_fleet([member], MOONS, threads=1).members[0]
    h, dead, linear = MOONS.train_x, 0, 0
    points = torch.zeros(len(h), dtype=torch.bool)
    for layer in ours.network().hidden:  # type: ignore[union-attr]
        z = layer.linear(h)
        dead += int((z.amax(0) <= 0).sum())
        linear += int((z.amin(0) > 0).sum())
        points |= z.amax(1) <= 0
        h = F.relu(z)
    assert ours.last is not None
    assert (ours.last.dead_units, ours.last.linear_units, ours.last.dead_points) == (dead, linear, int(points.sum()))
    assert dead > 0
    assert int(points.sum()) > 0


def test_mini_batches_measure_the_same_health_as_whole_ones() -> None:
    still = Member(5, 3, epochs=1, lr=1e-30, seed=1, init="torch")
    whole, parts = (result.last for result in train_fleet([still, replace(still, batch_size=20)], MOONS).members)
    assert whole is not None
    assert parts is not None
    assert replace(whole, loss=0, penalty=0) == replace(parts, loss=0, penalty=0)


@pytest.mark.twin
def test_without_the_task_only_the_penalty_teaches():
    """SGD on the penalty alone, in plain torch, goes the same way; the output layer, which has none, stays.

    Not Adam: while both slacks of a unit are positive its bias has no gradient, and Adam would blow up the rounding.
    """
    data = moons()
    member = Member(
        4, 4, "Sep-UP", seed=3, weight=0.01, aggregate="sumsq", epochs=20, optimiser="sgd", lr=0.1, task=False
    )
    done = train_fleet([member], data).members[0]
    net = member.form.twin(member, (data.inputs,), data.outputs)
    before = net.output.weight.clone()
    optimiser = torch.optim.SGD(net.parameters(), lr=member.lr, momentum=member.momentum)
    with Jumpstart(net, member.weight, aggregate=member.aggregate) as keep:
        for _ in range(member.epochs):
            optimiser.zero_grad()
            logits = net(data.train_x)
            (keep.penalty() + 0 * logits.sum()).backward()
            optimiser.step()
    ours = done.network()
    for a, b in zip(ours.parameters(), net.parameters(), strict=True):
        torch.testing.assert_close(a, b, rtol=2e-3, atol=2e-4)
    assert torch.equal(ours.output.weight, before)
    assert done.last.penalty < done.rows[0].penalty
    still = train_fleet([Member(4, 4, "ReLU", seed=3, epochs=5, task=False)], data).members[0].network()
    start = member.form.twin(member, (data.inputs,), data.outputs)
    assert all(torch.equal(a, b) for a, b in zip(still.parameters(), start.parameters(), strict=True))
