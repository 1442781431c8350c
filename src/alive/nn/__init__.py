"""Layers and networks of the five papers, how their weights start, and dropout that fades away."""

from .dropout import AnnealedDropout, set_epoch
from .farkas import FarkasConv1d, FarkasConv2d, FarkasConv3d, FarkasLinear, FarkasNet, FarkasResidual
from .fixup import FixupNet
from .highway import Highway
from .identity import AllConvResNet, all_conv_34
from .init import INITIALISERS, initialise_, starts_for
from .lsuv import FITTED, lsuv_
from .norms import Standardise, with_batch_norm
from .rectangular import Rectangular, RectangularConv, parse_rectangle
from .resnet import ResNet
from .skips import COMPARED, SkipConv, SkipDense
from .tailored import leaky_gain, tailored_slope
from .van import VANBlock

__all__ = [
    "COMPARED",
    "FITTED",
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
    "Rectangular",
    "RectangularConv",
    "ResNet",
    "SkipConv",
    "SkipDense",
    "Standardise",
    "VANBlock",
    "all_conv_34",
    "initialise_",
    "leaky_gain",
    "lsuv_",
    "parse_rectangle",
    "set_epoch",
    "starts_for",
    "tailored_slope",
    "with_batch_norm",
]
