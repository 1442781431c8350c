"""A fleet: whole grids of thin networks, each trained from start to end by compiled CPU code, one network a core."""

from typing import TYPE_CHECKING

from alive.rooms import load_on_use

if TYPE_CHECKING:
    from alive.train.result import EpochHealth

    from .chance import mask
    from .crew import Ended, train_supply
    from .fleet import expect_fit, train_fleet
    from .member import MAX_WIDTH, METHODS, Fade, Gate, Member
    from .progress import FleetProgress, fleet_bar

__all__ = [
    "MAX_WIDTH",
    "METHODS",
    "Ended",
    "EpochHealth",
    "Fade",
    "FleetProgress",
    "Gate",
    "Member",
    "expect_fit",
    "fleet_bar",
    "mask",
    "train_fleet",
    "train_supply",
]

load_on_use(__name__)
