"""What people do so that a network goes on learning: resets by several rules, and pulls on the weights."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from types import MappingProxyType
from typing import Any

import torch
from torch import Tensor, nn
from torch.optim import Optimizer

from alive.diagnosis import census, dormancy
from alive.surgery import ContinualBackprop, ContinuousBackprop, ResetByFiring, ResetByGradient
from alive.surgery.revive import Renewal

from .record import Curves

RULES: Mapping[str, type[Renewal]] = MappingProxyType(
    {
        "continual backprop": ContinualBackprop,
        "CCBP": ContinuousBackprop,
        "by gradient": ResetByGradient,
        "by firing": ResetByFiring,
    }
)
AGENTS = ("plain", "ReDo", *RULES, "L2 to the start", "clipping", "Jumpstart")
TAU = 0.1  # of dormant units, here and in ReDo
RARE = 0.01  # of the points, below which a unit is rarely on
STATE = ("dead", "rare", "dormant", "rank", "weight_norm")


def attach(
    method: str,
    model: nn.Module,
    optimiser: Optimizer,
    example: Tensor,
    stack: ExitStack,
    *,
    seed: int,
    copies: Sequence[nn.Module] = (),
    **options: Any,
) -> None:
    """Let the optimiser do at each step what a method does; the stack ends it. Other methods have no such part."""
    if method in RULES:
        stack.enter_context(RULES[method](model, optimiser, example, seed=seed, copies=copies, **options).attach())
    elif method == "L2 to the start":  # Kumar and others 2023
        starts = [(p, p.detach().clone()) for p in model.parameters()]
        pull = float(options["weight"])
        stack.callback(optimiser.register_step_pre_hook(_each(starts, _pulled, pull)).remove)
    elif method == "clipping":  # Elsayed and others 2024
        bounds = [
            (p, _bound(layer)) for layer in model.modules() if isinstance(layer, nn.Linear) for p in layer.parameters()
        ]
        stack.callback(optimiser.register_step_post_hook(_each(bounds, _clipped, float(options["bound"]))).remove)


def _each(
    pairs: Sequence[tuple[nn.Parameter, Any]], act: Callable[[nn.Parameter, Any, float], None], amount: float
) -> Any:
    def hook(*_: object) -> None:
        with torch.no_grad():
            for parameter, own in pairs:
                act(parameter, own, amount)

    return hook


def _pulled(parameter: nn.Parameter, start: Tensor, weight: float) -> None:
    """The gradient of weight · |p − start|² on top of the loss's."""
    if parameter.grad is not None:
        parameter.grad.add_(parameter - start, alpha=2 * weight)


def _bound(layer: nn.Linear) -> float:
    """How far from zero torch draws the weights and biases of a layer."""
    return float(layer.in_features**-0.5)


def _clipped(parameter: nn.Parameter, bound: float, times: float) -> None:
    parameter.clamp_(-times * bound, times * bound)


def note(curves: Curves, model: nn.Module, x: Tensor) -> None:
    """How a network is: dead, rare and dormant units, effective rank, norm of the weights; means over layers."""
    found, soft = census(model, x), dormancy(model, x)
    on = torch.cat([layer.rates.values for layer in found.layers if layer.rates is not None])
    values = (
        found.units.dead / found.units.total,
        float((on < RARE).double().mean()),
        soft.share(TAU) or 0.0,
        sum(layer.effective_rank or 0.0 for layer in soft.layers) / len(soft.layers),
        sum(layer.weight_norm or 0.0 for layer in soft.layers) / len(soft.layers),
    )
    for name, value in zip(STATE, values, strict=True):
        curves[name].append(value)
