"""Layers and networks of the five papers, how their weights start, and dropout that fades away."""

from .dropout import AnnealedDropout, set_epoch
from .farkas import FarkasConv1d, FarkasConv2d, FarkasConv3d, FarkasLinear, FarkasNet, FarkasResidual
from .fixup import FixupNet
from .highway import Highway
from .identity import AllConvResNet, IdentityBlock, all_conv_34
from .init import INITIALISERS, initialise_, starts_for
from .norms import Standardise, with_batch_norm
from .rectangular import Rectangular, RectangularConv, parse_rectangle
from .resnet import ResNet
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
    "Standardise",
    "VANBlock",
    "all_conv_34",
    "initialise_",
    "parse_rectangle",
    "set_epoch",
    "starts_for",
    "with_batch_norm",
]
