"""Cures on trial: each of eight planted faults is found by its name, and right implementations have none."""

from __future__ import annotations

import copy
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from alive import check_cure
from alive.errors import AliveError

X = torch.randn(256, 6, generator=torch.Generator().manual_seed(0))
EVERY = 20


class Net(nn.Module):
    """A network that learns its input again, and knows how many steps it has made."""

    def __init__(self) -> None:
        super().__init__()
        self.a, self.b = nn.Linear(6, 24), nn.Linear(24, 6)
        self.done = 0

    def forward(self, x: Tensor) -> Tensor:
        return self.b(self.a(x).relu())


def make_net() -> tuple[nn.Module, Any, nn.Module]:
    model = Net()
    return model, torch.optim.Adam(model.parameters(), 1e-3), copy.deepcopy(model)


def resets(fault: str = "") -> Callable[..., Tensor]:
    """Every so many steps, units that are off for the whole batch are drawn anew, as ReDo does; or so it says."""

    def step(model: Net, optimiser: Any, target: Net, batch: Tensor) -> Tensor:
        loss = F.mse_loss(model(batch), batch)
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
        model.done += 1
        dead = ((model.a(batch) > 0).sum(0) == 0).nonzero().flatten()
        with torch.no_grad():
            if model.done % EVERY == 0 and len(dead):
                reset(model, optimiser, target, dead)
            for ours, theirs in zip(target.parameters(), model.parameters(), strict=True):
                ours.lerp_(theirs, 0.0 if fault == "targets" else 0.05)
        return loss

    def reset(model: Net, optimiser: Any, target: Net, dead: Tensor) -> None:
        fresh = nn.Linear(6, 24)
        weight = model.a.weight.clone() if fault == "acts" else model.a.weight  # a copy, to which it writes in vain
        bias = model.a.bias.clone() if fault == "acts" else model.a.bias
        rows = (dead + 1) % 24 if fault == "harm" else dead
        rows = torch.cat([rows, dead]).unique() if fault == "harm" else rows
        weight[rows], bias[rows] = fresh.weight[rows], fresh.bias[rows]
        model.b.weight[:, dead] = 3.0 if fault == "loss" else 0.0
        for p, place in ((model.a.weight, rows), (model.a.bias, rows)):
            for value in optimiser.state[p].values():
                if value.shape == p.shape and fault != "optimiser":
                    value[place] = 0.0
        if fault != "targets":
            target.load_state_dict(model.state_dict())

    return step


class Sparse(nn.Module):
    """A sparse autoencoder with a loss that lets dead latents tell what the others leave over."""

    def __init__(self) -> None:
        super().__init__()
        self.encode, self.decode = nn.Linear(6, 32), nn.Linear(32, 6)

    def forward(self, x: Tensor) -> Tensor:
        z = self.encode(x).relu()
        value, place = z.topk(4, dim=1)
        return self.decode(torch.zeros_like(z).scatter(1, place, value))


def make_sparse() -> tuple[nn.Module, Any]:
    model = Sparse()
    return model, torch.optim.Adam(model.parameters(), 1e-2)


def auxiliary(fault: str = "") -> Callable[..., Tensor]:
    def step(model: Sparse, optimiser: Any, batch: Tensor) -> Tensor:
        z = model.encode(batch)
        value, place = z.relu().topk(4, dim=1)
        chosen = torch.zeros_like(z).scatter(1, place, value)
        out = model.decode(chosen)
        dead = (chosen > 0).sum(0) == 0
        rest = (batch - out).detach()
        ghost = F.softplus(z)[:, dead] if fault != "gradient" else F.softplus(z.detach())[:, dead]
        more = F.mse_loss(ghost @ model.decode.weight[:, dead].T, rest)
        loss = F.mse_loss(out, batch) + more - 0.1 * ghost.mean(0).sum()
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
        return loss

    return step


class Quantiser(nn.Module):
    """A codebook of running means, whose unused codes are put on inputs."""

    def __init__(self) -> None:
        super().__init__()
        self.encode, self.decode = nn.Linear(6, 3), nn.Linear(3, 6)
        self.register_buffer("embed", torch.randn(16, 3) * 0.5)
        self.register_buffer("embed_avg", self.embed.clone())
        self.register_buffer("cluster_size", torch.ones(16))
        self.done = 0

    def forward(self, x: Tensor) -> Tensor:
        z = self.encode(x)
        q = self.embed[torch.cdist(z, self.embed).argmin(1)]
        return self.decode(z + (q - z).detach())


def make_quantiser() -> tuple[nn.Module, Any]:
    model = Quantiser()
    return model, torch.optim.Adam(model.parameters(), 1e-3)


def expiring(fault: str = "") -> Callable[..., Tensor]:
    def step(model: Quantiser, optimiser: Any, batch: Tensor) -> Tensor:
        loss = F.mse_loss(model(batch), batch)
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
        model.done += 1
        with torch.no_grad():
            z = model.encode(batch)
            hot = F.one_hot(torch.cdist(z, model.embed).argmin(1), 16).float()
            model.cluster_size.lerp_(hot.sum(0), 0.1)
            model.embed_avg.lerp_(hot.T @ z, 0.1)
            mean = model.embed_avg / model.cluster_size.clamp(min=1e-5)[:, None]
            slow = 0.02 if fault == "averages" else 1.0
            model.embed.lerp_(mean, slow) if fault == "averages" else model.embed.copy_(mean)
            dead = model.cluster_size < 0.5  # in batches of 128
            if model.done % EVERY == 0 and bool(dead.any()):
                new = z[torch.randperm(len(z))[: int(dead.sum())]]
                model.embed[dead] = new
                if fault not in ("stays", "averages"):
                    model.embed_avg[dead], model.cluster_size[dead] = 8 * new, 8.0
        return loss

    return step


