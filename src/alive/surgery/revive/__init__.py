"""Reset dead units of a model in place, with the optimiser's state."""

from typing import TYPE_CHECKING

from ...rooms import load_on_use

if TYPE_CHECKING:
    from .operate import revive
    from .renewal import ContinualBackprop, Renewal
    from .rules import ContinuousBackprop, ResetByFiring, ResetByGradient
    from .wires import Part, Wires

__all__ = [
    "ContinualBackprop",
    "ContinuousBackprop",
    "Part",
    "Renewal",
    "ResetByFiring",
    "ResetByGradient",
    "Wires",
    "revive",
]

load_on_use(__name__)
