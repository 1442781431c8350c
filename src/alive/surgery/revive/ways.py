"""The ways in which units are reset: drawn anew, by utility, by loss, and codes from what is looked up."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

import torch
from torch import Tensor, fx, nn

from ...errors import AliveError
from ..graph.calls import Call
from ..graph.channels import Layer, Reading
from ..models import tensor_of
from .numbers import Bench, draw_in, zero_out
from .wires import Part, Wires

SHARE_OF_NORM = 0.2  # of the live units' mean norm, as the authors of resampling have it
HOW = ("redo", "utility", "loss", "codes")


Loss = Callable[[Any, Any], Tensor]


class Points(NamedTuple):
    """What a layer reads at every point [N, n], and the loss of each [N]."""

    inputs: Tensor
    losses: Tensor

    @classmethod
    def of(cls, reading: Reading, layer: Layer | None, calls: Iterable[Call], size: int, loss: Loss | None) -> Points:
        """All points of the calls; of no layer, the inputs themselves."""
        node: Any = next(n for n in reading.nodes if n.name in reading.inputs) if layer is None else layer.node.args[0]
        seen: dict[fx.Node, Tensor] = {}
        parts = []
        for call in calls:
            for start, part in enumerate(call.sized(size)):
                output = reading.run(part, lambda n, value: seen.update({n: value}) if n is node else None)
                output = output[0] if isinstance(output, tuple | list) else output
                own = min(size, call.points - start * size)  # calls are filled up to one size
                parts.append([x[: len(x) * own // size].cpu() for x in (seen[node], output, part.leaves()[0])])
        read, output, given = (torch.cat(each) for each in zip(*parts, strict=True))
        return cls(read.flatten(1), _losses(output, given, loss))


def _losses(output: Tensor, given: Tensor, loss: Loss | None) -> Tensor:
    """The loss of every point [N]: the user's, else the squared error of what should be the input again."""
    if loss is not None:
        found = loss(output, given)
        if found.shape != (len(given),):
            raise AliveError(
                f"the loss gives {list(found.shape)} numbers for {len(given)} points", "Give one number a point"
            )
        return found
    if output.shape != given.shape:
        raise AliveError(
            f"the model makes {list(output.shape)} of inputs {list(given.shape)}, so that it is no autoencoder",
            "Give loss(output, inputs), one number a point",
        )
    return (output - given).flatten(1).square().mean(1)


def redo(bench: Bench, wires: Wires, units: Tensor) -> None:
    """Weights in drawn anew, weights out zero (Sokar et al. 2023)."""
    draw_in(bench, wires, units)
    zero_out(bench, wires, units)


def by_utility(bench: Bench, wires: Wires, units: Tensor, means: Tensor) -> None:
    """As ReDo, and the next biases take over what the units told on average [C] (Dohare et al. 2024)."""
    for part, bias in zip(wires.out, wires.biases, strict=False):
        if bias:
            told = lost(tensor_of(bench.model, part.name), part, units, means)
            number = bench.note(bias)
            with torch.no_grad():
                number.add_(told.to(number))
    redo(bench, wires, units)


def utility(model: nn.Module, wires: Wires, sizes: Tensor) -> Tensor:
    """How much each unit tells those that read it [C]: the mean of |h| times the sum of its weights' sizes."""
    read = torch.zeros_like(sizes)
    for part in wires.out:
        if part.groups > 1:
            raise AliveError(f"{part.name} reads these units in groups", 'Use how="redo"')
        weight = tensor_of(model, part.name).detach().to(sizes).abs()
        read += weight.movedim(part.axis, 0).reshape(len(sizes), -1).sum(1)
    return sizes * read


def lost(weight: Tensor, part: Part, units: Tensor, means: Tensor) -> Tensor:
    """What each output of a reader gets from units that always tell their mean; of a kernel nowhere near a border."""
    if part.groups > 1:
        raise AliveError("a grouped convolution reads these units", 'Use how="redo"')
    own = weight.detach().double().cpu().flatten(2).sum(2) if weight.ndim > 2 else weight.detach().double().cpu()
    columns = own.unflatten(1, (-1, part.block)).sum(2)  # [m, C]
    found: Tensor = columns[:, units] @ means.double().cpu()[units]
    return found


