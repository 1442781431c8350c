"""Where a fleet tells how far it is."""

from __future__ import annotations

from typing import Protocol

from alive.screen import bars


class FleetProgress(Protocol):
    """Told first how much there is to do, then now and then how much is done."""

    def start(self, members: int, epochs: int) -> None:
        """The fleet has so many members, and all of them together so many epochs."""

    def update(self, members: int, epochs: int, rate: float) -> None:
        """So many members and epochs are done; `rate` is in networks·epochs a second."""

    def close(self) -> None:
        """The fleet has finished, or was interrupted."""


def fleet_bar(*, show: bool | None = None) -> FleetProgress:
    """A bar on the terminal with networks, rate and time left; elsewhere a line a minute, see `bars`."""
    return _Bar(show)


class _Bar:
    def __init__(self, show: bool | None) -> None:
        self._bars = bars("fleet", show=show)
        self._task = self._bars.add_task("", total=None)
        self._members = 0

    def start(self, members: int, epochs: int) -> None:
        self._members = members
        self._bars.update(self._task, total=epochs)
        self._bars.start()

    def update(self, members: int, epochs: int, rate: float) -> None:
        told = f"{members}/{self._members} networks, {pace(rate)}"
        self._bars.update(self._task, completed=epochs, description=told)

    def close(self) -> None:
        self._bars.stop()


def pace(rate: float) -> str:
    """Epochs of all networks a second, or a minute or an hour where they are few.

    >>> pace(1461.2), pace(0.05), pace(0.0004)
    ('1,461 networks·epochs/s', '3 networks·epochs/min', '1 networks·epochs/h')
    """
    unit, many = ("s", rate) if rate >= 1 else ("min", 60 * rate) if 60 * rate >= 1 else ("h", 3600 * rate)
    return f"{many:,.0f} networks·epochs/{unit}"
