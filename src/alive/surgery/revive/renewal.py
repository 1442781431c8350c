"""Continual backprop: after each step a few grown-up units that tell the rest least are replaced."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, distributed, nn
from torch.optim import Optimizer

from ...diagnosis import dormancy
from ...errors import AliveError, expect
from ...provenance import Grid
from ...taps import Call, Taps, Watcher, bare
from ...world import world_size
from ..graph.calls import Calls
from .numbers import Bench, optimisers_of
from .targets import targets
from .ways import by_utility, utility
from .wires import Wired, Wires, wires_of

POINTS = 64  # on which the graph is followed


@dataclass(slots=True, eq=False)
class _Grown:
    """The units of one layer: running means of what they tell, of how much, of their utility; their ages [C]."""

    wires: Wires
    told: Tensor
    useful: Tensor
    age: Tensor
    owed: float = 0.0


class ContinualBackprop(Watcher):
    """Replaces units of least utility while a model trains (Dohare et al., Nature 2024); `step` after each step.

    A unit's utility is a running mean of |h| times the sum of the sizes of the weights that read it. Of the units
    older than `maturity` steps a share of `rate` a step is replaced: weights in drawn anew, weights out zero, their
    mean taken over by the next bias, and the optimiser's state of exactly these units set to zero.

    data   a few points, of which the graph of the model is read
    left   layers whose units cannot be replaced, and why

    >>> model = nn.Sequential(nn.Linear(2, 8), nn.ReLU(), nn.Linear(8, 1))
    >>> sgd = torch.optim.SGD(model.parameters(), 0.1)
    >>> x = torch.randn(16, 2)
    >>> with ContinualBackprop(model, sgd, x, rate=0.25, maturity=2) as renew:
    ...     for _ in range(4):
    ...         loss = model(x).square().mean()
    ...         sgd.zero_grad()
    ...         loss.backward()
    ...         sgd.step()
    ...         _ = renew.step()
    >>> renew.replaced
    3
    """

    def __init__(
        self,
        model: nn.Module,
        optimiser: Optimizer | Sequence[Optimizer] | None,
        data: Any,
        *,
        rate: float = 1e-4,
        maturity: int = 100,
        decay: float = 0.99,
        seed: int = 0,
    ) -> None:
        expect(
            [
                (0 <= rate <= 1, f"rate must lie between 0 and 1, got {rate}"),
                (0 < decay < 1, f"decay must lie between 0 and 1, got {decay}"),
                (maturity >= 1, f"maturity must be at least 1 step, got {maturity}"),
            ]
        )
        self._root = bare(model)
        self._optimisers = optimisers_of(optimiser)
        self._rate, self._maturity, self._decay, self._seed = rate, maturity, decay, seed
        self.replaced = 0
        self.left: dict[str, str] = {}
        self._layers = self._found(data)
        self._seen: dict[str, tuple[Tensor, Tensor]] = {}
        self._taps = Taps(model, self)

    def __enter__(self) -> ContinualBackprop:
        return self

    def __exit__(self, *_: object) -> None:
        self.detach()

    def detach(self) -> None:
        """Leave the model as it was found, with what was replaced."""
        self._taps.remove()

    def _found(self, data: Any) -> dict[str, _Grown]:
        call = Calls(data, self._root).first()
        trial = call.rows(torch.arange(min(call.points, POINTS)))
        reading = Wired.of(self._root, trial)
        layers = {}
        for target in targets(dormancy(self._root, data), (), None):
            wires = wires_of(reading, target.made_by)
            if isinstance(wires, str) or wires.units(self._root) != target.count:
                self.left[target.label] = wires if isinstance(wires, str) else "only a part of its units is counted"
            else:
                zeros = torch.zeros(target.count, dtype=torch.float64)
                layers[target.name] = _Grown(wires, zeros.clone(), zeros.clone(), zeros.clone())
        if not layers:
            raise AliveError(
                "no layer's units can be replaced: " + "; ".join(f"{name}: {why}" for name, why in self.left.items()),
                "Continual backprop is for dense layers and convolutions whose readers can be found",
            )
        return layers

    # As a watcher of the model's passes.

    def begin(self) -> None:
        """A pass begins."""
        self._seen = {}

    def watch(self, call: Call) -> Any:
        """Note what the units tell, if it is a pass of training."""
        h = call.activate()
        layout = call.tap.layout
        fit = isinstance(h, Tensor) and layout.known and isinstance(layout.place, Grid)
        if call.tap.name in self._layers and self._root.training and fit:
            rows = layout.arrange(h.detach(), call.points)
            self._seen[call.tap.name] = rows.mean((0, 2)).double().cpu(), rows.abs().mean((0, 2)).double().cpu()
        return h

    def step(self) -> int:
        """After the optimiser's step: update the utilities of the last pass, and replace who is due; how many."""
        before = self.replaced
        for name, (told, size) in self._seen.items():
            if world_size() > 1:
                for number in (told, size):
                    distributed.all_reduce(number)
                    number /= world_size()
            self._renew(self._layers[name], told, size)
        self._seen = {}
        return self.replaced - before

    @torch.no_grad()
    def _renew(self, own: _Grown, told: Tensor, size: Tensor) -> None:
        own.age += 1
        own.told.lerp_(told, 1 - self._decay)
        own.useful.lerp_(utility(self._root, own.wires, size), 1 - self._decay)
        grown = (own.age > self._maturity).nonzero().flatten()
        own.owed += self._rate * len(grown)
        due = min(int(own.owed), len(grown))
        if not due:
            return
        own.owed -= due
        settled = 1 - self._decay**own.age  # as young means are small
        units = grown[(own.useful / settled)[grown].argsort()[:due]]
        bench = Bench(self._root, self._optimisers, self._seed + self.replaced)
        by_utility(bench, own.wires, units, own.told / settled)
        bench.forget()
        for numbers in (own.told, own.useful, own.age):
            numbers[units] = 0
        self.replaced += due
