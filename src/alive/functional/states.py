"""States of units and points (Definitions 1 and 2 of the Jumpstart paper), from their extremes."""

from __future__ import annotations

from enum import IntEnum

import torch
from torch import Tensor

from .activations import Activation


class State(IntEnum):
    """What a unit is over all points, or a point over all units of a layer.

    Differs from the paper: *broken* (NaN or infinite somewhere) is a state of its own, and so is *unknown*: it is not
    known which numbers belong to it.
    """

    NONLINEAR = 0
    DEAD = 1
    LINEAR = 2
    BROKEN = 3
    UNKNOWN = 4


def classify(top: Tensor, bottom: Tensor, activation: Activation) -> Tensor:
    """States from the largest and smallest pre-activations: int8, in the shape of `top`.

    Dead where the activation passes nothing (top ≤ cutoff, or bottom ≥ ceiling), linear where it never cuts
    (bottom > cutoff, and top ≤ ceiling). What no value ever reached (top −inf, bottom inf) counts as dead.

    >>> t = torch.tensor
    >>> classify(t([0.0, 2.0, 1.0, float("nan")]), t([-1.0, 0.5, -1.0, 0.0]), Activation("relu")).tolist()
    [1, 2, 0, 3]
    """
    state = torch.full(top.shape, State.NONLINEAR, dtype=torch.int8, device=top.device)
    state.masked_fill_((bottom > activation.cutoff) & (top <= activation.ceiling), int(State.LINEAR))
    state.masked_fill_((top <= activation.cutoff) | (bottom >= activation.ceiling), int(State.DEAD))
    state.masked_fill_(~(top.isfinite() & bottom.isfinite()), int(State.BROKEN))
    state.masked_fill_((top == -torch.inf) & (bottom == torch.inf), int(State.DEAD))
    return state
