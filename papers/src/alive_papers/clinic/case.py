"""One case: a model, its data and how it is to be trained; how it is trained, and how it is scored."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from alive.cures import AS_IS, find
from alive.cures.jumpstart import Weighed
from alive.cures.treatment import Treatment

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

    penalty   the owner's own, if there is one
    extra     what the owner adds to the loss by himself, from model and inputs
    make      makes the model once more, as the owner does
    """

    model: nn.Module
    sample: Sample
    lr: float = 1e-3
    optimiser: str = "adam"
    epochs: int = 10
    batch_size: int = 64
    penalty: Weighed | None = None
    extra: Callable[[nn.Module, Tensor], Tensor] | None = None
    seed: int = 0
    make: Callable[[], nn.Module] | None = None

    def loss(self, output: Tensor, y: Tensor) -> Tensor:
        """The loss of the task alone."""
        return LOSSES[self.sample.loss](output, y)

    def but(self, **changes: Any) -> Case:
        """The same with some things changed."""
        return replace(self, **changes)


def treated(case: Case, cure: str = AS_IS) -> Treatment:
    """The case under a cure; AliveError where it cannot be applied."""
    kind = {"adam": torch.optim.Adam, "sgd": torch.optim.SGD}[case.optimiser]
    cures = (*([case.penalty] if case.penalty else []), *find(cure))
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(case.seed)
        return Treatment(
            cures,
            case.model,
            lambda model: kind(model.parameters(), lr=case.lr, fused=True),  # the same steps, in half the time
            case.sample.train_x,
            case.make,
        )


def train(case: Case, treatment: Treatment | None = None) -> None:
    """Train the model of a case in place; the step of a loss that is not finite is the last one."""
    chance = torch.Generator().manual_seed(case.seed)
    with treatment or treated(case) as treatment:
        treatment.model.train()
        for _ in range(case.epochs):
            for rows in torch.randperm(len(case.sample.train_x), generator=chance).split(case.batch_size):
                x, y = case.sample.train_x[rows], case.sample.train_y[rows]
                loss = case.loss(treatment.model(x), y)
                if case.extra is not None:
                    loss = loss + case.extra(treatment.model, x)
                if not treatment.step(loss).isfinite():
                    return


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
