"""A network that must go on learning: one task after the other.

Of pixels in another order each time (Online Permuted MNIST), or of a function of bits of which one more has flipped
(slowly changing regression; Dohare and others 2024).
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from itertools import pairwise
from typing import Protocol

import torch
from torch import Generator, Tensor, nn
from torch.nn import functional as F

from alive.data import Data
from alive.diagnosis import census, dormancy
from alive.penalties import Jumpstart
from alive.surgery.revive import Part, Wires, revive

from .record import Curves, Run, RunResult, Tell, descend
from .ways import STATE, TAU, attach, note

METHODS = (
    *("plain", "L2", "continual backprop", "ReDo", "Jumpstart", "revive"),
    *("CCBP", "by gradient", "by firing", "L2 to the start", "clipping"),
)
LAYERS, BATCH, LOOKED_AT = 3, 16, 512


def network(inputs: int, width: int, outputs: int, seed: int, layers: int = LAYERS) -> nn.Sequential:
    """A few hidden layers."""
    sizes = [inputs, *[width] * layers]
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        hidden = [part for a, b in pairwise(sizes) for part in (nn.Linear(a, b), nn.ReLU())]
        return nn.Sequential(*hidden, nn.Linear(width, outputs))


def wires(layers: int = LAYERS) -> dict[str, Wires]:
    """What makes and reads the units of each hidden layer."""
    return {
        str(2 * k + 1): Wires((Part(f"{2 * k}.weight"), Part(f"{2 * k}.bias")), (Part(f"{2 * k + 2}.weight", axis=1),))
        for k in range(layers)
    }


class Stream(Protocol):
    """Tasks one after the other, and what the score of their points is called: 1 at best."""

    score: str
    inputs: int
    outputs: int
    example: Tensor

    def turn(self) -> None:
        """The next task begins."""

    def batch(self, size: int) -> tuple[Tensor, Tensor]:
        """Points of the present task, drawn anew."""

    def loss(self, output: Tensor, y: Tensor) -> Tensor:
        """What is to fall."""

    def right(self, output: Tensor, y: Tensor) -> float:
        """The sum of scores of a batch."""


class Permuted:
    """The images of a data set, their pixels in another order in each task."""

    score = "accuracy"

    def __init__(self, data: Data, chance: Generator) -> None:
        self.x, self.y, self.chance = data.pixels(data.train_x).flatten(1), data.train_y, chance
        self.inputs, self.outputs, self.example = self.x.shape[1], data.outputs, self.x[: 4 * BATCH]

    def turn(self) -> None:
        """Another order."""
        self.order = torch.randperm(self.inputs, generator=self.chance)

    def batch(self, size: int) -> tuple[Tensor, Tensor]:
        """Any images."""
        places = torch.randint(len(self.x), (size,), generator=self.chance)
        return self.x[places][:, self.order], self.y[places]

    def loss(self, output: Tensor, y: Tensor) -> Tensor:
        """Cross entropy."""
        return F.cross_entropy(output, y)

    def right(self, output: Tensor, y: Tensor) -> float:
        """How many images are named right."""
        return int((output.argmax(1) == y).sum())


class Drifting:
    """Bits, −1 or 1, and a fixed function of them: a sum of the signs of a hundred sums, each with a random share.

    Of twenty bits fifteen keep their values through a task, and one of these flips where the next begins; five are
    drawn with each point.
    """

    score = "explained"
    STEADY, FREE, THRESHOLDS = 15, 5, 100

    def __init__(self, chance: Generator) -> None:
        self.chance, self.inputs, self.outputs = chance, self.STEADY + self.FREE, 1
        self.example = torch.zeros(4 * BATCH, self.inputs)
        self.bits = self._bits(self.STEADY)
        self.signs = self._bits(self.THRESHOLDS, self.inputs)
        self.share = 0.2 * torch.randn(self.THRESHOLDS, generator=chance)

    def _bits(self, *shape: int) -> Tensor:
        return 2.0 * torch.randint(2, shape, generator=self.chance) - 1

    def turn(self) -> None:
        """One of the steady bits flips."""
        self.bits[torch.randint(self.STEADY, (1,), generator=self.chance)] *= -1

    def batch(self, size: int) -> tuple[Tensor, Tensor]:
        """The steady bits, and others."""
        x = torch.cat([self.bits.expand(size, -1), self._bits(size, self.FREE)], 1)
        return x, ((x @ self.signs.T).sign() @ self.share)[:, None]

    def loss(self, output: Tensor, y: Tensor) -> Tensor:
        """The mean of squares."""
        return F.mse_loss(output, y)

    def right(self, output: Tensor, y: Tensor) -> float:
        """Of each target the share that is explained, by the spread of all targets: 4 is 100 times 0.2 squared."""
        return float((1 - (output - y).square() / 4).sum())


def train_continual(run: Run, data: Data, tell: Tell) -> RunResult:
    """Online Permuted MNIST."""
    chance = torch.Generator().manual_seed(run.seed)
    return train_on(Permuted(data, chance), run, tell)


def train_drift(run: Run, data: Data, tell: Tell) -> RunResult:
    """Slowly changing regression; the data are not read."""
    return train_on(Drifting(torch.Generator().manual_seed(run.seed)), run, tell)


def train_on(stream: Stream, run: Run, tell: Tell) -> RunResult:
    """Task after task, one pass over each; the score is that of batches before they are learnt from."""
    tasks, layers = int(run.option("tasks", 50)), int(run.option("layers", LAYERS))
    model = network(stream.inputs, run.width, stream.outputs, run.seed, layers)
    decay = float(run.option("decay", 1e-3)) if run.method == "L2" else 0.0
    optimiser = torch.optim.AdamW(model.parameters(), run.lr, weight_decay=decay, fused=True)
    curves: Curves = {name: [] for name in ("epoch", stream.score, *STATE)}
    each = run.steps // tasks
    with ExitStack() as stack:
        own = _Method(run, model, optimiser, stream, stack)
        for task in range(tasks):
            stream.turn()
            right = sum(own.learn(*stream.batch(BATCH)) for _ in range(each))
            shown, _ = stream.batch(LOOKED_AT)
            curves[stream.score].append(right / (each * BATCH))
            curves["epoch"].append(float(task))
            note(curves, model, shown)
            own.after_task(shown)
            tell((task + 1) * each)
    last = curves[stream.score][-max(1, tasks // 5) :]
    return RunResult(curves, sum(last) / len(last), round(curves["dead"][-1] * layers * run.width))


class _Method:
    """What is done at each step and after each task."""

    def __init__(
        self,
        run: Run,
        model: nn.Module,
        optimiser: torch.optim.Optimizer,
        stream: Stream,
        stack: ExitStack,
    ) -> None:
        self.run, self.model, self.optimiser, self.stream = run, model, optimiser, stream
        self.wires = wires(int(run.option("layers", LAYERS)))
        self.penalty: Callable[[], Tensor] | None = None
        options = run.options_without("tasks", "layers")
        if run.method == "Jumpstart":
            self.penalty = stack.enter_context(Jumpstart(model, float(options["weight"]), mode="U")).penalty
        attach(run.method, model, optimiser, stream.example, stack, seed=run.seed, **options)

    def learn(self, x: Tensor, y: Tensor) -> float:
        """One step; how much was right before it."""
        output = self.model(x)
        loss = self.stream.loss(output, y)
        if self.penalty is not None:
            loss = loss + self.penalty()
        descend(self.optimiser, loss)
        return self.stream.right(output.detach(), y)

    def after_task(self, x: Tensor) -> None:
        """Reset dead units, or dormant ones."""
        if self.run.method == "revive":
            revive(self.model, census(self.model, x), self.optimiser, wires=self.wires, seed=self._seed())
        if self.run.method == "ReDo":
            revive(self.model, dormancy(self.model, x), self.optimiser, tau=TAU, wires=self.wires, seed=self._seed())

    def _seed(self) -> int:
        self._resets = getattr(self, "_resets", 0) + 1
        return 1000 * self.run.seed + self._resets
