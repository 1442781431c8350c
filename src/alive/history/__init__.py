"""History: censuses taken while a network trains, kept in a small file and drawn as who was alive over time."""

from .record import History
from .watcher import watch

__all__ = ["History", "watch"]
