"""Which processes still live: who holds a claim, who left a file behind, whose workers these are."""

from __future__ import annotations

import hashlib
import os
import platform
import threading
import time
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from pathlib import Path

STALE = 60.0  # seconds after which a silent process of another host counts as dead
LOOK = 0.5  # seconds between two looks whether a parent still lives


@dataclass(frozen=True, slots=True)
class Owner:
    """A process: its host, its number there, and when that number began to mean it."""

    host: str
    pid: int
    birth: str

    @classmethod
    def me(cls) -> Owner:
        """This process."""
        return cls(host(), os.getpid(), birth(os.getpid()))

    def sees_alive(self, at: str, pid: int, born: str, beat: float) -> bool:
        """Whether a claimant still lives, as far as can be seen from here."""
        if not (isinstance(pid, int) and isinstance(beat, float) and 0 < pid < 2**31):
            return False  # damaged on the disk: held by nobody
        if at != self.host or os.name == "nt":  # Windows cannot ask after a process without disturbing it
            return abs(time.time() - beat) < STALE
        return exists(pid) and birth(pid) == born


@cache
def host() -> str:
    """A mark of the machine and of its process numbers, which containers may not share; hashed: stores travel."""
    numbers = ""
    with suppress(OSError):
        numbers = os.readlink("/proc/self/ns/pid")
    return hashlib.sha256(f"{platform.node()} {numbers}".encode()).hexdigest()[:16]


def exists(pid: int) -> bool:
    """Whether this machine has a process of that number."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:  # somebody else's, but there
        return True
    return True


def birth(pid: int) -> str:
    """The start time of a process since boot, with the boot; empty if that is unknown or it is gone."""
    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
        state, *after = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return ""
    return "" if state == "Z" else f"{boot} {after[18]}"


def die_with(parent: int) -> None:
    """From now on this worker ends when its parent does: one whose parent was killed must not go on unseen."""

    def watch() -> None:
        while os.getppid() == parent:
            time.sleep(LOOK)
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()


def cores() -> int:
    """Cores this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
