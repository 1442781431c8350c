"""Arrays and tensors from files, read without running what these hold: numpy's, torch.save's and safetensors."""

from __future__ import annotations

import re
import warnings
import zipfile
from collections.abc import Iterator, Mapping
from os import PathLike
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from ..errors import AliveError
from ..gate import Allowance

SAVE = "Write it again with numpy.savez or safetensors.torch.save_file, holding arrays of numbers only"
PLACE = 64  # bytes, at the least, of a thing in a container


def load_tensors(path: str | PathLike[str], cure: str) -> Any:
    """What torch.save wrote, on the CPU; anything but tensors, numbers, texts and containers of them is refused."""
    path = Path(path)
    try:
        allowance = Allowance(path)
        if zipfile.is_zipfile(path):
            with zipfile.ZipFile(path) as archive:
                allowance.entries(archive)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of torch's older formats
            found = torch.load(path, map_location="cpu", weights_only=True)
        _count(found, Allowance(path))
        return found
    except AliveError:
        raise
    except Exception as error:  # a damaged file fails in as many ways as it has parts
        found = re.search(r"Unsupported (?:global: GLOBAL|class) (\S+)", str(error))
        if found:
            kind = found[1].rstrip(".,")
            raise AliveError(f"{path} holds a pickled {kind}, and a pickle can run code", cure) from None
        first = str(error).strip().splitlines()[0].split(". ")[0].rstrip(".:") if str(error).strip() else "it is empty"
        reason = "it is not a file of tensors" if first.startswith("Weights only load failed") else first
        raise AliveError(f"{path} is damaged or was not written by torch.save: {reason}", cure) from None


def _count(found: Any, allowance: Allowance) -> None:
    """Count what was read as if all of it were laid out: a view may show a number a billion times, a list a list."""
    ahead = [found]
    while ahead:
        each = ahead.pop()
        allowance.take(PLACE, "lists in lists")
        if isinstance(each, Tensor):
            allowance.shape(each.shape, each.element_size(), f"a tensor of shape {list(each.shape)}")
        elif isinstance(each, dict):
            ahead += [*each.keys(), *each.values()]
        elif isinstance(each, list | tuple | set):
            ahead += each
        elif isinstance(each, str | bytes | bytearray):
            allowance.take(len(each), "a text")


def safe_tensors(path: str | PathLike[str]) -> tuple[dict[str, str], dict[str, Tensor]]:
    """The notes and the tensors of a safetensors file; its own errors are the caller's to word."""
    from safetensors import safe_open

    allowance = Allowance(Path(path))
    with safe_open(path, "pt") as file:
        names = list(file.keys())
        for name in names:
            allowance.shape(file.get_slice(name).get_shape(), 1, name)
        return file.metadata() or {}, {name: file.get_tensor(name) for name in names}


def npz(path: Path) -> Any:
    """The arrays of an archive, by name."""
    # A damaged archive fails in as many ways as it has parts.
    try:
        allowance = Allowance(path)
        with zipfile.ZipFile(path) as archive:
            return dict(_arrays(archive, allowance))
    except Exception as error:
        raise _unreadable(path, "it is not an archive of arrays, or holds pickled objects", error) from None


def _arrays(archive: zipfile.ZipFile, allowance: Allowance) -> Iterator[tuple[str, Any]]:
    for entry in allowance.entries(archive):
        name = entry.filename.removesuffix(".npy")
        with archive.open(entry) as stream:
            yield name, _native(allowance.array(stream, entry.file_size, name))


def npy(path: Path) -> Any:
    """The array of a file."""
    try:
        with path.open("rb") as file:
            if file.read(2) == b"PK":
                raise ValueError("it is an archive; let its name end in .npz")
            file.seek(0)
            return _native(Allowance(path).array(file, path.stat().st_size, "x"))
    except Exception as error:
        raise _unreadable(path, "it is not an array, or holds pickled objects", error) from None


def _native(array: Any) -> Any:
    """The numbers in the byte order of this machine, as torch wants them."""
    return array.astype(array.dtype.newbyteorder("="), copy=False)


def safetensors(path: Path) -> Any:
    """The tensors of a file, by name."""
    from safetensors import SafetensorError

    try:
        return {key: _as_array(value) for key, value in safe_tensors(path)[1].items()}
    except (OSError, ValueError, KeyError, SafetensorError) as error:
        raise _unreadable(path, "", error) from None


def pt(path: Path) -> Any:
    """The tensors that torch.save wrote: one, several by name, or inputs and targets."""
    found = load_tensors(path, "Save tensors alone: torch.save({'x': x, 'y': y}, path)")
    if isinstance(found, list) and len(found) == 2 and len({getattr(part, "ndim", 0) for part in found}) == 2:
        found = tuple(found)  # inputs and targets, not two batches
    if isinstance(found, tuple) and len(found) == 2:
        return dict(zip("xy", map(_as_array, found), strict=True))
    return {key: _as_array(value) for key, value in found.items()} if isinstance(found, Mapping) else _as_array(found)


def _as_array(value: Any) -> Any:
    """Doubles as arrays, which the model's precision is chosen for; any other tensor as it is."""
    return value.numpy() if str(getattr(value, "dtype", "")) == "torch.float64" else value


pth = pt


def _unreadable(path: Path, otherwise: str, error: Exception) -> AliveError:
    """What to say of a file; `otherwise` where it is of another kind, or holds a pickle."""
    if isinstance(error, AliveError) and error.cure:
        return error
    said = error.cause if isinstance(error, AliveError) else str(error)
    if isinstance(error, TypeError | zipfile.BadZipFile) or "pickle" in said:
        said = otherwise
    reason = " ".join(said.split()).rstrip(".") or type(error).__name__
    return AliveError(f"cannot read {path}: {reason}", SAVE)
