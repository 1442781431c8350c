"""What is kept of each census: the state of every unit, and a few numbers; one JSON file for all of them."""

from __future__ import annotations

import gzip
import json
import re
import zlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from math import isfinite
from pathlib import Path
from typing import Any, NamedTuple

import torch

from .._version import __version__
from ..diagnosis.limits import MEASURES, MOST_OF
from ..diagnosis.rates import BINS
from ..diagnosis.record import Census, LayerCensus, Tally
from ..errors import AliveError
from ..files import write_atomically
from ..functional import State
from ..gate import Allowance
from ..taps import NOUNS
from ..taps.selections import UNIT

FORMATS = ("alive watch 2", "alive watch 1")  # what is written, and what is read as well: without rates
LETTERS = {
    State.NONLINEAR: "n",
    State.DEAD: "d",
    State.LINEAR: "l",
    State.BROKEN: "b",
    State.UNKNOWN: "u",
}
NAMES = {letter: state.name.lower() for state, letter in LETTERS.items()}
RATES = ("rare", "nearly_linear", *MEASURES)
NEVER = "-"  # a unit that no point was sent to
TIMES = 200  # a file that is compressed may open to so many times its size
MOST = 1e300  # a number beyond it would become infinite where it is drawn


class Layer(NamedTuple):
    """A layer as it is named in the drawings."""

    name: str
    label: str
    where: str = ""


class Seen(NamedTuple):
    """One layer at one step: a letter for each unit (d, l, n, b, u, or - where no point came), dead points, signal,
    what its units are called, and of their rates `RATES` and the histogram.
    """

    units: str
    dead_points: int
    spread: float | None = None
    gradient: float | None = None
    noun: str = UNIT
    rates: Sequence[float | None] = ()
    histogram: Sequence[int] = ()

    def count(self, letter: str) -> int:
        """How many units are in a state."""
        return self.units.count(letter)

    @property
    def measures(self) -> dict[str, float]:
        """Its rates by name, as far as they are known."""
        return {name: value for name, value in zip(RATES, self.rates, strict=False) if value is not None}

    @property
    def total(self) -> int:
        """Units that were met."""
        return len(self.units) - self.units.count(NEVER)


