"""Farkas layers, blocks and networks: one unit of every layer is active at every input, by construction."""

from .blocks import FarkasResidual, FarkasStep
from .conv import FarkasConv, FarkasConv1d, FarkasConv2d, FarkasConv3d
from .layers import Farkas, FarkasAggregate, FarkasLinear, Weighted
from .nets import FarkasNet
from .plain import guarantees, materialised

__all__ = [
    "Farkas",
    "FarkasAggregate",
    "FarkasConv",
    "FarkasConv1d",
    "FarkasConv2d",
    "FarkasConv3d",
    "FarkasLinear",
    "FarkasNet",
    "FarkasResidual",
    "FarkasStep",
    "Weighted",
    "guarantees",
    "materialised",
]