def by_loss(bench: Bench, wires: Wires, units: Tensor, points: Points) -> None:
    """Point each unit at an input that is told badly, drawn by its squared loss (Bricken et al. 2023).

    The unit reads that input's direction with a fifth of the live units' mean norm and no bias; what reads it gets the
    same direction with the live units' mean norm, if it is as long.
    """
    chance = torch.Generator().manual_seed(bench.seed)
    odds = points.losses.double().cpu().square()
    if not bool(odds.isfinite().all()) or not float(odds.sum()) > 0:
        raise AliveError("the losses of the points are zero or not finite", "Resampling draws points by their loss")
    picked = torch.multinomial(odds, len(units), replacement=len(units) > int((odds > 0).sum()), generator=chance)
    towards = nn.functional.normalize(points.inputs.double().cpu()[picked], dim=1)
    for part in wires.into:
        tensor = tensor_of(bench.model, part.name)
        if tensor.ndim < 2:
            bench.write(part, units, 0.0)
        else:
            bench.write(part, units, _point(tensor, part, units, towards, SHARE_OF_NORM))
    for part in wires.each:
        bench.write(part, units, bench.drawn(part))
    for part in wires.out:
        tensor = tensor_of(bench.model, part.name)
        fits = tensor.ndim == 2 and part.block == 1 and tensor.shape[1 - part.axis] == towards.shape[1]
        bench.write(part, units, _point(tensor, part, units, towards, 1.0) if fits else 0.0)


def _point(tensor: Tensor, part: Part, units: Tensor, towards: Tensor, share: float) -> Tensor:
    """The whole weight, in which the units point towards given directions with a share of the others' mean norm."""
    if tensor.ndim != 2 or part.block != 1 or tensor.shape[1 - part.axis] != towards.shape[1]:
        raise AliveError(
            f"{part.name} {list(tensor.shape)} does not read inputs of {towards.shape[1]} numbers",
            'Resampling by loss is for dense autoencoders; use how="redo"',
        )
    rows = tensor.detach().double().cpu().movedim(part.axis, 0).clone()
    live = torch.ones(len(rows), dtype=torch.bool)
    live[units] = False
    norm = rows[live].norm(dim=1).mean() if bool(live.any()) else torch.tensor(1.0)
    rows[units] = share * float(norm) * towards
    return rows.movedim(0, part.axis)


def reseed(bench: Bench, part: Part, units: Tensor, vectors: Tensor) -> None:
    """Put codes where what is looked up lies: on vectors [M, d] drawn at random; running means follow their code.

    Buffers beside the codebook that have its shape are sums of what chose a code, those without its last axis counts.
    """
    chance = torch.Generator().manual_seed(bench.seed)
    given = vectors.detach().double().cpu()
    if len(given) < 1:
        raise AliveError("no vectors are looked up in the codebook on these data", "Give data that reach it")
    order = torch.randperm(len(given), generator=chance)
    picked = given[order[torch.arange(len(units)) % len(given)]]
    book = tensor_of(bench.model, part.name)
    values = book.detach().double().cpu().movedim(part.axis, -2).clone()
    values[..., units, :] = picked
    values = values.movedim(-2, part.axis)
    bench.write(part, units, values)
    path, _, name = part.name.rpartition(".")
    for other, buffer in bench.model.get_submodule(path).named_buffers(recurse=False):
        if other != name and buffer.shape == book.shape:
            bench.write(Part(f"{path}.{other}".lstrip("."), part.axis), units, values)
        elif buffer.ndim and buffer.is_floating_point() and buffer.shape == book.shape[:-1]:
            bench.write(Part(f"{path}.{other}".lstrip("."), part.axis), units, 1.0)
