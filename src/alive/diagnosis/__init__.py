"""Diagnosis: what is dead, where, and what to do."""

from .census import Census, LayerCensus, Tally, census
from .limits import Limit
from .ranks import gather

__all__ = ["Census", "LayerCensus", "Limit", "Tally", "census", "gather"]
