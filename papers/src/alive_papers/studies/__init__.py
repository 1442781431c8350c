"""Studies of where units die today: sparse autoencoders, learners that go on learning, codebooks."""

from typing import TYPE_CHECKING

from alive.rooms import load_on_use

if TYPE_CHECKING:
    from .record import Run
    from .runs import train_runs

__all__ = ["Run", "train_runs"]

load_on_use(__name__)
