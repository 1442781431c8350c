"""Limits on a census, such as "dead_units>0", for use as a test."""

from __future__ import annotations

import operator
import re
from collections.abc import Callable
from dataclasses import dataclass
from math import inf

from ..errors import AliveError, expect_one_of
from ..taps import NOUNS
from ..taps.selections import CODE, EXPERT, UNIT
from .record import BENDS_NOTHING, EXPLODED, HAVE_MERGED, VANISHED, Census, LayerCensus, Tally

COMPARE: dict[str, Callable[[float, float], bool]] = {
    ">": operator.gt,
    ">=": operator.ge,
    "<": operator.lt,
    "<=": operator.le,
    "==": operator.eq,
    "!=": operator.ne,
}
CHOSEN = {f"{noun}s": noun for noun in NOUNS}  # latents, codes and experts, which are units too
COUNTS = [f"{state}_{what}" for what in ("units", "points", *CHOSEN) for state in Tally._fields]
RARELY = {
    f"{word}_{what}": (word, noun)
    for word in ("rare", "nearly_linear")
    for what, noun in {"units": "", **CHOSEN}.items()
}
MEASURES = {"entropy": (*NOUNS, UNIT), "perplexity": (CODE,), "load": (EXPERT,), "variation": (EXPERT,)}
MOST_OF = ("load", "variation")  # of any layer; of the others the least
WORDS = {
    "flat_layers": BENDS_NOTHING,
    "merged_layers": HAVE_MERGED,
    "vanished_layers": VANISHED,
    "exploded_layers": EXPLODED,
}
SIGNALS = ("gradient", "spread", "rank")  # the least of any layer
KNOWN = [*COUNTS, *RARELY, *MEASURES, *WORDS, *SIGNALS]


