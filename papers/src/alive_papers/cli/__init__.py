"""The commands that the laboratory adds to `alive`; asking for their help imports no torch."""

from typing import TYPE_CHECKING

from alive.rooms import load_on_use

if TYPE_CHECKING:
    from .clinic import clinic
    from .data import data
    from .export import export
    from .lab import lab
    from .studies import bench, demo, report, reproduce

__all__ = ["bench", "clinic", "data", "demo", "export", "lab", "report", "reproduce"]

load_on_use(__name__)
