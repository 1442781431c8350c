"""The papers' theorems as functions one can call and check."""

from .birth import Birth, Estimate, birth
from .certificates import Certificate, certify
from .linear_residual import Landscape, landscape, study
from .memoriser import Memorised, memorise
from .merging import arriving, spreads
from .near_identity import Factorisation, factor_near_identity
from .probability import depth_for, layer_dead, network_dead, point_dead, some_unit_dead, width_for
from .verification import Verification, verify

__all__ = [
    "Birth",
    "Certificate",
    "Estimate",
    "Factorisation",
    "Landscape",
    "Memorised",
    "Verification",
    "arriving",
    "birth",
    "certify",
    "depth_for",
    "factor_near_identity",
    "landscape",
    "layer_dead",
    "memorise",
    "network_dead",
    "point_dead",
    "some_unit_dead",
    "spreads",
    "study",
    "verify",
    "width_for",
]
