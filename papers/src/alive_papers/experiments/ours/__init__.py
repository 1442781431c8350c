"""Experiments of our own: how deep a plain network can be, which method is best where, one setting for all, and what
helps where units die today.
"""

from .adam_epsilon import ADAM_EPSILON
from .atlas import ATLAS
from .atlas_images import ATLAS_IMAGES
from .depth import DEPTH_RECORD
from .depth_images import DEPTH_IMAGES
from .dying import CODEBOOK, LENS, SAE
from .farkas_why import FARKAS_WHY
from .going_on import AGENTS_OVER_TASKS, CONTINUAL, DRIFT
from .language import LANGUAGE
from .one_setting import ONE_SETTING
from .rivals import RIVALS
from .tables import TABLES_STUDY

__all__ = [
    "ADAM_EPSILON",
    "AGENTS_OVER_TASKS",
    "ATLAS",
    "ATLAS_IMAGES",
    "CODEBOOK",
    "CONTINUAL",
    "DEPTH_IMAGES",
    "DEPTH_RECORD",
    "DRIFT",
    "FARKAS_WHY",
    "LANGUAGE",
    "LENS",
    "ONE_SETTING",
    "RIVALS",
    "SAE",
    "TABLES_STUDY",
]
