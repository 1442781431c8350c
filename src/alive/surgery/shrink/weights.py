"""Numbers of layers cut and changed in place, and put back if the change turns out wrong."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from ...torch_private import parameters_of
from .graph import Layer, Place, Reader, Space

SIZES = ("in_features", "out_features", "in_channels", "out_channels", "groups", "num_features", "num_parameters")


class Journal:
    """What modules were before they were changed."""

    def __init__(self) -> None:
        self._numbers: dict[nn.Module, tuple[dict[str, Any], dict[str, Any], dict[str, int]]] = {}
        self._kept: dict[Space, Tensor] = {}
        self._more: list[Callable[[], object]] = []

    def note(self, module: nn.Module) -> None:
        """Remember a module as it is, unless it is known from before."""
        if module not in self._numbers:
            sizes = {name: getattr(module, name) for name in SIZES if hasattr(module, name)}
            buffers = dict(module.named_buffers(recurse=False))
            self._numbers[module] = (dict(parameters_of(module)), buffers, sizes)

    def note_space(self, space: Space) -> None:
        """Remember which channels of a space are left."""
        self._kept.setdefault(space, space.kept)

    def note_way_back(self, step: Callable[[], object]) -> None:
        """Remember how something else is put back."""
        self._more.append(step)

    def undo(self) -> None:
        """Put everything back, the last change first."""
        for step in reversed(self._more):
            step()
        for module, (parameters, buffers, sizes) in self._numbers.items():
            for name, value in (*parameters.items(), *buffers.items()):
                setattr(module, name, value)
            for name, size in sizes.items():
                setattr(module, name, size)
        for space, kept in self._kept.items():
            space.kept = kept


def set_parameter(module: Any, name: str, value: Tensor, journal: Journal) -> None:
    """Give a module a new parameter, in its own precision and on its own device."""
    journal.note(module)
    old = getattr(module, name)
    like = module.weight if old is None else old
    made = nn.Parameter(value.to(like.device, like.dtype).contiguous(), requires_grad=like.requires_grad)
    setattr(module, name, made)


def set_weight(layer: Layer, weight: Tensor, journal: Journal) -> None:
    """Give a layer a new weight, and the sizes that follow from it."""
    module = layer.module
    set_parameter(module, "weight", weight, journal)
    rows, columns = weight.shape[0], weight.shape[1] * layer.groups
    names = ("out_features", "in_features") if isinstance(module, nn.Linear) else ("out_channels", "in_channels")
    for name, size in zip(names, (rows, columns), strict=True):
        setattr(module, name, size)


def weight_of(layer: Layer) -> Tensor:
    """A copy of the weight [m, n, ...] in double precision."""
    found: Tensor = layer.module.weight
    return found.detach().to("cpu", torch.float64, copy=True)


def bias_of(layer: Layer) -> Tensor:
    """A copy of the bias [m], zeros if there is none."""
    bias = layer.module.bias
    if bias is None:
        return torch.zeros(len(layer.module.weight), dtype=torch.float64)
    found: Tensor = bias.detach().to("cpu", torch.float64, copy=True)
    return found


def add_to_bias(layer: Layer, change: Tensor, journal: Journal) -> None:
    """Add to a layer's bias, which it gets if it has none; nothing where the change is zero."""
    if bool((change != 0).any()):
        set_parameter(layer.module, "bias", bias_of(layer) + change, journal)


