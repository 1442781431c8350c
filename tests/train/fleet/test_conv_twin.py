"""Every kind of convolution in the fleet equals a torch network with the same start, step by step."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch
from torch import Generator, Tensor, nn

from alive import Jumpstart
from alive.data import Data, tensors
from alive.train import Settings, train
from alive.train.fleet import METHODS, Gate, Member, train_fleet
from alive.train.result import Result
from alive.train.task import logits_of, task_loss

pytestmark = pytest.mark.twin
SEPARATIONS = [name for name, kind in METHODS.items() if kind.axes]
STEPS = 20


def images(classes: int = 10, side: int = 9, channels: int = 1, points: int = 40) -> Data:
    chance = Generator().manual_seed(side + channels)
    y = torch.arange(points) % classes
    x = torch.rand(points, channels, side, side, generator=chance)
    x[torch.arange(points), :, y % side, y // side % side] += 2
    return tensors(x, y, test_x=x[:20] + 0.1, test_y=y[:20], classes=classes, name="maps")


MAPS = images()


def made(method: str = "Sep-UP", **more: object) -> Member:
    """Two batches an epoch, the second of which is smaller than a block."""
    settings: dict[str, object] = {
        "architecture": "conv",
        "epochs": STEPS // 2,
        "batch_size": 30,
        "lr": 3e-3,
        "weight": 1e-3,
        "shuffle": True,
        "seed": 4,
    }
    return Member(3, 4, method, **settings | more)  # type: ignore[arg-type]


def twin(member: Member, data: Data) -> nn.Module:
    return member.form.twin(member, tuple(data.train_x.shape[1:]), data.outputs)


def by_loop(member: Member, data: Data, model: nn.Module) -> Result:
    shared = ("epochs", "batch_size", "shuffle", "optimiser", "lr", "momentum", "eps", "seed", "schedule", "running")
    settings = Settings(**{name: getattr(member, name) for name in shared}, channels_last=True)
    axes = member.kind.axes
    rule = {"mode": axes, "balance": member.balance, "conv": member.conv, "aggregate": member.aggregate}
    with Jumpstart(model, member.weight, **rule) if axes else _Nothing() as keep:
        return train(model, data, settings, keep=keep)


class _Nothing:
    def __enter__(self) -> None:
        return None

    def __exit__(self, *_: object) -> None:
        return None


def expect_same(member: Member, data: Data = MAPS, *, rtol: float = 2e-4, atol: float = 2e-5) -> None:
    """Losses and penalties of every epoch, and every weight after all of them."""
    model = twin(member, data)
    theirs = by_loop(member, data, model)
    ours = train_fleet([member], data, threads=1).members[0]
    assert ours.stopped is theirs.stopped is None
    for column in ("loss", "penalty"):
        got, wanted = ([getattr(row, column) for row in rows] for rows in (ours.rows, theirs.rows))
        np.testing.assert_allclose(got, wanted, rtol=rtol, atol=1e-6)
    if member.kind.batch_norm and member.optimiser == "adam":
        return  # a bias before batch norm is moved by rounding alone, see test_fleet_twin
    for got, wanted in zip(ours.rows, theirs.rows, strict=True):
        assert abs(got.train_accuracy - wanted.train) * len(data.train_y) < 1.5
        assert abs(got.test_accuracy - wanted.test) * len(data.test_y) < 1.5
    for (name, got), wanted in zip(ours.network().named_parameters(), model.parameters(), strict=True):
        torch.testing.assert_close(got, wanted, rtol=0.01, atol=atol, msg=lambda said, name=name: f"{name}: {said}")


@pytest.mark.parametrize("method", ["ReLU", *SEPARATIONS])
@pytest.mark.parametrize("conv", ["channel", "position"])
def test_a_member_equals_the_loop(method: str, conv: str) -> None:
    if method == "ReLU" and conv == "position":
        pytest.skip("without a penalty a unit is not asked for")
    expect_same(made(method, conv=conv, optimiser="sgd", lr=0.05))


@pytest.mark.parametrize("method", ["ReLU", "Sep-UP"])
def test_adam(method: str) -> None:
    expect_same(made(method), atol=1e-3)


@pytest.mark.parametrize("init", ["glorot", "kaiming", "torch", "mirrored", "zeros"])
def test_all_starts(init: str) -> None:
    """From zero every pre-activation is tied with every other: the gradient must be split as torch does."""
    expect_same(made(init=init, optimiser="sgd", lr=0.01, balance=0.51))


@pytest.mark.parametrize("classes", [2, 10, 100])
@pytest.mark.parametrize("head", ["flatten", "mean"])
def test_heads(classes: int, head: str) -> None:
    expect_same(made("Sep-UP", head=head, optimiser="sgd", lr=0.05), images(classes, points=max(40, classes)))


@pytest.mark.parametrize("width", [1, 2, 3, 5, 7, 10])
def test_widths_that_are_no_whole_tiles(width: int) -> None:
    expect_same(replace(made(optimiser="sgd", lr=0.02), width=width), images(channels=3, side=8))


@pytest.mark.parametrize("kernel", [1, 3])
@pytest.mark.parametrize("side", [8, 11])
def test_kernels(kernel: int, side: int) -> None:
    expect_same(replace(made(optimiser="sgd", lr=0.02, kernel=kernel), width=5), images(side=side))


@pytest.mark.parametrize("aggregate", ["sum", "meansq"])
@pytest.mark.parametrize("conv", ["channel", "position"])
def test_aggregates(aggregate: str, conv: str) -> None:
    expect_same(made(aggregate=aggregate, conv=conv, optimiser="sgd", balance=0.7, lr=0.02))


def test_a_weight_that_finds_itself() -> None:
    expect_same(made(aggregate="meansq", weight="auto", optimiser="sgd", lr=0.02))


@pytest.mark.parametrize("optimiser", ["adam", "sgd"])
def test_batch_norm(optimiser: str) -> None:
    expect_same(made("ReLU+BN", optimiser=optimiser, lr=0.01), atol=2e-4)


def test_accuracy_of_the_steps_themselves() -> None:
    expect_same(made(running=True, optimiser="sgd", lr=0.05))


class Skipping(nn.Module):
    """u_l = conv(relu(norm(u_{l−1}))) + b + (1 − α_l) u_{l−1}, in plain torch."""

    def __init__(self, plain: nn.Module) -> None:
        super().__init__()
        self.plain = plain
        self.alpha = [torch.zeros(4, 1, 1, requires_grad=True) for _ in plain.hidden]  # type: ignore[union-attr]

    def forward(self, x: Tensor) -> Tensor:
        u: Tensor | None = None
        for alpha, layer in zip(self.alpha, self.plain.hidden, strict=True):  # type: ignore[arg-type]
            fresh = layer.linear(x)
            u = fresh if u is None else fresh + (1 - alpha) * u
            x = torch.relu(layer.norm(u) if hasattr(layer, "norm") else u)
        return self.plain.output(x.flatten(1))  # type: ignore[no-any-return,operator]


@pytest.mark.parametrize("method", ["Residual", "Residual+BN", "VAN", "VAN+BN"])
def test_skips(method: str) -> None:
    member = made(
        method, batch_size=None, shuffle=False, epochs=STEPS, optimiser="sgd", lr=0.01, gate=Gate(eta=0.02, ratio=0.5)
    )
    model = Skipping(twin(member, MAPS))
    steps = torch.optim.SGD(model.parameters(), lr=member.lr, momentum=member.momentum)
    alphas = model.alpha[1:] if method.startswith("VAN") else []
    forces, losses = [torch.full_like(alpha, member.gate.start) for alpha in alphas], []
    for _ in range(member.epochs):
        steps.zero_grad()
        loss = task_loss(model(MAPS.train_x), MAPS.train_y)
        loss.backward()
        losses.append(loss.item())
        steps.step()
        with torch.no_grad():
            for alpha, force in zip(alphas, forces, strict=True):
                alpha.copy_((alpha - member.gate.eta * (alpha.grad + force)).clip(0, 1))  # type: ignore[operator]
                force += member.gate.ratio * member.gate.eta * (alpha - 1)
                alpha.grad = None
    ours = train_fleet([member], MAPS, threads=1).members[0]
    np.testing.assert_allclose(ours.column("loss"), losses, rtol=3e-4)
    if alphas:
        got = np.stack([alpha.detach().numpy().ravel() for alpha in alphas])
        np.testing.assert_allclose(ours.alpha[1:], got, rtol=1e-3, atol=1e-5)
        assert (ours.alpha[1:] > 0).all()
    right = (logits_of(model, MAPS.train_x)[0].argmax(1) == MAPS.train_y).sum()
    assert abs(float(ours.column("train_right")[-1]) - float(right)) < 1.5


def test_health_is_what_a_brute_force_count_finds() -> None:
    member = replace(made("ReLU", lr=0.05, init="torch", seed=2), depth=12, width=3)
    ours = train_fleet([member], MAPS, threads=1).members[0]
    h, dead, linear = MAPS.train_x, 0, 0
    points = torch.zeros(len(h), dtype=torch.bool)
    for layer in ours.network().hidden:  # type: ignore[union-attr]
        z = layer.linear(h)
        dead += int((z.amax((0, 2, 3)) <= 0).sum())
        linear += int((z.amin((0, 2, 3)) > 0).sum())
        points |= z.amax((1, 2, 3)) <= 0
        h = torch.relu(z)
    assert ours.last is not None
    assert (ours.last.dead_units, ours.last.linear_units, ours.last.dead_points) == (dead, linear, int(points.sum()))
    assert dead + linear > 0
