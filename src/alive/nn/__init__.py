"""Layers and networks of the five papers, how their weights start, and dropout that fades away."""

from .dropout import AnnealedDropout, set_epoch
from .farkas import FarkasConv1d, FarkasConv2d, FarkasConv3d, FarkasLinear, FarkasNet, FarkasResidual, ResNet
from .fixup import FixupNet
from .highway import Highway
from .identity import AllConvResNet, IdentityBlock, all_conv_34
from .init import INITIALISERS, initialise_
from .rectangular import Rectangular, RectangularConv, parse_rectangle
from .skips import COMPARED, SkipConv, SkipDense
from .van import VANBlock

__all__ = [
    "COMPARED",
    "INITIALISERS",
    "AllConvResNet",
    "AnnealedDropout",
    "FarkasConv1d",
    "FarkasConv2d",
    "FarkasConv3d",
    "FarkasLinear",
    "FarkasNet",
    "FarkasResidual",
    "FixupNet",
    "Highway",
    "IdentityBlock",
    "Rectangular",
    "RectangularConv",
    "ResNet",
    "SkipConv",
    "SkipDense",
    "VANBlock",
    "all_conv_34",
    "initialise_",
    "parse_rectangle",
    "set_epoch",
]
