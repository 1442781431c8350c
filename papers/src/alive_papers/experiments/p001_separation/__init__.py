"""Separation constraints (001): which networks learn, on MOONS and on images."""

from .fifty import DEMO, FIG9, FIG12, PRINTED, TABLE1
from .images import FIG2_001, FIG3_001
from .moons import FIG1, FIG4, FIG5

__all__ = ["DEMO", "FIG1", "FIG2_001", "FIG3_001", "FIG4", "FIG5", "FIG9", "FIG12", "PRINTED", "TABLE1"]
