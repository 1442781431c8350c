"""A bar over all cells of a run, in units of their cost, with its pace and the time left."""

from __future__ import annotations

from ..train.bars import bars, pace


class Bar:
    """A bar on the terminal, elsewhere a line a minute, see `bars`. A context manager."""

    def __init__(self, *, show: bool | None = None) -> None:
        self._bars = bars(show=show)
        self._task = self._bars.add_task("", total=None)
        self._base, self._done, self._networks = 0.0, 0, 0

    def __enter__(self) -> Bar:
        self._bars.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._bars.stop()

    def begin(self, networks: int, total: float, base: float, done: int) -> None:
        """So many networks, of which `done` are stored; their costs likewise."""
        self._networks, self._base, self._done = networks, base, done
        self._bars.update(self._task, total=total, completed=base, description=f"{done}/{networks} networks")

    def say(self, text: str) -> None:
        """One line above the bar."""
        self._bars.console.print(text, highlight=False, soft_wrap=True)

    def within(self, cost: float, networks: int, rate: float) -> None:
        """The fleet under way has done so much."""
        said = f"{self._done + networks}/{self._networks} networks, {pace(rate)}"
        self._bars.update(self._task, completed=self._base + cost, description=said)


class Share:
    """The part of the bar that belongs to one fleet: what train_fleet tells its progress to."""

    def __init__(self, bar: Bar, cost: float) -> None:
        self._bar, self._cost, self._epochs = bar, cost, 1

    def start(self, members: int, epochs: int) -> None:
        """So many epochs lie ahead."""
        self._epochs = max(1, epochs)

    def update(self, members: int, epochs: int, rate: float) -> None:
        """So much is done."""
        self._bar.within(self._cost * epochs / self._epochs, members, rate)

    def close(self) -> None:
        """The bar goes on with the next fleet."""
