"""A census for people: a terminal table, plain text, HTML."""

from typing import TYPE_CHECKING

from ..rooms import load_on_use

if TYPE_CHECKING:
    from .page import Origin, fragment, page
    from .terminal import SCREENFUL, table, text

__all__ = ["SCREENFUL", "Origin", "fragment", "page", "table", "text"]

load_on_use(__name__)
