"""A fleet: whole grids of thin networks, each trained from start to end by compiled CPU code, one network a core."""

from ..result import EpochHealth
from ..settings import LrSchedule
from .chance import mask
from .fleet import train_fleet
from .member import MAX_WIDTH, METHODS, Fade, Gate, Member, Method
from .progress import FleetProgress, fleet_bar
from .result import FleetResult, MemberResult

__all__ = [
    "MAX_WIDTH",
    "METHODS",
    "EpochHealth",
    "Fade",
    "FleetProgress",
    "FleetResult",
    "Gate",
    "LrSchedule",
    "Member",
    "MemberResult",
    "Method",
    "fleet_bar",
    "mask",
    "train_fleet",
]
