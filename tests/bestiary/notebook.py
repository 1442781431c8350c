"""How a beast tells its truth: notes that a model makes itself, or hooks on the parts of a foreign one."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from fnmatch import fnmatchcase
from functools import partial
from typing import Any

import torch
from case import Layer, along
from torch import Tensor, nn

_pages: list[list[Layer]] = []


def note(
    z: Tensor,
    points: int = 0,
    units: int = -1,
    *,
    point: Tensor | None = None,
    unit: Tensor | None = None,
    **more: Any,
) -> Tensor:
    """Write down what the next activation sees, and how it is laid out, while a truth is being taken; returns z."""
    for page in _pages:
        point = along(z, points) if point is None else point
        page.append(Layer(z, point, along(z, units) if unit is None else unit, **more))
    return z


@contextmanager
def page() -> Iterator[list[Layer]]:
    """The notes that are made meanwhile."""
    notes: list[Layer] = []
    _pages.append(notes)
    try:
        yield notes
    finally:
        _pages.remove(notes)


def run(model: nn.Module, batch: Any) -> Any:
    """The model on a batch, as anybody would call it."""
    if isinstance(batch, Mapping):
        return model(**batch)
    return model(batch if isinstance(batch, Tensor) else batch[0])


def noted(model: nn.Module, batch: Any, forward: Callable[[nn.Module, Any], Any] = run) -> list[Layer]:
    """The truth of a model that makes notes."""
    with page() as notes:
        forward(model, batch)
    return notes


def noted_by(forward: Callable[[nn.Module, Any], Any]) -> dict[str, Any]:
    """The fields `truth` and `forward` of a case that is run in a way of its own."""
    return {"truth": partial(noted, forward=forward), "forward": forward}


Seen = list[tuple[str, Tensor]]


@contextmanager
def hooked(model: nn.Module, *patterns: str, inputs: bool = False) -> Iterator[Seen]:
    """What the modules of these names give meanwhile, or are given, in order, with their names."""
    seen: Seen = []

    def before(name: str, module: nn.Module, args: tuple[Any, ...]) -> None:
        seen.append((name, args[0].clone()))  # what comes next may be in place

    def after(name: str, module: nn.Module, args: Any, output: Any) -> None:
        seen.append((name, output))

    wanted = [(n, m) for n, m in model.named_modules() if any(fnmatchcase(n, pattern) for pattern in patterns)]
    assert wanted, f"no module is called {patterns}"
    handles = [
        m.register_forward_pre_hook(partial(before, n)) if inputs else m.register_forward_hook(partial(after, n))
        for n, m in wanted
    ]
    try:
        yield seen
    finally:
        for handle in handles:
            handle.remove()


def plant(module: nn.Module, *, dead: tuple[int, ...] = (), linear: tuple[int, ...] = (), by: float = 50.0) -> None:
    """Give a weighted module dead and linear units, by their bias."""
    with torch.no_grad():
        module.bias[list(dead)] = -by
        module.bias[list(linear)] = by


def hush(module: nn.Module, by: float = 0.1) -> None:
    """Make every bias of a weighted module negative: an input of zeros then gives a dead point."""
    with torch.no_grad():
        module.bias.fill_(-by)


class Made(nn.Module):
    """A model from its parts and a function of itself and the inputs."""

    def __init__(self, go: Callable[..., Any], **parts: Any) -> None:
        super().__init__()
        self.go = go
        for name, part in parts.items():
            setattr(self, name, part)

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        return self.go(self, *args, **kwargs)


def heads_and_features(z: Tensor, heads: int, features: int) -> Tensor:
    """The unit of every entry where the units of one layer lie on two axes: of heads, and of features in a head."""
    return along(z, heads) * z.shape[features] + along(z, features)


def folded(rows: int, each: int) -> Tensor:
    """The point of every row [rows, 1] where each point has so many rows, one after the other."""
    return (torch.arange(rows) // each)[:, None]


def interleaved(rows: int, points: int) -> Tensor:
    """The point of every row [rows, 1] where all points come in turn, again and again."""
    return (torch.arange(rows) % points)[:, None]
