"""A census for people: a terminal table, plain text, HTML."""

from .page import Origin, fragment, page
from .terminal import SCREENFUL, table, text

__all__ = ["SCREENFUL", "Origin", "fragment", "page", "table", "text"]
