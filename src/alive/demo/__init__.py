"""The demonstration: the papers' 50x4 network on MOONS, six ways, with who was alive while it trained (001-T1)."""

from .network import METHODS, Job, Method, Outcome, train_one
from .results import Summary, summarise, table, write
from .run import WAITING, prepare, run

__all__ = [
    "METHODS",
    "WAITING",
    "Job",
    "Method",
    "Outcome",
    "Summary",
    "prepare",
    "run",
    "summarise",
    "table",
    "train_one",
    "write",
]
