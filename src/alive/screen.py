"""What reaches a terminal: no control characters of others, an error on one short line, a bar or a line a minute."""

from __future__ import annotations

import re
from collections.abc import Iterable
from datetime import timedelta
from typing import Any

from rich.console import Console, ConsoleOptions, RenderableType
from rich.progress import BarColumn, Progress, ProgressColumn, TaskID, TextColumn, TimeRemainingColumn
from rich.segment import Segment

LONGEST = 600  # characters of a message on one line
# All that moves the cursor, changes a terminal or turns the direction of writing, and halves of characters.
CONTROLS = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")
EVERY = 60.0  # seconds between two lines
RECENT = 1800.0  # seconds whose pace tells the time left: an epoch of a large network takes a minute, and then jumps
FAR = 1e7  # seconds, four months; what would take longer has hardly begun, and nothing is said of the time left


def shown(text: str) -> str:
    """Text with its control characters written out; lines and tabs stay.

    >>> shown("layer\\x1b[2J")
    'layer\\\\x1b[2J'
    """
    return CONTROLS.sub(lambda found: _escape(ord(found[0])), text)


def _escape(code: int) -> str:
    return f"\\x{code:02x}" if code < 0x7F else f"\\u{code:04x}"  # as JSON may have it, which writes the first itself


def in_a_line(text: str, longest: int = LONGEST) -> str:
    """A message on one line; of a long one the beginning and the end, which says what to do.

    >>> in_a_line("cannot read x:\\n  " + "no " * 99 + ". Try again.", 40)
    'cannot read x: no no n ... . Try again.'
    """
    line = shown(re.sub(r"\s*[\n\r\t\v\f]\s*", " ", text.strip()))
    if len(line) <= longest:
        return line
    end = longest * 2 // 5 - 3
    return f"{line[: longest - end - 5].rstrip()} ... {line[-end:].lstrip()}"


class Screen(Console):
    """A console of rich that prints no control characters but its own."""

    def render(self, renderable: RenderableType, options: ConsoleOptions | None = None) -> Iterable[Segment]:
        """The segments of what is printed."""
        for segment in super().render(renderable, options):
            yield segment if segment.control else Segment(shown(segment.text), segment.style)


def bars(*before: ProgressColumn | str, show: bool | None = None) -> Progress:
    """A bar with these columns before it, what it is told and the time left behind it, on stderr.

    By default a bar on a terminal and a line a minute in a file or a pipe; True: a bar in any case, False: nothing.
    """
    console = Screen(stderr=True)
    columns = (*before, BarColumn(), TextColumn("{task.description}"), TimeRemainingColumn())
    if show is None and not console.is_terminal:
        return Lines(*columns, console=console, disable=True, speed_estimate_period=RECENT)
    return Progress(*columns, console=console, disable=show is False, speed_estimate_period=RECENT)


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
