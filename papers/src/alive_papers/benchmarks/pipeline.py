"""What batches of CIFAR-10 cost, cropped, flipped, cut out and normalised, relative to the training step they feed."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import cycle

import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from alive.data import Augment, Data, images
from alive.errors import AliveError
from alive.nn import RectangularConv

from ..networks.skips import SkipConv
from ..sets import cifar10
from ..sets.catalogue import CIFAR10
from ..sets.download.places import find
from .figure import Figure, interleaved

BATCH = 128
TARGET = 10.0  # the most that making a batch may take, in per cent of its step
ROUNDS = 20  # a step takes seconds on one core
IMAGES = 10_000  # of random bytes, where there is no CIFAR-10


def figures(rounds: int) -> Iterator[Figure]:
    """The time to make a batch in per cent of the step it feeds, for the smallest VAN of 002 and a thin network."""
    data, what = points()
    make = batches(data)
    x, y = make()
    nets = {
        "smallest VAN": SkipConv("van", 3, 10, n=1, generator=torch.Generator().manual_seed(0)),
        "plain 20x8 network": RectangularConv(3, 10, depth=20, width=8, generator=torch.Generator().manual_seed(0)),
    }
    steps = {name: _step(net, x, y) for name, net in nets.items()}
    time = interleaved({"batch": make, **steps}, min(rounds, ROUNDS))
    for name, target in zip(steps, (TARGET, None), strict=True):
        part = 100 * time["batch"] / time[name]
        yield Figure(f"making a batch of {BATCH}, % of a step of the {name}, {what}", part, target)


def points() -> tuple[Data, str]:
    """CIFAR-10 where it is there, else random bytes of its shape; and which of them it was."""
    try:
        find(CIFAR10)
    except AliveError:
        chance = torch.Generator().manual_seed(0)
        x = torch.randint(256, (IMAGES, 3, 32, 32), generator=chance, dtype=torch.uint8)
        return images(x, torch.arange(IMAGES) % 10, name="random bytes"), "random bytes, as CIFAR-10 is absent"
    data = cifar10()
    return data, data.name


def batches(data: Data) -> Callable[[], tuple[Tensor, Tensor]]:
    """A call gives the next batch of a shuffled epoch, as training would read it; epochs follow each other."""
    chance = torch.Generator().manual_seed(0)
    augment = Augment(crop=4, flip=True, cutout=16)
    order = torch.randperm(len(data.train_y), generator=chance)
    numbers = cycle(order[: len(order) // BATCH * BATCH].split(BATCH))

    def make() -> tuple[Tensor, Tensor]:
        chosen = next(numbers)
        return augment(data.pixels(data.train_x[chosen]), chance), data.train_y[chosen]

    return make


def _step(model: nn.Module, x: Tensor, y: Tensor) -> Callable[[], object]:
    optimiser = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)

    def step() -> None:
        optimiser.zero_grad()
        cross_entropy(model(x), y).backward()
        optimiser.step()

    return step
