"""Pictures and pages from finished numbers; nothing here trains a model."""

from .moons import decisions, lives

__all__ = ["decisions", "lives"]
