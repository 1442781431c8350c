"""One case: a model, its data and how it is to be trained; how it is trained, and how it is scored."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import nullcontext
from dataclasses import dataclass, field, replace
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from alive.penalties import Jumpstart

from .samples import Sample

WORST = -1.0  # an R² below this, or none at all, is written as this

LOSSES: dict[str, Callable[[Tensor, Tensor], Tensor]] = {
    "ce": F.cross_entropy,
    "bce": lambda output, y: F.binary_cross_entropy_with_logits(output[:, 0], y.float()),
    "mse": F.mse_loss,
}


@dataclass(frozen=True, slots=True, eq=False)
class Case:
    """A model as its owner trains it.

    penalty   keywords of `Jumpstart`, if it is trained with one
    clip      the largest norm of a gradient, if it is clipped
    extra     what the owner adds to the loss by himself, from model and inputs
    """

    model: nn.Module
    sample: Sample
    lr: float = 1e-3
    optimiser: str = "adam"
    epochs: int = 10
    batch_size: int = 64
    clip: float | None = None
    penalty: Mapping[str, Any] = field(default_factory=dict)
    extra: Callable[[nn.Module, Tensor], Tensor] | None = None
    seed: int = 0

    def loss(self, output: Tensor, y: Tensor) -> Tensor:
        """The loss of the task alone."""
        return LOSSES[self.sample.loss](output, y)

    def but(self, **changes: Any) -> Case:
        """The same with some things changed."""
        return replace(self, **changes)


def train(case: Case) -> None:
    """Train the model of a case in place; the step of a loss that is not finite is the last one."""
    chance = torch.Generator().manual_seed(case.seed)
    kind = {"adam": torch.optim.Adam, "sgd": torch.optim.SGD}[case.optimiser]
    optimiser = kind(case.model.parameters(), lr=case.lr, fused=True)  # the same steps, in half the time
    keep = Jumpstart(case.model, **case.penalty) if case.penalty else None
    case.model.train()
    with keep or nullcontext():
        for _ in range(case.epochs):
            for rows in torch.randperm(len(case.sample.train_x), generator=chance).split(case.batch_size):
                if not _step(case, optimiser, keep, rows):
                    return


def _step(case: Case, optimiser: torch.optim.Optimizer, keep: Jumpstart | None, rows: Tensor) -> bool:
    """One step over some points, as any script takes it; False if the loss was not finite."""
    x, y = case.sample.train_x[rows], case.sample.train_y[rows]
    loss = case.loss(case.model(x), y)
    if keep is not None:
        loss = loss + keep.penalty()
    if case.extra is not None:
        loss = loss + case.extra(case.model, x)
    optimiser.zero_grad()
    loss.backward()
    if case.clip is not None:
        nn.utils.clip_grad_norm_(case.model.parameters(), case.clip)
    optimiser.step()
    return bool(loss.detach().isfinite())


@torch.no_grad()
def score(model: nn.Module, sample: Sample) -> float:
    """Accuracy, or R² over all targets, on the test points."""
    model.eval()
    output = model(sample.test_x)
    if sample.loss == "ce":
        return float((output.argmax(1) == sample.test_y).double().mean())
    if sample.loss == "bce":
        return float(((output[:, 0] > 0) == (sample.test_y > 0)).double().mean())
    left = (output.double() - sample.test_y).square().sum()
    whole = (sample.test_y.double() - sample.test_y.double().mean(0)).square().sum()
    explained = float(1 - left / whole)
    return max(explained, WORST) if explained == explained else WORST
