"""The architectures that the fleet trains, by name."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from .architecture import Architecture
from .conv.network import Conv
from .dense import Dense
from .keras_same import KerasSame

ARCHITECTURES: Mapping[str, Architecture] = MappingProxyType(
    {"dense": Dense(), "keras_same": KerasSame(), "conv": Conv()}
)
