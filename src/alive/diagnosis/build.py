"""How a model is built, as far as it decides which cures apply to it."""

from __future__ import annotations

import math
from typing import NamedTuple

import torch
from torch import Tensor, nn

from ..nn import starts_for
from ..nn.init import Layer
from ..nn.norms import NORMS
from ..torch_private import BatchNorm
from .norms import fresh_norms


class Build(NamedTuple):
    """What applies to a model.

    starts  the starts that `alive.nn.initialise_` can give it
    norms   whether it has norms already
    moved   whether it has left its start: some bias is that of no usual one, or a batch norm has seen a batch
    unsettled  batch norms that have seen no data, by their paths: in eval mode they do nothing yet
    """

    starts: tuple[str, ...]
    norms: bool
    moved: bool
    unsettled: tuple[str, ...] = ()


@torch.no_grad()
def build(model: nn.Module) -> Build:
    """Look at the parts of a model; nothing is run, nothing is changed."""
    parts = list(model.modules())
    norms = [part for part in parts if isinstance(part, NORMS)]
    moved = any(map(_has_moved, parts))
    return Build(starts_for(model), bool(norms), moved, tuple(fresh_norms(model)))


def _has_moved(part: nn.Module) -> bool:
    """Whether a part cannot be as it was built: PyTorch draws biases within 1/sqrt(fan_in), others set them alike."""
    if isinstance(part, BatchNorm):
        seen = part.num_batches_tracked
        return isinstance(seen, Tensor) and _readable(seen) and bool(seen > 0)
    if not isinstance(part, Layer) or part.bias is None or not _readable(part.bias):
        return False
    bias = part.bias.detach()
    # Not by part.weight: one that is computed as it is read, as by spectral_norm, may change what it is computed from.
    if isinstance(part, nn.Linear):
        fan_in = part.in_features
    else:
        fan_in = part.in_channels // part.groups * math.prod(part.kernel_size)
    bound = (1 + 1e-3) / math.sqrt(max(1, fan_in))
    return bool((bias != bias[0]).any()) and not float(bias.abs().max()) <= bound


def _readable(values: Tensor) -> bool:
    """Whether there is anything to read: lazy parameters and those on the meta device hold no numbers yet."""
    return (
        not isinstance(values, nn.UninitializedParameter | nn.UninitializedBuffer)
        and not values.is_meta
        and values.numel() > 0
    )
