"""Run studies, one run after the other."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Protocol

from alive.data import Data
from alive.errors import expect_one_of

from .codebook import train_codebook
from .continual import train_continual, train_drift
from .language import train_language
from .record import Run, RunResult, Tell
from .sae import train_sae
from .table import fit_table

# Packages of some studies are asked for only when they run.


def _agents(run: Run, data: Data, tell: Tell) -> RunResult:
    from .agents import train_agent

    return train_agent(run, data, tell)


def _lens(run: Run, data: Data, tell: Tell) -> RunResult:
    from .lens import train_lens

    return train_lens(run, data, tell)


STUDIES: Mapping[str, Callable[[Run, Data, Tell], RunResult]] = MappingProxyType(
    {
        "sae": train_sae,
        "continual": train_continual,
        "drift": train_drift,
        "codebook": train_codebook,
        "language": train_language,
        "lens": _lens,
        "agents": _agents,
        "table": fit_table,
    }
)


class Progress(Protocol):
    """Told how much is done."""

    def start(self, members: int, epochs: int) -> None:
        """So many runs, all of them together so many steps."""

    def update(self, members: int, epochs: int, rate: float) -> None:
        """So many runs and steps are done, at such a rate."""

    def close(self) -> None:
        """All is done."""


def train_runs(runs: Sequence[Run], data: Data, progress: Progress | None = None) -> list[RunResult]:
    """Train them all.

    >>> from alive.data import digits
    >>> run = Run("sae", "topk", "none", steps=20, width=16, options=(("kind", "topk"), ("gamma", 0.0), ("k", 2)))
    >>> (done,) = train_runs([run], digits())
    >>> done.curves["epoch"][-1], 0 <= done.curves["dead"][-1] <= 1
    (20.0, True)
    """
    begun, before = time.perf_counter(), 0
    if progress is not None:
        progress.start(len(runs), sum(run.steps for run in runs))
    results: list[RunResult] = []
    for run in runs:
        expect_one_of("study", run.study, STUDIES)

        def tell(steps: int, done: int = before) -> None:
            if progress is not None:
                whole = done + steps
                progress.update(len(results), whole, whole / max(1e-9, time.perf_counter() - begun))

        results.append(STUDIES[run.study](run, data, tell))
        before += run.steps
    if progress is not None:
        progress.close()
    return results
