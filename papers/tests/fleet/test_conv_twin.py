"""Every kind of convolution in the fleet equals a torch network with the same start, step by step."""

from __future__ import annotations

import math
import random
from dataclasses import fields, replace

import numpy as np
import pytest
import torch
from torch import Generator, Tensor, nn

from alive import Jumpstart
from alive.data import Augment, Data, tensors
from alive.nn import INITIALISERS
from alive.nn.lsuv import TOLERANCE, lsuv_
from alive.penalties import Schedule
from alive.train import LrSchedule, Settings, train
from alive.train.result import Result
from alive.train.task import logits_of, task_loss
from alive_papers.fleet import METHODS, Gate, Member, train_fleet

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
    model = member.form.twin(member, tuple(data.train_x.shape[1:]), data.outputs)
    if member.init == "lsuv":
        lsuv_(model, data.train_x, generator=Generator().manual_seed(member.seed), output="output")
    return model


def by_loop(member: Member, data: Data, model: nn.Module) -> Result:
    shared = {each.name for each in fields(Settings)} & {each.name for each in fields(member)}
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


@pytest.mark.parametrize("method", ["Sep-UP", "ReLU+BN"])
def test_an_output_layer_with_a_rate_of_its_own(method: str) -> None:
    member = made(method, optimiser="sgd", lr=0.01, output_lr=0.2, schedule=LrSchedule("cosine"))
    expect_same(member)
    first = train_fleet([member, replace(member, output_lr=None)], MAPS).members
    assert first[0].rows[-1].loss != first[1].rows[-1].loss


@pytest.mark.parametrize("init", INITIALISERS.own)
def test_all_starts(init: str) -> None:
    """From zero every pre-activation is tied with every other: the gradient must be split as torch does.

    The deterministic start makes channels that are copies, and rounding decides which is the extreme of a point.
    """
    method = "Sep-U" if init == "deterministic" else "Sep-UP"
    expect_same(made(method, init=init, optimiser="sgd", lr=0.01, balance=0.51))


def test_a_start_that_looks_at_the_images() -> None:
    """Each layer of the network as it starts gives outputs of unit variance, and the run is the loop's from there."""
    member = made(init="lsuv", optimiser="sgd", lr=1e-30)
    h = MAPS.train_x
    for layer in train_fleet([member], MAPS, threads=1).members[0].network().hidden:  # type: ignore[union-attr]
        z = layer.linear(h)
        assert abs(z.var() - 1) < TOLERANCE
        h = torch.relu(z)
    expect_same(made(init="lsuv", optimiser="sgd", lr=0.01))


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

    def __init__(self, plain: nn.Module, member: Member) -> None:
        super().__init__()
        self.plain, self.mean = plain, member.head == "mean"
        self.alpha = [torch.zeros(member.width, 1, 1, requires_grad=True) for _ in range(member.depth)]

    def forward(self, x: Tensor) -> Tensor:
        u: Tensor | None = None
        for alpha, layer in zip(self.alpha, self.plain.hidden, strict=True):  # type: ignore[arg-type]
            fresh = layer.linear(x)
            u = fresh if u is None else fresh + (1 - alpha) * u
            x = torch.relu(layer.norm(u) if hasattr(layer, "norm") else u)
        return self.plain.output(x.mean((2, 3)) if self.mean else x.flatten(1))  # type: ignore[no-any-return,operator]


