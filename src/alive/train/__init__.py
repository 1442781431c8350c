"""Train one network: a loop to read in one sitting, checkpoints that resume to the bit, logs."""

from .checkpoint import Checkpoint
from .log import CsvLogger, Logger, Progress, TensorBoardLogger, progress_bar
from .loop import Keeper, train
from .result import Best, Result, Row
from .settings import OPTIMISERS, Settings
from .task import accuracy, logits_of, task_loss

__all__ = [
    "OPTIMISERS",
    "Best",
    "Checkpoint",
    "CsvLogger",
    "Keeper",
    "Logger",
    "Progress",
    "Result",
    "Row",
    "Settings",
    "TensorBoardLogger",
    "accuracy",
    "logits_of",
    "progress_bar",
    "task_loss",
    "train",
]
