"""History: censuses taken while a network trains, kept in a small file and drawn as who was alive over time."""

from typing import TYPE_CHECKING

from ..rooms import load_on_use

if TYPE_CHECKING:
    from .record import History
    from .watcher import watch

__all__ = ["History", "watch"]

load_on_use(__name__)
