"""Constants of the weight that means the same everywhere, and of the multipliers of the weight "auto"."""

from __future__ import annotations

WEIGHT = 0.3
KI, KP, NU, TOL, TOP = 0.003, 1.0, 0.9, 0.1, 10.0
