"""Pictures and pages from finished numbers; nothing here trains a model."""

from .moons import Panel, decision_maps, lives

__all__ = ["Panel", "decision_maps", "lives"]