ALONG = {"gradient": {"acts"}, "acts": {"gradient"}, "stays": {"averages"}}  # what comes along with a fault
FAULTS: dict[str, tuple[Callable[[], Any], Callable[..., Any]]] = {
    "gradient": (make_sparse, auxiliary("gradient")),
    "acts": (make_net, resets("acts")),
    "stays": (make_quantiser, expiring("stays")),
    "optimiser": (make_net, resets("optimiser")),
    "averages": (make_quantiser, expiring("averages")),
    "targets": (make_net, resets("targets")),
    "harm": (make_net, resets("harm")),
    "loss": (make_net, resets("loss")),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_each_planted_fault_is_found(fault: str) -> None:
    found = check_cure(*FAULTS[fault], list(X.split(128)))
    assert fault in found.faults, str(found)
    assert set(found.faults) - {fault} <= ALONG.get(fault, set()), str(found)


RIGHT = {
    "reset": (make_net, resets()),
    "auxiliary loss": (make_sparse, auxiliary()),
    "codes": (make_quantiser, expiring()),
}


@pytest.mark.parametrize("name", RIGHT)
def test_a_right_cure_has_no_fault(name: str) -> None:
    found = check_cure(*RIGHT[name], list(X.split(128)))
    assert found.faults == (), str(found)
    assert 2 * len(found.revived) >= len(found.planted), str(found)


class Experts(nn.Module):
    def __init__(self, *, bias: bool) -> None:
        super().__init__()
        self.gate, self.experts = nn.Linear(6, 8, bias=bias), nn.ModuleList(nn.Linear(6, 6) for _ in range(8))

    def forward(self, x: Tensor) -> Tensor:
        score, who = self.gate(x).softmax(1).topk(2, dim=1)
        y = torch.zeros_like(x)
        for number, expert in enumerate(self.experts):
            rows, place = (who == number).nonzero(as_tuple=True)
            y = y.index_add(0, rows, score[rows, place, None] * expert(x[rows]))
        return y


@pytest.mark.parametrize("bias", [True, False])
def test_experts_are_planted_and_a_balance_that_lifts_them_is_right(bias: bool) -> None:
    def make() -> tuple[nn.Module, Any]:
        model = Experts(bias=bias)
        return model, torch.optim.Adam(model.parameters(), 1e-2)

    def step(model: Experts, optimiser: Any, batch: Tensor) -> Tensor:
        score = model.gate(batch)
        idle = torch.bincount(score.topk(2, dim=1).indices.flatten(), minlength=8) == 0
        loss = F.mse_loss(model(batch), batch) - 0.1 * score[:, idle].sum(1).mean()
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
        return loss

    found = check_cure(make, step, [X + 1.5], steps=300)
    assert (found.noun, found["acts"].answer) == ("expert", "yes"), str(found)
    assert found.faults == ()


def test_units_behind_a_norm_are_planted_exactly() -> None:
    def make() -> tuple[nn.Module, Any]:
        model = nn.Sequential(
            nn.Conv2d(2, 12, 3, bias=False), nn.BatchNorm2d(12), nn.ReLU(), nn.Flatten(), nn.Linear(192, 2)
        )
        return model, torch.optim.SGD(model.parameters(), 0.1)

    def step(model: nn.Module, optimiser: Any, batch: Tensor) -> None:
        optimiser.zero_grad()
        model(batch).square().mean().backward()
        optimiser.step()

    found = check_cure(make, step, torch.randn(32, 2, 6, 6), steps=5)
    assert (len(found.planted), found.revived, found.faults) == (3, (), ("gradient", "acts"))
    assert found["loss"].answer == ""


@pytest.mark.parametrize(
    ("make", "step", "said"),
    [
        (lambda: 3, lambda *a: None, "not a model"),
        (make_net, lambda *a: None, "changed no weight"),
        (make_net, lambda *a: 1 / 0, "training step 1"),
        (lambda: nn.Linear(6, 6), lambda m, b: [p.data.add_(1) for p in m.parameters()], "activation"),
    ],
)
def test_what_cannot_be_tried_is_told(make: Any, step: Any, said: str) -> None:
    with pytest.raises(AliveError, match=said):
        check_cure(make, step, X)


def test_no_generator_is_moved() -> None:
    state = torch.get_rng_state()
    check_cure(*RIGHT["reset"], X, steps=2)
    assert torch.equal(state, torch.get_rng_state())


MINE = """
import torch
from torch import nn

def make_model():
    model = nn.Sequential(nn.Linear(4, 12), nn.ReLU(), nn.Linear(12, 4))
    return model, torch.optim.Adam(model.parameters())

def make_data():
    return torch.randn(64, 4)

def step(model, optimiser, batch):
    loss = nn.functional.mse_loss(model(batch), batch)
    optimiser.zero_grad()
    loss.backward()
    optimiser.step()
    return loss
"""


def test_the_command_and_the_fixture_say_the_same(alive: Any, tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "mine.py").write_text(MINE)
    monkeypatch.chdir(tmp_path)
    code, out, err = alive(
        "check-cure", "mine.py:make_model", "mine.py:step", "--data", "mine.py:make_data", "--steps", "3"
    )
    assert code == 1
    assert "did the revival act? no" in out
    assert "gradient, acts" in err
    (tmp_path / "test_mine.py").write_text(
        "from mine import *\ndef test_cure(check_cure):\n    check_cure(make_model, step, make_data(), steps=3)\n"
    )
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "test_mine.py"],
        cwd=tmp_path, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 1
    assert "FAULT did the revival act" in done.stdout
