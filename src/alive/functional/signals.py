"""Words for a signal that is lost, each defined here for all.

Points *have merged* where they lie closer together than a thousandth of what they did at first, or than the numbers
resolve. A gradient *has vanished* where less of the output's arrives than single precision resolves, and *has exploded*
above the inverse of that.
"""

from __future__ import annotations

from typing import Any

import torch

MERGED = 1e-3  # of the spread at first
RESOLVED = torch.finfo(torch.float32).eps  # of a gradient, in doubles too: no optimiser turns less into a step


def has_merged(spread: Any, start: Any, resolution: float) -> Any:
    """Whether points that lay apart at first (start) have become one; numbers or tensors.

    >>> has_merged(1e-5, 0.9, 1e-7), has_merged(0.1, 0.9, 1e-7), has_merged(0.0, 0.0, 1e-7)
    (True, False, False)
    """
    return (start > resolution) & ((spread < MERGED * start) | (spread < resolution))


def has_vanished(gradient: float) -> bool:
    """Whether a gradient, in shares of the output's, is too little to learn from."""
    return gradient < RESOLVED


def has_exploded(gradient: float) -> bool:
    """Whether it is too much, or no number at all."""
    return not gradient <= 1 / RESOLVED
