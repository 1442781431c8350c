"""When a run writes its checkpoint: at the start, every so often, at the end, when stopped; always between steps."""

from __future__ import annotations

import json
import os
import signal
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from os import PathLike
from pathlib import Path
from types import TracebackType
from typing import Any, Protocol

from torch import nn, optim

from ..errors import AliveError, expect
from ..files import expect_writable, unwritable
from ..interrupts import Hold
from . import checkpoint
from .ranks import ALONE, Ranks
from .result import Epoch

try:
    import fcntl
except ImportError:  # Windows
    fcntl = None  # type: ignore[assignment]


@dataclass(slots=True)
class Standing:
    """Where a run stands between two steps; `loss`, `penalty`, `right` are sums over the points so far of an epoch."""

    epoch: int = 0
    step: int = 0
    loss: float = 0.0
    penalty: float = 0.0
    right: float = 0.0
    seconds: float = 0.0
    rows: list[Epoch] = field(default_factory=list)

    def count(self, loss: float, penalty: float, right: float, *, points: int) -> None:
        """Take one step into account."""
        self.step += 1
        self.loss += loss * points
        self.penalty += penalty * points
        self.right += right * points

    def told(self) -> dict[str, Any]:
        """All of it, as JSON holds it."""
        return asdict(self) | {"rows": [row.columns() for row in self.rows]}

    def finish(self, row: Epoch) -> None:
        """End an epoch."""
        self.rows.append(row)
        self.epoch, self.step = self.epoch + 1, 0
        self.loss = self.penalty = self.right = 0.0


@contextmanager
def sole(path: str | PathLike[str] | None) -> Iterator[None]:
    """Keep a second run from the same checkpoint while this one lasts; the lock goes with the process, however it ends.

    Where locks are unknown, on Windows and some network disks, nothing is kept.
    """
    if path is None or fcntl is None:
        yield
        return
    target = Path(os.path.realpath(path))
    if target.is_dir() or not target.parent.is_dir():  # refused where it is read or written
        yield
        return
    lock = target.with_name(f".{target.name}.lock")
    try:
        held = lock.open("w")
    except OSError as error:
        raise unwritable(Path(path), error) from None
    with held:
        try:
            fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise AliveError(
                f"another process is training with {path}", "Wait until it ends, or choose another path"
            ) from None
        except OSError:
            pass
        try:
            yield
        finally:
            lock.unlink(missing_ok=True)


