"""What the penalty costs a training step, relative to the plain network, and beside a straightforward version."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from ..functional import Separation, aggregate, separation
from ..nn import RectangularConv
from ..penalties import Jumpstart
from ..penalties.multipliers import WEIGHT
from ..taps import Call, Taps
from .figure import Figure, interleaved

# depth x width, batch, and the largest step time relative to plain
SIZES = ((10, 64, 64, 1.05), (20, 16, 128, 1.10), (20, 8, 128, 1.10))
SAVED = 1.01  # the most that may be saved for backward, relative to plain


class Straightforward:
    """The penalty as one would write it: collect the pre-activations, then plain torch operations."""

    def __init__(self, model: nn.Module) -> None:
        self.rule, self.seen = Separation(), list[Tensor]()
        self.taps = Taps(model, self)

    def begin(self) -> None:
        """A pass begins."""
        self.seen = []

    def watch(self, call: Call) -> Any:
        """Keep the pre-activations."""
        self.seen.append(call.z)
        return call.activate()

    def end(self, output: Any) -> None:
        """Nothing to do."""

    def penalty(self) -> Tensor:
        """The same number as Jumpstart's."""
        return WEIGHT * aggregate([separation.slacks(z, self.rule) for z in self.seen])

    def detach(self) -> None:
        """Let go of the model."""
        self.taps.remove()


def figures(rounds: int) -> Iterator[Figure]:
    """Step time and saved tensors for each size, ours with a target, the straightforward version beside it."""
    for depth, width, batch, target in SIZES:
        name = f"{depth}x{width} at batch {batch}"
        steps, saved = _rivals(depth, width, batch)
        slow = steps.pop("straightforward")
        time = interleaved(steps, rounds)
        beside = interleaved({"plain": steps["plain"], "straightforward": slow}, -(-rounds // 4))
        size = {rival: measure() for rival, measure in saved.items()}
        yield Figure(f"step time, alive / plain, {name}", time["alive"] / time["plain"], target)
        yield Figure(f"step time, straightforward / plain, {name}", beside["straightforward"] / beside["plain"])
        yield Figure(f"saved for backward, alive / plain, {name}", size["alive"] / size["plain"], SAVED)
        yield Figure(f"saved for backward, straightforward / plain, {name}", size["straightforward"] / size["plain"])


def _rivals(depth: int, width: int, batch: int) -> tuple[dict[str, Callable[[], object]], dict[str, Callable[[], int]]]:
    """A training step of each rival, each on its own copy of the network, and how much it saves for backward."""
    chance = torch.Generator().manual_seed(0)
    x = torch.randn(batch, 3, 32, 32, generator=chance)
    y = torch.randint(10, (batch,), generator=chance)
    steps: dict[str, Callable[[], object]] = {}
    saved: dict[str, Callable[[], int]] = {}
    for name, attach in (("plain", None), ("alive", Jumpstart), ("straightforward", Straightforward)):
        model = RectangularConv(3, 10, depth=depth, width=width, generator=torch.Generator().manual_seed(0))
        keep = attach(model) if attach else None
        steps[name] = training_step(model, keep, x, y)
        saved[name] = saved_bytes(model, keep, x, y)
    return steps, saved


def training_step(model: nn.Module, keep: Any, x: Tensor, y: Tensor) -> Callable[[], object]:
    """A step of Adam on one batch, with the penalty of `keep` unless it is None."""
    optimiser = torch.optim.Adam(model.parameters(), lr=1e-3)

    def step() -> None:
        optimiser.zero_grad()
        loss = cross_entropy(model(x), y)
        if keep is not None:
            loss = loss + keep.penalty()
        loss.backward()
        optimiser.step()

    return step


def saved_bytes(model: nn.Module, keep: Any, x: Tensor, y: Tensor) -> Callable[[], int]:
    """Bytes of all storages that one forward pass keeps for backward, each counted once."""

    def measure() -> int:
        loss = cross_entropy(model(x), y)
        if keep is not None:
            loss = loss + keep.penalty()
        storages = {s.data_ptr(): s.nbytes() for tensor in _saved(loss) for s in [tensor.untyped_storage()]}
        return sum(storages.values())

    return measure


def _saved(loss: Tensor) -> Iterator[Tensor]:
    """Every tensor in the graph below a loss: torch's own nodes show theirs as _saved_..., ours as saved_tensors."""
    ahead, seen = [loss.grad_fn], set[Any]()
    while ahead:
        node = ahead.pop()
        if node is None or node in seen:
            continue
        seen.add(node)
        ahead += [below for below, _ in node.next_functions]
        for name in dir(node):
            if name.startswith("_saved_") or name == "saved_tensors":
                value = getattr(node, name)
                yield from (v for v in (value if isinstance(value, tuple) else (value,)) if isinstance(v, Tensor))
