"""The commands that the laboratory adds to `alive`; asking for their help imports no torch."""

from .clinic import clinic
from .data import commands as data
from .export import export
from .lab import lab
from .studies import bench, demo, report, reproduce

__all__ = ["bench", "clinic", "data", "demo", "export", "lab", "report", "reproduce"]
