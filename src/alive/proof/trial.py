"""The trial: the user's own training steps on a model with dead units, watched number by number."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn
from torch.optim import Optimizer

from ..data import read
from ..diagnosis import census
from ..errors import AliveError, expect, fault
from ..functional import State
from ..surgery.models import tensor_of
from .checks import checks
from .plant import Planted, Rows, Told, plant
from .result import Proof


def check_cure(
    make_model: Callable[[], Any],
    step: Callable[..., Any],
    data: Any,
    *,
    steps: int = 60,
    warm: int = 10,
    share: float = 0.25,
    layer: str | None = None,
    seed: int = 0,
) -> Proof:
    """Try a cure for dead units, latents, codes or experts in your own training code, on some that are dead by design.

    make_model  gives the model, or a tuple of it and all else that training keeps: optimisers, target networks
    step        one step of your training, the cure included: step(*what make_model gave, batch); may return the loss
    data        whatever `alive.census` takes; its batches are trained on in turn
    steps       how many are run once the dead are planted; enough for the cure to act
    warm        steps before that, so that optimisers and averages have something to remember
    share       of the layer's units that are planted dead
    layer       which, by name or label; without it the first that chooses latents, codes or experts, or the widest

    Nothing is changed but what `make_model` makes. The answer says what was seen, question by question; what it calls a
    fault is named in `faults`.

    >>> import alive
    >>> def make():
    ...     model = nn.Sequential(nn.Linear(2, 16), nn.ReLU(), nn.Linear(16, 2))
    ...     return model, torch.optim.Adam(model.parameters())
    >>> def train(model, optimiser, batch):
    ...     loss = nn.functional.mse_loss(model(batch), batch)
    ...     optimiser.zero_grad()
    ...     loss.backward()
    ...     optimiser.step()
    ...     return loss
    >>> check_cure(make, train, torch.randn(64, 2, generator=torch.Generator().manual_seed(0))).faults
    ('gradient', 'acts')
    """
    expect(
        [
            (steps >= 1, f"steps must be at least 1, got {steps}"),
            (0 < share < 1, f"share is between 0 and 1, got {share}"),
        ]
    )
    with _alone(seed):
        made = make_model()
        made = made if isinstance(made, tuple) else (made,)
        if not isinstance(made[0], nn.Module):
            raise AliveError(
                f"make_model gave {type(made[0]).__name__}, not a model", "Return the model, or (model, optimiser, ...)"
            )
        trial = _Trial(made, step, list(read(data, made[0])))
        for _ in range(warm):
            trial.train()
        trial.expect_trained()
        trial.planted = plant(made[0], trial.batches, layer=layer, share=share)
        trial.follow(steps)
    planted, revived = trial.planted, trial.revived
    told = tuple(planted.units[revived].tolist())
    answers = checks(trial.seen, planted, made)
    names = (planted.label, planted.noun, tuple(planted.units.tolist()), len(trial.seen[0].units[0].states))
    return Proof(*names, steps, told, answers)


@dataclass(slots=True)
class Seen:
    """One step: what was before and after it, and the gradient that arrived.

    own, beside, state, target  by name, [C, numbers]
    gradient                    the largest that arrived at each unit [C]
    loss                        on the first batch
    units                       in a census of all data
    """

    own: dict[str, tuple[Tensor, Tensor]]
    beside: dict[str, tuple[Tensor, Tensor]]
    state: dict[str, tuple[Tensor, Tensor]]
    target: dict[str, tuple[Tensor, Tensor]]
    gradient: Tensor | None
    loss: tuple[float | None, float | None]
    units: tuple[Told, Told]

    def jumped(self) -> Tensor:
        """Which units' own numbers were written anew in this step, and not moved as all others were [C]."""
        found: Tensor | None = None
        for before, after in self.own.values():
            moved = (after - before).norm(dim=1)
            size = torch.maximum(before.norm(dim=1).median(), torch.tensor(1e-12))
            usual = moved.median()
            own = (moved > 10 * usual) & (moved > 0.5 * size)
            found = own if found is None else found | own
        assert found is not None
        return found


