"""Train one network: a loop to read in one sitting, checkpoints that resume to the bit, logs."""

from typing import TYPE_CHECKING

from ..rooms import load_on_use

if TYPE_CHECKING:
    from .log import CsvLogger, Logger, TensorBoardLogger, progress_bar
    from .loop import Keeper, Mover, train
    from .losses import LOSSES
    from .points import Points, first
    from .ranks import join_ranks
    from .result import Best, Epoch, Result
    from .settings import OPTIMISERS, LrSchedule, Settings
    from .task import POINTS_AT_ONCE, Task, accuracy, in_vain, task_loss, task_of

__all__ = [
    "LOSSES",
    "OPTIMISERS",
    "POINTS_AT_ONCE",
    "Best",
    "CsvLogger",
    "Epoch",
    "Keeper",
    "Logger",
    "LrSchedule",
    "Mover",
    "Points",
    "Result",
    "Settings",
    "Task",
    "TensorBoardLogger",
    "accuracy",
    "first",
    "in_vain",
    "join_ranks",
    "progress_bar",
    "task_loss",
    "task_of",
    "train",
]

load_on_use(__name__)
