"""Data from a file that cannot run code: arrays in .npz or .safetensors, never a pickle."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np

from ..errors import AliveError, near
from .record import Data, tensors

KEYS = "train_x, train_y and if wanted test_x, test_y; or x, y"


def from_file(path: str | PathLike[str]) -> Data:
    """Read arrays train_x, train_y (with test_x, test_y, or without), or x, y, from .npz or .safetensors.

    >>> from_file("nowhere.npz")
    Traceback (most recent call last):
    ...
    alive.errors.AliveError: there is no file nowhere.npz.
    """
    path = Path(path)
    ending = path.suffix.lower()
    if ending not in READERS:
        raise AliveError(
            f"cannot read data from {str(path)!r}",
            f'Give a file ending in {" or ".join(READERS)}; numpy.savez("data.npz", x=x, y=y) writes one',
        )
    if not path.is_file():
        raise AliveError(f"{path} is a folder" if path.is_dir() else f"there is no file {path}")
    return _named(path, READERS[ending](path))


def _npz(path: Path) -> dict[str, Any]:
    # Numpy refuses a pickle with a ValueError, but a damaged archive fails in as many ways as it has parts.
    try:
        with path.open("rb") as file, np.load(file, allow_pickle=False) as archive:
            return {key: _native(archive[key]) for key in archive.files}
    except OSError as error:
        raise _unreadable(path, error) from None
    except Exception as error:
        other = "it is no archive of arrays, or holds pickled objects"
        pickled = isinstance(error, TypeError) or "pickle" in str(error)
        raise _unreadable(path, ValueError(other) if pickled else error) from None


def _native(array: Any) -> Any:
    """The numbers in the byte order of this machine, as torch wants them."""
    return array.astype(array.dtype.newbyteorder("="), copy=False)


def _safetensors(path: Path) -> dict[str, Any]:
    from safetensors import SafetensorError
    from safetensors.torch import load_file

    try:
        return dict(load_file(path))
    except (OSError, ValueError, KeyError, SafetensorError) as error:
        raise _unreadable(path, error) from None


READERS: dict[str, Callable[[Path], dict[str, Any]]] = {".npz": _npz, ".safetensors": _safetensors}


def _unreadable(path: Path, error: Exception) -> AliveError:
    reason = str(error).strip().rstrip(".") or type(error).__name__
    return AliveError(
        f"cannot read {path}: {reason}",
        "Write it again with numpy.savez or safetensors.torch.save_file, holding arrays of numbers only",
    )


def _named(path: Path, arrays: Mapping[str, Any]) -> Data:
    """Data from the arrays of a file, by their names."""
    allowed = ("train_x", "train_y", "test_x", "test_y") if "train_x" in arrays else ("x", "y", "test_x", "test_y")
    strange = [key for key in arrays if key not in allowed]
    if strange or allowed[0] not in arrays or allowed[1] not in arrays:
        hint = near(strange[0], allowed) if strange else f"Known: {', '.join(allowed)}"
        raise AliveError(f"{path} holds {', '.join(arrays) or 'nothing'}, expected {KEYS}", hint)
    x, y = (arrays[key] for key in allowed[:2])
    return tensors(x, y, test_x=arrays.get("test_x"), test_y=arrays.get("test_y"), name=path.stem)
