"""Reset dead units of a model in place, with the optimiser's state."""

from .operate import revive
from .renewal import ContinualBackprop
from .wires import Part, Wires

__all__ = ["ContinualBackprop", "Part", "Wires", "revive"]
