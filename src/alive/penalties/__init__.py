"""Penalties attached to a model."""

from .jumpstart import Jumpstart
from .schedule import Schedule

__all__ = ["Jumpstart", "Schedule"]
