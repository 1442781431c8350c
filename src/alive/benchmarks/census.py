"""What a census costs: memory as the data grows, and time relative to a plain pass."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from pathlib import Path

import torch
from torch import Tensor

from ..diagnosis import census
from ..nn import Rectangular
from .figure import Figure, interleaved

POINTS, BATCH = 1_000_000, 4096
GROWTH = 0.1  # bytes a point: a single bit for each point would be 0.125


def figures(rounds: int) -> Iterator[Figure]:
    """Growth of the process between a tenth of the points and all of them, and time against a pass without census."""
    model = Rectangular(8, 1, depth=8, width=16, generator=torch.Generator().manual_seed(0))
    sizes: list[int] = []
    census(model, _stream(POINTS, sizes))
    tenth = len(sizes) // 10
    yield Figure(
        f"memory growth of a census, bytes a point, {POINTS // 10:,} to {POINTS:,} points",
        (max(sizes[tenth:]) - max(sizes[: tenth + 1])) / (POINTS - POINTS // 10),
        GROWTH,
    )
    x = torch.randn(BATCH, 8, generator=torch.Generator().manual_seed(0))
    model.eval()

    def plain() -> None:
        with torch.no_grad():
            model(x)

    time = interleaved({"plain": plain, "census": lambda: census(model, [x])}, rounds)
    yield Figure(f"time of a census / a plain pass, 8x16 at batch {BATCH}", time["census"] / time["plain"])


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
