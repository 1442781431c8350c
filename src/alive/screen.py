"""What reaches a terminal: control characters of names and files are shown, not sent; an error is one short line."""

from __future__ import annotations

import re
from collections.abc import Iterable

from rich.console import Console, ConsoleOptions, RenderableType
from rich.segment import Segment

LONGEST = 600  # characters of a message on one line
# All that moves the cursor, changes a terminal or turns the direction of writing, and halves of characters.
CONTROLS = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")


def shown(text: str) -> str:
    """Text with its control characters written out; lines and tabs stay.

    >>> shown("layer\\x1b[2J")
    'layer\\\\x1b[2J'
    """
    return CONTROLS.sub(lambda found: _written(ord(found[0])), text)


def _written(code: int) -> str:
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
