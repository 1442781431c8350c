"""What processes that tests begin must find."""

from __future__ import annotations

import os


def with_tests():
    """Where a process begun by a test finds modules: these tests, and whatever this process was told."""
    here = os.path.dirname(__file__)
    return os.pathsep.join(filter(None, (here, os.path.dirname(here), os.environ.get("PYTHONPATH"))))
