"""Shrinking through concatenations: what is planted goes, and the outputs stay, in dense blocks, skips and branches."""

from __future__ import annotations

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from shrink_models import copy, forget, kill, lift, seeded, still
from torch import Tensor, nn

from alive.surgery import load_shrunk, save_shrunk, shrink


class DenseBlock(nn.Module):
    """Every layer reads all before it, the input too, through a batch norm of its own."""

    def __init__(self) -> None:
        super().__init__()
        self.a, self.b, self.c = nn.Conv2d(2, 5, 3, padding=1), nn.Conv2d(7, 6, 3, padding=1), nn.Conv2d(13, 4, 1)
        self.norm, self.head = nn.BatchNorm2d(13), nn.Linear(17, 3)

    def forward(self, x: Tensor) -> Tensor:
        one = torch.cat([x, F.relu(self.a(x))], 1)
        two = torch.cat([one, F.relu(self.b(one))], 1)
        three = torch.cat([two, F.relu(self.c(F.relu(self.norm(two))))], 1)
        return self.head(three.mean((2, 3)))


class Inception(nn.Module):
    """Branches of different kernels, pooled and flattened before a dense layer."""

    def __init__(self) -> None:
        super().__init__()
        self.a, self.b, self.c = nn.Conv2d(2, 4, 1), nn.Conv2d(2, 5, 3, padding=1), nn.Conv2d(5, 3, 3, padding=1)
        self.slopes, self.side, self.head = nn.PReLU(7), nn.Linear(4, 6), nn.Linear(7 * 16 + 6, 3)

    def forward(self, x: Tensor) -> Tensor:
        maps = torch.cat([F.relu(self.a(x)), F.relu(self.c(F.relu(self.b(x))))], dim=-3)
        pooled = F.max_pool2d(self.slopes(maps), 2).flatten(1)
        return self.head(torch.cat([pooled, F.relu(self.side(x[:, 0, 0, :4]))], -1))


class Skips(nn.Module):
    """A U: what goes down is joined on the way up; one value is joined with itself, two that are joined are added."""

    def __init__(self) -> None:
        super().__init__()
        self.down, self.deep, self.side = nn.Conv2d(2, 6, 3, padding=1), nn.Conv2d(6, 5, 3), nn.Conv2d(5, 5, 1)
        self.up, self.twice, self.head = nn.Conv2d(16, 5, 3), nn.Conv2d(10, 4, 1), nn.Conv2d(4, 2, 1)
        self.head_of_sum = nn.Conv2d(5, 2, 1)

    def forward(self, x: Tensor) -> Tensor:
        down = F.relu(self.down(x))
        deep = F.relu(self.deep(F.max_pool2d(down, 2)))
        beside = F.relu(self.side(deep))
        low = F.interpolate(torch.cat([beside, deep], 1), scale_factor=4)
        up = F.relu(self.up(torch.cat([low, down], 1)))
        added = self.head_of_sum(beside + deep).mean((2, 3), keepdim=True)
        return self.head(F.relu(self.twice(torch.cat([up, up], 1)))) + added


class Drawn(nn.Module):
    """Layers that read what is drawn of all before them, some of it twice, bent before or behind the joining."""

    def __init__(self, seed: int) -> None:
        super().__init__()
        chance = np.random.default_rng(seed)
        sizes, self.reads = [3], []
        for number in range(6):
            self.reads.append(chance.integers(number + 1, size=chance.integers(1, 4)).tolist())
            width = int(chance.integers(3, 8)) if number < 5 else 2
            self.add_module(
                f"l{number}" if number < 5 else "head", nn.Linear(sum(sizes[i] for i in self.reads[-1]), width)
            )
            sizes.append(width)
        self.bends = [[F.relu, F.leaky_relu, torch.tanh, F.relu6, lambda v: v][i] for i in chance.integers(5, size=12)]

    def forward(self, x: Tensor) -> Tensor:
        values = [x]
        for layer, reads, bend, behind in zip(self.children(), self.reads, self.bends, self.bends[6:], strict=False):
            values.append(bend(layer(behind(torch.cat([values[i] for i in reads], -1)))))
        return values[-1]


