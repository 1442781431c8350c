"""Numbers of layers cut and changed in place, and put back if the change turns out wrong."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from ..torch_private import children_of, parameters_of
from .graph.channels import Layer, Place, Reader, Reading, Space

UNITS = ("out_features", "out_channels", "num_features", "num_parameters")
SIZES = ("in_features", "in_channels", "groups", *UNITS)
CONV = ("in_channels", "out_channels", "kernel_size", "stride", "padding", "dilation", "groups", "padding_mode")
ARGUMENTS: dict[str, tuple[str, ...]] = {  # what layers are made with
    "Linear": ("in_features", "out_features"),
    **{f"Conv{n}d": CONV for n in (1, 2, 3)},
    **{f"BatchNorm{n}d": ("num_features", "eps", "momentum", "affine", "track_running_stats") for n in (1, 2, 3)},
    "PReLU": ("num_parameters",),
    "Identity": (),
}


class Before:
    """A model and its reading as they are now, to be put back; numbers are replaced and never written into."""

    def __init__(self, reading: Reading) -> None:
        self._held: list[tuple[object, dict[str, Any]]] = []
        for module in reading.model.modules():
            sizes = {name: size for name, size in vars(module).items() if name in SIZES}
            numbers = {**parameters_of(module), **dict(module.named_buffers(recurse=False))}
            self._held.append((module, {**numbers, **children_of(module), **sizes}))
        for layer in reading.layers:
            self._held.append((layer, {"module": layer.module, "padded": layer.padded}))
        for space in reading.all_spaces():
            self._held.append((space, {"kept": space.kept, "fixed": space.fixed}))
            self._held += [(reader, {"layer": reader.layer}) for reader in space.readers]

    def restore(self) -> None:
        """Put everything back."""
        for each, values in self._held:
            for name, value in values.items():
                if getattr(each, name) is not value:
                    setattr(each, name, value)


def arguments(layer: nn.Module) -> dict[str, Any]:
    """What a layer of torch is made with, but for its bias."""
    return {name: getattr(layer, name) for name in ARGUMENTS[type(layer).__name__]}


def set_parameter(module: Any, name: str, value: Tensor) -> None:
    """Give a module a new parameter, in its own precision and on its own device."""
    old = getattr(module, name)
    like = module.weight if old is None else old
    made = nn.Parameter(value.to(like.device, like.dtype).contiguous(), requires_grad=like.requires_grad)
    setattr(module, name, made)


def set_weight(layer: Layer, weight: Tensor) -> None:
    """Give a layer a new weight, and the sizes that follow from it."""
    module = layer.module
    set_parameter(module, "weight", weight)
    kind = "features" if isinstance(module, nn.Linear) else "channels"
    setattr(module, f"out_{kind}", weight.shape[0])
    setattr(module, f"in_{kind}", weight.shape[1] * layer.groups)


def keep_rows(module: nn.Module, rows: Tensor) -> None:
    """Leave some units of a layer, a norm or a PReLU."""
    for name, value in list(module.named_parameters(recurse=False)):
        set_parameter(module, name, value.detach()[rows.to(value.device)])
    for name, buffer in list(module.named_buffers(recurse=False)):
        if buffer.ndim:
            setattr(module, name, buffer[rows.to(buffer.device)])
    for name in UNITS:
        if hasattr(module, name):
            setattr(module, name, len(rows))


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


def add_to_bias(layer: Layer, change: Tensor) -> None:
    """Add to a layer's bias, which it gets if it has none; nothing where the change is zero."""
    if bool((change != 0).any()):
        set_parameter(layer.module, "bias", bias_of(layer) + change)


def _parts(reader: Reader, count: int) -> Tensor:
    """The weight of a reader of `count` channels, as far as it reads these: [groups, m, c, features, positions]."""
    weight, groups, features = weight_of(reader.layer), reader.layer.groups, reader.place.features
    own = weight.narrow(1, reader.place.start, count // groups * features)
    return own.reshape(groups, len(weight) // groups, count // groups, features, -1)


def columns(reader: Reader, count: int) -> Tensor:
    """What a reader of `count` channels multiplies each by: [rows, C], rows over outputs, features and positions."""
    return _parts(reader, count).permute(1, 3, 4, 0, 2).flatten(3).flatten(0, 2)


def set_columns(reader: Reader, value: Tensor) -> None:
    """The way back from `columns`, of a layer in one group that reads nothing else: as many channels as columns."""
    weight, block = weight_of(reader.layer), reader.place.features
    count = value.shape[1]
    parts = value.reshape(len(weight), block, -1, count).permute(0, 3, 1, 2)  # m, c, block, k
    set_weight(reader.layer, parts.reshape(len(weight), count * block, *weight.shape[2:]))


def constant(reader: Reader, values: Tensor) -> Tensor:
    """What constants [C] in the channels add to every output of a reader [m] that stands nowhere near a border."""
    parts = _parts(reader, len(values)).sum((3, 4))
    return torch.einsum("gmc,gc->gm", parts, values.reshape(len(parts), -1)).flatten()


def cut(space: Space, left: Tensor) -> None:
    """Leave some channels of a space, by their places among those that are left now."""
    for layer in space.producers:
        keep_rows(layer.module, left)
    # Where a segment of a concatenation starts depends on those before it, so the last are cut first.
    for each, place in sorted(space.each, key=lambda held: -held[1].number):
        module: Any = each.module if isinstance(each, Layer) else each
        size = next(getattr(module, name) for name in UNITS if hasattr(module, name))
        entries = _entries(space, left, place, size)
        keep_rows(module, entries)
        if isinstance(each, Layer):
            module.groups = module.in_channels = len(left)
    for reader in sorted(space.readers, key=lambda reader: -reader.place.number):
        weight, groups = weight_of(reader.layer), reader.layer.groups
        if groups == 1:
            kept = weight[:, _entries(space, left, reader.place, weight.shape[1])]
        else:
            own = left.reshape(groups, -1) % (len(space.kept) // groups)  # as many in each group
            parts = weight.reshape(groups, -1, *weight.shape[1:])
            kept = torch.cat([part[:, places] for part, places in zip(parts, own, strict=True)])
        set_weight(reader.layer, kept)
    space.kept = space.kept[left]


def _entries(space: Space, left: Tensor, place: Place, size: int) -> Tensor:
    """Those of the features of a value that stay if some channels of one segment go."""
    start, features = place.start, place.features
    own = (left[:, None] * features + torch.arange(features)).flatten()
    return torch.cat([torch.arange(start), start + own, torch.arange(start + len(space.kept) * features, size)])
