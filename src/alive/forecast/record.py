"""What preflight finds, as a record, in words and as a table."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import torch

from ..diagnosis import Census
from ..theory import Estimate

RISK = 0.05  # share of networks that cannot learn from which on something should change


LEARNS = "whether it learns depends on rate, data and loss too: alive cure tries"
LOSSES = ("born dead", "all points become one", "the gradient is lost on its way back")


class Remedy(NamedTuple):
    """What to change, and the share of networks that cannot learn then; None where only training can show it."""

    change: str
    lost: Estimate | None


class Shares(NamedTuple):
    """Of fresh networks, those that cannot learn.

    born_dead      every point is dead in some layer
    merged         of the others: all points have become one
    vanished       of those not born dead, merged or not: the gradient has vanished on its way back, exploded, or is cut
                   off from every layer
    only_vanished  of these, the ones whose points have not merged
    """

    born_dead: Estimate
    merged: Estimate
    vanished: Estimate
    only_vanished: Estimate

    @classmethod
    def of(cls, counted: Sequence[Census], *, fixed: bool = False) -> Shares:
        """From censuses with the gradient, one a network."""
        dead = torch.tensor([is_dead(found) for found in counted])
        lost = [{word for word, _ in found.losses} for found in counted]
        merged = torch.tensor(["merged" in words for words in lost]) & ~dead
        vanished = torch.tensor([bool(words & {"vanished", "exploded", "cut off"}) for words in lost]) & ~dead
        return cls(*(share(column, fixed=fixed) for column in (dead, merged, vanished, vanished & ~merged)))

    @property
    def lost(self) -> Estimate:
        """All of them together, each network once."""
        once = (self.born_dead, self.merged, self.only_vanished)
        value = min(sum(part.value for part in once), 1.0)
        return Estimate(value, sum(part.error**2 for part in once) ** 0.5)

    @property
    def told(self) -> tuple[tuple[str, Estimate], ...]:
        """Each loss in words, with its share."""
        return tuple(zip(LOSSES, (self.born_dead, self.merged, self.vanished), strict=True))

    @property
    def worst(self) -> tuple[str, Estimate]:
        """The commonest, in words."""
        return max(self.told, key=lambda pair: pair[1].value)


def is_dead(found: Census) -> bool:
    """Whether every point dies in some layer, and no path leads a gradient around."""
    silent = found.layers[0].signal.silent
    return found.points.dead == found.points.total > 0 and silent in (None, 1.0)


def share(column: torch.Tensor, *, fixed: bool = False) -> Estimate:
    """A mean over networks; of one finished network it is exact."""
    return Estimate(float(column[0]), 0.0) if fixed else Estimate.of(column.double())


@dataclass(frozen=True, slots=True)
class Preflight:
    """What fresh networks of one kind do with the points, before any training.

    fixed        there was one finished network, and nothing to draw; `alike`: what makes it gives the same weights
                 each time, so that one was judged
    shares       networks that cannot learn
    spread       how far apart points are in the last layer, and how much of the gradient arrives at the first: medians
    gradient
    closed_form  the probability that a point other than 0 is dead, where it is known; every network born dead is among
                 those, so it is never less likely
    closed_spread, closed_gradient  of wide networks, and in the mean square, where these are known
    gone         of one finished network: what is wrong with its signal, in one sentence
    sample       which points were looked at, if not all
    """

    model: str
    data: str
    points: int
    draws: int
    fixed: bool
    shares: Shares
    dead_points: Estimate
    dead_units: Estimate
    spread: float | None = None
    gradient: float | None = None
    closed_form: float | None = None
    closed_spread: float | None = None
    closed_gradient: float | None = None
    remedies: tuple[Remedy, ...] = ()
    alike: bool = False
    gone: str = ""
    sample: str = ""

    @property
    def born_dead(self) -> Estimate:
        """Share of networks in which every point is dead in some layer."""
        return self.shares.born_dead

    @property
    def lost(self) -> Estimate:
        """Share of networks that cannot learn: born dead, points merged, or the gradient gone."""
        return self.shares.lost

    @property
    def verdict(self) -> str:
        """One sentence on the start, which is all that was seen: whether a network learns, only training shows."""
        if self.fixed:
            if self.born_dead.value:
                return "born dead: no gradient passes"
            return f"the signal is gone: {self.gone}" if self.gone else f"a signal passes at the start; {LEARNS}"
        if self.lost.value < RISK:
            return (
                f"a signal passes at the start ({self.born_dead} born dead, {self.lost} without one in all); {LEARNS}"
            )
        words, worst = self.shares.worst
        if worst.value >= 0.5:
            return f"{words} more often than not ({worst})"
        told = "; ".join(f"{what} in {part}" for what, part in self.shares.told if part.value)
        return f"at risk: {told}"

    def to_dict(self) -> dict[str, Any]:
        """Everything as plain numbers and words."""
        names = ("born_dead", "merged", "vanished", "lost")
        shares = {name: getattr(self.shares, name) for name in names}
        shares |= {"dead_points": self.dead_points, "dead_units": self.dead_units}
        plain = ("model", "data", "points", "sample", "draws", "fixed", "alike")
        return {
            **{name: getattr(self, name) for name in plain},
            **{name: part._asdict() for name, part in shares.items()},
            "spread": self.spread,
            "gradient": self.gradient,
            "closed_form_dead_point": self.closed_form,
            "closed_form_spread": self.closed_spread,
            "closed_form_gradient": self.closed_gradient,
            "gone": self.gone,
            "verdict": self.verdict,
            "remedies": [
                {"change": change, "lost": None if lost is None else lost._asdict()} for change, lost in self.remedies
            ],
        }

    def to_json(self) -> str:
        """`to_dict` as text."""
        return json.dumps(self.to_dict(), indent=2)

    def __rich__(self) -> Any:
        from rich.console import Group
        from rich.table import Table
        from rich.text import Text

        what = "one network" if self.fixed else f"{self.draws} fresh networks"
        seen = self.sample or f"{self.points} points"
        title = Text(f"{self.model} on {self.data}: {what}, {seen}", style="italic")  # no markup: :x: is no emoji
        grid = Table(title=title, header_style="bold")
        grid.add_column("what")
        grid.add_column("share ± standard error", justify="right")
        for name, told in self._rows():
            grid.add_row(name, told)
        worst = self.lost.value
        style = "bold red" if worst >= 0.5 else "yellow" if worst >= RISK else "green"
        lines = [Text.assemble(("▸ ", style), (f"{self.verdict}.", style))]
        if self.alike:
            lines.append(Text(ALIKE))
        for change, lost in self.remedies:
            after = f": {lost} cannot learn then" if lost else ""
            lines.append(Text.assemble("  ", ("What to do: ", "bold"), f"{change}{after}"))
        return Group(grid, *lines)

    def _rows(self) -> Iterator[tuple[str, str]]:
        yield "networks born dead: every point dead in some layer", str(self.born_dead)
        yield "networks in which all points become one", str(self.shares.merged)
        yield "networks on whose way back the gradient is lost", str(self.shares.vanished)
        yield "dead points of a network", str(self.dead_points)
        if self.closed_form is not None:
            yield "  the same in closed form", f"{100 * self.closed_form:.1f} %"
        yield "dead units of a network", str(self.dead_units)
        for name, value, closed in (
            ("spread of the points in the last layer, of their size", self.spread, self.closed_spread),
            ("gradient that arrives at the first layer, of the output's", self.gradient, self.closed_gradient),
        ):
            if value is not None:
                yield name, f"{value:.1e}"
            if closed is not None:
                yield "  of wide networks, in closed form", f"{closed:.1e}"


ALIKE = (
    "  It gives the same weights each time, whatever the seed, so one network was judged: take torch.manual_seed out "
    "of it, and fresh starts are drawn."
)
