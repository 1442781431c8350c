"""What keeps a model alive while it trains: penalties, and multipliers that phase its skips out."""

from .by_name import PENALTIES, Penalty, attached
from .jumpstart import Jumpstart
from .pull import pull
from .schedule import Schedule
from .van import VANController

__all__ = ["PENALTIES", "Jumpstart", "Penalty", "Schedule", "VANController", "attached", "pull"]