class Plain(nn.Module):
    """Dense layers, joined with the input and a constant."""

    def __init__(self) -> None:
        super().__init__()
        self.a, self.b, self.c, self.head = nn.Linear(3, 7), nn.Linear(3, 6), nn.Linear(18, 8), nn.Linear(15, 2)

    def forward(self, x: Tensor) -> Tensor:
        a, b = F.relu(self.a(x)), F.relu(self.b(x))
        c = F.relu(self.c(torch.cat([b, x, torch.ones(len(x), 2, dtype=x.dtype), a], 1)))
        return self.head(torch.cat([a, c], 1))


class Gated(nn.Module):
    """Two concatenations of the same parts, one added to the other and weighted by its own means."""

    def __init__(self) -> None:
        super().__init__()
        self.a, self.b, self.c = nn.Conv2d(2, 5, 1), nn.Conv2d(2, 6, 3, padding=1), nn.Conv2d(2, 5, 3, padding=1)
        self.head = nn.Conv2d(13, 2, 3)

    def forward(self, x: Tensor) -> Tensor:
        a, b, c = F.relu(self.a(x)), F.relu(self.b(x)), F.relu(self.c(x))
        joined = torch.hstack([x, a, b]) + torch.cat([x, c, b], 1)
        return self.head(joined * torch.sigmoid(joined.mean((2, 3), keepdim=True)))


KINDS = [(DenseBlock, (2, 8, 8)), (Inception, (2, 8, 8)), (Skips, (2, 8, 8)), (Plain, (3,)), (Gated, (2, 8, 8))]


def drawn(*shape: int, seed: int = 0) -> Tensor:
    return 2 * torch.rand(*shape, generator=torch.Generator().manual_seed(seed)).double() - 1


def made(kind: type[nn.Module], seed: int) -> nn.Module:
    net = seeded(kind(), seed, torch.float64)
    for module in net.modules():
        if isinstance(module, nn.BatchNorm2d | nn.PReLU):
            with torch.no_grad():
                module.weight.uniform_(0.2, 1.0, generator=torch.Generator().manual_seed(seed))
    return net


def inner(net: nn.Module) -> dict[str, nn.Module]:
    return {
        name: m
        for name, m in net.named_children()
        if isinstance(m, nn.Linear | nn.Conv2d) and not name.startswith("head")
    }


def assert_same(net: nn.Module, small: nn.Module, x: Tensor) -> None:
    with torch.no_grad():
        assert float((net(x) - small(x)).abs().max()) <= 1e-10 * float(net(x).abs().max())


@pytest.mark.law
@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize(("kind", "shape"), KINDS)
def test_dead_units_go_through_a_concatenation(kind, shape, seed):
    net, chance = made(kind, seed), np.random.default_rng(seed)
    x, planted = drawn(40, *shape, seed=seed), {}
    for name, layer in inner(net).items():
        planted[name] = set(chance.choice(len(layer.weight), chance.integers(1, 3), replace=False).tolist())
        if name == "side" and "deep" in planted:  # which are added up
            planted[name] = planted["deep"]
        if kind is Gated and name == "c":
            planted[name] = planted["a"]
        for unit in planted[name]:
            kill(layer, unit)
    done = shrink(net, x)
    gone = {name: {g.unit for g in done.report.gone if g.layer == name and g.why == "dead"} for name in planted}
    assert all(units <= gone[name] for name, units in planted.items()), (planted, gone, str(done.report))
    for name, layer in inner(done.model).items():
        assert len(layer.weight) == len(inner(net)[name].weight) - sum(g.layer == name for g in done.report.gone)
    assert_same(net, done.model, x)


@pytest.mark.law
@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize(("kind", "shape"), KINDS)
def test_whatever_is_planted_before_a_concatenation_the_outputs_stay(kind, shape, seed):
    net, chance = made(kind, seed), np.random.default_rng(seed)
    for layer in inner(net).values():
        for unit in range(len(layer.weight)):
            [kill, lift, lambda m, u: still(m, u, 0.3), lambda m, u: None][chance.choice(4, p=[0.2, 0.1, 0.2, 0.5])](
                layer, unit
            )
    x = drawn(40, *shape, seed=seed)
    done = shrink(net, x)
    assert_same(net, done.model, x)
    assert done.report.gone
    assert not any("differ" in note or "cannot run" in note for note in done.report.notes)  # nothing was taken back


