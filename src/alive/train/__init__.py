"""Train one network: a loop to read in one sitting, checkpoints that resume to the bit, logs."""

from .checkpoint import Checkpoint
from .log import CsvLogger, Logger, Progress, TensorBoardLogger, progress_bar
from .loop import Keeper, Mover, train
from .losses import LOSSES, Loss, loss_of
from .net import Net, NetResult, train_net
from .points import Points, first
from .ranks import Ranks, joined
from .result import Best, Epoch, Result
from .settings import OPTIMISERS, LrSchedule, Settings
from .task import POINTS_AT_ONCE, Task, accuracy, in_vain, logits_of, task_loss, task_of

__all__ = [
    "LOSSES",
    "OPTIMISERS",
    "POINTS_AT_ONCE",
    "Best",
    "Checkpoint",
    "CsvLogger",
    "Epoch",
    "Keeper",
    "Logger",
    "Loss",
    "LrSchedule",
    "Mover",
    "Net",
    "NetResult",
    "Points",
    "Progress",
    "Ranks",
    "Result",
    "Settings",
    "Task",
    "TensorBoardLogger",
    "accuracy",
    "first",
    "in_vain",
    "joined",
    "logits_of",
    "loss_of",
    "progress_bar",
    "task_loss",
    "task_of",
    "train",
    "train_net",
]
