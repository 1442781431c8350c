"""What keeps a model alive while it trains: penalties, and multipliers that phase its skips out."""

from .by_name import PENALTIES, attached
from .jumpstart import Jumpstart
from .pull import pull
from .schedule import Schedule
from .van import VANController

__all__ = ["PENALTIES", "Jumpstart", "Schedule", "VANController", "attached", "pull"]
