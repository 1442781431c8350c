"""A bar over all cells of a run, in units of their cost, with its pace and the time left."""

from __future__ import annotations

from alive.screen import bars

from ..fleet.progress import pace


class Bar:
    """A bar on the terminal, elsewhere a line a minute, see `bars`. A context manager."""

    def __init__(self, *, show: bool | None = None) -> None:
        self._bars = bars(show=show)
        self._task = self._bars.add_task("", total=None)
        self._base, self._done, self._networks, self._shown = 0.0, 0, 0, 0.0
        self._ended = 0  # networks of the fleet under way that have ended

    def __enter__(self) -> Bar:
        self._bars.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._bars.stop()

    def begin(self, networks: int, total: float, base: float, done: int) -> None:
        """So many networks, of which `done` are stored; their costs likewise."""
        self._networks, self._base, self._done = networks, base, done
        self._shown = max(self._shown, base)  # a step back and forth again would count as work, and hurry the time left
        said = f"{done + self._ended}/{networks} networks"
        self._bars.update(self._task, total=total, completed=self._shown, description=said)

    def say(self, text: str) -> None:
        """One line above the bar."""
        self._bars.console.print(text, highlight=False, soft_wrap=True)

    def within(self, cost: float, networks: int, rate: float) -> None:
        """The fleet under way has done so much."""
        self._ended = networks
        said = f"{self._done + networks}/{self._networks} networks, {pace(rate)}"
        self._shown = max(self._shown, self._base + cost)
        self._bars.update(self._task, completed=self._shown, description=said)

    def over(self) -> None:
        """No fleet is under way any more."""
        self._ended = 0


class Share:
    """The part of the bar that belongs to one fleet, which may grow: what a fleet tells its progress to."""

    def __init__(self, bar: Bar) -> None:
        self._bar, self._epochs = bar, 1
        self._ahead = self._done = 0.0  # cost of networks that have not ended, and of those that have
        self._over = 0  # epochs of those that have ended

    def grow(self, cost: float) -> None:
        """The fleet has got more to do."""
        self._ahead += cost

    def ended(self, cost: float, epochs: int) -> None:
        """Some of its networks have ended."""
        self._ahead, self._done, self._over = self._ahead - cost, self._done + cost, self._over + epochs

    def start(self, members: int, epochs: int) -> None:
        """So many epochs there are in all."""
        self._epochs = epochs

    def update(self, members: int, epochs: int, rate: float) -> None:
        """So much is done."""
        part = max(0, epochs - self._over) / max(1, self._epochs - self._over)
        self._bar.within(self._done + self._ahead * min(1.0, part), members, rate)

    def close(self) -> None:
        """The bar goes on with the next fleet."""
        self._bar.over()
