"""Thin convolutions in the torch loop: memory layout, and one network a core against two cores a network."""

from __future__ import annotations

import multiprocessing
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from multiprocessing.connection import Connection

import torch
from torch.nn.functional import cross_entropy

from ..nn import RectangularConv
from ..penalties import Jumpstart
from .figure import Figure, interleaved

SIZES = ((20, 8), (28, 4), (28, 2))  # depth x width
BATCH, CORES, STEPS = 128, 2, 2
Step = Callable[[], object]


def training_step(
    depth: int, width: int, *, channels_last: bool, penalty: bool, stack: ExitStack | None = None
) -> Step:
    """A step of Adam on random images of 32x32, as `train` takes it."""
    chance = torch.Generator().manual_seed(0)
    model = RectangularConv(3, 10, depth=depth, width=width, init="kaiming", generator=chance)
    x = torch.randn(BATCH, 3, 32, 32, generator=chance)
    y = torch.randint(10, (BATCH,), generator=chance)
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
        yield from _layouts(max(2, rounds // 3))
        torch.set_num_threads(CORES)
        yield _cores(max(2, rounds // 5))
    finally:
        torch.set_num_threads(threads)


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
