"""Findings: what a census or shrink means. One file a finding: how it is seen, its id, its text and its cures."""

from typing import TYPE_CHECKING

from ..rooms import load_on_use

if TYPE_CHECKING:
    from .finding import Finding, Place, Rule
    from .rules import see_all

__all__ = ["Finding", "Place", "Rule", "see_all"]

load_on_use(__name__)
