"""The judge and its layouts are the bestiary's."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.append(str(Path(__file__).parents[1] / "bestiary"))
