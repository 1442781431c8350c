"""The weight that nobody chooses: one constant for every network."""

from __future__ import annotations

WEIGHT = 1.0  # of the mean of squares ("meansq"), which is as large in every network
