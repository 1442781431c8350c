"""What the penalty asks of a GPU: counted by operations and launches, without one.

In bfloat16 a CPU goes the way of every other device, and under Triton's interpreter that of a GPU. Counted is what a
step with the penalty does beside the plain one, for each ReLU: how often the host waits for a result, how many kernels
are launched, how often so many numbers are read as the layer has, and what is saved for backward. What is done once for
all layers is told apart. The kernels have goals; plain torch, for devices that Triton does not know, has none.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from importlib.util import find_spec
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.nn.functional import cross_entropy
from torch.utils._python_dispatch import _disable_current_modes

from alive.errors import AliveError
from alive.functional import ends, tiles
from alive.penalties import Jumpstart
from alive.torch_private import TorchDispatchMode, current_dispatch_mode, tree_leaves

from .figure import Figure
from .penalty import Net, conv, dense, saved_bytes, transformer

WAITS = {
    *("_local_scalar_dense", "nonzero", "masked_select", "_unique2", "unique_consecutive", "unique_dim", "bincount"),
    *("repeat_interleave", "equal", "is_nonzero", "histc"),
}
VIEWS = {
    *("detach", "alias", "view", "_unsafe_view", "t", "transpose", "permute", "unsqueeze", "squeeze", "expand"),
    *("select", "slice", "split", "split_with_sizes", "unbind", "as_strided"),
    *("empty", "new_empty", "empty_like", "empty_strided", "new_empty_strided"),
}
AT_PLACES = ("scatter_add_", "index_put_", "gather", "index_select", "index")  # these read no more than they are asked
FORWARD, BACKWARD, READINGS = 3, 1, 1.1  # goals for each layer: launches, readings of z
SAVED = 0.2  # activations saved: a few numbers a unit and a point, which are .11 of so small a layer as the dense one
WARM = 3  # steps until the model is known
DEPTH = 4


class Work(NamedTuple):
    """What was asked of the device."""

    waits: int = 0
    launches: int = 0
    read: int = 0  # numbers


class Ledger(TorchDispatchMode):
    """Writes down what is asked of the device, also inside our own operators."""

    def __init__(self) -> None:
        super().__init__()
        self.work = Work()

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Run an operation."""
        name = func.overloadpacket.__name__
        with self:
            inside = ends.KERNELS[name](*args) if func.namespace == "alive" else func.decompose(*args, **(kwargs or {}))
        if inside is not NotImplemented:
            return inside
        by_mask = name.startswith("index") and any(
            t.dtype is torch.bool for t in tree_leaves(args[1:]) if isinstance(t, Tensor)
        )
        if name not in VIEWS:
            given = [t.numel() for t in tree_leaves(args) if isinstance(t, Tensor)]
            self.add(given[1:] if name in AT_PLACES or name == "copy_" else given, waits=by_mask or name in WAITS)
        return func(*args, **(kwargs or {}))

    def add(self, read: list[int], *, waits: bool = False) -> None:
        """One launch, that reads so many numbers of each of its inputs."""
        self.work = Work(self.work.waits + waits, self.work.launches + 1, self.work.read + sum(read))


@dataclass(frozen=True, slots=True)
class Kernel:
    """A kernel of Triton whose launches are written down."""

    kernel: Any
    reads: int  # how many of its first arguments it reads

    def __getitem__(self, grid: Any) -> Callable[..., None]:
        def launch(*args: Any) -> None:
            ledger = current_dispatch_mode()
            if isinstance(ledger, Ledger):
                ledger.add([each.numel() for each in args[: self.reads]])
            with _disable_current_modes():  # the interpreter works with torch itself
                self.kernel[grid](*args)

        return launch


class Kernels(NamedTuple):
    """As the module of kernels."""

    find: Kernel
    unpack: Kernel
    add: Kernel


class Step(NamedTuple):
    """The forward pass with its penalty, the backward pass, and bytes saved in between."""

    forward: Work
    backward: Work
    saved: int


