"""Farkas layers: one unit of every layer is active at every input, by construction."""

from typing import TYPE_CHECKING

from ...rooms import load_on_use

if TYPE_CHECKING:
    from .block import farkas_block
    from .conv import FarkasConv1d, FarkasConv2d, FarkasConv3d
    from .layers import Farkas, FarkasAggregate, FarkasLinear, Weighted
    from .plain import guarantees, materialised

__all__ = [
    "Farkas",
    "FarkasAggregate",
    "FarkasConv1d",
    "FarkasConv2d",
    "FarkasConv3d",
    "FarkasLinear",
    "Weighted",
    "farkas_block",
    "guarantees",
    "materialised",
]

load_on_use(__name__)
