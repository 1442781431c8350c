"""A program of torch.export (.pt2) as a module whose activations are calls that can be watched."""

from __future__ import annotations

import io
import json
import operator
import re
import zipfile
from collections.abc import Callable
from os import PathLike
from pathlib import Path
from typing import Any

import torch
from torch import nn
from torch.nn import functional as F

from ...errors import AliveError

# What torch 2.9 and newer write; a pickle, a compiled library or anything else among it could run code.
PLAIN = re.compile(
    r"[^/]+/(data/(weights|constants)/((weight|tensor)_\d+|\w+_config\.json)|data/sample_inputs/\w+\.pt|models/\w+\.json"
    r"|archive_format|archive_version|byteorder|version|\.data/\w+|\.format_version|\.storage_alignment)"
)
BATCH_SIZE = "alive batch size"
AGAIN = "Export it again: torch.export.save(torch.export.export(model, (x,)), 'model.pt2')"
SAME = [
    "relu6",
    "leaky_relu",
    "selu",
    "celu",
    "gelu",
    "silu",
    "mish",
    "hardswish",
    "hardtanh",
    "softplus",
    "prelu",
    "threshold",
    "rrelu",
]
PLAINLY = [
    "relu",
    "relu_",
    "clamp",
    "clamp_min",
    "clamp_max",
    "maximum",
    "minimum",
    "where",
    "mul",
    "add",
    "sub",
    "abs",
    "neg",
    "gt",
    "ge",
    "lt",
    "le",
    "masked_fill",
    "sigmoid",
]
CALLS: dict[str, Callable[..., Any]] = {
    **{name: getattr(F, name) for name in SAME},
    **{name: getattr(torch, name) for name in PLAINLY},
}


def from_exported(path: str | PathLike[str]) -> nn.Module:
    """The network in a .pt2 file. Files that hold a pickle or compiled code are refused: they could run anything.

    >>> import tempfile
    >>> from alive.surgery import to_exported
    >>> net = nn.Sequential(nn.Linear(3, 4), nn.ReLU(), nn.Linear(4, 2))
    >>> x = torch.randn(5, 3)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     again = from_exported(to_exported(net, f"{folder}/net.pt2", x).path)
    >>> torch.equal(again(x), net(x))
    True
    """
    file = Path(path)
    data = _read(file)
    _expect_plain(file, data)
    try:
        program = torch.export.load(io.BytesIO(data)).module()
    except Exception as error:  # a damaged file fails in as many ways as it has parts
        said = " ".join(str(error).split()).split(". ")[0] or type(error).__name__
        raise AliveError(f"torch cannot load {file}: {said}", AGAIN) from error
    assert isinstance(program, torch.fx.GraphModule)
    program.meta[BATCH_SIZE] = _batch_size(program)
    for node in program.graph.nodes:
        _spell_out(node)
    program.recompile()
    return program


def _batch_size(program: torch.fx.GraphModule) -> int | None:
    """How many points the program takes at once, where it was exported for so many alone."""
    first = next((node for node in program.graph.nodes if node.op == "placeholder"), None)
    shape = tuple(getattr(first.meta.get("val"), "shape", ())) if first is not None else ()
    return next((size if isinstance(size, int) else None for size in shape), None)


def _read(file: Path) -> bytes:
    try:
        return file.read_bytes()
    except OSError as error:
        raise AliveError(f"cannot read {file}: {error.strerror}", "Correct the path") from None


def _expect_plain(file: Path, data: bytes) -> None:
    """Refuse what could run code when it is loaded."""
    try:
        archive = zipfile.ZipFile(io.BytesIO(data))
        names = archive.namelist()
        strange = [name for name in names if PLAIN.fullmatch(name) is None]
        for name in names:
            if name.endswith("_config.json") and _pickled(json.loads(archive.read(name))):
                strange.append(name)
    except (zipfile.BadZipFile, ValueError, OSError) as error:
        raise AliveError(f"{file} is no program of torch.export, or is damaged: {error}", AGAIN) from None
    if strange:
        raise AliveError(f"{file} holds {strange[0]}, which could run code when it is loaded", AGAIN)
    for name in (name for name in names if "/sample_inputs/" in name):
        try:
            torch.load(io.BytesIO(archive.read(name)), weights_only=True)
        except Exception:
            raise AliveError(f"{file} holds a pickle in {name}, and a pickle can run code", AGAIN) from None


def _pickled(config: Any) -> bool:
    """Whether some entry of a table of weights or constants is a pickle."""
    if isinstance(config, dict):
        return bool(config.get("use_pickle")) or any(map(_pickled, config.values()))
    return isinstance(config, list) and any(map(_pickled, config))


def _spell_out(node: torch.fx.Node) -> None:
    """An operator of aten as the function of torch with the same arguments, where it may be a one-sided activation."""
    known = re.fullmatch(r"aten\.(\w+)\.\w+", str(node.target)) if node.op == "call_function" else None
    if known is None:
        return
    name = known[1]
    if name == "elu":
        scales = [*node.args[2:], *(node.kwargs.get(key, 1) for key in ("scale", "input_scale") if key in node.kwargs)]
        if all(operator.eq(scale, 1) for scale in scales):
            node.target, node.args, node.kwargs = F.elu, tuple(node.args[:2]), {}
    elif name in CALLS and "generator" not in node.kwargs:
        node.target = CALLS[name]
