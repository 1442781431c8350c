"""Thin convolutions: the fleet against the torch loop at its best; there, memory layout and one network a core."""

from __future__ import annotations

import multiprocessing
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from multiprocessing.connection import Connection

import torch
from torch import Tensor
from torch.nn.functional import cross_entropy

from alive.data import Data, tensors
from alive.nn import RectangularConv
from alive.penalties import Jumpstart

from ..fleet import Member, train_fleet
from .figure import Figure, interleaved
from .fleet import peak

SIZES = ((20, 8), (28, 4), (28, 2))  # depth x width
BATCH, CORES, STEPS = 128, 2, 2
Step = Callable[[], object]

# The fleet's convolutions: 28 layers on 28x28, all positions to the output, batches of 48.
DEPTH, SIDE, IMAGES, EPOCHS, FLEET_BATCH = 28, 28, 240, 20, 48
START = "mirrored"  # from Glorot's plain networks are dead, and the fleet takes no step back through dead layers
WIDTHS = {2: 1 / 12, 4: 1 / 5, 8: 1 / 1.7}  # the largest ratios to a step of the torch loop
PENALTY, PEAK = 1.15, 1 / 0.4  # of a step with Sep-UP to a plain one; of the peak to the fleet at 4 channels


def training_step(
    depth: int, width: int, *, channels_last: bool, penalty: bool, stack: ExitStack | None = None
) -> Step:
    """A step of Adam on random images of 32x32, as `train` takes it."""
    chance = torch.Generator().manual_seed(0)
    model = RectangularConv(3, 10, depth=depth, width=width, init="kaiming", generator=chance)
    x = torch.randn(BATCH, 3, 32, 32, generator=chance)
    y = torch.randint(10, (BATCH,), generator=chance)
    return _step(model, x, y, channels_last=channels_last, penalty=penalty, stack=stack)


def _step(
    model: RectangularConv, x: Tensor, y: Tensor, *, channels_last: bool, penalty: bool, stack: ExitStack | None = None
) -> Step:
    if channels_last:
        model.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
        x = x.contiguous(memory_format=torch.channels_last)
    keep = Jumpstart(model, 1e-3, aggregate="sumsq") if penalty else None
    if keep is not None and stack is not None:
        stack.enter_context(keep)
    optimiser = torch.optim.Adam(model.parameters(), fused=True)

    def step() -> None:
        optimiser.zero_grad()
        task = cross_entropy(model(x), y)
        torch.autograd.backward(task if keep is None else task + keep.penalty())
        optimiser.step()

    return step


