"""Resets by the gradient that arrives, by a test on how long a unit has been silent, and a little of each at a time."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, distributed, nn
from torch.optim import Optimizer

from ...errors import expect
from ...world import world_size
from .renewal import Renewal, Units

LONGEST = 24  # pauses of 2^24 passes and more are one kind


class ResetByGradient(Renewal):
    """Every so many steps resets units whose weights get next to no gradient (ReGraMa, Liu et al. 2025).

    A unit's score is the mean size of the gradient of its weights, relative to the mean over the layer. It is what the
    optimiser's step has left in `.grad`, so there is no further pass; units with a score of at most `tau` are reset.

    >>> model = nn.Sequential(nn.Linear(2, 8), nn.ReLU(), nn.Linear(8, 1))
    >>> _ = model[0].bias.data[:3].fill_(-9)
    >>> sgd = torch.optim.SGD(model.parameters(), 0.1)
    >>> x = torch.randn(16, 2)
    >>> with ResetByGradient(model, sgd, x, every=1, tau=0).attach() as renew:
    ...     model(x).square().mean().backward()
    ...     sgd.step()
    >>> renew.replaced >= 3
    True
    """

    watches = False

    def __init__(
        self,
        model: nn.Module,
        optimiser: Optimizer | Sequence[Optimizer] | None,
        data: Any,
        *,
        every: int = 1000,
        tau: float = 0.01,
        **options: Any,
    ) -> None:
        expect([(every >= 1, f"every must be at least 1 step, got {every}")])
        super().__init__(model, optimiser, data, **options)
        self._every, self._tau, self._steps = every, tau, 0

    def step(self) -> int:
        """Count, and look at the gradients where it is time."""
        self._steps += 1
        return super().step() if self._steps % self._every == 0 else 0

    def renew(self, own: Units, *told: Tensor) -> None:
        """Reset those that the gradient hardly reaches."""
        self.reset(own, (self.arrived(own) <= self._tau).nonzero().flatten())


class ContinuousBackprop(ResetByGradient):
    """Every so many steps moves units some way to a new draw, the further the less they learn (CCBP, ICLR 2026).

    The utility u of a unit is a running mean of its gradient score (`ResetByGradient`), beginning at 1 after each move.
    Its weights in move by the share rate · min(1, exp(−sharpness · (u − threshold))) to freshly drawn ones, its weights
    out by as much to zero. Biases and the optimiser's state stay, as in the authors' code.
    """

    def __init__(
        self,
        model: nn.Module,
        optimiser: Optimizer | Sequence[Optimizer] | None,
        data: Any,
        *,
        every: int = 1000,
        rate: float = 0.01,
        sharpness: float = 16.0,
        threshold: float = 0.95,
        decay: float = 0.99,
        **options: Any,
    ) -> None:
        expect([(0 <= rate <= 1, f"rate must lie between 0 and 1, got {rate}")])
        expect([(0 <= decay < 1, f"decay must lie between 0 and 1, got {decay}")])
        super().__init__(model, optimiser, data, every=every, **options)
        self._rate, self._sharpness, self._threshold, self._decay = rate, sharpness, threshold, decay
        self._utility = {own.name: torch.ones(own.count, dtype=torch.float64) for own in self._layers}
        self.moved = 0.0  # shares of units, summed up

    @torch.no_grad()
    def step(self) -> int:
        """Follow the gradients in every step."""
        for own in self._layers:
            self._utility[own.name].lerp_(self.arrived(own), 1 - self._decay)
        return super().step()

    def renew(self, own: Units, *told: Tensor) -> None:
        """Move every unit some way."""
        useful = self._utility[own.name]
        shares = self._rate * torch.exp(-self._sharpness * (useful - self._threshold)).clamp(max=1)
        bench = self.bench()
        for part in own.wires.into:
            if bench.note(part.name).dim() > 1:
                bench.blend(part, shares, bench.drawn(part))
        for part in own.wires.out:
            bench.blend(part, shares, 0.0)
        self.moved += float(shares.sum())
        self._seed += 1  # another draw each time
        useful.fill_(1)


class ResetByFiring(Renewal):
    """Resets units that are silent for longer than their own past makes likely (self-normalised resets, ICLR 2025).

    Of each unit it is counted how many passes of training it was silent between two in which it was on. A unit that
    has been silent so long that at most a share of `level` of its own pauses were as long is reset. Pauses are counted
    in powers of two; one that a reset ended counts as well, so that the limit of a unit that is reset again and again
    doubles. Before a unit has had 1 / `level` pauses, and however steadily it was on, the limit is `patience` passes.

    >>> model = nn.Sequential(nn.Linear(2, 8), nn.ReLU(), nn.Linear(8, 1))
    >>> _ = model[0].bias.data[:3].fill_(-9)
    >>> x = torch.randn(16, 2)
    >>> with ResetByFiring(model, None, x, patience=5) as renew:
    ...     counts = [(model(x), renew.step())[1] for _ in range(6)]
    >>> counts[:4], counts[4] >= 3
    ([0, 0, 0, 0], True)
    """

    def __init__(
        self,
        model: nn.Module,
        optimiser: Optimizer | Sequence[Optimizer] | None,
        data: Any,
        *,
        level: float = 0.02,
        patience: int = 100,
        **options: Any,
    ) -> None:
        expect([(0 < level < 1, f"level must lie between 0 and 1, got {level}")])
        expect([(patience >= 1, f"patience must be at least 1 pass, got {patience}")])
        super().__init__(model, optimiser, data, **options)
        self._level, self._patience = level, patience
        self._pauses = {own.name: torch.zeros(own.count, LONGEST) for own in self._layers}
        self._silent = {own.name: torch.zeros(own.count) for own in self._layers}

    def told(self, rows: Tensor) -> tuple[Tensor, ...]:
        """Whether each unit was on anywhere."""
        return ((rows > 0).any(2).any(0).float().cpu(),)

    def renew(self, own: Units, *told: Tensor) -> None:
        """Reset those whose pause is too long for them."""
        if world_size() > 1:
            distributed.all_reduce(told[0], distributed.ReduceOp.MAX)
        on, silent, pauses = told[0] > 0, self._silent[own.name], self._pauses[own.name]
        silent += 1
        due = ~on & (silent >= self.limits(own.name))
        ended = (on | due).nonzero().flatten()
        passes = torch.where(on, silent - 1, silent)[ended]
        pauses[ended, passes.add(1).log2().long().clamp(max=LONGEST - 1)] += 1
        silent[ended] = 0
        self.reset(own, due.nonzero().flatten())

    def limits(self, name: str) -> Tensor:
        """For how many passes each unit of a layer may be silent [C]: a power of two, at least the patience."""
        pauses = self._pauses[name]
        seen = pauses.sum(1, keepdim=True)
        shorter = pauses.cumsum(1) >= (1 - self._level) * seen  # of 2^(k+1) − 1 passes
        limit = 2.0 ** (1 + shorter.int().argmax(1)) - 1
        return torch.where(seen[:, 0] * self._level >= 1, limit, 0).clamp(min=self._patience)
