"""A network that must go on learning: one task after the other, each with its pixels in another order."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from itertools import pairwise

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from ...data import Data
from ...diagnosis import census, dormancy
from ...penalties import Jumpstart
from ...surgery.revive import ContinualBackprop, Part, Wires, revive
from .record import Curves, Run, RunResult, Tell

METHODS = ("plain", "L2", "continual backprop", "ReDo", "Jumpstart", "revive")
LAYERS, BATCH, LOOKED_AT = 3, 16, 512
TAU = 0.1  # of dormant units, here and in ReDo


def network(inputs: int, width: int, outputs: int, seed: int) -> nn.Sequential:
    """Three hidden layers."""
    sizes = [inputs, *[width] * LAYERS]
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        hidden = [part for a, b in pairwise(sizes) for part in (nn.Linear(a, b), nn.ReLU())]
        return nn.Sequential(*hidden, nn.Linear(width, outputs))


def wires() -> dict[str, Wires]:
    """What makes and reads the units of each hidden layer."""
    return {
        str(2 * k + 1): Wires((Part(f"{2 * k}.weight"), Part(f"{2 * k}.bias")), (Part(f"{2 * k + 2}.weight", axis=1),))
        for k in range(LAYERS)
    }


def train_continual(run: Run, data: Data, tell: Tell) -> RunResult:
    """Task after task, one pass over each; the score is the accuracy on batches before they are learnt from."""
    chance = torch.Generator().manual_seed(run.seed)
    tasks = int(run.option("tasks", 50))
    x, y = data.pixels(data.train_x).flatten(1), data.train_y
    model = network(x.shape[1], run.width, data.outputs, run.seed)
    decay = float(run.option("decay", 1e-3)) if run.method == "L2" else 0.0
    optimiser = torch.optim.AdamW(model.parameters(), run.lr, weight_decay=decay, fused=True)
    curves: Curves = {name: [] for name in ("epoch", "accuracy", "dead", "dormant", "rank", "weight_norm")}
    each = run.steps // tasks
    with ExitStack() as stack:
        own = _Method(run, model, optimiser, x[: 4 * BATCH], stack)
        for task in range(tasks):
            order = torch.randperm(x.shape[1], generator=chance)
            right = 0
            for _ in range(each):
                places = torch.randint(len(x), (BATCH,), generator=chance)
                right += own.learn(x[places][:, order], y[places])
            shown = x[torch.randint(len(x), (LOOKED_AT,), generator=chance)][:, order]
            curves["accuracy"].append(right / (each * BATCH))
            _note(curves, task, model, shown)
            own.after_task(shown)
            tell((task + 1) * each)
    last = curves["accuracy"][-max(1, tasks // 5) :]
    return RunResult(curves, sum(last) / len(last), round(curves["dead"][-1] * LAYERS * run.width))


def _note(curves: Curves, task: int, model: nn.Module, x: Tensor) -> None:
    """How the network is after a task."""
    units, soft = census(model, x).units, dormancy(model, x)
    ranks = [layer.effective_rank or 0.0 for layer in soft.layers]
    norms = [layer.weight_norm or 0.0 for layer in soft.layers]
    curves["epoch"].append(float(task))
    curves["dead"].append(units.dead / units.total)
    curves["dormant"].append(soft.share(TAU) or 0.0)
    curves["rank"].append(sum(ranks) / len(ranks))
    curves["weight_norm"].append(sum(norms) / len(norms))


class _Method:
    """What is done at each step and after each task."""

    def __init__(
        self, run: Run, model: nn.Module, optimiser: torch.optim.Optimizer, example: Tensor, stack: ExitStack
    ) -> None:
        self.run, self.model, self.optimiser = run, model, optimiser
        self.penalty: Callable[[], Tensor] | None = None
        self.step: Callable[[], int] | None = None
        if run.method == "Jumpstart":
            weight = float(run.option("weight", 0.1))
            self.penalty = stack.enter_context(Jumpstart(model, weight, mode="U")).penalty
        if run.method == "continual backprop":
            rate = float(run.option("rate", 1e-3))
            self.step = stack.enter_context(ContinualBackprop(model, optimiser, example, rate=rate, seed=run.seed)).step

    def learn(self, x: Tensor, y: Tensor) -> int:
        """One step; how many were right before it."""
        logits = self.model(x)
        loss = F.cross_entropy(logits, y)
        if self.penalty is not None:
            loss = loss + self.penalty()
        self.optimiser.zero_grad()
        loss.backward()
        self.optimiser.step()
        if self.step is not None:
            self.step()
        return int((logits.argmax(1) == y).sum())

    def after_task(self, x: Tensor) -> None:
        """Reset dead units, or dormant ones."""
        if self.run.method == "revive":
            revive(self.model, census(self.model, x), self.optimiser, wires=wires(), seed=self._seed())
        if self.run.method == "ReDo":
            revive(self.model, dormancy(self.model, x), self.optimiser, tau=TAU, wires=wires(), seed=self._seed())

    def _seed(self) -> int:
        self._resets = getattr(self, "_resets", 0) + 1
        return 1000 * self.run.seed + self._resets
