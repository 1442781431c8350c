"""Resets while a model trains: after each step of the optimiser a rule says which units begin anew."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Self

import torch
from torch import Tensor, distributed, nn
from torch.optim import Optimizer

from ...diagnosis import dormancy
from ...errors import AliveError, expect
from ...provenance import Grid
from ...taps import Call, Taps, Watcher, bare
from ...world import world_size
from ..graph.calls import Calls
from ..models import tensor_of
from .numbers import Bench, optimisers_of
from .targets import targets
from .ways import by_utility, redo, utility
from .wires import Wired, Wires, declared, wires_of

POINTS = 64  # on which the graph is followed


@dataclass(frozen=True, slots=True)
class Units:
    """The units of one layer: what makes and reads them, and how many there are."""

    name: str
    wires: Wires
    count: int


class Renewal(Watcher, ABC):
    """A rule for resets while a model trains; call `step` after each step of the optimiser, or `attach` once.

    data    a few points, of which the graph of the model is read
    wires   what makes and reads the units of a layer, by its name, where this cannot be followed
    copies  of the model, such as target networks: they get the new numbers of units that are reset
    left    layers whose units cannot be reset, and why
    """

    watches = True  # whether the rule needs to see what the units tell

    def __init__(
        self,
        model: nn.Module,
        optimiser: Optimizer | Sequence[Optimizer] | None,
        data: Any,
        *,
        wires: Mapping[str, Wires] | None = None,
        copies: Sequence[nn.Module] = (),
        seed: int = 0,
    ) -> None:
        self._root = bare(model)
        self._optimisers, self._copies, self._seed = optimisers_of(optimiser), copies, seed
        self.replaced = 0
        self.left: dict[str, str] = {}
        self._layers = self._find(data, wires or {})
        self._seen: dict[str, tuple[Tensor, ...]] = {}
        self._handles: list[Any] = [Taps(model, self)] if self.watches else []

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.detach()

    def attach(self) -> Self:
        """From now on `step` is called by the optimiser itself: for trainers whose loop one does not write."""
        if not self._optimisers:
            raise AliveError("there is no optimiser that could call step", "Give the one that trains the model")
        self._handles.append(self._optimisers[-1].register_step_post_hook(self._after_step))
        return self

    def _after_step(self, *_: object) -> None:
        self.step()

    def detach(self) -> None:
        """Leave the model as it was found, with what was replaced."""
        for handle in self._handles:
            handle.remove()
        self._handles = []

    def _find(self, data: Any, given: Mapping[str, Wires]) -> list[Units]:
        reading: Wired | None = None
        found = []
        for target in targets(dormancy(self._root, data), (), None):
            if target.name not in given and reading is None:
                call = Calls(data, self._root).first()
                reading = Wired.of(self._root, call.rows(torch.arange(min(call.points, POINTS))))
            wires = declared(given[target.name]) if target.name in given else _follow(reading, target.made_by)
            if isinstance(wires, str) or wires.units(self._root) != target.count:
                self.left[target.label] = wires if isinstance(wires, str) else "only a part of its units is counted"
            else:
                found.append(Units(target.name, wires, target.count))
        if not found:
            raise AliveError(
                "no layer's units can be replaced: " + "; ".join(f"{name}: {why}" for name, why in self.left.items()),
                "Resets are for dense layers and convolutions whose readers can be found",
            )
        return found

    def watch(self, call: Call) -> Any:
        """Note what the units tell, if it is a pass of training."""
        h = call.activate()
        layout = call.tap.layout
        fit = isinstance(h, Tensor) and layout.known and isinstance(layout.place, Grid)
        if self._root.training and fit and torch.is_grad_enabled():
            self._seen[call.tap.name] = self.told(layout.arrange(h.detach(), call.points))
        return h

    def told(self, rows: Tensor) -> tuple[Tensor, ...]:
        """Of what the units of a layer give [N, C, positions] what the rule asks for, a number a unit each."""
        return ()

    @torch.no_grad()
    def step(self) -> int:
        """After the optimiser's step: learn from the last pass, and reset those whose turn it is; how many."""
        before = self.replaced
        for own in self._layers:
            if not self.watches or own.name in self._seen:
                self.renew(own, *self._seen.get(own.name, ()))
        self._seen = {}
        return self.replaced - before

    @abstractmethod
    def renew(self, own: Units, *told: Tensor) -> None:
        """Decide about the units of one layer."""

    def reset(self, own: Units, units: Tensor, means: Tensor | None = None) -> None:
        """Draw units anew; the next biases take over their means, if they are given."""
        if not len(units):
            return
        bench = self.bench()
        if means is None:
            redo(bench, own.wires, units)
        else:
            by_utility(bench, own.wires, units, means)
        bench.forget()
        bench.teach(self._copies)
        self.replaced += len(units)

    def bench(self) -> Bench:
        """To write on, with a draw of its own."""
        return Bench(self._root, self._optimisers, self._seed + self.replaced)

    def arrived(self, own: Units) -> Tensor:
        """The mean size of the gradient of each unit's weights [C] in the last step, relative to the layer's mean."""
        sizes = torch.zeros(own.count, dtype=torch.float64)
        for part in own.wires.into:
            parameter = tensor_of(self._root, part.name)
            if parameter.dim() < 2:
                continue
            if parameter.grad is None:
                raise AliveError(f"{part.name} has no gradient", "Call step() before zero_grad()")
            sizes += parameter.grad.double().abs().movedim(part.axis, 0).reshape(own.count, -1).mean(1).cpu()
        mean = sizes.mean()
        return sizes / mean if mean > 0 else sizes


