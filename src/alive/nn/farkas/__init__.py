"""Farkas layers: one unit of every layer is active at every input, by construction."""

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
    "guarantees",
    "materialised",
]
