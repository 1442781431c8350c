"""Join a Ray cluster quietly, or say in one sentence why not."""

from __future__ import annotations

import logging
import os
import socket
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from typing import Any

from ..errors import AliveError
from .place import cores

KNOCK = 5.0  # seconds in which the address must answer
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
    with _quiet():
        ray = _imported()
        address = address or (None if ray.is_initialized() else os.environ.get("RAY_ADDRESS") or "local")
        if ours := address is not None:
            _join(ray, address, threads)
    try:
        with _hushed(ray):
            yield ray
    finally:
        if ours:
            ray.shutdown()


def _imported() -> Any:
    try:
        return import_module("ray")
    except ImportError:
        raise AliveError("the engine ray needs Ray, which is not installed", 'Run pip install "alive[ray]"') from None


def _join(ray: Any, address: str, threads: int | None) -> None:
    own = address == "local"
    if not own and address != "auto":
        _knock(address)
    if ray.is_initialized():
        raise AliveError("this process is on a Ray cluster already", "Leave the address out, or call ray.shutdown()")
    alone = {"num_cpus": threads or cores(), "object_store_memory": OBJECTS, "include_dashboard": False}
    try:
        ray.init(address, log_to_driver=False, logging_level=logging.CRITICAL, **(alone if own else {}))
    except (OSError, RuntimeError, ValueError, UserWarning, ray.exceptions.RayError) as error:
        said = str(error).strip().partition("\n")[0].rstrip(".")
        raise AliveError(f"Ray cannot be joined at {address!r}: {said}", CURE) from None


def _knock(address: str) -> None:
    """Refuse what nobody answers at, before Ray tries for long."""
    host, _, port = address.removeprefix("ray://").rpartition(":")
    if not host or not port.isdecimal():
        raise AliveError(
            f"{address!r} is no address of a Ray cluster", "Write it as host:port, ray://host:port or auto"
        )
    try:
        socket.create_connection((host.strip("[]"), int(port)), timeout=KNOCK).close()
    except (OSError, OverflowError) as error:
        raise AliveError(f"no Ray cluster answers at {address} ({error})", CURE) from None


@contextmanager
def _hushed(ray: Any) -> Iterator[None]:
    """Of a node that dies Ray prints a page on stdout, and has no setting for that; the run says what matters."""
    worker = ray._private.worker
    before = worker.print_to_stdstream
    worker.print_to_stdstream = lambda *_, **__: None
    try:
        yield
    finally:
        worker.print_to_stdstream = before


@contextmanager
def _quiet() -> Iterator[None]:
    """Ray's habits for as long as it is loaded and joined: no reports home, no log on the terminal, no long waits."""
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