def _follow(reading: Wired | None, made_by: str) -> Wires | str:
    assert reading is not None
    return wires_of(reading, made_by)


class ContinualBackprop(Renewal):
    """Replaces units of least utility while a model trains (Dohare et al., Nature 2024).

    A unit's utility is a running mean of |h| times the sum of the sizes of the weights that read it. Of the units
    older than `maturity` steps a share of `rate` a step is replaced: weights in drawn anew, weights out zero, their
    mean taken over by the next bias, and the optimiser's state of exactly these units set to zero.

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
        **options: Any,
    ) -> None:
        expect(
            [
                (0 <= rate <= 1, f"rate must lie between 0 and 1, got {rate}"),
                (0 < decay < 1, f"decay must lie between 0 and 1, got {decay}"),
                (maturity >= 1, f"maturity must be at least 1 step, got {maturity}"),
            ]
        )
        super().__init__(model, optimiser, data, **options)
        self._rate, self._maturity, self._decay = rate, maturity, decay
        # Of each layer the running means of what its units tell and of their utility, and their ages [3, C]
        self._running = {own.name: torch.zeros(3, own.count, dtype=torch.float64) for own in self._layers}
        self._owed = dict.fromkeys(self._running, 0.0)

    def told(self, rows: Tensor) -> tuple[Tensor, ...]:
        """What each unit tells on average, and the mean of its size."""
        return rows.mean((0, 2)).double().cpu(), rows.abs().mean((0, 2)).double().cpu()

    def renew(self, own: Units, *told: Tensor) -> None:
        """Replace those of least utility among the grown ones, as many as are due."""
        for number in told:
            if world_size() > 1:
                distributed.all_reduce(number)
                number /= world_size()
        mean, useful, age = running = self._running[own.name]
        age += 1
        mean.lerp_(told[0], 1 - self._decay)
        useful.lerp_(utility(self._root, own.wires, told[1]), 1 - self._decay)
        grown = (age > self._maturity).nonzero().flatten()
        self._owed[own.name] += self._rate * len(grown)
        due = min(int(self._owed[own.name]), len(grown))
        self._owed[own.name] -= due
        settled = 1 - self._decay**age  # as young means are small
        units = grown[(useful / settled)[grown].argsort()[:due]]
        self.reset(own, units, mean / settled)
        running[:, units] = 0
