"""alive keeps every unit and every training point of a network alive.

The public names load on first use, so that importing alive costs nothing.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from ._version import __version__
from .errors import AliveError, near

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
    from . import race as race
    from . import render as render
    from . import surgery as surgery
    from . import taps as taps
    from . import theory as theory
    from . import train as train
    from .diagnosis import Census
    from .diagnosis.census import census
    from .diagnosis.dormancy import dormancy
    from .forecast import preflight
    from .functional import Activation
    from .history import watch
    from .nn import Standardise, initialise_, with_batch_norm
    from .penalties import Jumpstart, Schedule, VANController
    from .race import cure
    from .surgery import load_shrunk, save_shrunk, to_farkas, to_onnx, with_skips
    from .surgery.fold import fold
    from .surgery.phase_out import phase_out
    from .surgery.revive.operate import revive
    from .surgery.shrink.operate import shrink
    from .taps import Declared, Output, Selects, Taps
    from .theory import certify

_HOME = {
    "Activation": "functional",
    "Census": "diagnosis",
    "Declared": "taps",
    "Jumpstart": "penalties",
    "Output": "taps",
    "Schedule": "penalties",
    "Selects": "taps",
    "Standardise": "nn",
    "Taps": "taps",
    "VANController": "penalties",
    "census": "diagnosis",
    "certify": "theory",
    "cure": "race",
    "dormancy": "diagnosis",
    "fold": "surgery",
    "initialise_": "nn",
    "load_shrunk": "surgery",
    "phase_out": "surgery",
    "preflight": "forecast",
    "revive": "surgery",
    "save_shrunk": "surgery",
    "shrink": "surgery",
    "to_farkas": "surgery",
    "to_onnx": "surgery",
    "watch": "history",
    "with_batch_norm": "nn",
    "with_skips": "surgery",
}
_ROOMS = (
    "cures",
    "data",
    "diagnosis",
    "findings",
    "forecast",
    "functional",
    "history",
    "load",
    "nn",
    "penalties",
    "race",
    "render",
    "surgery",
    "taps",
    "theory",
    "train",
)

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


def __getattr__(name: str) -> Any:
    if name in _ROOMS:
        return import_module(f".{name}", __name__)
    if name in _HOME:
        return getattr(import_module(f".{_HOME[name]}", __name__), name)
    hint = "" if name.startswith("_") else f": {near(name, __dir__())}"
    raise AttributeError(f"module 'alive' has no attribute {name!r}{hint}")


def __dir__() -> list[str]:
    return sorted([*__all__, *_ROOMS])
