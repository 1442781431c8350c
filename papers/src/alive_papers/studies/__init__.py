"""Studies of where units die today: sparse autoencoders, learners that go on learning, codebooks."""

from .record import Run
from .runs import train_runs

__all__ = ["Run", "train_runs"]