@pytest.mark.law
@pytest.mark.parametrize("seed", range(20))
def test_networks_joined_at_random_say_the_same(seed):
    net, chance = seeded(Drawn(seed), seed, torch.float64), np.random.default_rng(seed)
    for layer in inner(net).values():
        for unit in range(1, len(layer.weight)):
            [kill, lift, lambda m, u: still(m, u, 0.3), lambda m, u: copy(m, u, u - 1, 2.0), lambda m, u: None][
                chance.choice(5, p=[0.2, 0.2, 0.1, 0.1, 0.4])
            ](layer, unit)
    x = drawn(60, 3, seed=seed)
    done, proved = shrink(net, x), shrink(net, box=(-torch.ones(3).double(), torch.ones(3).double()), time_limit=0)
    assert_same(net, done.model, x)
    assert_same(net, proved.model, torch.cat([drawn(300, 3, seed=3), drawn(300, 3, seed=4).sign()]))
    assert not any(
        "differ" in note or "cannot run" in note for note in (*done.report.notes, *proved.report.notes)
    )  # nothing was taken back


def test_over_a_box_what_goes_through_a_concatenation_is_proved():
    net = made(Plain, 0)
    kill(net.a, 2), still(net.b, 4, 0.5), kill(net.c, 1), forget(net.head, 7 + 3)
    done = shrink(net, box=(-torch.ones(3).double(), torch.ones(3).double()), time_limit=2)
    found = {(g.layer, g.unit): g.why for g in done.report.gone}
    assert found == {("a", 2): "dead", ("b", 4): "constant", ("c", 1): "dead", ("c", 3): "unread"}
    assert_same(net, done.model, torch.cat([drawn(300, 3, seed=3), drawn(300, 3, seed=4).sign()]))


def test_what_is_not_merged_through_a_concatenation_is_said():
    net = made(Plain, 1)
    for unit in range(6):
        lift(net.a, unit)
    report = shrink(net, drawn(50, 3)).report
    kept = {layer.layer: layer.kept for layer in report.layers}
    assert "not merged through a concatenation" in kept["a"]
    assert not any(g.why in ("linear", "multiple") for g in report.gone)


class Grouped(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.a, self.b = nn.Conv2d(2, 4, 1), nn.Conv2d(2, 4, 1)
        self.mixed, self.head = nn.Conv2d(8, 8, 1, groups=2), nn.Conv2d(8, 2, 1)

    def forward(self, x: Tensor) -> Tensor:
        return self.head(F.relu(self.mixed(torch.cat([F.relu(self.a(x)), F.relu(self.b(x))], 1))))


class Rows(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.a, self.b, self.head = nn.Linear(3, 5), nn.Linear(3, 5), nn.Linear(5, 2)

    def forward(self, x: Tensor) -> Tensor:
        return self.head(torch.cat([F.relu(self.a(x)), F.relu(self.b(x))], 0))


@pytest.mark.parametrize(("kind", "shape", "said"), [(Grouped, (2, 4, 4), "in groups"), (Rows, (3,), "another axis")])
def test_a_concatenation_that_is_not_followed_is_named(kind, shape, said):
    net = made(kind, 0)
    kill(net.a, 1), kill(net.b, 2)
    report = shrink(net, drawn(30, *shape)).report
    assert all(said in layer.kept for layer in report.layers if layer.layer in ("a", "b"))
    assert {g.layer for g in report.gone} <= {"mixed"}


def test_a_network_with_concatenations_lives_in_a_file(tmp_path):
    net = made(DenseBlock, 0)
    kill(net.a, 1), kill(net.b, 2)
    x = drawn(30, 2, 8, 8)
    done = shrink(net, x)
    save_shrunk(done.model, tmp_path / "small.safetensors")
    assert torch.equal(load_shrunk(net, tmp_path / "small.safetensors")(x), done.model(x))
    assert done.model.norm.num_features == 13 - 2
