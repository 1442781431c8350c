"""Before any training: how likely a network is born dead on the data or loses its signal, and what to change."""

from typing import TYPE_CHECKING

from ..rooms import load_on_use

if TYPE_CHECKING:
    from .judge import by_size, preflight
    from .record import RISK

__all__ = ["RISK", "by_size", "preflight"]

load_on_use(__name__)
