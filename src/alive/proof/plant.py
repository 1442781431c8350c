"""Units, latents, codes and experts made dead by their weights, exactly: a census says so."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from ..diagnosis import Census, LayerCensus, census
from ..errors import AliveError
from ..functional import State
from ..nn.norms import NORMS
from ..surgery.models import tensor_of
from ..taps.selections import CODE, NOUNS, UNIT

FAR = 1e3  # times the size of the codes
ROOM = 0.1  # of a candidate's range, below what is chosen
AVERAGES = ("avg", "sum", "ema", "count", "size")  # in names of what is kept beside a codebook


@dataclass(frozen=True, slots=True)
class Rows:
    """A tensor of a model with a row for each unit, by its name, along an axis."""

    name: str
    axis: int

    def of(self, model: nn.Module) -> Tensor:
        """The tensor with its units first, as a view [C, ...] that is written through."""
        return tensor_of(model, self.name).detach().movedim(self.axis, 0)


class Told(NamedTuple):
    """The units of a layer in a census: their states, and how often they are on, candidates beside an even share."""

    states: Tensor
    often: Tensor


@dataclass(frozen=True, slots=True)
class Planted:
    """A layer, the units planted dead in it, those that were alive before and stayed so, and where their numbers lie.

    own     what makes the units
    beside  what is kept beside it: moving averages, sizes of clusters
    """

    layer: str
    label: str
    noun: str
    units: Tensor
    alive: Tensor
    own: tuple[Rows, ...]
    beside: tuple[Rows, ...]

    def told(self, found: Census) -> Told:
        """The layer in a later census."""
        layer = found[self.layer]
        rates = layer.rates
        assert rates is not None
        even = rates.on.double().mean() if self.noun in NOUNS else rates.met.double()
        return Told(layer.states, rates.on / even)


def plant(model: nn.Module, data: Any, *, layer: str | None, share: float) -> Planted:
    """Make a share of the units of a layer dead: of the one that is named, else of the first that chooses, else of the
    widest.
    """
    before = census(model, data)
    target = _target(before, layer)
    alive = (target.states == State.NONLINEAR).nonzero().flatten()
    alive = alive if len(alive) else (target.states == State.LINEAR).nonzero().flatten()
    number = max(1, round(share * len(target.states)))
    if len(alive) < number + 1:
        raise AliveError(
            f"{target.label} has {len(alive)} units alive, too few to plant {number} dead among them",
            "Take more data, a wider layer (layer=...), or a smaller share",
        )
    units = alive[torch.linspace(0, len(alive) - 1, number).round().long()]
    for own, beside in _rows(model, target):
        ways = _codes(model, own, units, beside) if target.noun == CODE else _units(model, target, own, units, data)
        for way in ways:
            were = {name: value.clone() for name, value in model.state_dict().items()}
            way()
            found = census(model, data)[target.name]
            if bool((found.states[units] == State.DEAD).all()):
                rest = torch.tensor([k for k in alive.tolist() if k not in set(units.tolist())])
                spared = rest[found.states[rest] != State.DEAD]
                return Planted(target.name, target.label or target.name, target.noun, units, spared, own, beside)
            model.load_state_dict(were)
    raise AliveError(
        f"no weights were found that make {target.noun}s of {target.label or target.name} dead",
        "Name another layer (layer=...), or give what makes it a bias",
    )


def _target(found: Census, name: str | None) -> LayerCensus:
    if name is not None:
        try:
            return found[name]
        except KeyError:
            known = ", ".join(layer.label or layer.name for layer in found.layers)
            raise AliveError(f"there is no layer {name!r}", f"Name one of: {known}") from None
    layers = [layer for layer in found.layers if not layer.values]
    chosen = [layer for layer in layers if layer.noun in NOUNS]
    if not layers:
        raise AliveError("the model has no layer whose units are known", "Ask alive census why")
    return chosen[0] if chosen else max(layers, key=lambda layer: len(layer.top))


def _rows(model: nn.Module, layer: LayerCensus) -> Iterator[tuple[tuple[Rows, ...], tuple[Rows, ...]]]:
    """What may make the units of a layer, and what is kept beside it, by the path that the census knows."""
    path, count = layer.made_by or layer.name, len(layer.top)
    tensors = {n: t for n, t in (*model.named_parameters(), *model.named_buffers()) if t.is_floating_point()}
    parameters, modules = dict(model.named_parameters()), dict(model.named_modules())
    scope = path if path in modules else path.rpartition(".")[0] if path in tensors else ""
    near = {n: t for n, t in tensors.items() if not scope or n.startswith(f"{scope}.")}
    if layer.noun == CODE:
        books = {n: Rows(n, t.ndim - 2) for n, t in near.items() if t.ndim > 1 and t.shape[-2] == count}
        sizes = [Rows(n, t.ndim - 1) for n, t in near.items() if t.ndim and t.shape[-1] == count and n not in books]
        for name in sorted(books, key=lambda n: (n != path, any(w in n.rpartition(".")[2] for w in AVERAGES))):
            yield (books[name],), (*(rows for n, rows in books.items() if n != name), *sizes)
    elif path in tensors:  # a lone weight: x @ W, with a bias beside it
        lone = Rows(path, tensors[path].ndim - 1 if tensors[path].shape[-1] == count else 0)
        yield (lone, *(Rows(n, 0) for n, t in near.items() if t.shape == (count,) and n in parameters)), ()
    else:
        yield tuple(Rows(n, 0) for n, t in near.items() if n in parameters and t.ndim and t.shape[0] == count), ()


def _codes(
    model: nn.Module, own: Sequence[Rows], units: Tensor, beside: Sequence[Rows]
) -> Iterator[Callable[[], None]]:
    """Codes moved far from all others, to the other side of them, or onto one that is found before."""
    book = own[0].of(model)
    live = [k for k in range(len(book)) if k not in set(units.tolist())]

    was = book[units].flatten(1).norm(dim=1).clamp(min=1e-12)

    def put(values: Tensor) -> None:
        for rows in (*own, *beside):
            held = rows.of(model)
            if held.shape != book.shape:
                continue
            with torch.no_grad():
                scale = held[units].flatten(1).norm(dim=1) / was
                new = values if rows is own[0] else values * scale.view(-1, *[1] * (values.ndim - 1))
                held[units] = new.to(held)

    size = book[live].norm(dim=-1, keepdim=True).mean()
    away = book[units] + FAR * size * torch.nn.functional.normalize(book[units], dim=-1)
    other = -torch.nn.functional.normalize(book[live].mean(0, keepdim=True), dim=-1) * size
    yield lambda: put(away.clone())
    yield lambda: put(other.expand_as(book[units]).clone())
    yield lambda: put(book[live[0]].expand_as(book[units]).clone())


def _units(
    model: nn.Module, layer: LayerCensus, own: Sequence[Rows], units: Tensor, data: Any
) -> Iterator[Callable[[], None]]:
    """A bias lowered until nothing passes, with room to spare; without one, weights that nothing passes."""
    count = len(layer.top)
    room = (1.0 if layer.noun == UNIT else ROOM) * (layer.top - layer.bottom).clamp(min=1.0)[units]
    lower = layer.top[units] - layer.activation.cutoff + room
    norms = [
        f"{path}.bias"
        for path, part in model.named_modules()
        if isinstance(part, NORMS) and getattr(part, "bias", None) is not None and len(part.bias) == count  # type: ignore[arg-type]
    ]
    biases = [rows.name for rows in own if rows.of(model).ndim == 1]

    def add(name: str, times: float) -> None:
        with torch.no_grad():
            held = tensor_of(model, name).detach()
            held[units] -= (times * lower).to(held)

    for name in (*(norms[::-1] if not biases else ()), *biases, *norms):
        for times in (1.0, 2.0, 5.0):
            yield lambda name=name, times=times: add(name, times)  # type: ignore[misc]
    weights = [rows for rows in own if rows.of(model).ndim > 1]

    def aim(direction: Tensor | float) -> None:
        with torch.no_grad():
            for rows in weights:
                held = rows.of(model)
                held[units] = direction * torch.ones_like(held[units])

    yield lambda: aim(0.0)
    away = -_mean_input(model, layer.made_by, data)
    for times in (1.0, 10.0, 100.0) if away.numel() == (weights[0].of(model)[0].numel() if weights else -1) else ():
        yield lambda times=times: aim(times * away.view_as(weights[0].of(model)[0]))  # type: ignore[misc]


def _mean_input(model: nn.Module, path: str, data: Any) -> Tensor:
    """The mean of what a module gets over the data, along its last axis; empty where it cannot be told."""
    module = dict(model.named_modules()).get(path)
    sums: list[Tensor] = []
    if module is not None:
        handle = module.register_forward_pre_hook(lambda _, args: sums.append(args[0].detach().flatten(0, -2).mean(0)))
        try:
            census(model, data)
        finally:
            handle.remove()
    return torch.stack(sums).mean(0) if sums else torch.empty(0)
