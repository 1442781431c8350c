"""The way back: how much of a gradient at the output arrives at each layer."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from math import sqrt
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.autograd.graph import GradientEdge, get_gradient_edge

from ..errors import AliveError, fault
from ..provenance import Layout, tensors
from ..torch_private import is_functorch_wrapped_tensor
from .signal import Signal, norms
from .task import Task, task

Loss = Callable[[Any, Any], Tensor]
SEED = 0  # of the direction of the output, the same in every batch


class _Ear(NamedTuple):
    """Where to read a gradient: the place in the graph, before any in-place operation."""

    edge: GradientEdge
    layout: Layout


class Backward:
    """One pass back for each batch: the norm of the gradient of each point at every layer.

    Without a loss it goes back from the sum over points of <output, direction>, a direction of norm 1 drawn once for
    each shape of output. All norms are means over points, relative to the one at the output.
    """

    def __init__(self, loss: Loss | None) -> None:
        self._loss = loss
        self._ears: list[tuple[str, _Ear]] = []  # several of one name, where calls bring points of their own
        self._norms: dict[str, Tensor | None] = {}
        self._cut: Callable[[str], bool] = lambda name: False
        self._points = 0
        self._value = torch.tensor(0.0)
        self.task: Task | None = None  # what the loss said of the batch

    def expect(self) -> None:
        """A batch comes."""
        self._ears, self._norms, self.task = [], {}, None

    def listen(self, name: str, z: Tensor, layout: Layout) -> None:
        """Note what arrives at these pre-activations, if any can."""
        if z.requires_grad and not is_functorch_wrapped_tensor(z):
            self._ears.append((name, _Ear(get_gradient_edge(z), layout)))

    def run(
        self, output: Any, targets: Any, points: int, point_axis: int | None, weights: Sequence[Tensor] = ()
    ) -> None:  # fmt: skip
        """Go back from the output, or from the loss: then to the weights too."""
        ends = [t for t in tensors(output) if t.requires_grad and t.is_floating_point()]
        self._points, self._cut = points, lambda name: not ends
        if not ends or not points:
            return
        with torch.enable_grad():
            start = self._start(output, targets, ends, points, point_axis)
        ends = [] if self._loss is None else [t for t in ends if t is not start]
        weights = [] if self._loss is None else weights
        edges = [*(ear.edge for _, ear in self._ears), *map(get_gradient_edge, (*ends, *weights))]
        try:
            found = torch.autograd.grad(start, edges, allow_unused=True)
        except RuntimeError as error:
            raise AliveError(
                f"the gradient could not be taken: {str(error).strip().splitlines()[0].rstrip('.')}",
                "Leave the gradient out of the census; training will meet the same fault",
            ) from error
        found, pulls = found[: len(edges) - len(weights)], found[len(edges) - len(weights) :]
        if self._loss is not None:
            self.task = task(self._loss, start.detach(), output, targets, pulls, weights)
        share = 1.0 if self._loss is None else _mean_norm(found[len(self._ears) :], points, point_axis)
        reached = set()
        for (name, ear), gradient in zip(self._ears, found, strict=False):
            arrived = None if gradient is None else norms(gradient, ear.layout, points)
            told = None if arrived is None or not share else arrived.cpu() / share
            earlier = self._norms.get(name)
            self._norms[name] = told if earlier is None else earlier if told is None else earlier + told
            reached |= set() if gradient is None else {name}
        cut = {name for name, _ in self._ears} - reached
        self._cut = cut.__contains__

    def _start(self, output: Any, targets: Any, ends: Sequence[Tensor], points: int, point_axis: int | None) -> Tensor:
        """The number whose gradient is taken."""
        if self._loss is None:
            parts = [_along(t, points, point_axis) for t in ends]
            whole = sqrt(sum(float(direction.double().square().sum()) for _, direction in parts))
            # A number for all points, such as a loss, is a mean over them.
            scale = 1 if any(_axis(t, points, point_axis) is not None for t in ends) else points
            return sum((value.double().sum() for value, _ in parts), torch.zeros(())) * (scale / whole)
        return loss_of(self._loss, output, targets)

    def arrived(self, name: str, signal: Signal) -> Signal:
        """The signal of a layer with the gradient that arrived there."""
        if self._points and self._cut(name):
            return replace(signal, arrived=0.0, silent_points=self._points, judged=self._points, cut=True)
        found = self._norms.get(name)
        if found is None:
            return signal
        return replace(signal, arrived=float(found.sum()), silent_points=int((found == 0).sum()), judged=len(found))


def loss_of(loss: Loss, output: Any, targets: Any) -> Tensor:
    """One number by a loss of the user's own, with a gradient."""
    try:
        with torch.enable_grad():
            found = loss(output, targets)
    except Exception as error:
        if targets is None and isinstance(error, AttributeError | TypeError):  # as of nothing at all
            raise AliveError("the data have no targets for the loss", "Give (inputs, targets)") from error
        raise fault("calling the loss", error) from error
    if not isinstance(found, Tensor) or found.numel() != 1:
        given = list(found.shape) if isinstance(found, Tensor) else type(found).__name__
        raise AliveError(f"the loss gave {given}, not one number", "Let loss(output, targets) return the mean")
    if not found.requires_grad:
        raise AliveError("the loss does not depend on the model's output", "Compute it from the output, with torch")
    return found.reshape(())


def _axis(t: Tensor, points: int, point_axis: int | None) -> int | None:
    """The axis of the points in an output; None where it has none."""
    axes = [] if point_axis is None else [0, point_axis]
    return next((d for d in axes if -t.ndim <= d < t.ndim and t.shape[d] == points), None)


def _along(t: Tensor, points: int, point_axis: int | None) -> tuple[Tensor, Tensor]:
    """An output times a random direction, one for all points; and the direction."""
    axis = _axis(t, points, point_axis)
    shape = list(t.shape) if axis is None else [1 if d == axis % t.ndim else n for d, n in enumerate(t.shape)]
    direction = torch.randn(shape, generator=torch.Generator().manual_seed(SEED)).to(t)
    return t * direction, direction


def _mean_norm(gradients: Sequence[Tensor | None], points: int, point_axis: int | None) -> float:
    """The norm of the gradient at the output, the mean over points."""
    squares = torch.zeros(points, dtype=torch.float64)
    for g in gradients:
        if g is None:
            continue
        axis = _axis(g, points, point_axis)
        if axis is None:
            squares += float(g.double().square().sum()) / points
        else:
            squares += g.detach().double().movedim(axis, 0).reshape(points, -1).square().sum(1).cpu()
    return float(squares.sqrt().mean())


@contextmanager
def unfrozen(model: nn.Module, *, wanted: bool) -> Iterator[None]:
    """Let gradients pass frozen weights too, for a while: what arrives does not depend on which are trained."""
    frozen = [p for p in model.parameters() if wanted and not p.requires_grad and p.is_floating_point()]
    frozen = [p for p in frozen if not p.is_inference()]
    for p in frozen:
        p.requires_grad_(True)
    try:
        yield
    finally:
        for p in frozen:
            p.requires_grad_(False)
