"""Write a network to a file that runs without its Python code, and run it to check that it gives the same outputs."""

from __future__ import annotations

import inspect
import io
import logging
import re
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from importlib import import_module
from os import PathLike
from pathlib import Path
from types import ModuleType
from typing import Any

import torch
from torch import Tensor, nn

from ..errors import AliveError, expect, reason, require
from ..files import expect_writable, write_atomically
from ..taps import bare
from ..torch_private import tree_leaves
from .models import copied, evaluating, largest_difference, outputs

EXPORTER_WARNINGS = (r"`isinstance\(treespec, LeafSpec\)` is deprecated",)
Runner = Callable[[Tensor], Any]
COLOURS = re.compile(r"\x1b\[[0-9;]*m")


@dataclass(frozen=True, slots=True)
class Exported:
    """A written network: where, how large, and the largest difference of its outputs from the model's."""

    path: Path
    size: int
    difference: float


def to_onnx(
    model: nn.Module,
    path: str | PathLike[str],
    example: Tensor,
    *,
    tolerance: float = 1e-4,
) -> Exported:
    """Write a model in eval mode as ONNX with a free batch size, then run the file in onnxruntime.

    The outputs on the example [N, ...], and on batches of other sizes, must agree with the model's within `tolerance`
    of the largest output, or nothing is written. Of several tensors that are returned, a mapping's keep their names;
    others are output_0 ...

    >>> import tempfile
    >>> net = nn.Sequential(nn.Linear(3, 4), nn.ReLU(), nn.Linear(4, 2))
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     to_onnx(net, f"{folder}/net.onnx", torch.randn(5, 3)).difference < 1e-5
    True
    """
    runtime, _, _ = (optional(name) for name in ("onnxruntime", "onnx", "onnxscript"))

    def write(copy: nn.Module, batch: Tensor) -> bytes:
        with _quiet_exporter():
            program = torch.onnx.export(
                copy,
                (batch,),
                dynamo=True,
                verbose=False,
                input_names=["input"],
                output_names=_names(outputs(copy, batch)),
                dynamic_shapes=_any_batch(copy),
            )
        assert program is not None
        data: bytes = program.model_proto.SerializeToString()
        return data

    def read(data: bytes) -> Runner:
        session = runtime.InferenceSession(data, providers=["CPUExecutionProvider"])
        return lambda x: [torch.from_numpy(y) for y in session.run(None, {"input": x.cpu().numpy()})]

    return _export("to_onnx", model, path, example, tolerance, write, read)


def to_exported(
    model: nn.Module,
    path: str | PathLike[str],
    example: Tensor,
    *,
    tolerance: float = 1e-4,
) -> Exported:
    """Write a model in eval mode with torch.export (a .pt2 file) with a free batch size, then load and run the file.

    Checked as `to_onnx` checks; read it with `torch.export.load(path).module()`.

    >>> import tempfile
    >>> net = nn.Sequential(nn.Linear(3, 4), nn.ReLU(), nn.Linear(4, 2))
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     to_exported(net, f"{folder}/net.pt2", torch.randn(5, 3)).difference
    0.0
    """

    def write(copy: nn.Module, batch: Tensor) -> bytes:
        file = io.BytesIO()
        with _quiet_exporter():
            program = torch.export.export(copy, (batch,), dynamic_shapes=_any_batch(copy), strict=False)
            torch.export.save(program, file)
        return file.getvalue()

    def read(data: bytes) -> Runner:
        with _quiet_exporter():
            return torch.export.load(io.BytesIO(data)).module()

    return _export("to_exported", model, path, example, tolerance, write, read)


def _export(
    name: str,
    model: nn.Module,
    path: str | PathLike[str],
    example: Tensor,
    tolerance: float,
    write: Callable[[nn.Module, Tensor], bytes],
    read: Callable[[bytes], Runner],
) -> Exported:
    """Write, read back, compare; the file appears only when the comparison holds."""
    _expect_fit(name, model, path, example, tolerance)
    path = Path(path)
    expect_writable(path)
    copy = copied(bare(model)).eval()
    batch = torch.cat([example, example])  # exporters take a batch of one for a constant
    sizes = (example, example[:1], batch)
    data = _write(write, copy, batch)
    with evaluating(copy):
        said = [y for x in sizes for y in _tensors(outputs(copy, x))]
    pairs = list(zip(said, _read_back(read, data, sizes), strict=True))
    difference = max(largest_difference(ours.cpu(), theirs.cpu()) for ours, theirs in pairs)
    scale = max(1.0, max(float(ours.abs().max()) for ours, _ in pairs))
    if not difference <= tolerance * scale:
        raise AliveError(
            f"the written network differs from the model by {difference:.3g}, more than {tolerance:g} of {scale:.3g}",
            "Nothing was written; export a model in float32 without random layers, or raise tolerance",
        )
    write_atomically(path, data)
    return Exported(path, len(data), difference)


