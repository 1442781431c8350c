"""Farkas layers, blocks and networks: one unit of every layer is active at every input, by construction."""

from .blocks import FarkasResidual, FarkasStep
from .conv import FarkasConv1d, FarkasConv2d, FarkasConv3d
from .layers import Farkas, FarkasAggregate, FarkasLinear, Weighted
from .nets import FarkasNet, ResNet
from .plain import guarantees, materialised
from .plan import PRESETS, Plan

__all__ = [
    "PRESETS",
    "Farkas",
    "FarkasAggregate",
    "FarkasConv1d",
    "FarkasConv2d",
    "FarkasConv3d",
    "FarkasLinear",
    "FarkasNet",
    "FarkasResidual",
    "FarkasStep",
    "Plan",
    "ResNet",
    "Weighted",
    "guarantees",
    "materialised",
]