def figures(rounds: int) -> Iterator[Figure]:
    """Waits, launches, readings and savings for dense layers, convolutions and sequences, each way in its process."""
    del rounds  # counts are the same each time
    ways = {"in plain torch": "0"} | ({"by Triton": "interpret"} if find_spec("triton") else {})
    for way, setting in reversed(ways.items()):
        env = os.environ | {"ALIVE_TRITON": setting, "TRITON_INTERPRET": "1"}
        command = [sys.executable, "-W", "ignore", "-m", __name__, way]
        done = subprocess.run(command, env=env, capture_output=True, text=True, check=False)
        if done.returncode:
            raise AliveError(f"what the penalty asks of a device {way} could not be counted", done.stderr[-300:])
        for row in json.loads(done.stdout):
            yield Figure(*row)


def count(way: str) -> Iterator[Figure]:
    """The same in this process."""
    if run := tiles.kernels():
        counted = Kernels(Kernel(run.find, 1), Kernel(run.unpack, 1), Kernel(run.add, 2))
        tiles.kernels = lambda: counted  # type: ignore[assignment]
    dense_sizes, conv_sizes = (256, 256), (16, 8)
    nets: dict[str, tuple[Callable[[int], Net], int]] = {
        "dense, width 256 at batch 256": (lambda depth: dense(depth, *dense_sizes), 256 * 256),
        "conv, width 16 at batch 8": (lambda depth: conv(depth, *conv_sizes), 8 * 16 * 32 * 32),
        "transformer, ReLU 256 at batch 8x32": (lambda depth: transformer(depth, 64, 8, 32), 8 * 32 * 256),
    }
    for name, (net, size) in nets.items():
        for figure in _figures(name, net, size):
            target = figure.target if way == "by Triton" or figure.name.startswith("waits") else None
            yield Figure(f"{figure.name}, {way}", figure.value, target)


def _figures(name: str, net: Callable[[int], Net], size: int) -> Iterator[Figure]:
    """Of networks of two depths, so that a layer's own part is known; a layer has `size` numbers."""
    less, more = (_beside(net(depth)) for depth in (DEPTH, 2 * DEPTH))
    forward, backward, read, saved = ((m - n) / DEPTH for m, n in zip(more[1:], less[1:], strict=True))
    # Forward and backward of the plain ReLU are in the plain step, and in ours too: one launch each.
    yield Figure(f"waits for the device a step, {name}", more[0], 0)
    yield Figure(f"launches forward, a layer with its ReLU, {name}", forward + 1, FORWARD)
    yield Figure(f"launches backward, a layer with its ReLU, {name}", backward + 1, BACKWARD)
    once = less[1] + less[2] - DEPTH * (forward + backward)
    yield Figure(f"launches of the penalty itself, both ways, for all layers, {name}", once)
    yield Figure(f"readings of z, a layer, {name}", read / size, READINGS)
    yield Figure(f"saved, in activations a layer, {name}", saved / (2 * size), SAVED)


def _beside(net: Net) -> tuple[int, int, int, int, int]:
    """Waits, launches forward and backward, numbers read, and bytes saved, more than by the plain step."""
    ours, plain = (step(net, penalised=penalised) for penalised in (True, False))
    forth, back = (m.launches - n.launches for m, n in zip(ours[:2], plain[:2], strict=True))
    waits, read = (sum(w[k] for w in ours[:2]) - sum(w[k] for w in plain[:2]) for k in (0, 2))
    return waits, forth, back, read, ours.saved - plain.saved


def step(net: Net, *, penalised: bool) -> Step:
    """What a training step asks of the device, once the model is known."""
    chance = torch.Generator().manual_seed(0)
    x = torch.randn(net.inputs, generator=chance).bfloat16()
    y = torch.randint(10, net.inputs[:1], generator=chance)
    model = net.make().bfloat16()
    keep = Jumpstart(model) if penalised else None
    for _ in range(WARM):
        for parameter in model.parameters():
            parameter.grad = None
        with Ledger() as forward:
            loss = cross_entropy(model(x), y)
            loss = loss if keep is None else loss + keep.penalty()
        with Ledger() as backward:
            loss.backward()
    return Step(forward.work, backward.work, saved_bytes(model, keep, x, y)())


if __name__ == "__main__":
    print(json.dumps([(f.name, f.value, f.target) for f in count(sys.argv[1])]))
