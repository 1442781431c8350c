"""What it costs to follow models in which Python and the data decide what runs, in forward passes of CPU time."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from alive.diagnosis import census

from .figure import Figure, interleaved

FIRST, LATER = 10.0, 3.0  # forward passes that the first batch may take, and each later one
SOME = 4  # later batches


class Experts(nn.Module):
    """Each token goes to two of eight experts, one after the other, as it is written by hand."""

    def __init__(self, width: int, hidden: int, experts: int = 8) -> None:
        super().__init__()
        self.router = nn.Linear(width, experts)
        self.experts = nn.ModuleList(
            nn.Sequential(nn.Linear(width, hidden), nn.ReLU(), nn.Linear(hidden, width)) for _ in range(experts)
        )

    def forward(self, h: Tensor) -> Tensor:
        """The sum of what the chosen experts say."""
        weight, chosen = self.router(h).softmax(-1).topk(2, -1)
        out = torch.zeros_like(h)
        for e, expert in enumerate(self.experts):
            rows, slot = (chosen == e).nonzero(as_tuple=True)
            out.index_add_(0, rows, weight[rows, slot, None] * expert(h[rows]))
        return h + out


class Masked(nn.Module):
    """Only rows above the mean go on."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.before, self.after, self.head = nn.Linear(width, width), nn.Linear(width, width), nn.Linear(width, 10)

    def forward(self, x: Tensor) -> Tensor:
        """Logits of the rows that go on."""
        z = F.relu(self.before(x))
        sums = z.sum(1)
        y: Tensor = self.head(F.relu(self.after(z[sums > sums.mean()])))
        return y


class Steps(nn.Module):
    """A recurrence in Python, a step for each position."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.given, self.state, self.head = nn.Linear(width, width), nn.Linear(width, width), nn.Linear(width, 10)

    def forward(self, x: Tensor) -> Tensor:
        """Logits of the last state."""
        h = x.new_zeros(len(x), x.shape[2])
        for t in range(x.shape[1]):
            h = F.relu(self.given(x[:, t]) + self.state(h) * 0.5)
        y: Tensor = self.head(h)
        return y


def figures(rounds: int) -> Iterator[Figure]:
    """Forward passes that the first batch of a census takes, and each one from the third on."""
    torch.manual_seed(0)
    experts = nn.Sequential(nn.Linear(64, 64), Experts(64, 256), Experts(64, 256), nn.Linear(64, 10))
    cases: dict[str, tuple[nn.Module, Tensor, int]] = {
        "2x8 experts, 2048 tokens": (experts, torch.randn(2048, 64), rounds),
        "x[mask], 2048 rows": (Masked(64), torch.randn(2048, 64), rounds),
        "200 steps in Python": (Steps(32), torch.randn(64, 200, 32), rounds),
        "2000 steps in Python": (Steps(32), torch.randn(64, 2000, 32), max(1, rounds // 5)),
    }
    for name, (model, x, times) in cases.items():
        first, later = _passes(model.eval(), x, times)
        yield Figure(f"first batch of a census / forward passes, {name}", first, FIRST)
        yield Figure("each batch from the third on", later, LATER)


def _passes(model: nn.Module, x: Tensor, rounds: int) -> tuple[float, float]:
    def plain() -> None:
        with torch.no_grad():
            model(x)

    rivals: dict[str, Callable[[], object]] = {
        "plain": plain,
        "one": lambda: census(model, [x]),
        "two": lambda: census(model, [x] * 2),  # the second is followed too, to see whether it goes another way
        "some": lambda: census(model, [x] * (2 + SOME)),
    }
    taken = interleaved(rivals, rounds, clock=time.process_time)
    return taken["one"] / taken["plain"], (taken["some"] - taken["two"]) / SOME / taken["plain"]
