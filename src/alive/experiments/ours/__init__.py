"""Experiments of our own: how deep a plain network can be, which method is best where, and one setting for all."""

from .atlas import ATLAS
from .depth import DEPTH_RECORD
from .one_setting import ONE_SETTING

__all__ = ["ATLAS", "DEPTH_RECORD", "ONE_SETTING"]
