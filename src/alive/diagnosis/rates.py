"""How often units are on: exact counts, and what follows from them for units, latents, codes and experts."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from math import isfinite
from typing import Any

import torch
from torch import Tensor

RARE = 1e-3  # rare is on for less than this share of the values, nearly linear off for less
LOW, HIGH = (1e-6, 1e-5, 1e-4, 1e-3, 1e-2, 0.1), (0.1, 1e-2, 1e-3)  # shares on from zero up, and off from one down
BINS = ("never", "<1e-6", "<1e-5", "<1e-4", "<0.001", "<0.01", "<0.1", "<0.9", "<0.99", "<0.999", "<1", "always")
BLOCKS = "▁▂▃▄▅▆▇█"
MEASURES = ("entropy", "perplexity", "used", "load", "variation")


@dataclass(frozen=True, eq=False)
class Rates:
    """How many values of each unit are on, and how many it has: int64 [C]. Parts of the data add up.

    A value is a point at a position. On is above the activation's cutoff and below its ceiling; of candidates, chosen.
    Units that no value was met of count nowhere.

    >>> rates = Rates(torch.tensor([0, 1, 600, 2000]), torch.tensor([2000] * 4))
    >>> rates.values.tolist(), rates.rare().tolist(), rates.nearly_linear().tolist()
    ([0.0, 0.0005, 0.3, 1.0], [1], [])
    >>> rates.bars, round(rates.perplexity, 2), rates.used
    ('█···█··█···█', 1.72, 0.75)
    """

    on: Tensor
    met: Tensor

    @cached_property
    def values(self) -> Tensor:
        """The share of each unit's values that are on [C]; NaN where it has none."""
        return self.on.double() / self.met

    @property
    def off(self) -> Tensor:
        """The share of each unit's values that are off [C]."""
        return (self.met - self.on).double() / self.met

    def rare(self, below: float = RARE) -> Tensor:
        """The numbers of the units that are on for less than this share of their values, but for some."""
        return ((self.on > 0) & (self.values < below)).nonzero().flatten()

    def nearly_linear(self, below: float = RARE) -> Tensor:
        """The numbers of the units that are off for less than this share of their values, but for some."""
        return ((self.on < self.met) & (self.off < below)).nonzero().flatten()

    @cached_property
    def histogram(self) -> tuple[int, ...]:
        """How many units have a rate in each of `BINS`: powers of ten from never up, and from always down."""
        place = (self.on > 0).long() + (self.on == self.met)
        place += sum((self.values >= edge).long() for edge in LOW) + sum((self.off <= edge).long() for edge in HIGH)
        return tuple(torch.bincount(place[self.met > 0], minlength=len(BINS)).tolist())

    @property
    def bars(self) -> str:
        """The histogram in one line."""
        return bars(self.histogram)

    @cached_property
    def entropy(self) -> float | None:
        """How undecided the units are: the entropy of on and off in bits, from 0 to 1, in the mean over units."""
        known = self.met > 0
        bits = -sum(torch.special.xlogy(p[known], p[known]) for p in (self.values, self.off)) / torch.tensor(2.0).log()
        return float(bits.mean()) if len(bits) else None

    @cached_property
    def perplexity(self) -> float | None:
        """How many candidates are in use: exp of the entropy of their shares of all choices; None where none is."""
        share = self.on.double() / self.on.sum()
        return None if not bool(self.on.any()) else float((-torch.special.xlogy(share, share).sum()).exp())

    @property
    def used(self) -> float | None:
        """The share of units that are ever on."""
        return float((self.on > 0).double().mean()) if len(self.on) else None

    @property
    def load(self) -> float | None:
        """The load of the busiest expert over its ideal, which is the same for all."""
        return float(self.on.max() / self.on.double().mean()) if bool(self.on.any()) else None

    @property
    def variation(self) -> float | None:
        """The coefficient of variation of the loads: their standard deviation over their mean."""
        return float(self.on.double().std(correction=0) / self.on.double().mean()) if bool(self.on.any()) else None

    def plus(self, other: Rates) -> Rates:
        """Both parts of the data together."""
        return Rates(self.on + other.on, self.met + other.met)

    def to_dict(self, below: float = RARE) -> dict[str, Any]:
        """Plain numbers: the counts of each unit, and what follows from them."""
        told = {name: getattr(self, name) for name in MEASURES}
        return {
            "on": self.on.tolist(),
            "met": self.met.tolist(),
            "rare": self.rare(below).tolist(),
            "nearly_linear": self.nearly_linear(below).tolist(),
            "histogram": dict(zip(BINS, self.histogram, strict=True)),
            **{name: value if value is not None and isfinite(value) else None for name, value in told.items()},
        }


def bars(counts: tuple[int, ...]) -> str:
    """Counts as blocks as high as each, beside the largest; a dot for none.

    >>> bars((0, 4, 8))
    '·▄█'
    """
    most = max(counts, default=0)
    return "".join(BLOCKS[-(-8 * count // most) - 1] if count else "·" for count in counts)