def figures(rounds: int) -> Iterator[Figure]:
    """Step times as ratios: what `alive reproduce` does by default against the plain way."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield from _fleets(max(2, rounds // 3))
        yield from _layouts(max(2, rounds // 3))
        torch.set_num_threads(CORES)
        yield _cores(max(2, rounds // 5))
    finally:
        torch.set_num_threads(threads)


def _fleets(rounds: int) -> Iterator[Figure]:
    """CPU time of a step on one core: plain and with Sep-UP in the fleet, plain in torch with channels innermost."""
    data = _images()
    most = peak(time.process_time)
    yield Figure("GFLOP/s of a large torch.mm, one core", most)
    for width, target in WIDTHS.items():
        plain, kept = (_fleet(data, width, method) for method in ("ReLU", "Sep-UP"))
        torch_step = _torch(data, width)
        taken = interleaved({"plain": plain, "Sep-UP": kept, "torch": torch_step}, rounds, clock=time.process_time)
        steps = EPOCHS * IMAGES // FLEET_BATCH
        name = f"{DEPTH} layers of {width} channels, {SIDE}x{SIDE}, batch {FLEET_BATCH}"
        yield Figure(f"step time, fleet / torch loop, {name}", taken["plain"] / steps / taken["torch"], target)
        yield Figure(
            f"step time in the fleet, Sep-UP by channel / plain, {name}", taken["Sep-UP"] / taken["plain"], PENALTY
        )
        done = _flops(width) * steps / taken["plain"] / 1e9
        yield Figure(f"GFLOP/s of the fleet, {name}", done)
        yield Figure(f"peak / fleet, {name}", most / done, PEAK if width == 4 else None)


def _images() -> Data:
    chance = torch.Generator().manual_seed(0)
    x = torch.rand(IMAGES, 1, SIDE, SIDE, generator=chance)
    return tensors(x, torch.arange(IMAGES) % 10, classes=10, name="noise")


def _fleet(data: Data, width: int, method: str) -> Step:
    """All steps of one network, and one look at its health at the end, from its start as always."""
    settings = {"epochs": EPOCHS, "batch_size": FLEET_BATCH, "lr": 1e-3, "running": True, "weight": 1e-3}
    member = Member(DEPTH, width, method, 10, architecture="conv", init=START, **settings)  # type: ignore[arg-type]
    return lambda: train_fleet([member], data, threads=1, record_every=EPOCHS)


def _torch(data: Data, width: int) -> Step:
    """One step of the same network."""
    chance = torch.Generator().manual_seed(10)
    model = RectangularConv(
        1, 10, depth=DEPTH, width=width, head="flatten", size=(SIDE, SIDE), init=START, generator=chance
    )
    x, y = data.train_x[:FLEET_BATCH], data.train_y[:FLEET_BATCH]
    return _step(model, x.contiguous(memory_format=torch.channels_last), y, channels_last=True, penalty=False)


def _flops(width: int) -> float:
    """Useful operations of a step: forward, and back to weights and to activations; no border, penalty or Adam."""
    connections = 9 * (width + (DEPTH - 1) * width**2) + 10 * width
    return 6.0 * connections * SIDE**2 * FLEET_BATCH


def _layouts(rounds: int) -> Iterator[Figure]:
    for depth, width in SIZES:
        for penalty in (False, True):
            with ExitStack() as stack:
                steps = {
                    layout: training_step(
                        depth, width, channels_last=layout == "channels_last", penalty=penalty, stack=stack
                    )
                    for layout in ("contiguous", "channels_last")
                }
                time = interleaved(steps, rounds)
            kind = "with penalty" if penalty else "plain"
            name = f"step time, {depth}x{width} at batch {BATCH}, {kind}, channels_last / contiguous"
            yield Figure(name, time["channels_last"] / time["contiguous"], 1.0)


def _cores(rounds: int) -> Figure:
    """Two networks of 20x8: each in its own process and thread, or one after the other with two threads."""
    depth, width = SIZES[0]
    steps = [training_step(depth, width, channels_last=True, penalty=False) for _ in range(CORES)]

    def in_turn() -> None:
        for step in steps:
            for _ in range(STEPS):
                step()

    with ExitStack() as stack:
        workers = [_worker(stack) for _ in range(CORES)]

        def side_by_side() -> None:
            for worker in workers:
                worker.send(STEPS)
            for worker in workers:
                worker.recv()

        time = interleaved({"in turn": in_turn, "side by side": side_by_side}, rounds)
    name = f"time of {CORES} networks of {depth}x{width}, one a core / one after the other on {CORES} cores"
    return Figure(name, time["side by side"] / time["in turn"], 1.0)


def _worker(stack: ExitStack) -> Connection:
    spawn = multiprocessing.get_context("spawn")
    ours, theirs = spawn.Pipe()
    process = spawn.Process(target=_serve, args=(theirs,), daemon=True)
    process.start()
    stack.callback(process.join)
    stack.callback(ours.send, 0)
    return ours


def _serve(asked: Connection) -> None:
    """Take as many steps as asked, until none are."""
    torch.set_num_threads(1)
    step = training_step(*SIZES[0], channels_last=True, penalty=False)
    while count := asked.recv():
        for _ in range(count):
            step()
        asked.send(count)
