"""Progress of long work: a bar on a terminal, a line a minute anywhere else."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from rich.progress import BarColumn, Progress, ProgressColumn, TaskID, TextColumn, TimeRemainingColumn

from ..screen import Screen

EVERY = 60.0  # seconds between two lines
RECENT = 1800.0  # seconds whose pace tells the time left: an epoch of a large network takes a minute, and then jumps
FAR = 1e7  # seconds, four months; what would take longer has hardly begun, and nothing is said of the time left


def bars(*before: ProgressColumn | str, show: bool | None = None) -> Progress:
    """A bar with these columns before it, what it is told and the time left behind it, on stderr.

    By default a bar on a terminal and a line a minute in a file or a pipe; True: a bar in any case, False: nothing.
    """
    console = Screen(stderr=True)
    columns = (*before, BarColumn(), TextColumn("{task.description}"), TimeRemainingColumn())
    if show is None and not console.is_terminal:
        return Lines(*columns, console=console, disable=True, speed_estimate_period=RECENT)
    return Progress(*columns, console=console, disable=show is False, speed_estimate_period=RECENT)


def pace(rate: float) -> str:
    """Epochs of all networks a second, or a minute or an hour where they are few.

    >>> pace(1461.2), pace(0.05), pace(0.0004)
    ('1,461 networks·epochs/s', '3 networks·epochs/min', '1 networks·epochs/h')
    """
    unit, many = ("s", rate) if rate >= 1 else ("min", 60 * rate) if 60 * rate >= 1 else ("h", 3600 * rate)
    return f"{many:,.0f} networks·epochs/{unit}"


class Lines(Progress):
    """No bar, but once a minute a line with the share done, what was told last, and the time left."""

    def __init__(self, *columns: ProgressColumn | str, **options: Any) -> None:
        super().__init__(*columns, **options)
        self._said = self.get_time()

    def update(self, task_id: TaskID, **changes: Any) -> None:
        """Take an update, and print it if a minute has passed."""
        super().update(task_id, **changes)
        if self.get_time() - self._said < EVERY:
            return
        self._said = self.get_time()
        task = self._tasks[task_id]
        rest = task.time_remaining
        left = "" if rest is None or rest > FAR else f", {timedelta(seconds=round(rest))} left"
        self.console.print(f"{task.percentage:.1f} %, {task.description}{left}", highlight=False, soft_wrap=True)