def _expect_fit(name: str, model: object, path: object, example: object, tolerance: float) -> None:
    inner = isinstance(getattr(model, "model", None), nn.Module)
    hint = f"; give its model, {name}(folded.model, ...)" if inner else ""
    told = f"{name}(model, path, example) wants"
    got = f"a tensor {list(example.shape)}" if isinstance(example, Tensor) else type(example).__name__
    expect(
        [
            (isinstance(model, nn.Module), f"{told} an nn.Module as its model, got {type(model).__name__}{hint}"),
            (isinstance(path, str | PathLike), f"{told} a file name as its path, got {type(path).__name__}"),
            (
                isinstance(example, Tensor) and example.dim() >= 1 and len(example) >= 1,
                f"{told} as its example a batch [N, ...], one tensor, got {got}: only models of one argument can go",
            ),
            (tolerance > 0, f"tolerance must be above 0, got {tolerance}"),
        ]
    )


def _any_batch(model: nn.Module) -> tuple[Any, ...]:
    """The one input, its batch size free, as torch.export wants to be told: forward(*inputs) has one more level."""
    free = ({0: torch.export.Dim("batch")},)
    first = next(iter(inspect.signature(model.forward).parameters.values()))
    return (free,) if first.kind is first.VAR_POSITIONAL else free


def _tensors(output: Any) -> list[Tensor]:
    """The tensors that a model returns, however it nests them."""
    found = [leaf for leaf in tree_leaves(output) if leaf is not None]
    strange = [type(leaf).__name__ for leaf in found if not isinstance(leaf, Tensor)]
    if strange:
        raise AliveError(
            f"the model returns {strange[0]}, and only tensors can be written",
            "Wrap it so that it returns tensors, or tuples, lists or mappings of them",
        )
    return found


def _names(output: Any) -> list[str]:
    """What the tensors of an output are called in the file."""
    found = _tensors(output)
    if isinstance(output, Mapping) and len(output) == len(found):
        return [str(name) for name in output]
    return ["output"] if len(found) == 1 else [f"output_{number}" for number in range(len(found))]


def _write(write: Callable[[nn.Module, Tensor], bytes], model: nn.Module, batch: Tensor) -> bytes:
    try:
        with torch.no_grad():
            return write(model, batch)
    except Exception as error:
        if isinstance(error, AliveError):
            raise
        raise AliveError(
            f"{type(model).__name__} cannot be exported: {_reason(error)}",
            "Its forward must be one that torch.export can follow, for any batch size",
        ) from error


def _read_back(read: Callable[[bytes], Runner], data: bytes, batches: tuple[Tensor, ...]) -> list[Tensor]:
    """What the written network returns for the batches, one after the other."""
    try:
        run = read(data)
        with torch.no_grad():
            return [y for x in batches for y in _tensors(run(x.clone()))]
    except Exception as error:
        raise AliveError(
            f"the written network cannot be run ({batches[0].dtype}): {_reason(error)}",
            "Nothing was written; the runtime may lack an operation in this precision: export the model in float32",
        ) from error


def _reason(error: BaseException) -> str:
    """What lies at the bottom of an error: exporters wrap it in advice of their own."""
    while error.__cause__ is not None:
        error = error.__cause__
    return COLOURS.sub("", reason(error)).strip()


def optional(name: str) -> ModuleType:
    """A package that only ONNX files need."""
    with require("a file of ONNX", "alive[export]"):
        return import_module(name)


@contextmanager
def _quiet_exporter() -> Iterator[None]:
    """Silence what the exporters of torch say about their own inner workings, and nothing else."""
    chatter = logging.getLogger("torch.onnx._internal.exporter._registration")  # misses torchvision, which none needs
    level = chatter.level
    chatter.setLevel(logging.ERROR)
    try:
        with warnings.catch_warnings():
            for text in EXPORTER_WARNINGS:
                warnings.filterwarnings("ignore", text)
            yield
    finally:
        chatter.setLevel(level)