class Memory(Protocol):
    """What remembers something beside model and optimiser, as plain numbers."""

    def state_dict(self) -> dict[str, Any]:
        """All of it, as JSON holds it."""

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Go on from there."""


class Saver:
    """Keeps the checkpoint of one run up to date; without a path it does nothing.

    As a context, it holds back Ctrl-C and SIGTERM until the next step is whole and saved; a second Ctrl-C acts at once.
    `identity` is what a run to be resumed must have in common with this one.
    """

    def __init__(
        self,
        path: str | PathLike[str] | None,
        parts: tuple[nn.Module, optim.Optimizer],
        *,
        identity: dict[str, Any],
        every: float,
        ranks: Ranks = ALONE,
        memory: Memory | None = None,
    ) -> None:
        expect([(every >= 0, f"checkpoint_every must be at least 0 seconds, got {every}")])
        self.path = None if path is None else Path(path)
        self.parts, self.identity, self.every, self.ranks = parts, identity, every, ranks
        self.memory = memory
        self.hold = Hold()
        self._begun = self._saved = time.monotonic()
        self._before = 0.0

    def begin(self, *, resume: bool) -> Standing:
        """Start afresh or from the file, and write it at once: what would stop a later write must stop this one."""
        place = self._resume() if resume else self._start()
        self._before = place.seconds
        self.save(place)
        return place

    @property
    def seconds(self) -> float:
        """Time spent on this run, before it was resumed too."""
        return self._before + time.monotonic() - self._begun

    def between_steps(self, place: Standing) -> None:
        """Save if it is time; save and stop if that was asked for, of any rank."""
        if self.path is None:
            return
        if self.ranks.any(self.hold.asked is not None):
            if self.ranks.any(self.hold.asked == signal.SIGTERM):
                self.hold.asked = signal.SIGTERM
            self.save(place)
            self.hold.answer(f"stopped in epoch {place.epoch} after step {place.step}; saved in {self.path}")
        if time.monotonic() - self._saved >= self.every:
            self.save(place)

    def save(self, place: Standing) -> None:
        """Write the checkpoint now."""
        place.seconds = self.seconds
        if self.path is not None and self.ranks.is_main:
            about = self.identity | {"place": place.told()} | self._plain_memory()
            checkpoint.save(checkpoint.capture(*self.parts, about), self.path)
            self._saved = time.monotonic()

    def _plain_memory(self) -> dict[str, Any]:
        """What the memory holds, which must be plain numbers."""
        if self.memory is None:
            return {}
        state = self.memory.state_dict()
        try:
            json.dumps(state)
        except (TypeError, ValueError):
            raise AliveError(
                f"the state of {type(self.memory).__name__} cannot be kept in a checkpoint",
                "Let state_dict() give numbers, texts, lists and dicts, or train without a checkpoint",
            ) from None
        return {"memory": state}

    def _start(self) -> Standing:
        if self.path is not None and self.ranks.is_main:
            expect_writable(self.path)
            if self.path.exists():
                raise AliveError(
                    f"{self.path} exists already and would be lost", "Resume from it, remove it, or choose another path"
                )
        return Standing()

    def _resume(self) -> Standing:
        if self.path is None:
            raise AliveError("there is nothing to resume from", "Give the path of a checkpoint")
        if not self.ranks.any(self.path.exists()):  # the job of a scheduler asks so from its first run on
            return self._start()
        kept = checkpoint.load(self.path)
        try:
            _expect_same_run(kept.about, self.identity)
            checkpoint.restore(kept, *self.parts)
            if self.memory is not None and "memory" in kept.about:  # which earlier versions had no need of
                self.memory.load_state_dict(kept.about["memory"])
            place = kept.about["place"]
            return Standing(**place | {"rows": [Epoch.of(row) for row in place["rows"]]})
        except (KeyError, TypeError, AttributeError) as error:  # well formed, but not what this version writes
            raise AliveError(
                f"{self.path} lacks something of a checkpoint ({error})", "Resume with the version that wrote it"
            ) from None

    def __enter__(self) -> Saver:
        if self.path is not None:
            self.hold.begin()
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: BaseException | TracebackType | None) -> None:
        self.hold.end()
        if self.hold.asked and kind is None:  # after the last step: done and saved, but the caller must stop
            self.hold.answer(f"trained to the end; saved in {self.path}")


def _expect_same_run(kept: dict[str, Any], asked: dict[str, Any]) -> None:
    """Refuse to continue a run with other settings; only more epochs are allowed."""
    before, now = _terms(kept), _terms(asked)
    differing = [name for name in now if name != "epochs" and before.get(name) != now[name]]
    if differing:
        told = "; ".join(f"{name} was {before.get(name)!r}, asked {now[name]!r}" for name in differing)
        raise AliveError(f"the checkpoint belongs to another run: {told}", "Ask for the same, or begin at another path")
    done = len(kept["place"]["rows"]) + (kept["place"]["step"] > 0)
    if now["epochs"] < done:
        raise AliveError(f"the checkpoint is in epoch {done}, asked for {now['epochs']}", "Ask for as many or more")


def _terms(identity: dict[str, Any]) -> dict[str, Any]:
    """What must agree, as JSON holds it."""
    settings = json.loads(json.dumps(identity["settings"]))
    return {**settings, "data": identity["data"], "keep": identity["keep"], "loss": identity.get("loss", "classes")}
