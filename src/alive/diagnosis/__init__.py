"""Diagnosis: what is dead, where, and what to do."""

from .census import census
from .gathered import gather
from .limits import Limit
from .record import Census, LayerCensus, Tally
from .signal import Signal

__all__ = ["Census", "LayerCensus", "Limit", "Signal", "Tally", "census", "gather"]
