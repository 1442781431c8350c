"""alive keeps every unit and every training point of a network alive.

The public names load on first use, so that importing alive costs nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ._version import __version__
from .errors import AliveError
from .rooms import load_on_use

if TYPE_CHECKING:
    from . import cures as cures
    from . import data as data
    from . import diagnosis as diagnosis
    from . import findings as findings
    from . import forecast as forecast
    from . import functional as functional
    from . import history as history
    from . import load as load
    from . import nn as nn
    from . import penalties as penalties
    from . import proof as proof
    from . import race as race
    from . import render as render
    from . import surgery as surgery
    from . import taps as taps
    from . import theory as theory
    from . import train as train
    from .diagnosis import Census, census, dormancy
    from .forecast import preflight
    from .functional import Activation
    from .history import watch
    from .nn import Standardise, initialise_, with_batch_norm
    from .penalties import Jumpstart, Schedule, VANController
    from .proof import check_cure
    from .race import cure
    from .surgery import fold, load_shrunk, phase_out, revive, save_shrunk, shrink, to_farkas, to_onnx, with_skips
    from .taps import Declared, Output, Selects, Taps
    from .theory import certify

__all__ = [
    "Activation",
    "AliveError",
    "Census",
    "Declared",
    "Jumpstart",
    "Output",
    "Schedule",
    "Selects",
    "Standardise",
    "Taps",
    "VANController",
    "__version__",
    "census",
    "certify",
    "check_cure",
    "cure",
    "dormancy",
    "fold",
    "initialise_",
    "load_shrunk",
    "phase_out",
    "preflight",
    "revive",
    "save_shrunk",
    "shrink",
    "to_farkas",
    "to_onnx",
    "watch",
    "with_batch_norm",
    "with_skips",
]  # `import *` keeps your nn

load_on_use(__name__)