@dataclass(eq=False)
class _Trial:
    made: tuple[Any, ...]
    step: Callable[..., Any]
    batches: list[Any]
    number: int = 0
    planted: Planted = field(init=False)
    seen: list[Seen] = field(default_factory=list)
    _first: list[Tensor] = field(init=False)

    def __post_init__(self) -> None:
        self._first = [p.detach().clone() for p in self.model.parameters()]

    @property
    def model(self) -> nn.Module:
        model: nn.Module = self.made[0]
        return model

    def train(self) -> None:
        """One step of the user's on the next batch."""
        batch = self.batches[self.number % len(self.batches)]
        self.number += 1
        self.model.train()
        try:
            self.step(*self.made, batch)
        except AliveError:
            raise
        except Exception as error:
            raise fault(f"training step {self.number}", error) from error

    def expect_trained(self) -> None:
        """Refuse a step that trains something else."""
        if self.number and all(torch.equal(a, b) for a, b in zip(self._first, self.model.parameters(), strict=True)):
            raise AliveError(
                f"{self.number} steps changed no weight of the model",
                "Let step train what it is given: step(model, ..., batch)",
            )

    def follow(self, steps: int) -> None:
        """Run the steps, and note what each does."""
        before, loss, units = self._rows(), self._loss(), self._units()
        for _ in range(steps):
            arrived: list[Tensor] = []
            with self._listen(arrived):
                self.train()
            after, later, now = self._rows(), self._loss(), self._units()
            own, beside, state, target = (_pairs(old, new) for old, new in zip(before, after, strict=True))
            largest = torch.stack(arrived).amax(0) if arrived else None
            self.seen.append(Seen(own, beside, state, target, largest, (loss, later), (units, now)))
            before, loss, units = after, later, now

    def _units(self) -> Told:
        return self.planted.told(census(self.model, self.batches))

    @property
    def revived(self) -> Tensor:
        """Which of the planted were alive in any census."""
        return torch.stack([seen.units[1].states[self.planted.units] != State.DEAD for seen in self.seen]).any(0)

    def _rows(self) -> tuple[dict[str, Tensor], ...]:
        """The numbers of each unit now: what makes it, what is kept beside, the optimisers' state, target copies."""
        planted, others = self.planted, self.made[1:]
        own, beside = (
            {rows.name: _flat(rows.of(self.model)) for rows in some} for some in (planted.own, planted.beside)
        )
        state: dict[str, Tensor] = {}
        target: dict[str, Tensor] = {}
        for number, other in enumerate(others):
            for rows in planted.own:
                if isinstance(other, Optimizer):
                    tensor = tensor_of(self.model, rows.name)
                    for key, value in other.state.get(tensor, {}).items():
                        if isinstance(value, Tensor) and value.shape == tensor.shape:
                            state[f"{key} of {rows.name}"] = _flat(value.detach().movedim(rows.axis, 0))
                elif isinstance(other, nn.Module) and other is not self.model and _has(other, rows):
                    target[f"{rows.name} of {type(other).__name__} {number + 1}"] = _flat(rows.of(other))
        return own, beside, state, target

    def _loss(self) -> float | None:
        """The loss on the first batch as the user's step tells it, from a copy of all that is trained."""
        try:
            with torch.random.fork_rng(), torch.enable_grad():
                made = copy.deepcopy(self.made)
                found = self.step(*made, self.batches[0])
            return None if found is None else float(torch.as_tensor(found).detach())
        except Exception:  # of what cannot be copied, or returns no number, it is not seen
            return None

    @contextmanager
    def _listen(self, arrived: list[Tensor]) -> Iterator[None]:
        """Note the size of every gradient that arrives at what makes the units [C]."""
        handles = []
        for rows in self.planted.own:
            tensor = tensor_of(self.model, rows.name)
            if tensor.requires_grad and tensor.is_leaf:

                def hear(g: Tensor, rows: Rows = rows) -> None:
                    arrived.append(_flat(g.detach().movedim(rows.axis, 0)).norm(dim=1))

                handles.append(tensor.register_hook(hear))
        try:
            yield
        finally:
            for handle in handles:
                handle.remove()


def _pairs(old: dict[str, Tensor], new: dict[str, Tensor]) -> dict[str, tuple[Tensor, Tensor]]:
    return {name: (old[name], new[name]) for name in new if name in old and old[name].shape == new[name].shape}


def _flat(rows: Tensor) -> Tensor:
    return rows.reshape(len(rows), -1).double().cpu().clone()


def _has(other: nn.Module, rows: Rows) -> bool:
    try:
        tensor_of(other, rows.name)
    except (AttributeError, KeyError, AliveError):
        return False
    return True


@contextmanager
def _alone(seed: int) -> Iterator[None]:
    """With chance of its own."""
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        yield
