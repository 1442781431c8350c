"""Train one network: a loop to read in one sitting, checkpoints that resume to the bit, logs."""

from .checkpoint import Checkpoint
from .log import CsvLogger, Logger, Progress, TensorBoardLogger, progress_bar
from .loop import Keeper, Mover, train
from .net import Net, NetResult, train_net
from .ranks import Ranks, joined
from .result import Best, Result, Row
from .settings import OPTIMISERS, LrSchedule, Settings
from .task import accuracy, logits_of, task_loss

__all__ = [
    "OPTIMISERS",
    "Best",
    "Checkpoint",
    "CsvLogger",
    "Keeper",
    "Logger",
    "LrSchedule",
    "Mover",
    "Net",
    "NetResult",
    "Progress",
    "Ranks",
    "Result",
    "Row",
    "Settings",
    "TensorBoardLogger",
    "accuracy",
    "joined",
    "logits_of",
    "progress_bar",
    "task_loss",
    "train",
    "train_net",
]