@dataclass(frozen=True, slots=True)
class Moment:
    """One census: its step, the points by state, the layers by name, and numbers of the user's own, as the loss."""

    step: int
    points: Tally
    layers: Mapping[str, Seen]
    numbers: Mapping[str, float | None] = field(default_factory=dict)

    @classmethod
    def of(cls, step: int, census: Census, numbers: Mapping[str, float | None]) -> Moment:
        """What is kept of a census."""
        return cls(step, census.points, {layer.name: _see(layer, census.rare) for layer in census.layers}, numbers)

    def units(self, letter: str) -> int:
        """How many units of all layers are in a state."""
        return sum(seen.count(letter) for seen in self.layers.values())

    @property
    def total(self) -> int:
        """Units of all layers."""
        return sum(seen.total for seen in self.layers.values())

    @property
    def sums(self) -> dict[str, float]:
        """The numbers of all layers together, by the names that --fail-on takes: counts are shares of the whole.

        `alive/dead_latents` is a share of `alive/latents`, which says how many there are; latents, codes and experts
        are units too.
        """
        found: dict[str, float] = {}
        for what, noun in {"units": "", **{f"{noun}s": noun for noun in NOUNS}}.items():
            layers = [seen for seen in self.layers.values() if noun in ("", seen.noun)]
            if total := sum(seen.total for seen in layers):
                counts = {name: sum(seen.count(letter) for seen in layers) for letter, name in NAMES.items()}
                for name in RATES[:2] if any(seen.rates for seen in layers) else ():
                    counts[name] = sum(int(seen.measures.get(name, 0)) for seen in layers)
                found |= {f"alive/{name}_{what}": count / total for name, count in counts.items()}
                found[f"alive/{what}"] = float(total)
        if total := self.points.total:
            found |= {f"alive/{name}_points": count / total for name, count in self.points._asdict().items()}
            found["alive/points"] = float(total)
        for name, nouns in MEASURES.items():
            values = [s.measures[name] for s in self.layers.values() if s.noun in nouns and name in s.measures]
            found |= {f"alive/{name}": (max if name in MOST_OF else min)(values)} if values else {}
        return found

    @property
    def scalars(self) -> dict[str, float]:
        """All that is worth a curve: the sums, the same layer by layer, numbers of the user's own; none is unknown."""
        found: dict[str, float | None] = dict(self.sums)
        for name, seen in self.layers.items():
            found[f"alive/dead_units/{name}"] = seen.count("d") / max(seen.total, 1)
            found[f"alive/spread/{name}"], found[f"alive/gradient/{name}"] = seen.spread, seen.gradient
            if seen.rates:
                found[f"alive/rare_units/{name}"] = seen.measures["rare"] / max(seen.total, 1)
            told = (measure for measure, nouns in MEASURES.items() if seen.noun in nouns)
            found |= {f"alive/{measure}/{name}": seen.measures.get(measure) for measure in told}
        found |= {name: value for name, value in self.numbers.items() if value is not None}
        return {name: value for name, value in found.items() if value is not None}

    def to_dict(self) -> dict[str, Any]:
        """Plain numbers and text."""
        layers = {name: [packed(seen.units), *seen[1:]] for name, seen in self.layers.items()}
        return {"step": self.step, "points": list(self.points), "layers": layers, "numbers": dict(self.numbers)}

    @classmethod
    def read(cls, said: Mapping[str, Any], allowance: Allowance) -> Moment:
        """What `to_dict` wrote."""
        layers = {name: Seen(unpacked(units, allowance), *rest) for name, (units, *rest) in said["layers"].items()}
        points, numbers = Tally(*said["points"]), dict(said["numbers"])
        _expect_counts(*points, *(n for seen in layers.values() for n in (seen.dead_points, *seen.histogram)))
        sizes = {(len(seen.rates), len(seen.histogram)) for seen in layers.values()}
        if not sizes <= {(0, 0), (len(RATES), len(BINS))} or not {s.noun for s in layers.values()} <= {UNIT, *NOUNS}:
            raise ValueError("a layer has rates of another kind")
        signals = [value for seen in layers.values() for value in (*seen[2:4], *seen.rates)]
        _expect_numbers(*(value for value in (*numbers.values(), *signals) if value is not None))
        _expect_numbers(said["step"])
        return cls(int(said["step"]), points, layers, numbers)


def _see(layer: LayerCensus, rare: float) -> Seen:
    if layer.values:
        spread, gradient = layer.signal.spread, _finite(layer.signal.gradient)
        return Seen("u" * layer.values, layer.points.dead, spread, gradient, layer.noun)
    never = (layer.top == -torch.inf) & (layer.bottom == torch.inf)
    states = zip(layer.states.tolist(), never.tolist(), strict=True)
    units = "".join(NEVER if unmet else LETTERS[State(state)] for state, unmet in states)
    signals, rates = (_finite(layer.signal.spread), _finite(layer.signal.gradient)), layer.rates
    if rates is None:
        return Seen(units, layer.points.dead, *signals, layer.noun)
    told = (len(rates.rare(rare)), len(rates.nearly_linear(rare)))
    measures = (_finite(getattr(rates, name)) if layer.noun in nouns else None for name, nouns in MEASURES.items())
    known = [*told, *(None if value is None else float(f"{value:.5g}") for value in measures)]
    return Seen(units, layer.points.dead, *signals, layer.noun, known, list(rates.histogram))


def _expect_numbers(*values: object) -> None:
    for value in values:
        if isinstance(value, bool) or not isinstance(value, int | float) or not -MOST <= value <= MOST:
            raise ValueError(f"{str(value)[:20]!r} is no number that is written here")


