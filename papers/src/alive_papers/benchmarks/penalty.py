"""What the penalty costs a training step, relative to the plain network, and beside a six-line version of it."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from itertools import pairwise
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from alive.nn import RectangularConv
from alive.penalties import Jumpstart
from alive.penalties.multipliers import WEIGHT

from .figure import Figure, interleaved

SAVED = 1.01  # the most that a convolution may save for backward, relative to plain


class Straightforward:
    """The penalty as one would write it by hand: hooks that collect the pre-activations, `amax` and `amin`.

    `layers` are the modules whose outputs go to a ReLU.
    """

    def __init__(self, model: nn.Module, layers: Sequence[nn.Module]) -> None:
        self.seen = list[Tensor]()
        self.hooks = [layer.register_forward_hook(lambda _, __, z: self.seen.append(z)) for layer in layers]

    def penalty(self) -> Tensor:
        """The same number as Jumpstart's."""
        total = torch.zeros(())
        for z in self.seen:
            for kept in (0, 1 if z.ndim == 4 else z.ndim - 1):  # points, and units
                over = [dim for dim in range(z.ndim) if dim != kept]
                s = 0.5 * torch.relu(1 - z.amax(over)) + 0.5 * torch.relu(1 + z.amin(over))
                total = total + s.square().mean()
        count = len(self.seen)
        self.seen.clear()
        return WEIGHT * total / count

    def detach(self) -> None:
        """Let go of the model."""
        for hook in self.hooks:
            hook.remove()


class Net(NamedTuple):
    """A network to measure: how to make it, the shape of its inputs, and the modules whose outputs go to a ReLU."""

    make: Callable[[], nn.Module]
    inputs: tuple[int, ...]
    before_relu: Callable[[Any], Sequence[nn.Module]]


class Size(NamedTuple):
    """A network by name, and the most that a step may take with the penalty."""

    name: str
    net: Net
    target: float | None


def conv(depth: int, width: int, batch: int) -> Net:
    """3x3 convolutions on 32x32 images."""

    def make() -> nn.Module:
        return RectangularConv(3, 10, depth=depth, width=width, generator=torch.Generator().manual_seed(0))

    return Net(make, (batch, 3, 32, 32), lambda model: [m for m in model.hidden.modules() if isinstance(m, nn.Conv2d)])


def dense(depth: int, width: int, batch: int) -> Net:
    """Linear layers and ReLUs, one after the other."""

    def make() -> nn.Module:
        torch.manual_seed(0)
        widths = [16, *[width] * depth]
        layers = [[nn.Linear(a, b), nn.ReLU()] for a, b in pairwise(widths)]
        return nn.Sequential(*(module for layer in layers for module in layer), nn.Linear(width, 10))

    return Net(make, (batch, 16), lambda model: [m for m in model if isinstance(m, nn.Linear)][:-1])


class Transformer(nn.Module):
    """An encoder with ReLU, and a class for the mean over its positions."""

    def __init__(self, layers: int, width: int) -> None:
        super().__init__()
        layer = nn.TransformerEncoderLayer(width, 4, 4 * width, dropout=0.0, batch_first=True)
        self.encoder = nn.TransformerEncoder(layer, layers, enable_nested_tensor=False)
        self.head = nn.Linear(width, 10)

    def forward(self, x: Tensor) -> Tensor:
        """Classes [N, 10] of sequences [N, T, width]."""
        logits: Tensor = self.head(self.encoder(x).mean(1))
        return logits


def transformer(layers: int, width: int, batch: int, length: int) -> Net:
    """`Transformer` on sequences."""

    def make() -> nn.Module:
        torch.manual_seed(0)
        return Transformer(layers, width)

    return Net(make, (batch, length, width), lambda model: [block.linear1 for block in model.encoder.layers])


SIZES = (
    Size("conv 10x64 at batch 64", conv(10, 64, 64), 1.05),
    Size("conv 20x16 at batch 128", conv(20, 16, 128), 1.10),
    Size("conv 20x8 at batch 128", conv(20, 8, 128), 1.10),
    Size("dense 30x16 at batch 64", dense(30, 16, 64), 2.0),
    Size("dense 30x16 at batch 2000", dense(30, 16, 2000), 1.5),
    Size("dense 8x256 at batch 256", dense(8, 256, 256), 1.15),
    Size("dense 4x1024 at batch 256", dense(4, 1024, 256), 1.05),
    Size("transformer 4x64 (ReLU 256) at batch 32x32", transformer(4, 64, 32, 32), None),
)


def figures(rounds: int) -> Iterator[Figure]:
    """CPU time of a step and saved tensors for each size, ours with a target, the six-line version beside it.

    In one thread, and with plain gradient descent, which adds least to the plain step.
    """
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        for size in SIZES:
            yield from _figures(size, rounds)
    finally:
        torch.set_num_threads(threads)


def _figures(size: Size, rounds: int) -> Iterator[Figure]:
    steps, saved = rivals(size.net)
    for step in steps.values():
        for _ in range(3):  # a first pass is followed, a second looked up
            step()
    taken = interleaved(steps, rounds, clock=time.process_time)
    beside = taken["straightforward"] / taken["plain"]
    target = None if size.target is None else min(size.target, beside)
    yield Figure(f"step time, alive / plain, {size.name}", taken["alive"] / taken["plain"], target)
    yield Figure(f"step time, straightforward / plain, {size.name}", beside)
    kept = {rival: measure() for rival, measure in saved.items()}
    most = SAVED if size.name.startswith("conv") else None
    yield Figure(f"saved for backward, alive / plain, {size.name}", kept["alive"] / kept["plain"], most)
    yield Figure(f"saved for backward, straightforward / plain, {size.name}", kept["straightforward"] / kept["plain"])


def rivals(net: Net) -> tuple[dict[str, Callable[[], object]], dict[str, Callable[[], int]]]:
    """A training step of each rival, each on its own copy of the network, and how much it saves for backward."""
    chance = torch.Generator().manual_seed(0)
    x = torch.randn(net.inputs, generator=chance)
    y = torch.randint(10, net.inputs[:1], generator=chance)
    steps: dict[str, Callable[[], object]] = {}
    saved: dict[str, Callable[[], int]] = {}
    for name in ("plain", "alive", "straightforward"):
        model = net.make()
        keep: Jumpstart | Straightforward | None = None
        if name == "alive":
            keep = Jumpstart(model, weight=WEIGHT)
        elif name == "straightforward":
            keep = Straightforward(model, net.before_relu(model))
        steps[name] = training_step(model, keep, x, y, torch.optim.SGD(model.parameters(), lr=1e-3))
        saved[name] = saved_bytes(model, keep, x, y)
    return steps, saved


def training_step(
    model: Callable[[Tensor], Tensor], keep: Any, x: Tensor, y: Tensor, optimiser: torch.optim.Optimizer
) -> Callable[[], object]:
    """A step on one batch, with the penalty of `keep` unless it is None."""

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
