"""Before any training: how likely a network is born dead on the data or loses its signal, and what to change."""

from .judge import by_size, preflight
from .record import RISK, Preflight, Remedy

__all__ = ["RISK", "Preflight", "Remedy", "by_size", "preflight"]
