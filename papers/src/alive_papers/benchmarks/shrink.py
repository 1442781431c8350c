"""What shrinking gains at inference: the time of a pass after and before, with half of the units dead."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import torch
from torch import Tensor, nn

from alive.nn import Rectangular, RectangularConv
from alive.surgery import shrink

from .figure import Figure, interleaved

BATCH, SIDE = 128, 16
TIME = 1.0  # a small network must not be slower


def figures(rounds: int) -> Iterator[Figure]:
    """A dense and a convolutional network, every second unit of every hidden layer dead."""
    chance = torch.Generator().manual_seed(0)
    nets: dict[str, tuple[nn.Module, Tensor]] = {
        "dense 3x512": (
            Rectangular(64, 10, depth=3, width=512, generator=chance),
            torch.rand(BATCH, 64, generator=chance),
        ),
        "3x3 convolutions 6x32": (
            RectangularConv(3, 10, depth=6, width=32, generator=chance),
            torch.rand(BATCH, 3, SIDE, SIDE, generator=chance),
        ),
    }
    for name, (net, x) in nets.items():
        done = shrink(halved(net.eval()), x)
        time = interleaved({"before": _pass(net, x), "after": _pass(done.model, x)}, rounds)
        left = done.report.connections_left / done.report.connections
        yield Figure(f"connections left, {name}", left)
        yield Figure(f"inference time, after / before, {name}", time["after"] / time["before"], TIME)


@torch.no_grad()
def halved(net: nn.Module) -> nn.Module:
    """Let every second unit of every layer but the last die, in place."""
    layers = [module for module in net.modules() if isinstance(module, nn.Linear | nn.Conv2d)]
    for layer in layers[:-1]:
        assert layer.bias is not None
        layer.weight[::2] = 0.0
        layer.bias[::2] = -1.0
    return net


def _pass(model: nn.Module, x: Tensor) -> Callable[[], object]:
    def run() -> Tensor:
        with torch.no_grad():
            return model(x)  # type: ignore[no-any-return]

    return run