@dataclass(frozen=True, slots=True)
class Limit:
    """A count of the census compared with a number, or with a share of the whole where the number is a percentage.

    Counts are those of units and points (`dead_units`), of latents, codes and experts among the units
    (`dead_latents`), and of layers (`flat_layers`, which bend nothing, `merged_layers`, `vanished_layers`,
    `exploded_layers`); `gradient`, `spread`, `rank` and `entropy` are the least of any layer, `perplexity` the least of
    any codebook, in percent of its codes, `load` and `variation` the most of any router. Units, latents, codes and
    experts are also counted that are `rare` (`rare_latents`) or `nearly_linear`.
    """

    count: str
    compare: str
    number: float
    percent: bool = False

    @classmethod
    def parse(cls, text: str) -> Limit:
        """Read "dead_units>0", "dead_points >= 5%" or "gradient<1e-6".

        >>> Limit.parse("dead_points >= 5%")
        Limit(count='dead_points', compare='>=', number=5.0, percent=True)
        """
        match = re.fullmatch(r"\s*(\w+)\s*(>=|<=|==|!=|>|<)\s*(\d+(?:\.\d*)?(?:[eE][+-]?\d+)?)\s*(%?)\s*", text)
        if match is None:
            raise AliveError(
                f"cannot read the limit {text!r}", 'Write a count, a comparison and a number: "dead_units>0"'
            )
        count, compare, number, percent = match.groups()
        expect_one_of("count", count, KNOWN)
        if percent and (count in SIGNALS or (count in MEASURES and count != "perplexity")):
            raise AliveError(
                f"cannot read the limit {text!r}: {count} has no whole to be a share of", "Leave the % out"
            )
        return cls(count, compare, float(number), bool(percent))

    def __str__(self) -> str:
        return f"{self.count}{self.compare}{self.number:g}{'%' * self.percent}"

    @property
    def wants_gradient(self) -> bool:
        """Whether only a census with the gradient can tell."""
        return self.count in ("gradient", "vanished_layers", "exploded_layers")

    def value(self, census: Census) -> float:
        """What the census has, of what it knows."""
        return self._range(census)[0]

    def holds(self, census: Census) -> bool:
        """Whether the limit holds, whatever the unknown part is."""
        return self._verdicts(census) == {True}

    def is_open(self, census: Census) -> bool:
        """Whether that depends on the unknown part."""
        return len(self._verdicts(census)) == 2

    def _range(self, census: Census) -> tuple[float, float]:
        """The least and the most it can be: the unknown part may count in full, or not at all."""
        if self.count in SIGNALS:
            return self._signal(census)
        if self.count in WORDS:
            return self._layers(census)
        if self.count in MEASURES:
            return self._measure(census)
        if self.count in RARELY:
            return self._rarely(census)
        state, what = self.count.split("_")
        tally: Tally = census.chosen(CHOSEN[what]) if what in CHOSEN else getattr(census, what)
        known: int = getattr(tally, state)
        most: float = known + (tally.unknown if state != "unknown" else 0)
        if state != "unknown" and any(unseen.counts for unseen in census.unseen):
            most = tally.total if what == "points" else inf
        total = max(tally.total, 1)
        return (100 * known / total, min(100 * most / total, 100.0)) if self.percent else (known, most)

    def _signal(self, census: Census) -> tuple[float, float]:
        """The least of any layer; where it is unknown in some, it may be 0 there. Scores that only choose have none."""
        values = [getattr(layer.signal, self.count) for layer in census.layers if layer.noun not in (CODE, EXPERT)]
        known = [value for value in values if value is not None]
        most = min(known, default=inf)
        return (most, most) if len(known) == len(values) else (0.0, most)

    def _measure(self, census: Census) -> tuple[float, float]:
        """The least or most of any layer that it is of; unknown where a layer's units are."""
        layers = [layer for layer in census.layers if layer.noun in MEASURES[self.count]]
        known = [layer.rates for layer in layers if layer.rates is not None and not layer.values]
        values = [(getattr(rates, self.count) or 0.0) / (len(rates.on) / 100 if self.percent else 1) for rates in known]
        if self.count in MOST_OF:
            most = max(values, default=0.0)
            return most, most if len(known) == len(layers) else inf
        least = min(values, default=inf)
        return least if len(known) == len(layers) else 0.0, least

    def _rarely(self, census: Census) -> tuple[float, float]:
        """How many are seldom on, or seldom off; where units are unknown, all of them may be."""
        word, noun = RARELY[self.count]
        layers = [layer for layer in census.layers if noun in ("", layer.noun)]
        total = sum(layer.units.total for layer in layers)
        known = sum(len(getattr(layer.rates, word)(census.rare)) for layer in layers if layer.rates is not None)
        most = known + sum(layer.units.total for layer in layers if layer.rates is None)
        share = 100 / max(total, 1) if self.percent else 1
        return known * share, inf if any(unseen.counts for unseen in census.unseen) else most * share

    def _layers(self, census: Census) -> tuple[float, float]:
        """How many layers a word holds for, and for how many it may."""
        known = sum(WORDS[self.count] in census.words(layer) for layer in census.layers)
        most = known + sum(
            _is_open(layer, WORDS[self.count]) for layer in census.layers if _has_word(layer, self.count)
        )
        total = max(len(census.layers), 1)
        return (100 * known / total, 100 * most / total) if self.percent else (known, most)

    def _verdicts(self, census: Census) -> set[bool]:
        low, high = self._range(census)
        ends = {COMPARE[self.compare](end, self.number) for end in (low, high)}
        if self.compare in ("==", "!=") and low < self.number < high:
            return {True, False}
        return ends


def _has_word(layer: LayerCensus, count: str) -> bool:
    """Whether a word can hold of a layer: of scores that only choose, none about their signal."""
    return WORDS[count] == BENDS_NOTHING or layer.noun not in (CODE, EXPERT)


def _is_open(layer: LayerCensus, word: str) -> bool:
    """Whether what would decide about a word is unknown."""
    if word == BENDS_NOTHING:
        return layer.bends is None
    return (layer.signal.spread if word == HAVE_MERGED else layer.signal.gradient) is None
