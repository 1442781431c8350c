"""Join a Ray cluster quietly, or say in one sentence why not."""

from __future__ import annotations

import logging
import os
import signal
import socket
import sys
import threading
import time
import warnings
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from importlib import import_module
from typing import Any

from alive.errors import AliveError, require
from alive.processes import cores

KNOCK = 5.0  # seconds in which the address must answer
AGAIN = 1.0  # seconds in which a head that is at work must answer, and between two calls
GONE = 5.0  # seconds without an answer after which it is gone
OBJECTS = 2**27  # bytes for objects of a Ray that is started here; rows are small
CURE = "Start a cluster with `ray start --head`, or leave --address out to use the cores of this machine"
QUIET = {
    "RAY_USAGE_STATS_ENABLED": "0",
    "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "0",  # else it warns of a coming change that concerns GPUs only
    "RAY_NUM_REDIS_GET_RETRIES": "2",  # by default a wrong address is tried for a quarter of an hour
    "RAY_py_gcs_connect_timeout_s": "5",
}


@contextmanager
def joined(address: str | None, threads: int | None) -> Iterator[Any]:
    """The package ray, connected: to the address, else to RAY_ADDRESS, else to a Ray of its own on this machine.

    Where this process is connected already, that cluster is used and stays; an address is then refused.
    """
    address = address or (None if _connected() else os.environ.get("RAY_ADDRESS") or "local")
    if address not in (None, "local", "auto"):
        _knock(address)  # before Ray is loaded, which takes seconds
    with _muffled():
        with _quiet():
            ray = _imported()
            if ours := address is not None:
                _join(ray, address, threads)
        try:
            with _hushed(ray):
                yield ray
        finally:
            if ours:
                ray.shutdown()


class Head:
    """The head of a cluster, called before each round: Ray's own calls would wait long for one that is gone."""

    def __init__(self, ray: Any, address: str | None) -> None:
        given = address or os.environ.get("RAY_ADDRESS") or ""
        self.address = given if given.startswith("ray://") else str(ray.get_runtime_context().gcs_address)
        self._heard = time.monotonic()

    def expect_there(self) -> None:
        """Refuse to go on once it has not answered for some seconds; each call that it takes is quick."""
        while True:
            try:
                _call(self.address, AGAIN)
                self._heard = time.monotonic()
                return
            except OSError as error:
                if time.monotonic() - self._heard > GONE:
                    raise AliveError(
                        f"the head of the Ray cluster at {self.address} is gone ({error.strerror or error}); finished "
                        "rows are kept",
                        "Start it again, and run again",
                    ) from None
                time.sleep(AGAIN)


def _connected() -> bool:
    """Whether this process is on a cluster already; one that has not loaded Ray is not."""
    ray = sys.modules.get("ray")
    return ray is not None and bool(ray.is_initialized())


def _imported() -> Any:
    with require("--on ray", "alive-papers[ray]"):
        return import_module("ray")


def _join(ray: Any, address: str, threads: int | None) -> None:
    own = address == "local"
    if ray.is_initialized():
        raise AliveError("this process is on a Ray cluster already", "Leave the address out, or call ray.shutdown()")
    answer = signal.getsignal(signal.SIGTERM)
    alone = {"num_cpus": threads or cores(), "object_store_memory": OBJECTS, "include_dashboard": False}
    try:
        ray.init(address, log_to_driver=False, logging_level=logging.CRITICAL, **(alone if own else {}))
    except (OSError, RuntimeError, ValueError, UserWarning, ray.exceptions.RayError) as error:
        said = str(error).strip().partition("\n")[0].rstrip(".")
        raise AliveError(f"Ray cannot be joined at {address!r}: {said}", CURE) from None
    finally:
        if threading.current_thread() is threading.main_thread():
            signal.signal(signal.SIGTERM, answer)  # Ray puts its own there, which exits with 15 and says nothing


def _knock(address: str) -> None:
    """Refuse what nobody answers at, before Ray tries for long."""
    host, _, port = address.removeprefix("ray://").rpartition(":")
    if not host or not port.isdecimal():
        raise AliveError(
            f"{address!r} is not an address of a Ray cluster", "Write it as host:port, ray://host:port or auto"
        )
    try:
        _call(address, KNOCK)
    except (OSError, OverflowError) as error:
        raise AliveError(f"no Ray cluster answers at {address} ({error})", CURE) from None


def _call(address: str, patience: float) -> None:
    host, _, port = address.removeprefix("ray://").rpartition(":")
    socket.create_connection((host.strip("[]"), int(port)), timeout=patience).close()


@contextmanager
def _hushed(ray: Any) -> Iterator[None]:
    """When a node dies, Ray prints a page on stdout and has no setting against it; the run says what matters."""
    worker = ray._private.worker
    before = worker.print_to_stdstream
    worker.print_to_stdstream = lambda *_, **__: None
    try:
        yield
    finally:
        worker.print_to_stdstream = before


@contextmanager
def _muffled() -> Iterator[None]:
    """Ray's C++ part writes to the terminal whatever the settings: drop its lines, keep those of Python."""
    before = sys.stderr
    try:
        terminal = os.dup(2)
    except OSError:  # closed: nothing can be written
        yield
        return
    with open(os.devnull, "w") as nowhere, os.fdopen(terminal, "w", buffering=1, errors="replace") as ours:
        if _is_terminal(before):
            before.flush()
            sys.stderr = ours
        os.dup2(nowhere.fileno(), 2)
        try:
            yield
        finally:
            ours.flush()
            os.dup2(terminal, 2)
            sys.stderr = before


def _is_terminal(stream: object) -> bool:
    """Whether a stream writes to where errors go, and not, say, to a test that captures it."""
    with suppress(OSError, AttributeError, ValueError):
        return bool(stream.fileno() == 2)  # type: ignore[attr-defined]
    return False


@contextmanager
def _quiet() -> Iterator[None]:
    """Ray's settings while it is loaded and joined: no usage reports, no log on the terminal, no long waits."""
    before = dict(os.environ)
    for name, value in QUIET.items():
        os.environ.setdefault(name, value)
    try:
        with warnings.catch_warnings():
            for kind in (DeprecationWarning, FutureWarning, ResourceWarning):
                warnings.simplefilter("ignore", kind)
            yield
    finally:
        for name in QUIET.keys() - before.keys():
            os.environ.pop(name, None)
