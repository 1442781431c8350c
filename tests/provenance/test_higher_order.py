"""Operations of torch that run functions of their own: conditions, and flexible attention."""

from __future__ import annotations

import subprocess
import sys
import textwrap

import pytest
import torch
import torch.nn.functional as F
from torch import nn

import alive

FRESH = """
    import sys, torch, alive
    from torch import nn

    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.a = nn.Linear(3, 4)

        def forward(self, x):
            return torch.cond(x.sum() > 0, lambda h: h.relu() * 2, lambda h: h * 3, (self.a(x),))

    assert "torch._dynamo" not in sys.modules
    model, x = nn.Sequential(Net(), nn.ReLU()), torch.ones(6, 3)
    plain = Net()(x) if {plain} else None
    before = list(sys.meta_path)
    found = alive.census(model, x)
    assert sys.meta_path == before
    assert [layer.name for layer in found.layers] == ["1"]
    assert "0.relu" in [unseen.name for unseen in found.unseen], found.unseen
    model(x).sum().backward()
"""


@pytest.mark.parametrize("plain", [False, True])
def test_a_condition_is_followed_whether_or_not_it_ran_before(plain):
    code = textwrap.dedent(FRESH).replace("{plain}", str(plain))
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=300, check=False)
    assert not done.returncode, done.stderr


class Branches(nn.Module):
    def __init__(self):
        super().__init__()
        self.a, self.b = nn.Linear(3, 4), nn.Linear(4, 4)

    def forward(self, x):
        h = torch.cond(x.sum() > 0, lambda h: h.relu() * 2, lambda h: h * 3, (self.a(x),))
        return F.relu(self.b(h))


@pytest.mark.parametrize("signs", [(-1, 1), (1, -1)])
def test_a_branch_that_a_later_batch_takes_is_told(signs):
    found = alive.census(Branches(), [torch.full((6, 3), sign * 1.0) for sign in signs])
    assert "relu" in [unseen.name.split("#")[0] for unseen in found.unseen]


@pytest.mark.filterwarnings("ignore:flex_attention called without torch.compile")
def test_flexible_attention_gives_each_query_its_point():
    flexible = pytest.importorskip("torch.nn.attention.flex_attention").flex_attention

    class Attends(nn.Module):
        def __init__(self):
            super().__init__()
            self.q, self.a = nn.Linear(8, 8), nn.Linear(8, 4)

        def forward(self, x):
            q = self.q(x).view(len(x), 3, 2, 4).transpose(1, 2)
            causal = lambda score, b, h, i, j: torch.where(i >= j, score, -torch.inf)  # noqa: E731
            y = flexible(q, q, q, score_mod=causal).transpose(1, 2).reshape(len(x), 3, 8)
            self.z = self.a(y)
            return F.relu(self.z)

    model = Attends()
    model.a.bias.data[1] = -50.0
    found = alive.census(model, torch.linspace(-4, 4, 6)[:, None, None] + torch.randn(6, 3, 8))
    (layer,) = found.layers
    assert (layer.units.dead, layer.units.unknown) == (1, 0)
    assert (layer.points.dead, layer.points.unknown) == (int((model.z <= 0).all((1, 2)).sum()), 0)
