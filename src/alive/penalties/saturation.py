"""Two more constraints of a Jumpstart: a ceiling on pre-activations, and both saturations of tanh and sigmoid.

The separation constraints keep an extreme from falling short; these keep one from going too far. They are measured in
plain torch, on the points of this process.
"""

from __future__ import annotations

from dataclasses import replace

import torch
from torch import Tensor, nn

from ..functional import Activation, Separation
from ..provenance import Grid
from ..taps import Call, Declared

# Saturated where the slope is below 0.1 (tanh), or below 0.1 of its largest (sigmoid).
TWO_SIDED: dict[type[nn.Module], Activation] = {
    nn.Tanh: Activation("tanh", cutoff=-1.8184464592320668, ceiling=1.8184464592320668, straight_from=float("inf")),
    nn.Sigmoid: Activation("sigmoid", cutoff=-3.636892918464134, ceiling=3.636892918464134, straight_from=float("inf")),
}
NAMES = tuple(activation.name for activation in TWO_SIDED.values())


class Saturation:
    """Measures, in each pass that trains, by how much extremes of z pass a ceiling or stay saturated."""

    def __init__(self, rule: Separation, *, ceiling: float | None, two_sided: bool) -> None:
        self._rule, self._ceiling, self._two_sided = rule, ceiling, two_sided
        self._ends: list[tuple[Activation, dict[str, tuple[Tensor, Tensor]]]] = []
        self.has_met = False  # a two-sided activation, in any pass

    def forget(self) -> None:
        """Drop what was measured."""
        self._ends = []

    def takes(self, call: Call) -> bool:
        """Note the ends of a layer; whether its activation is two-sided, so that nothing else is asked of it."""
        layout, activation = call.tap.layout, call.tap.activation
        if layout.known and isinstance(layout.place, Grid):
            z = layout.arrange(call.z, call.points)  # [N, C, positions]
            self._note(z.to(torch.promote_types(z.dtype, torch.float32)), activation)
        self.has_met |= activation.name in NAMES
        return activation.name in NAMES

    def _note(self, z: Tensor, activation: Activation) -> None:
        ends = {}
        for axis in self._rule.satisfiable_axes(z.shape):
            over = self._rule.over(axis, z.ndim)
            ends[axis] = z.amax(over).flatten(), z.amin(over).flatten()
        self._ends.append((activation, ends))

    def _slack(self, activation: Activation, top: Tensor, bottom: Tensor) -> Tensor:
        s = torch.zeros_like(top) if self._ceiling is None else torch.relu(top - self._ceiling)
        if self._two_sided and activation.name in NAMES:
            on, off = self._rule.shares
            s = s + on * torch.relu(self._rule.pos_margin + activation.cutoff - top)
            s = s + off * torch.relu(self._rule.neg_margin - activation.ceiling + bottom)
        return s

    def total(self, like: Tensor) -> Tensor:
        """For each axis the mean over layers of the mean of squares; of these the sum, since the last total."""
        by_axis: dict[str, list[Tensor]] = {}
        for activation, ends in self._ends:
            for axis, (top, bottom) in ends.items():
                mean = self._slack(activation, top, bottom).square().mean()
                by_axis.setdefault(axis, []).append(mean.to(like.device))
        self._ends = []
        return sum((torch.stack(means).mean() for means in by_axis.values()), torch.zeros_like(like))


def declaring(declared: Declared, *, two_sided: bool) -> Declared:
    """What is declared of a model, with the two-sided activations if they are asked for."""
    return replace(declared, activations={**TWO_SIDED, **declared.activations}) if two_sided else declared
