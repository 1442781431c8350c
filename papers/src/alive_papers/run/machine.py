"""Where and with what a row was made."""

from __future__ import annotations

import platform
from functools import cache
from importlib.metadata import version
from pathlib import Path

from alive._version import __version__
from alive.processes import cores


@cache
def versions() -> dict[str, str]:
    """What made the numbers."""
    return {
        "alive": __version__,
        "python": platform.python_version(),
        **{name: version(name) for name in ("torch", "numpy", "numba", "scikit-learn")},
    }


@cache
def hardware() -> dict[str, str | int]:
    """The kind of machine, not its name."""
    return {"system": f"{platform.system()} {platform.machine()}", "processor": _processor(), "cores": cores()}


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.processor()
    return next((line.partition(":")[2].strip() for line in lines if line.startswith("model name")), "")
