"""What keeps a model alive while it trains: penalties, and multipliers that phase its skips out."""

from typing import TYPE_CHECKING

from ..rooms import load_on_use

if TYPE_CHECKING:
    from .by_name import PENALTIES, attach
    from .jumpstart import Jumpstart
    from .pull import pull
    from .schedule import Schedule
    from .van import VANController
    from .zero import zero_start

__all__ = ["PENALTIES", "Jumpstart", "Schedule", "VANController", "attach", "pull", "zero_start"]

load_on_use(__name__)
