"""Experiments of our own: how deep a plain network can be, and which method is best where."""

from .atlas import ATLAS
from .depth import DEPTH_RECORD

__all__ = ["ATLAS", "DEPTH_RECORD"]
