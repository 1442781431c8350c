"""Layers for a model of your own, how weights start, and dropout that fades away."""

from typing import TYPE_CHECKING

from ..rooms import load_on_use

if TYPE_CHECKING:
    from .dirac import DiracConv2d, DiracLinear
    from .dropout import AnnealedDropout, set_epoch
    from .farkas import FarkasAggregate, FarkasConv1d, FarkasConv2d, FarkasConv3d, FarkasLinear, farkas_block
    from .identity import IdentityBlock
    from .init import INITIALISERS, initialise_, starts_for
    from .lsuv import FITTED, lsuv_
    from .norms import Standardise, with_batch_norm
    from .rectangular import Rectangular, RectangularConv, parse_rectangle
    from .van import VANBlock

__all__ = [
    "FITTED",
    "INITIALISERS",
    "AnnealedDropout",
    "DiracConv2d",
    "DiracLinear",
    "FarkasAggregate",
    "FarkasConv1d",
    "FarkasConv2d",
    "FarkasConv3d",
    "FarkasLinear",
    "IdentityBlock",
    "Rectangular",
    "RectangularConv",
    "Standardise",
    "VANBlock",
    "farkas_block",
    "initialise_",
    "lsuv_",
    "parse_rectangle",
    "set_epoch",
    "starts_for",
    "with_batch_norm",
]

load_on_use(__name__)
