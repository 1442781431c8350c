"""What a Farkas layer costs a training step: rows summed in the weights, beside units summed in the outputs."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import torch
from torch import Tensor, nn

from alive.nn.farkas import FarkasAggregate, FarkasConv2d

from .figure import Figure, interleaved
from .penalty import saved_bytes, training_step

DEPTH, WIDTH, BATCH, SIDE = 10, 64, 64, 32
TIME, SAVED = 1.05, 1.01  # the most that a step may take, and keep for backward, relative to plain

Layer = Callable[[int, int], nn.Module]


class Chain(nn.Module):
    """Convolutions that keep the size, each with its ReLU; a global average and a dense layer."""

    def __init__(self, layer: Layer, depth: int, width: int) -> None:
        super().__init__()
        levels = [(layer(width if level else 3, width), nn.ReLU()) for level in range(depth)]
        self.hidden = nn.Sequential(*(part for level in levels for part in level))
        self.output = nn.Linear(width, 10)

    def forward(self, x: Tensor) -> Tensor:
        """Map images [N, 3, H, W] to logits [N, 10]."""
        return self.output(self.hidden(x).mean((2, 3)))  # type: ignore[no-any-return]


def plain(inputs: int, units: int) -> nn.Module:
    """The convolution of the same width."""
    return nn.Conv2d(inputs, units, 3, padding=1)


def farkas(inputs: int, units: int) -> nn.Module:
    """Ours."""
    return FarkasConv2d(inputs, units, 3, padding=1)


def learned(inputs: int, units: int) -> nn.Module:
    """Ours with a learned mixture."""
    return FarkasConv2d(inputs, units, 3, padding=1, aggregation="learned")


def straightforward(inputs: int, units: int) -> nn.Module:
    """Algorithm 1 as printed: convolve, sum the outputs, concatenate, add the biases."""
    return nn.Sequential(nn.Conv2d(inputs, units - 1, 3, padding=1, bias=False), FarkasAggregate(units, dims=2))


def figures(rounds: int) -> Iterator[Figure]:
    """Step time and saved tensors of conv and ReLU, ours with a target, the straightforward version beside it."""
    name = f"{DEPTH}x{WIDTH} at batch {BATCH}"
    steps, saved = _rivals(DEPTH, WIDTH, BATCH, SIDE)
    slow = steps.pop("straightforward")
    time = interleaved(steps, rounds)
    beside = interleaved({"plain": steps["plain"], "straightforward": slow}, -(-rounds // 4))
    size = {rival: measure() for rival, measure in saved.items()}
    for rival in ("farkas", "learned"):
        yield Figure(f"step time, {rival} / plain, {name}", time[rival] / time["plain"], TIME)
    yield Figure(f"step time, straightforward / plain, {name}", beside["straightforward"] / beside["plain"])
    for rival in ("farkas", "learned"):
        yield Figure(f"saved for backward, {rival} / plain, {name}", size[rival] / size["plain"], SAVED)
    yield Figure(f"saved for backward, straightforward / plain, {name}", size["straightforward"] / size["plain"])


def _rivals(
    depth: int, width: int, batch: int, side: int
) -> tuple[dict[str, Callable[[], object]], dict[str, Callable[[], int]]]:
    """A training step of each rival, and how much it saves for backward."""
    chance = torch.Generator().manual_seed(0)
    x = torch.randn(batch, 3, side, side, generator=chance)
    y = torch.randint(10, (batch,), generator=chance)
    steps: dict[str, Callable[[], object]] = {}
    saved: dict[str, Callable[[], int]] = {}
    for layer in (plain, farkas, learned, straightforward):
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(0)
            model = Chain(layer, depth, width)
        steps[layer.__name__] = training_step(model, None, x, y, torch.optim.Adam(model.parameters(), lr=1e-3))
        saved[layer.__name__] = saved_bytes(model, None, x, y)
    return steps, saved
