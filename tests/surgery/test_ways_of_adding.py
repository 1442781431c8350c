"""Sums are found in every way of writing them, and in the families of blocks that people write."""

from __future__ import annotations

import pytest
import torch
from residual_models import Written, branch, gates
from torch import Tensor, nn
from torch.ao.nn.quantized import FloatFunctional
from torch.nn import functional as F

from alive.surgery.fold import fold
from alive.surgery.phase_out import phase_out


def late(self, x):
    out = self.f(x)
    out += x
    return F.relu(out) + out.mean()


def plus_into_input(self, x):
    x = x * 1
    skip = x
    x = self.f(x)
    skip += x
    return skip


WAYS = {
    "plus": lambda self, x: x + self.f(x),
    "plus the other way": lambda self, x: self.f(x) + x,
    "torch.add": lambda self, x: torch.add(self.f(x), x),
    "method": lambda self, x: self.f(x).add(x),
    "method in place": lambda self, x: self.f(x).add_(x),
    "relu behind": lambda self, x: torch.relu_(self.f(x) + x),
    "in place and read again": late,
    "into the skip": plus_into_input,
    "a branch that first changes its input": lambda self, x: self.f(x.relu_()) + x,
    "a constant": lambda self, x: x + self.f(x) + 1.0,
}


@pytest.mark.parametrize("way", WAYS)
def test_every_way_of_writing_a_sum(way):
    model = Written(WAYS[way], f=branch())
    x = torch.randn(2, 3, 5, 5)
    gated = phase_out(model, x)
    assert len(gates(gated)) == 1
    gate = next(iter(gates(gated).values()))
    nn.init.ones_(gate.alpha)
    without = {"in place and read again": lambda f: F.relu(f) + f.mean(), "relu behind": torch.relu}
    f = without.get(way, lambda f: f)(model.f(x.relu() if "changes its input" in way else x))
    torch.testing.assert_close(gated(x), f + 1 if way == "a constant" else f)


def preact(self, x):
    out = F.relu(self.bn1(x))
    shortcut = self.shortcut(out) if hasattr(self, "shortcut") else x
    out = self.conv2(F.relu(self.bn2(self.conv1(out))))
    out += shortcut
    return out


def squeezed(self, x):
    f = self.f(x)
    return torch.relu(f * self.fc(f.mean((2, 3)))[:, :, None, None].sigmoid() + self.down(x))


def scaled(self, x):
    z = self.norm(self.depthwise(x).permute(0, 2, 3, 1))
    z = self.gamma.weight.squeeze() * self.wide(z)
    return x + self.drop(z.permute(0, 3, 1, 2))


FAMILIES = {
    "pre-activation": lambda: Written(
        preact, bn1=nn.BatchNorm2d(3), conv1=nn.Conv2d(3, 3, 3, padding=1), bn2=nn.BatchNorm2d(3),
        conv2=nn.Conv2d(3, 3, 3, padding=1)),
    "pre-activation with a projection": lambda: Written(
        preact, bn1=nn.BatchNorm2d(3), conv1=nn.Conv2d(3, 6, 3, 2, 1), bn2=nn.BatchNorm2d(6),
        conv2=nn.Conv2d(6, 6, 3, padding=1), shortcut=nn.Conv2d(3, 6, 1, 2)),
    "bottleneck": lambda: Written(
        lambda self, x: torch.relu(self.f(x) + self.down(x)), down=nn.Conv2d(3, 8, 1, 2),
        f=nn.Sequential(nn.Conv2d(3, 2, 1), nn.ReLU(), nn.Conv2d(2, 2, 3, 2, 1), nn.ReLU(), nn.Conv2d(2, 8, 1))),
    "squeeze and excite": lambda: Written(
        squeezed, f=nn.Conv2d(3, 4, 3, padding=1), fc=nn.Linear(4, 4), down=nn.Conv2d(3, 4, 1)),
    "channels last inside": lambda: Written(
        scaled, depthwise=nn.Conv2d(3, 3, 7, padding=3, groups=3), norm=nn.LayerNorm(3), drop=nn.Identity(),
        wide=nn.Sequential(nn.Linear(3, 12), nn.GELU(), nn.Linear(12, 3)), gamma=nn.Linear(1, 3, bias=False)),
}  # fmt: skip


@pytest.mark.twin
@pytest.mark.parametrize("family", FAMILIES)
def test_the_families_people_write(family):
    """Gated to the bit at α = 0 with one gate a block; at α = 1 the fold says to the bit what the gated block says."""
    x = torch.randn(2, 3, 8, 8)
    model = nn.Sequential(FAMILIES[family]()).eval()
    gated = phase_out(model, x)
    assert torch.equal(gated(x), model(x))
    (gate,) = gates(gated).values()
    assert gate.alpha.shape == (model(x).shape[1],)
    assert gate.axis == 1
    nn.init.ones_(gate.alpha)
    folded = fold(gated, example=x)
    assert folded.difference == 0
    assert not torch.equal(folded.model(x), model(x))
    assert not any(name.split(".")[1] in ("shortcut", "down") for name in folded.model.state_dict())


def test_several_sums_in_one_forward():
    model = Written(
        lambda self, x: self.g(y := x + self.f(x)) + y, f=nn.Linear(4, 4), g=nn.Sequential(nn.ReLU(), nn.Linear(4, 4))
    )
    x = torch.randn(3, 4)
    gated = phase_out(model, x, order="one by one")
    assert {path: gate.rank for path, gate in gates(gated).items()} == {"gate": 0, "gate2": 1}
    back = gates(phase_out(model, x, order="last first"))
    assert {path: gate.rank for path, gate in back.items()} == {"gate": 1, "gate2": 0}
    with torch.no_grad():
        gates(gated)["gate2"].alpha.fill_(1)
    torch.testing.assert_close(gated(x), model.g(x + model.f(x)))


def test_a_name_that_is_taken_is_not_overwritten():
    model = Written(lambda self, x: x + self.gate(x), gate=nn.Linear(4, 4))
    assert list(gates(phase_out(model, torch.randn(2, 4)))) == ["gate2"]


def test_a_block_used_twice_is_gated_in_both_places():
    block = Written(lambda self, x: x + self.f(x), f=nn.Linear(4, 4))
    model = nn.Sequential(block, nn.ReLU(), block)
    gated = phase_out(model, torch.randn(2, 4))
    assert gated[0] is gated[2]
    assert len(gates(gated)) == 1


class DropPath(nn.Module):
    """Stochastic depth as a module, as in many model libraries: it reads self.training, adds and draws."""

    def forward(self, x: Tensor) -> Tensor:
        if not self.training:
            return x
        return x * (0.8 + torch.rand((x.shape[0],) + (1,) * (x.ndim - 1))).floor() / 0.8


def test_modules_without_weights_hold_no_branch_and_are_left_whole():
    """Neither stochastic depth nor torch's module for additions stands in the way of the block around it."""
    dropped = Written(lambda self, x: x + self.drop(self.f(x)), f=nn.Linear(4, 4), drop=DropPath())
    added = Written(lambda self, x: self.add.add(x, self.f(x)), f=nn.Linear(4, 4), add=FloatFunctional())
    x = torch.randn(64, 4)
    gated = phase_out(nn.Sequential(dropped, added), x)
    assert list(gates(gated)) == ["0.gate", "1.gate"]
    nn.init.ones_(gates(gated)["0.gate"].alpha)
    gone = (gated[0].train()(x) == 0).all(1)
    assert gone.any()
    assert not gone.all()
