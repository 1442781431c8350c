"""What processes that tests begin must find."""

from __future__ import annotations

import os
from pathlib import Path


def with_tests():
    """Where a process begun by a test finds modules: these tests, and whatever this process was told."""
    here = Path(__file__).parent
    places = (here, here.parent, here.parents[2] / "tests", os.environ.get("PYTHONPATH"))
    return os.pathsep.join(str(place) for place in places if place)