def _expect_counts(*values: object) -> None:
    _expect_numbers(*values)
    if any(value < 0 or value != int(value) for value in values):  # type: ignore[operator,call-overload]
        raise ValueError("a number of points is negative, or not whole")


def _finite(value: float | None) -> float | None:
    return None if value is None or not isfinite(value) else float(value)


def packed(letters: str) -> str:
    """Runs of equal letters as their number and the letter.

    >>> packed("dddnl"), unpacked("3dnl")
    ('3dnl', 'dddnl')
    """
    runs = ((letter, len(list(run))) for letter, run in groupby(letters))
    return "".join(f"{length if length > 1 else ''}{letter}" for letter, length in runs)


def unpacked(text: str, allowance: Allowance | None = None) -> str:
    """The letters of `packed`; no more of them than a file is allowed."""
    if re.fullmatch(r"(?:[0-9]{0,18}[dlnbu-])*+", text) is None:
        raise ValueError(f"{text[:20]!r} are no states of units")
    runs = [(int(number or 1), letter) for number, letter in re.findall(r"([0-9]*)([dlnbu-])", text)]
    if allowance is not None:
        allowance.take(sum(number for number, _ in runs), "units")
    return "".join(letter * number for number, letter in runs)


@dataclass(frozen=True, slots=True)
class History:
    """The layers of a network, in its order, and every moment it was looked at, the earliest first."""

    layers: tuple[Layer, ...] = ()
    moments: tuple[Moment, ...] = ()

    def before(self, step: int) -> History:
        """The moments before a step."""
        return History(self.layers, tuple(moment for moment in self.moments if moment.step < step))

    def plus(self, moment: Moment, census: Census) -> History:
        """With one more moment; layers that are met for the first time come behind the one before them."""
        names, known = [layer.name for layer in self.layers], {layer.name: layer for layer in self.layers}
        place = 0
        for layer in census.layers:
            if layer.name not in known:
                known[layer.name] = Layer(layer.name, layer.label or layer.name, layer.where)
                names.insert(place, layer.name)
            place = names.index(layer.name) + 1
        return History(tuple(known[name] for name in names), (*self.moments, moment))

    def write(self, path: Path, seal: Callable[[int], object] | None = None) -> None:
        """Write the file, whole or not at all; a name that ends in .gz is compressed. `seal`: `write_atomically`'s."""
        layers = [layer._asdict() for layer in self.layers]
        said = {
            "format": FORMATS[0],
            "version": __version__,
            "layers": layers,
            "moments": [m.to_dict() for m in self.moments],
        }
        text = json.dumps(said, separators=(",", ":"), allow_nan=False).encode()
        write_atomically(path, gzip.compress(text, mtime=0) if path.suffix == ".gz" else text, seal)

    @classmethod
    def read(cls, path: Path) -> History:
        """Read a file; one that is no history is refused."""
        try:
            allowance = Allowance(path, times=TIMES)
            data = allowance.content()
            if data[:2] == b"\x1f\x8b":
                data = b"".join(allowance.unpacked(data))
            said = allowance.json(data)
            if not isinstance(said, dict) or said.get("format") not in FORMATS:
                raise ValueError("it is of another kind")
            layers = tuple(Layer(**layer) for layer in said["layers"])
            if not all(isinstance(text, str) for layer in layers for text in layer):
                raise ValueError("a layer is named by what is no text")
            return cls(layers, tuple(Moment.read(moment, allowance) for moment in said["moments"]))
        except AliveError:
            raise
        except OSError as error:
            raise AliveError(
                f"cannot read {path}: {error.strerror or error}", "Name a file that alive.watch wrote"
            ) from None
        except (ValueError, TypeError, KeyError, EOFError, AttributeError, RecursionError, zlib.error) as error:
            raise AliveError(
                f"{path} is no history of alive.watch, or is damaged: {error}", "Name another file"
            ) from None
