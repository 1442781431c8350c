"""A finding: what was seen, at which layers, and what to do about it; and the rule that sees it and explains it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

from ..cures import advise, code, words
from ..diagnosis.record import Census, LayerCensus
from ..taps.selections import UNIT

Level = Literal["error", "warning", "note"]
LEVELS: tuple[Level, ...] = ("error", "warning", "note")
WORST = 3  # layers named in one sentence
BY_HAND = "make thin layers wider, or add skip connections or norms"
RACE = ("race all cures on your own data", ("alive cure",))


@dataclass(frozen=True, slots=True)
class Place:
    """A finding at one layer, as machines read it; `see_all` and a policy fill in rule, level and what to do.

    layer   the layer by its name, label: as people name it; both empty where it is of the whole network
    where   file and line of the call, or of what makes the model; empty where neither is known
    count   how many units or points are concerned, of how many
    """

    rule: str = ""
    level: Level = "note"
    message: str = ""
    layer: str = ""
    label: str = ""
    where: str = ""
    count: int | None = None
    total: int | None = None
    do: str = ""


def at(layer: LayerCensus, message: str, count: int | None = None, total: int | None = None) -> Place:
    """A place in a census."""
    return Place("", "note", message, layer.name, layer.label or layer.name, layer.where, count, total)


def counted(layer: LayerCensus, count: int, text: str) -> Place:
    """A place at which so many units are something."""
    total = layer.units.total
    return at(layer, f"{count} of {total} {layer.noun}s of {layer.label or layer.name} {text}", count, total)


@dataclass(frozen=True, slots=True)
class Finding:
    """What was found, and what to do; grave if training cannot work as it is.

    do       what to do in words, before the cures where some apply; `code` are its lines to copy
    cures    those that apply to the model, the best first, by name; `measured_as` is what the clinic calls the finding
    places   the layers one by one; none where it is of the whole network
    rule     the id of its rule, which `see_all` fills in as it does the level
    """

    found: str
    do: str = ""
    code: tuple[str, ...] = ()
    grave: bool = False
    measured_as: str = ""
    cures: tuple[str, ...] = ()
    places: tuple[Place, ...] = ()
    rule: str = ""
    level: Level = "note"

    @property
    def options(self) -> list[tuple[str, tuple[str, ...]]]:
        """What to do, one thing or another: each in words, with its lines of code."""
        best = [(words(name), code(name)) for name in self.cures[: 2 if self.grave else 1]]
        best = best or [(BY_HAND if self.measured_as else "", self.code)]
        best += [RACE] if self.grave and self.measured_as else []
        return [(f"{self.do} {best[0][0]}".strip(), best[0][1]), *best[1:]]

    @property
    def advice(self) -> str:
        """The same in one line."""
        return ". Or else ".join(f"{say}: {'; '.join(lines)}" if lines else say for say, lines in self.options)


def measured(name: str, found: str, census: Census, *places: Place, do: str = "", grave: bool = True) -> Finding:
    """A finding for which the clinic has measured cures."""
    return Finding(found, do, (), grave, name, advise(name, census), places)


def in_part(found: str, census: Census, places: Sequence[Place], do: str) -> Finding:
    """What is dead or linear in part: no reason not to train."""
    return measured("dead in part", found, census, *places, do=do, grave=False)


REVIVE = "it may train all the same; to bring them back,"


@dataclass(frozen=True, slots=True)
class Rule:
    """One kind of finding: how it is seen, and all that is said of it. docs/rules has its page.

    see      the finding in a census, if there; of shrink, in its report
    by       which command finds it: census, shrink or train
    counts   what a threshold is a number or a share of, in each layer; empty where it holds or does not
    unknown  whether it says that something cannot be told, rather than that something is wrong
    is_open  whether what is unknown in a census could make it hold, beyond a threshold
    """

    id: str
    name: str
    level: Level
    short: str
    cause: str
    counted: str
    cure: str
    see: Callable[..., Finding | None]
    by: Literal["census", "shrink", "train"] = "census"
    counts: str = ""
    unknown: bool = False
    is_open: Callable[[Census, Any], bool] = lambda census, most: False

    @property
    def title(self) -> str:
        """The id and the name."""
        return f"{self.id} {self.name}"

    def named(self, finding: Finding) -> Finding:
        """A finding with its id and level: the rule's own where layers are counted, else an error if it is grave."""
        level = self.level
        if not self.counts and (finding.grave or level == "error"):
            level = "error" if finding.grave else "warning"
        return replace(finding, rule=self.id, level=level)


def named(census: Census, layers: Sequence[LayerCensus], count: Callable[[LayerCensus], object] | None = None) -> str:
    """The first few layers as people name them, each with its count, and its line where lines differ."""
    by_line = len({layer.where for layer in census.layers}) > 1
    lines = [f" at {layer.where}" if by_line and layer.where else "" for layer in layers[:WORST]]
    counts = [f" ({count(layer)})" if count else "" for layer in layers[:WORST]]
    return ", ".join(f"{a.label or a.name}{line}{n}" for a, line, n in zip(layers, lines, counts, strict=False))


def has_moved(census: Census) -> bool:
    """Whether the network has left its start."""
    return census.build is not None and census.build.moved


def misses_layers(census: Census) -> bool:
    """Whether one-sided operations were noticed that could not be counted."""
    return any(unseen.counts for unseen in census.unseen)


def open_units(state: str, nouns: Sequence[str] = (UNIT,)) -> Callable[[Census, Any], bool]:
    """Whether units that are unknown could be in a state, more of them than the threshold."""

    def is_open(census: Census, most: Any) -> bool:
        tallies = [layer.units for layer in census.layers if layer.noun in nouns and layer.units.unknown]
        return misses_layers(census) or any(most.passed(getattr(t, state) + t.unknown, t.total) for t in tallies)

    return is_open


def lacks(name: str) -> Callable[[Census, Any], bool]:
    """Whether the spread or the gradient of some layer on the only way is not known."""
    return lambda census, most: (
        bool(census.unsettled)
        or any(getattr(layer.signal, name) is None for layer in census.layers if not layer.bypassed)
    )
