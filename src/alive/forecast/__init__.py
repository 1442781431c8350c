"""Before any training: how likely a network is born dead on the data or loses its signal, and what to change."""

from .judge import by_size, preflight
from .record import RISK

__all__ = ["RISK", "by_size", "preflight"]
