"""What a fleet gains: time a network-epoch against the torch loop and stacked networks, and flops against the peak."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import torch
from torch import Tensor

from alive.data import Data, moons
from alive.nn import Rectangular
from alive.penalties import Jumpstart
from alive.train import Settings, train

from ..fleet import Member, train_fleet
from .figure import Figure, interleaved

DEPTH, WIDTH, WEIGHT = 50, 4, 1e-4
STACKED = 128
LOOP, STACK, PEAK = 1 / 400, 1 / 10, 4.0  # the largest ratios: to the times of loop and stack, of peak to flops
LOOP_EPOCHS, STACK_EPOCHS, FLEET_EPOCHS = 20, 2, 2000
MEMBERS = 4  # so that every core has its share
SIDE = 2048  # of the matrices that show the machine's peak


def figures(rounds: int) -> Iterator[Figure]:
    """50x4 with Sep-UP and Adam on MOONS, then the flops of 50 layers of width 4, 10 and 25."""
    data = moons()
    rivals = {
        "loop": (_loop(data), LOOP_EPOCHS),
        "stack": (_stack(data), STACKED * STACK_EPOCHS),
        "fleet": (_fleet(data, WIDTH), MEMBERS * FLEET_EPOCHS),
    }
    with _one_thread():
        taken = interleaved({name: run for name, (run, _) in rivals.items()}, min(rounds, 3))
    each = {name: taken[name] / count for name, (_, count) in rivals.items()}  # seconds a network-epoch
    name = f"{DEPTH}x{WIDTH}, {len(data.train_y)} points, Sep-UP, Adam"
    thousand = f"time of 1000 network-epochs in the fleet / of one in the torch loop, {name}"
    yield Figure(thousand, 1000 * each["fleet"] / each["loop"], 1000 * LOOP)
    yield Figure(
        f"time a network-epoch, fleet / {STACKED} networks stacked in bmm, {name}", each["fleet"] / each["stack"], STACK
    )
    yield Figure(f"microseconds a network-epoch of the fleet, {name}", each["fleet"] * 1e6)
    most = peak()
    yield Figure("GFLOP/s of a large torch.mm, all cores", most)
    for width in (4, 10, 25):
        run = _fleet(data, width)
        run()
        begun = time.perf_counter()
        run()
        done = _flops(data, width) * MEMBERS * FLEET_EPOCHS / (time.perf_counter() - begun) / 1e9
        yield Figure(f"GFLOP/s of the fleet, {DEPTH}x{width}", done)
        yield Figure(f"peak / fleet, {DEPTH}x{width}", most / done, PEAK if width == 25 else None)


def _flops(data: Data, width: int) -> float:
    """Useful operations of an epoch: forward, and back to weights and to activations; no padding, penalty or Adam."""
    connections = data.inputs * width + (DEPTH - 1) * width**2 + width * data.outputs
    return float(6 * connections * len(data.train_y))


def peak(clock: Callable[[], float] = time.perf_counter) -> float:
    """GFLOP/s of the best of a few large products; by CPU time those of one core."""
    a, b = (torch.randn(SIDE, SIDE, generator=torch.Generator().manual_seed(seed)) for seed in (0, 1))
    out = torch.empty(SIDE, SIDE)
    return 2 * SIDE**3 / interleaved({"mm": lambda: torch.mm(a, b, out=out)}, 5, clock=clock)["mm"] / 1e9


def _fleet(data: Data, width: int) -> Callable[[], object]:
    members = [
        Member(DEPTH, width, seed=seed, weight=WEIGHT, aggregate="sumsq", epochs=FLEET_EPOCHS)
        for seed in range(MEMBERS)
    ]
    return lambda: train_fleet(members, data)


def _loop(data: Data) -> Callable[[], object]:
    net = Rectangular(data.inputs, data.outputs, depth=DEPTH, width=WIDTH, generator=_seeded(0))
    keep = Jumpstart(net, WEIGHT, aggregate="sumsq")
    return lambda: train(net, data, Settings(epochs=LOOP_EPOCHS), keep=keep)


def _stack(data: Data) -> Callable[[], object]:
    """Many networks as one batch of matrices, the best that plain torch does."""
    nets = [
        Rectangular(data.inputs, data.outputs, depth=DEPTH, width=WIDTH, generator=_seeded(which))
        for which in range(STACKED)
    ]
    together = [
        torch.stack([part.detach() for part in parts]) for parts in zip(*(n.parameters() for n in nets), strict=True)
    ]
    for part in together:
        part.requires_grad_()
    steps = torch.optim.Adam(together, lr=0.01, eps=1e-7)
    x, y = data.train_x.expand(STACKED, -1, -1), data.train_y.float().expand(STACKED, -1)

    def step() -> None:
        steps.zero_grad()
        logits, penalty = stacked(together, x)
        task = torch.nn.functional.binary_cross_entropy_with_logits(logits, y, reduction="none").mean(1).sum()
        (task + WEIGHT * penalty).backward()
        steps.step()

    def run() -> None:
        for _ in range(STACK_EPOCHS):
            step()

    return run


def stacked(parameters: list[Tensor], x: Tensor) -> tuple[Tensor, Tensor]:
    """Logits [F, N] of all networks, and the sum of their penalties."""
    *hidden, weight, bias = parameters
    penalty = x.new_zeros(())
    for matrix, shift in zip(hidden[::2], hidden[1::2], strict=True):
        z = torch.baddbmm(shift[:, None], x, matrix.mT)  # [F, N, C]
        for over in (1, 2):  # slacks of units, then of points
            s = (torch.relu(1 - z.amax(over)) + torch.relu(1 + z.amin(over))) / 2
            penalty = penalty + s.square().sum()
        x = torch.relu(z)
    return torch.baddbmm(bias[:, None], x, weight.mT)[..., 0], penalty


@contextmanager
def _one_thread() -> Iterator[None]:
    """Torch at its best: on matrices this small a second thread only waits for the first."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(threads)


def _seeded(seed: int) -> torch.Generator:
    return torch.Generator().manual_seed(seed)
