"""The papers' theorems as functions one can call and check."""

from typing import TYPE_CHECKING

from ..rooms import load_on_use

if TYPE_CHECKING:
    from .birth import Birth, Estimate, birth
    from .certificates import Certificate, certify
    from .merging import arriving, spreads
    from .probability import depth_for, layer_dead, network_dead, point_dead, some_unit_dead, width_for
    from .verification import Verification, verify

__all__ = [
    "Birth",
    "Certificate",
    "Estimate",
    "Verification",
    "arriving",
    "birth",
    "certify",
    "depth_for",
    "layer_dead",
    "network_dead",
    "point_dead",
    "some_unit_dead",
    "spreads",
    "verify",
    "width_for",
]

load_on_use(__name__)