@pytest.mark.parametrize("method", ["Residual", "Residual+BN", "VAN", "VAN+BN"])
@pytest.mark.parametrize(
    ("change", "data"),
    [
        ({}, MAPS),
        ({"width": 5, "head": "mean", "kernel": 1, "batch_size": 17}, images(channels=3, side=11, points=35)),
        ({"depth": 1, "width": 1, "batch_size": 32}, images(classes=2, side=8)),
        ({"depth": 2, "width": 32, "batch_size": 39}, images(classes=100, side=8)),
    ],
    ids=["plain", "mean", "lone", "wide"],
)
def test_skips(method: str, change: dict[str, object], data: Data) -> None:
    member = made(method, batch_size=None, shuffle=False, optimiser="sgd", lr=0.01, gate=Gate(eta=0.02, ratio=0.5))
    member = replace(member, **change)  # type: ignore[arg-type]
    model = Skipping(twin(member, data), member)
    steps = torch.optim.SGD(model.parameters(), lr=member.lr, momentum=member.momentum)
    alphas = model.alpha[1:] if method.startswith("VAN") else []
    forces, losses = [torch.full_like(alpha, member.gate.start) for alpha in alphas], []
    for _ in range(member.epochs):
        losses.append(0.0)
        for x, y in zip(*(part.split(member.batch_size or len(part)) for part in data.train), strict=True):
            steps.zero_grad()
            loss = task_loss(model(x), y)
            loss.backward()
            losses[-1] += loss.item() * len(y) / len(data.train_y)
            steps.step()
            with torch.no_grad():
                for alpha, force in zip(alphas, forces, strict=True):
                    alpha.copy_((alpha - member.gate.eta * (alpha.grad + force)).clip(0, 1))  # type: ignore[operator]
                    force += member.gate.ratio * member.gate.eta * (alpha - 1)
                    alpha.grad = None
    ours = train_fleet([member], data, threads=1).members[0]
    np.testing.assert_allclose(ours.column("loss"), losses, rtol=3e-4)
    if alphas:
        got = np.stack([alpha.detach().numpy().ravel() for alpha in alphas])
        np.testing.assert_allclose(ours.alpha[1:], got, rtol=1e-3, atol=1e-5)
        assert (ours.alpha[1:] > 0).all()
    logits = logits_of(model, data.train_x)[0]
    right = ((logits[:, 0] > 0 if logits.shape[1] == 1 else logits.argmax(1)) == data.train_y).sum()
    assert abs(float(ours.column("train_right")[-1]) - float(right)) < 1.5


BATCHES = (None, 1, 5, 15, 16, 17, 20, 32)  # of 33 points: whole blocks or not, a last batch of one
SIDES, WIDTHS = (8, 9, 13, 16, 31, 32), (1, 2, 3, 5, 6, 7, 9, 16, 31, 32)
DRAWN = ("glorot", "kaiming", "torch", "mirrored", "looks-linear", "orthogonal")  # no two channels are alike


def drawn(chance: random.Random) -> tuple[Member, Data]:
    """A network of all that a member may be, and images for it."""
    pick, width = chance.choice, chance.choice(WIDTHS)
    settings = {
        "depth": pick((1, 2, 4)),
        "width": width,
        "method": pick(("ReLU", "ReLU+BN", *SEPARATIONS)),
        "init": pick(DRAWN[:3] if width == 1 else DRAWN),
        "head": pick(("flatten", "mean")),
        "kernel": pick((1, 3)),
        "conv": pick(("channel", "position")),
        "batch_size": pick(BATCHES),
        "shuffle": pick((True, False)),
        "running": pick((True, False)),
        "aggregate": pick(("sumsq", "sum", "meansq")),
        "balance": pick((0.0, 0.3, 0.5, 1.0)),
        "weight": pick((0.0, 1e-3, Schedule(1e-3, 0.0, shape="linear"))),
        "optimiser": pick(("adam", "sgd")),
        "momentum": pick((0.0, 0.9)),
        "schedule": pick((LrSchedule(), LrSchedule("cosine"), LrSchedule("step", (1, 2), 0.5))),
        "augment": pick((None, Augment(crop=2), Augment(cutout=3))),
    }
    if settings["conv"] == "position" and settings["batch_size"] == 1:
        settings["batch_size"] = 2  # which is refused for units
    steps = math.ceil(33 / (settings["batch_size"] or 33))
    member = replace(made(lr=1e-3, epochs=max(2, STEPS // steps)), **settings)
    side = pick(SIDES if width <= 9 else SIDES[:2])
    return member, images(pick((2, 10, 100)), side, pick((1, 3)), points=33)


@pytest.mark.parametrize("seed", range(16))
def test_networks_of_any_kind(seed: int) -> None:
    member, data = drawn(random.Random(seed))
    expect_same(member, data, atol=2e-3 if member.optimiser == "adam" else 5e-5)


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
