"""What a .pt2 file holds, read without running any of it: the JSON of its graph, and its tensors from plain bytes."""

from __future__ import annotations

import re
import zipfile
from math import prod
from typing import Any, NamedTuple

import torch
from torch import Tensor

from ..gate import Allowance

GRAPH = re.compile(r"[^/]+/models/(\w+)\.json", re.ASCII)
TABLE = re.compile(r"[^/]+/data/(?:weights|constants)/(\w+)_(?:weights|constants)_config\.json", re.ASCII)
# The numbers by which torch 2.9 and newer write what a tensor holds.
DTYPES = dict(
    enumerate(
        [
            *(torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64, torch.float16, torch.float32),
            *(torch.float64, torch.complex32, torch.complex64, torch.complex128, torch.bool, torch.bfloat16),
        ],
        start=1,
    )
)
STRIDED = 7


class Archive(NamedTuple):
    """The graph of the one model in a file, as JSON, and its tensors by name."""

    graph: dict[str, Any]
    tensors: dict[str, Tensor]


class Damaged(Exception):
    """Something in the file is not what torch writes."""


def read(archive: zipfile.ZipFile, allowance: Allowance) -> Archive:
    """Read a file; entries that are written twice, packed, or pickled are refused."""
    entries = allowance.entries(archive)
    names = [entry.filename for entry in entries]
    packed = next((entry.filename for entry in entries if entry.compress_type != zipfile.ZIP_STORED), None)
    if packed is not None:
        raise Damaged(
            f"is packed: {packed} says how large it is only when it is unpacked, which torch.export never does"
        )
    graphs = [name for name in names if GRAPH.fullmatch(name)]
    if len(graphs) != 1:
        raise Damaged(f"is no program of torch.export: it holds {len(graphs)} graphs, not 1")
    tensors: dict[str, Tensor] = {}
    for name in filter(TABLE.fullmatch, names):
        folder = name.rpartition("/")[0]
        kept: dict[str, bytearray] = {}
        for key, entry in _json(archive, name, allowance)["config"].items():
            if entry["use_pickle"]:
                raise Damaged(f"holds {key} as a pickle, and a pickle can run code when it is loaded")
            place = f"{folder}/{entry['path_name']}"
            data = kept.get(place) or kept.setdefault(place, bytearray(archive.read(place)))
            tensors[key] = _tensor(key, data, entry["tensor_meta"], allowance)
    return Archive(_json(archive, graphs[0], allowance), tensors)


def _json(archive: zipfile.ZipFile, name: str, allowance: Allowance) -> dict[str, Any]:
    found = allowance.json(archive.read(name), name)
    if not isinstance(found, dict):
        raise Damaged(f"holds {name}, which is no table")
    return found


def _tensor(name: str, data: bytearray, meta: dict[str, Any], allowance: Allowance) -> Tensor:
    """A tensor of these bytes; one that is larger than its bytes would fill the memory later."""
    kind = DTYPES.get(meta["dtype"])
    if kind is None or meta["layout"] != STRIDED:
        raise Damaged(f"holds {name} in a form that is not read here (dtype {meta['dtype']}, layout {meta['layout']})")
    sizes, strides = ([number(n) for n in meta[key]] for key in ("sizes", "strides"))
    allowance.shape(sizes, kind.itemsize, name)
    if prod(sizes) * kind.itemsize > max(len(data), 8) or len(data) % kind.itemsize:
        raise Damaged(f"holds {name} of shape {sizes} in {len(data)} bytes")
    flat = torch.frombuffer(data, dtype=kind) if data else torch.empty(0, dtype=kind)
    return flat.as_strided(sizes, strides, number(meta["storage_offset"])).clone(memory_format=torch.preserve_format)


def number(size: Any) -> int:
    """A size that is a number."""
    found = size["as_int"]
    if type(found) is not int or found < 0:
        raise Damaged(f"has a size that is no number: {size!r:.80}")
    return found