def columns(reader: Reader, count: int) -> Tensor:
    """What a reader of `count` channels multiplies each by: [rows, C], rows over outputs, features and positions."""
    weight = _read(reader, count)
    groups, block = reader.layer.groups, reader.layout.block
    parts = weight.reshape(groups, len(weight) // groups, count // groups, block, -1)  # g, m, c, block, k
    return parts.permute(1, 3, 4, 0, 2).flatten(3).flatten(0, 2)


def set_columns(reader: Reader, value: Tensor, journal: Journal) -> None:
    """The way back from `columns`, of a layer in one group that reads nothing else: as many channels as columns."""
    weight, block = weight_of(reader.layer), reader.layout.block
    count = value.shape[1]
    parts = value.reshape(len(weight), block, -1, count).permute(0, 3, 1, 2)  # m, c, block, k
    set_weight(reader.layer, parts.reshape(len(weight), count * block, *weight.shape[2:]), journal)


def _read(reader: Reader, count: int) -> Tensor:
    """The weight of a reader as far as it reads these channels."""
    weight = weight_of(reader.layer)
    return weight if reader.place is None else weight.narrow(1, reader.start, count * reader.layout.block)


def constant(reader: Reader, values: Tensor) -> Tensor:
    """What constants [C] in the channels add to every output of a reader [m] that stands nowhere near a border."""
    weight = _read(reader, len(values))
    groups, block = reader.layer.groups, reader.layout.block
    parts = weight.reshape(groups, len(weight) // groups, len(values) // groups, block, -1).sum((3, 4))
    return torch.einsum("gmc,gc->gm", parts, values.reshape(groups, -1)).flatten()


def cut(space: Space, left: Tensor, journal: Journal) -> None:
    """Leave some channels of a space, by their places among those that are left now."""
    count = len(space.kept)
    for layer in space.producers:
        _keep_rows(layer, left, journal)
    for each, block in space.each:
        if isinstance(each, Layer):
            _keep_depthwise(each, _features(left, block), left, journal)
        else:
            _keep_each(each, _features(left, block), journal)
    for module, place in sorted(space.beside, key=_last_first):
        _keep_each(module, _entries(left, count, place, _numbers(module)), journal)
    for reader in sorted(space.readers, key=lambda reader: _last_first((reader, reader.place))):
        _keep_columns(reader, left, count, journal)
    journal.note_space(space)
    space.kept = space.kept[left]


def _keep_rows(layer: Layer, rows: Tensor, journal: Journal) -> None:
    bias = layer.module.bias
    set_weight(layer, weight_of(layer)[rows], journal)
    if bias is not None:
        set_parameter(layer.module, "bias", bias.detach()[rows.to(bias.device)], journal)


def _keep_depthwise(layer: Layer, rows: Tensor, left: Tensor, journal: Journal) -> None:
    journal.note(layer.module)
    layer.module.groups = len(left)
    _keep_rows(layer, rows, journal)


def _keep_each(module: nn.Module, entries: Tensor, journal: Journal) -> None:
    """Leave some numbers of a norm or a PReLU."""
    journal.note(module)
    for name, value in module.named_parameters(recurse=False):
        set_parameter(module, name, value.detach()[entries.to(value.device)], journal)
    for name, buffer in module.named_buffers(recurse=False):
        if buffer.ndim:
            setattr(module, name, buffer[entries.to(buffer.device)])
    for name in ("num_features", "num_parameters"):
        if hasattr(module, name):
            setattr(module, name, len(entries))


def _numbers(module: Any) -> int:
    """How many channels a norm or a PReLU has numbers for."""
    return int(module.num_parameters if isinstance(module, nn.PReLU) else module.num_features)


def _keep_columns(reader: Reader, left: Tensor, count: int, journal: Journal) -> None:
    weight, groups, block = weight_of(reader.layer), reader.layer.groups, reader.layout.block
    if reader.place is not None:
        set_weight(reader.layer, weight[:, _entries(left, count, reader.place, weight.shape[1])], journal)
        return
    if groups == 1:
        set_weight(reader.layer, weight[:, _features(left, block)], journal)
        return
    own = left.reshape(groups, -1) % (count // groups)  # as many in each group
    parts = weight.reshape(groups, len(weight) // groups, *weight.shape[1:])
    kept = torch.stack([part[:, places] for part, places in zip(parts, own, strict=True)])
    set_weight(reader.layer, kept.flatten(0, 1), journal)


def _last_first(held: tuple[Any, Place | None]) -> int:
    """The order in which the parts of a concatenation are cut: where one starts depends on those before it."""
    return 0 if held[1] is None else -held[1].number


def _entries(left: Tensor, count: int, place: Place, size: int) -> Tensor:
    """Those of the features of a concatenation that stay if some channels of one part go."""
    start, behind = place.start, place.start + count * place.features
    return torch.cat([torch.arange(start), start + _features(left, place.features), torch.arange(behind, size)])


def _features(channels: Tensor, block: int) -> Tensor:
    return (channels[:, None] * block + torch.arange(block)).flatten()
