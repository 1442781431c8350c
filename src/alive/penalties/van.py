"""Phasing skip connections out: the steps on α and on its Lagrange multipliers (002, eqs 7 and 8)."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import NamedTuple

import torch
from torch import Tensor, nn

from ..errors import AliveError, expect, near
from ..nn.van import Gate
from .schedule import Schedule

PRESETS = ("latched", "literal", "figure2")
FIGURE2_STEPS = 46_900  # about 120 epochs of CIFAR in batches of 128, where Figure 2 has the skips gone
TRACE = 256  # most points a trace keeps


class Trace(NamedTuple):
    """Where a phase-out stood after a step."""

    step: int
    residual: float
    multiplier: float


def phase_out_time(eta: float, ratio: float, lambda0: float = -1.0) -> float:
    """Steps until α = 1, the task's gradient left out: arctan(√r/|λ₀|) / (η √r).

    >>> round(phase_out_time(0.001, 0.5)), round(phase_out_time(0.1, 0.1))
    (870, 10)
    """
    root = math.sqrt(ratio)
    return math.atan(root / abs(lambda0)) / (eta * root)


def step_size(steps: float, ratio: float, lambda0: float = -1.0) -> float:
    """η such that α = 1 after so many steps; the inverse of `phase_out_time`.

    >>> step_size(phase_out_time(0.001, 0.5), 0.5)
    0.001
    """
    return phase_out_time(1.0, ratio, lambda0) / steps


class VANController:
    """Moves the α of every gate of a model to 1, a little after each step of the weights.

    After the backward pass and the optimiser's step call `step()`:
    α <- clip(α - η(∂C/∂α + λ), 0, 1), then λ <- λ + rη(α - 1) with the new α. The optimiser must not own the α:
    give it `weights()`. All state lies in the gates, so it is saved and loaded with the model.

    eta              η, a number or a Schedule moved by `set_progress`; in the paper the weights' own
    ratio            r, the multipliers' step relative to η: .5 on MNIST, .1 on CIFAR
    lambda0          λ at the start; 0 keeps it at 0: α is learned and never forced
    phase_out_steps  instead of eta: η such that the last skip is gone after so many steps
    preset           latched: an α that has come to 1 stays there, so that the network can be folded to the bit, where
                     otherwise a late gradient opens it by some 1e-6 again; literal: the paper's equations and nothing
                     else; figure2: latched, with phase_out_steps of 46 900, the 120 epochs of the paper's Figure 2.
                     With lambda0 = 0, where α is free, nothing is latched
    momentum         of the step on α; its velocity is zeroed where α meets a bound
    starts           the step at which each gate begins, by path, each then taking all phase_out_steps; by default
                     gates of rank k wait for k phase-outs, which share the steps

    Differs from the paper: its CIFAR settings would remove all skips in 10 steps, its Figure 2 shows about 120
    epochs; so η is free of the learning rate.

    >>> from alive.nn.van import VANBlock, dense_branch
    >>> model = nn.Sequential(VANBlock(dense_branch(4), channels=4), nn.Linear(4, 2))
    >>> control = VANController(model, phase_out_steps=20)
    >>> for _ in range(21):
    ...     model(torch.randn(8, 4)).square().mean().backward()
    ...     control.step()
    >>> control.done, control.residual()
    (True, 0.0)
    """

    def __init__(
        self,
        model: nn.Module,
        eta: float | Schedule | None = None,
        *,
        ratio: float = 0.5,
        lambda0: float = -1.0,
        phase_out_steps: int | None = None,
        preset: str = "latched",
        momentum: float = 0.0,
        starts: Mapping[str, int] | None = None,
    ) -> None:
        if preset == "figure2" and phase_out_steps is None:
            phase_out_steps = FIGURE2_STEPS
        _expect_settings(eta, ratio, lambda0, phase_out_steps, preset, momentum)
        self.gates = {path: module for path, module in model.named_modules() if isinstance(module, Gate)}
        if not self.gates:
            raise AliveError(
                f"{type(model).__name__} has no gate on a skip connection",
                "Build it from VANBlocks, or gate its skips with alive.surgery.phase_out",
            )
        self.ratio, self.lambda0, self.momentum = ratio, lambda0, momentum
        self.phase_out_steps, self._model = phase_out_steps, model
        self.latched = preset != "literal" and lambda0 != 0
        turns = 1 + max(gate.rank for gate in self.gates.values()) if starts is None else 1
        free = step_size((phase_out_steps or 1) / turns, ratio, lambda0) if eta is None else eta
        self.schedule = free if isinstance(free, Schedule) else Schedule(free)
        self.eta = self.schedule(0.0)
        self.starts = self._starts(starts)
        self.traces: list[Trace] = []
        self._stride = 1
        for gate in self.gates.values():
            if not gate.steps:
                gate.multiplier.fill_(lambda0)

    def __repr__(self) -> str:
        waits = {path: start for path, start in self.starts.items() if start}
        more = f", momentum={self.momentum}" if self.momentum else ""
        later = f", starts={waits}" if waits else ""
        latched = ", latched" if self.latched else ""
        return f"VANController({self.schedule}, ratio={self.ratio}, lambda0={self.lambda0}{more}{later}{latched})"

    def __enter__(self) -> VANController:
        return self

    def __exit__(self, *_: object) -> None:
        """Nothing is attached: all state lies in the gates, and stays."""

    def weights(self) -> list[nn.Parameter]:
        """The parameters of the model that are left to the optimiser."""
        mine = {id(alpha) for alpha in self.owned()}
        return [parameter for parameter in self._model.parameters() if id(parameter) not in mine]

    def owned(self) -> list[nn.Parameter]:
        """Every α: moved here, and kept from the optimiser and from weight decay."""
        return [gate.alpha for gate in self.gates.values()]

    def penalty(self) -> Tensor:
        """Zero: the constraint acts on α directly, not through the loss."""
        return torch.zeros((), device=self.owned()[0].device)

    def set_progress(self, fraction: float) -> None:
        """Tell the schedule of η how much of training is done, from 0 to 1."""
        self.eta = self.schedule(fraction)

    @torch.no_grad()
    def step(self) -> None:
        """Move every α against its gradient and multiplier, then every multiplier; forget the gradients of α."""
        for path, gate in self.gates.items():
            if not self.starts[path] or gate.steps >= self.starts[path]:
                self._move(gate)
            gate.steps += 1
            gate.alpha.grad = None
        self._trace()

    def after_step(self) -> None:
        """Do the same as `step`, under the name by which a training loop calls it."""
        self.step()

    def residual(self) -> float:
        """Mean of (1-α)² over all entries of a gate and over the gates (002, Figure 2)."""
        return math.fsum(gate.residual() for gate in self.gates.values()) / len(self.gates)

    def multiplier(self) -> float:
        """Mean multiplier over all entries of a gate and over the gates (002, Figure 5)."""
        return math.fsum(float(gate.multiplier.mean()) for gate in self.gates.values()) / len(self.gates)

    @property
    def done(self) -> bool:
        """Whether every α is exactly 1."""
        return all(bool((gate.alpha == 1).all()) for gate in self.gates.values())

    def _move(self, gate: Gate) -> None:
        """Eqs 7 and 8 on one gate; a gate that was not used has no gradient, which counts as zero."""
        slope = gate.multiplier if gate.alpha.grad is None else gate.alpha.grad + gate.multiplier
        if self.momentum:
            gate.velocity.mul_(self.momentum).add_(slope)
            slope = gate.velocity
        shut = gate.alpha == 1
        gate.alpha.sub_(self.eta * slope)
        if self.momentum:
            gate.velocity.masked_fill_((gate.alpha <= 0) | (gate.alpha >= 1), 0.0)
        gate.alpha.clamp_(0, 1)
        if self.latched:
            gate.alpha.masked_fill_(shut, 1.0)
        if self.lambda0:
            gate.multiplier.add_(gate.alpha - 1, alpha=self.ratio * self.eta)

    def _starts(self, starts: Mapping[str, int] | None) -> dict[str, int]:
        if starts is None:
            wait = phase_out_time(self.eta, self.ratio, self.lambda0) if self.lambda0 else 0.0
            return {path: int(gate.rank * wait) for path, gate in self.gates.items()}
        for path in starts:
            if path not in self.gates:
                raise AliveError(f"starts names {path!r}, which is no gate of the model", near(path, self.gates))
        return {path: starts.get(path, 0) for path in self.gates}

    def _trace(self) -> None:
        """Note the state every few steps; a full trace drops every second point and goes on half as often."""
        at = int(next(iter(self.gates.values())).steps)
        if at % self._stride:
            return
        self.traces.append(Trace(at, self.residual(), self.multiplier()))
        if len(self.traces) > TRACE:
            self._stride *= 2
            self.traces = [point for point in self.traces if point.step % self._stride == 0]


def _expect_settings(
    eta: float | Schedule | None, ratio: float, lambda0: float, steps: int | None, preset: str, momentum: float
) -> None:
    """All faults of a controller together."""
    start = eta.start if isinstance(eta, Schedule) else eta
    expect(
        [
            (preset in PRESETS, f"unknown preset {preset!r}: {near(preset, PRESETS)}"),
            (
                (eta is None) != (steps is None),
                "say either eta or phase_out_steps (the preset 'figure2' says the steps), not both and not neither",
            ),
            (start is None or 0 < start < math.inf, f"eta must be finite and above 0, got {start}"),
            (steps is None or steps >= 1, f"phase_out_steps must be at least 1, got {steps}"),
            (steps is None or lambda0 != 0, "lambda0 = 0 never forces a skip out: say eta, not phase_out_steps"),
            (0 < ratio < math.inf, f"ratio must be finite and above 0, got {ratio}"),
            (-math.inf < lambda0 <= 0, f"lambda0 must be finite and at most 0, got {lambda0}"),
            (0 <= momentum < 1, f"momentum must be at least 0 and below 1, got {momentum}"),
        ]
    )
