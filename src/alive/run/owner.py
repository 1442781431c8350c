"""Who is at work on a cell, and whether that process still lives."""

from __future__ import annotations

import hashlib
import os
import platform
import time
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

BEAT = 5.0  # seconds between two heartbeats
STALE = 60.0  # seconds after which a silent process of another host counts as dead


@dataclass(frozen=True, slots=True)
class Owner:
    """A process: its host, its number there, and when that number began to mean it."""

    host: str
    pid: int
    birth: str

    @classmethod
    def me(cls) -> Owner:
        """This process."""
        return cls(_host(), os.getpid(), _birth(os.getpid()))

    def sees_alive(self, host: str, pid: int, birth: str, beat: float) -> bool:
        """Whether a claimant still lives, as far as can be seen from here."""
        if not (isinstance(pid, int) and isinstance(beat, float) and 0 < pid < 2**31):
            return False  # damaged on the disk: held by nobody
        if host != self.host or os.name == "nt":  # Windows cannot ask after a process without disturbing it
            return abs(time.time() - beat) < STALE
        return _exists(pid) and _birth(pid) == birth


def _host() -> str:
    """A mark of the machine and of its process numbers, which containers may not share; hashed: stores travel."""
    numbers = ""
    with suppress(OSError):
        numbers = os.readlink("/proc/self/ns/pid")
    return hashlib.sha256(f"{platform.node()} {numbers}".encode()).hexdigest()[:16]


def _exists(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:  # somebody else's, but there
        return True
    return True


def _birth(pid: int) -> str:
    """The start time of a process since boot, with the boot; empty if that is unknown or it is gone."""
    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
        state, *after = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return ""
    return "" if state == "Z" else f"{boot} {after[18]}"
