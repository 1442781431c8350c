"""The bar of a run on a cluster, and how the workers report to it."""

from __future__ import annotations

import time
from collections.abc import Iterable
from contextlib import suppress
from typing import Any

from ...experiments import Cell
from ..progress import Bar
from ..work import cost_of
from .worker import Job


class Board:
    """The bar, and an actor on the driver's node that workers report to; if it is lost, only the bar stops."""

    def __init__(self, ray: Any, bar: Bar) -> None:
        self._ray, self._bar, self._begun = ray, bar, time.monotonic()
        here = ray.util.scheduling_strategies.NodeAffinitySchedulingStrategy(
            ray.get_runtime_context().get_node_id(), soft=False
        )
        self.post = ray.remote(num_cpus=0, scheduling_strategy=here)(_post_office()).remote()
        self._parts: dict[int, float] = {}
        self._answer: Any = None
        self._epochs = 0

    def show(self, wanted: dict[str, Cell], done: set[str], flying: Iterable[Job]) -> None:
        """What is stored, and the parts of what is under way."""
        self._read()
        parts = [(job, self._parts.get(job.number, 0.0)) for job in flying]
        self._bar.begin(len(wanted), cost_of(wanted.values()), cost_of(wanted[key] for key in done), len(done))
        epochs = sum(job.epochs * part for job, part in parts)
        if parts:
            self._bar.within(sum(job.cost * part for job, part in parts), 0, self._rate(epochs))

    def _rate(self, epochs: float) -> float:
        return (self._epochs + epochs) / max(1e-9, time.monotonic() - self._begun)

    def count(self, job: Job) -> None:
        """A task has finished: its epochs are done."""
        self._epochs += job.epochs

    def _read(self) -> None:
        """Take an answer if there is one, and ask again: the run never waits for it."""
        with suppress(self._ray.exceptions.RayError):
            if self._answer is not None:
                if not self._ray.wait([self._answer], timeout=0)[0]:
                    return
                answer, self._answer = self._answer, None
                self._parts = self._ray.get(answer)
            self._answer = self.post.parts.remote()


def _post_office() -> type:
    """Made inside a function, so that it travels by value and its process need not load alive."""

    class Post:
        def __init__(self) -> None:
            self._parts: dict[int, float] = {}

        def tell(self, number: int, part: float) -> None:
            self._parts[number] = part

        def parts(self) -> dict[int, float]:
            return self._parts

    return Post
