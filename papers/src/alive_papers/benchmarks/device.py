"""What the penalty asks of a device on which nothing is compiled: counted by operations, without such a device.

In bfloat16 a CPU goes the way of every other device. Counted is what a step with the penalty does beside the plain
one, for each ReLU: how often the host waits for a result, how many operations are launched, how often so many numbers
are read as the layer has, and what is saved for backward. What is done once for all layers is told apart.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.nn.functional import cross_entropy

from alive.penalties import Jumpstart
from alive.torch_private import TorchDispatchMode, tree_leaves

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
FORWARD, BACKWARD, READINGS, SAVED = 3, 1, 1.1, 0.1  # goals for each layer: launches, readings of z, activations saved
WARM = 3  # steps until the model is known
DEPTH = 4


class Work(NamedTuple):
    """What was asked of the device."""

    waits: int = 0
    launches: int = 0
    read: int = 0  # numbers


class Ledger(TorchDispatchMode):
    """Writes down what is asked of the device."""

    def __init__(self) -> None:
        super().__init__()
        self.work = Work()

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Run an operation."""
        name = func.overloadpacket.__name__
        by_mask = name.startswith("index") and any(
            t.dtype is torch.bool for t in tree_leaves(args[1:]) if isinstance(t, Tensor)
        )
        if name not in VIEWS:
            waits, launches, read = self.work
            given = [t.numel() for t in tree_leaves(args) if isinstance(t, Tensor)]
            given = given[1:] if name in AT_PLACES or name == "copy_" else given
            self.work = Work(waits + (by_mask or name in WAITS), launches + 1, read + sum(given))
        return func(*args, **(kwargs or {}))


class Step(NamedTuple):
    """The forward pass with its penalty, the backward pass, and bytes saved in between."""

    forward: Work
    backward: Work
    saved: int


def figures(rounds: int) -> Iterator[Figure]:
    """Waits, launches, readings and savings for dense layers, convolutions and sequences."""
    del rounds  # counts are the same each time
    yield from _figures("dense, width 256 at batch 256", lambda depth: dense(depth, 256, 256), 256 * 256)
    yield from _figures("conv, width 16 at batch 8", lambda depth: conv(depth, 16, 8), 8 * 16 * 32 * 32)
    yield from _figures(
        "transformer, ReLU 256 at batch 8x32", lambda depth: transformer(depth, 64, 8, 32), 8 * 32 * 256
    )


def _figures(name: str, net: Callable[[int], Net], size: int) -> Iterator[Figure]:
    """Of networks of two depths, so that a layer's own part is known; a layer has `size` numbers."""
    less, more = (_beside(net(depth)) for depth in (DEPTH, 2 * DEPTH))
    forward, backward, read, saved = ((m - n) / DEPTH for m, n in zip(more[1:], less[1:], strict=True))
    yield Figure(f"waits for the device a step, {name}", more[0], 0)
    yield Figure(f"launches forward, a layer, {name}", forward, FORWARD)
    yield Figure(f"launches backward, a layer, {name}", backward, BACKWARD)
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
