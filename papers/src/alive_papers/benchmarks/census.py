"""What a census costs: memory as the data grows, and time relative to a plain pass."""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterator
from pathlib import Path
from statistics import median

import torch
from torch import Tensor, nn

from alive.diagnosis import census
from alive.nn import Rectangular
from alive.provenance import Tracker, enter, read

from ..networks import ResNet
from . import following
from .figure import Figure, interleaved

POINTS, BATCH = 1_000_000, 4096
GROWTH = 0.1  # bytes a point: a single bit for each point would be 0.125
MANY = 20  # batches
SOME = 6
WITH_SIGNAL, WITH_GRADIENT = 1.5, 3.5  # plain passes
DEPTH, FOLLOWING = 100, 1.0  # layers, and the seconds that following their first pass may take


def figures(rounds: int) -> Iterator[Figure]:
    """Growth of the process between a tenth of the points and all of them, and time against a pass without census."""
    model = Rectangular(8, 1, depth=8, width=16, generator=torch.Generator().manual_seed(0))
    sizes: list[int] = []
    census(model, _stream(POINTS // 10, []))  # what the allocator takes once for all
    census(model, _stream(POINTS, sizes))
    tenth = len(sizes) // 10
    yield Figure(
        f"memory growth of a census, bytes a point, {POINTS // 10:,} to {POINTS:,} points",
        (median(sizes[-tenth:]) - median(sizes[:tenth])) / (POINTS - POINTS // 10),
        GROWTH,
    )
    x = torch.randn(BATCH, 8, generator=torch.Generator().manual_seed(0))
    model.eval()

    def plain() -> None:
        with torch.no_grad():
            model(x)

    rivals: dict[str, Callable[[], object]] = {
        "plain": plain,
        "one": lambda: census(model, [x]),
        "many": lambda: census(model, [x] * MANY),
    }
    time = interleaved(rivals, rounds)
    yield Figure(f"time of a census / a plain pass, 8x16 at batch {BATCH}", time["one"] / time["plain"])
    yield Figure(f"the same over {MANY} batches, each", time["many"] / time["plain"] / MANY)
    yield from _signal(max(1, rounds // 5))
    yield Figure(f"following the first pass of {DEPTH} layers, seconds", _following(rounds), FOLLOWING)
    yield from following.figures(max(1, rounds // 5))


def _signal(rounds: int) -> Iterator[Figure]:
    """What a census with the signal takes on models of middling size, relative to plain passes."""
    chance = torch.Generator().manual_seed(0)
    layer = nn.TransformerEncoderLayer(256, 4, 1024, batch_first=True)
    rivals = {
        "ResNet of 18 layers": (_resnet(), torch.randn(32, 3, 32, 32, generator=chance)),
        "transformer of 6 layers": (nn.TransformerEncoder(layer, 6), torch.randn(32, 64, 256, generator=chance)),
    }
    for name, (model, x) in rivals.items():
        model.eval()
        time = interleaved(
            {
                "plain": lambda model=model, x=x: _plain(model, x),  # type: ignore[misc]
                "census": lambda model=model, x=x: census(model, [x] * SOME),  # type: ignore[misc]
                "gradient": lambda model=model, x=x: census(model, [x] * SOME, gradient=True),  # type: ignore[misc]
            },
            rounds,
        )
        yield Figure(f"census with signal / plain passes, {name}", time["census"] / time["plain"], WITH_SIGNAL)
        yield Figure(f"the same with the gradient, {name}", time["gradient"] / time["plain"], WITH_GRADIENT)


def _plain(model: nn.Module, x: Tensor) -> None:
    with torch.no_grad():
        for _ in range(SOME):
            model(x)


def _resnet() -> nn.Module:
    """The usual ResNet-18 for images of 32x32."""
    return ResNet(3, 10, stages=(2, 2, 2, 2), base=64)


def _following(rounds: int) -> float:
    """How much longer the first pass of a deep network takes for being followed."""
    blocks = [nn.Sequential(nn.Conv2d(8, 8, 3, padding=1), nn.BatchNorm2d(8), nn.ReLU()) for _ in range(DEPTH)]
    model, x = nn.Sequential(*blocks).eval(), torch.randn(32, 8, 16, 16)

    def followed() -> None:
        tracker = Tracker(model)
        enter(tracker, x, len(x), 0)
        with torch.no_grad(), tracker:
            y = model(x)
        read(tracker.owners(y), y, len(x))

    def plain() -> None:
        with torch.no_grad():
            model(x)

    time = interleaved({"plain": plain, "followed": followed}, rounds)
    return time["followed"] - time["plain"]


def _stream(points: int, sizes: list[int]) -> Iterator[Tensor]:
    """Random points in batches; notes the size of the process in bytes at each."""
    chance = torch.Generator().manual_seed(0)
    for begun in range(0, points, BATCH):
        gc.collect()
        sizes.append(_resident())
        yield torch.randn(min(BATCH, points - begun), 8, generator=chance)


def _resident() -> int:
    """Resident memory of this process."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * 4096
