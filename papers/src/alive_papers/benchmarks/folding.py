"""What folding gains at inference: step time and the most feature-map memory that lives at once."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch import Tensor, nn

from alive.nn.van import Gate
from alive.surgery.fold import fold
from alive.torch_private import TorchDispatchMode, tree_leaves

from ..networks.skips import COMPARED
from .figure import Figure, interleaved

N, BASE, BATCH, SIDE = 2, 16, 32, 32  # 8n+2 = 18 layers
TIME = 1.0  # a folded network must not be slower than what it was folded from
MEMORY = 0.7  # nor hold more: two maps at once instead of three


class LiveBytes(TorchDispatchMode):
    """Counts the bytes of all storages made inside it that live at the same time, and their peak.

    What existed before (weights, the input) does not count. Storages are counted by torch's own allocation size when
    an operation returns them and leave the count when nothing refers to them any more; what an operation needs only
    within itself, such as the workspace of a convolution, is not seen.

    >>> with LiveBytes() as live:
    ...     a = torch.zeros(100)
    ...     b = a + 1
    ...     del a, b
    ...     c = torch.zeros(10)
    >>> live.peak, live.now
    (800, 40)
    """

    def __init__(self) -> None:
        super().__init__()
        self.now: int = 0
        self.peak: int = 0
        self._known: weakref.WeakSet[Any] = weakref.WeakSet()

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        before = {leaf.untyped_storage() for leaf in tree_leaves((args, kwargs)) if isinstance(leaf, Tensor)}
        out = func(*args, **(kwargs or {}))
        for leaf in tree_leaves(out):
            if isinstance(leaf, Tensor) and (storage := leaf.untyped_storage()) not in before:
                self._count(storage)
        return out

    def _count(self, storage: Any) -> None:
        if storage not in self._known:
            self._known.add(storage)
            self.now += storage.nbytes()
            self.peak = max(self.peak, self.now)
            weakref.finalize(storage, self._gone, storage.nbytes())

    def _gone(self, size: int) -> None:
        self.now -= size


def figures(rounds: int) -> Iterator[Figure]:
    """A VAN with every α at 1, folded and not, and the ResNet of the same size.

    Memory is that of the exported graph, which lets go of each map after its last use; time and, beside it, memory
    are also given for the modules as Python runs them, whose frames hold each module's input until it returns.
    """
    x = torch.randn(BATCH, 3, SIDE, SIDE, generator=torch.Generator().manual_seed(0))
    nets = _rivals()
    name = f"{8 * N + 2} layers, base {BASE}, {BATCH} images {SIDE}x{SIDE}"
    time = interleaved({rival: _pass(net, x) for rival, net in nets.items()}, rounds)
    eager = {rival: peak_bytes(net, x) for rival, net in nets.items()}
    graph = {rival: peak_bytes(_exported(net, x), x) for rival, net in nets.items()}
    for rival, target in (("gated", TIME), ("resnet", TIME)):
        yield Figure(f"inference time, folded / {rival}, {name}", time["folded"] / time[rival], target)
        yield Figure(f"peak of live feature maps, exported, folded / {rival}", graph["folded"] / graph[rival], MEMORY)
        yield Figure(f"peak of live feature maps, modules, folded / {rival}", eager["folded"] / eager[rival])


def peak_bytes(model: Callable[[Tensor], Tensor], x: Tensor) -> int:
    """The most bytes of feature maps that live at once in one pass without gradients."""
    live = LiveBytes()
    with torch.no_grad(), live:
        model(x)
    return live.peak


def _rivals() -> dict[str, nn.Module]:
    make = {kind: COMPARED[kind].conv(3, 10, n=N, base=BASE, generator=_seeded()) for kind in ("van", "resnet")}
    gated = make["van"].eval()
    for module in gated.modules():
        if isinstance(module, Gate):
            nn.init.ones_(module.alpha)
    return {"gated": gated, "folded": fold(gated).model.eval(), "resnet": make["resnet"].eval()}


def _exported(model: nn.Module, x: Tensor) -> nn.Module:
    return torch.export.export(model, (x,)).module()


def _pass(model: nn.Module, x: Tensor) -> Callable[[], object]:
    def run() -> Tensor:
        with torch.no_grad():
            return model(x)  # type: ignore[no-any-return]

    return run


def _seeded() -> torch.Generator:
    return torch.Generator().manual_seed(0)
