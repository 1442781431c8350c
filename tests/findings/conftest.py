"""Networks with known findings, as a user's module."""

from __future__ import annotations

import pytest

MINE = """
import torch
from torch import nn
from torch.nn import functional as F


class Net(nn.Module):
    def __init__(self, low=0.0):
        super().__init__()
        self.a, self.b, self.c = nn.Linear(2, 6), nn.Linear(6, 4), nn.Linear(4, 1)
        with torch.no_grad():
            self.a.weight.copy_(torch.tensor([[1.0, 0], [1, 0], [1, 0], [-1, 0], [0, 1], [0, -1]]))
            self.a.bias.copy_(torch.tensor([0.0, -99, 99, 0, 0, 0]))  # the second is dead, the third linear
            self.b.weight.zero_()
            for row, (plus, minus) in enumerate([(0, 3), (3, 0), (4, 5), (5, 4)]):
                self.b.weight[row, plus], self.b.weight[row, minus] = 1, -1
            self.b.bias.fill_(low)

    def forward(self, x):
        x = F.relu(self.a(x))
        return self.c(torch.relu(self.b(x)))


class Mixed(nn.Module):
    def __init__(self):
        super().__init__()
        self.a, self.b = nn.Linear(2, 3), nn.Linear(30, 5)

    def forward(self, x):
        return torch.relu(self.b(self.a(x).transpose(0, 1)))  # b sums over the points


def make_model():
    return Net()


def drowned():
    return Net(-1e4)


def healthy():
    net = nn.Sequential(nn.Linear(2, 4), nn.ReLU(), nn.Linear(4, 1))
    with torch.no_grad():
        net[0].weight.copy_(torch.cat([torch.eye(2), -torch.eye(2)]))
        net[0].bias.zero_()
    return net


def plain():
    net = healthy()
    net[0].bias.data.fill_(-99.0)
    return net


def broken():
    net = healthy()
    net[0].bias.data[0] = float("nan")
    return net


def alike():
    net = healthy()
    for p in net.parameters():
        p.data.fill_(0.5)
    return net


def merged():
    net = nn.Sequential(nn.Linear(2, 3), nn.ReLU(), nn.Linear(3, 3), nn.ReLU(), nn.Linear(3, 1))
    for layer in (net[0], net[2]):
        layer.weight.data.mul_(1e-6)
        layer.bias.data.copy_(torch.tensor([1.0, 2.0, -1e-7]))
    return net


def vanished():
    torch.manual_seed(0)
    net = nn.Sequential(nn.Linear(2, 8), nn.ReLU(), nn.Linear(8, 8), nn.ReLU(), nn.Linear(8, 1))
    net[0].bias.data.zero_()
    net[2].weight.data.mul_(1e-9)
    net[2].bias.data.zero_()
    return net


def exploded():
    torch.manual_seed(0)
    net = nn.Sequential(nn.Linear(2, 8), nn.ReLU(), nn.Linear(8, 8), nn.ReLU(), nn.Linear(8, 1))
    net[2].weight.data.mul_(1e9)
    return net


def mixed():
    return Mixed()


class Sorted(nn.Module):
    def __init__(self):
        super().__init__()
        self.a = nn.Linear(2, 5)

    def forward(self, x):
        return torch.relu(self.a(x).sort(1)[0])  # which unit lies where depends on the point


def sorted_():
    return Sorted()


def recurrent():
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.rnn, self.a = nn.RNN(2, 3, nonlinearity="relu", batch_first=True), nn.Linear(3, 3)

        def forward(self, x):
            return torch.relu(self.a(self.rnn(x[:, None])[0][:, 0]))

    return Net()


def normed():
    return nn.Sequential(nn.Linear(2, 6), nn.BatchNorm1d(6), nn.ReLU(), nn.Linear(6, 1))


def make_data():
    return torch.randn(30, 2, generator=torch.Generator().manual_seed(1))


def large():
    return 1e4 * make_data()
"""


@pytest.fixture
def mine(tmp_path, monkeypatch):
    """A folder with a module of models."""
    (tmp_path / "mine.py").write_text(MINE)
    monkeypatch.chdir(tmp_path)
    return tmp_path
