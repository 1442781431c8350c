"""An ONNX file as a module of torch: its graph run operation by operation, and checked against onnxruntime."""

from __future__ import annotations

import inspect
import re
from collections.abc import Mapping, Sequence
from importlib import import_module
from os import PathLike
from pathlib import Path
from types import ModuleType
from typing import Any

import torch
from torch import Tensor, nn

from ..errors import AliveError, reason, require
from ..gate import Allowance
from . import BATCH_SIZE
from .bounded import Bounded
from .operations import OPERATIONS, Op

TOLERANCE = 1e-3  # of the largest output


def from_onnx(path: str | PathLike[str]) -> OnnxNetwork:
    """The network in an .onnx file; operations that are not known here are refused by name.

    Its outputs on the first batch are compared with onnxruntime's: see `OnnxNetwork.check`.

    >>> import tempfile
    >>> from alive.surgery import to_onnx
    >>> net = nn.Sequential(nn.Linear(3, 4), nn.ReLU(), nn.Linear(4, 2))
    >>> x = torch.randn(5, 3)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     again = from_onnx(to_onnx(net, f"{folder}/net.onnx", x).path)
    >>> bool((again(x) - net(x)).abs().max() < 1e-6)
    True
    """
    with require("a file of ONNX", "alive[export]"):
        onnx = import_module("onnx")
    file = Path(path)
    try:
        model = onnx.load(str(file))
        onnx.checker.check_model(model)
        return OnnxNetwork(onnx, model, file)
    except AliveError:
        raise
    except FileNotFoundError:
        raise AliveError(f"there is no file {file}", "Correct the path") from None
    except Exception as error:  # a damaged file fails in as many ways as it has parts
        said = reason(error).split(". ")[0]
        raise AliveError(f"{file} is no ONNX model, or is damaged: {said}", "Export it again") from None


class OnnxNetwork(nn.Module):
    """A graph of ONNX. Float weights are parameters under their names in the file; nothing is trained by itself."""

    def __init__(self, onnx: ModuleType, model: Any, file: Path) -> None:
        super().__init__()
        graph = model.graph
        version = max((o.version for o in model.opset_import if o.domain in ("", "ai.onnx")), default=0)
        self._file, self._data = file, model.SerializeToString()
        self._numbers: dict[str, Tensor] = {}
        self._places: dict[str, str] = {}
        allowance = Allowance(file)
        for number, each in enumerate(graph.initializer):
            allowance.shape(each.dims, 1, each.name)
            self._keep(each.name, torch.from_numpy(onnx.numpy_helper.to_array(each).copy()), number)
        known = {each.name for each in graph.initializer}
        ops = [_op(onnx, node, version) for node in graph.node]
        if strange := sorted({op.kind for op in ops} - OPERATIONS.keys()):
            raise AliveError(
                f"{file} has operations that alive cannot follow: {', '.join(strange)}",
                "Take the census of the model of torch that it was exported from",
            )
        for number, op in enumerate(ops, len(known)):  # a weight may stand in a node of its own
            if op.kind == "Constant":
                self._keep(op.outputs[0], OPERATIONS["Constant"](op), number)
        self.inputs = tuple(each.name for each in graph.input if each.name not in known)
        self.outputs = tuple(each.name for each in graph.output)
        first = next((each for each in graph.input if each.name in self.inputs[:1]), None)
        sizes = first.type.tensor_type.shape.dim if first is not None else ()
        self.batch_size: int | None = (sizes[0].dim_value or None) if sizes else None  # so many points at once
        self.meta = {BATCH_SIZE: self.batch_size}
        self._ops = tuple(op for op in ops if op.kind != "Constant")
        names = [name if name.isidentifier() else f"input_{k}" for k, name in enumerate(self.inputs)]
        kind = inspect.Parameter.POSITIONAL_OR_KEYWORD
        asked = inspect.Signature([inspect.Parameter(name, kind) for name in names])
        self._asked = asked

        def forward(*args: Any, **named: Any) -> Any:
            return self._run(asked.bind(*args, **named).arguments.values())

        forward.__signature__ = asked  # type: ignore[attr-defined]
        self.forward = forward

    def _keep(self, name: str, value: Tensor, number: int) -> None:
        """Put a weight where its name says, so that layers are called after it."""
        if not value.is_floating_point():
            self._numbers[name] = value
            return
        *path, last = [re.sub(r"\W", "_", step) or "_" for step in name.split(".")]
        place: nn.Module = self
        for step in path:
            inner = getattr(place, step, None)
            if not isinstance(inner, nn.Module):
                inner = nn.Module()
                place.add_module(step, inner)
            place = inner
        if hasattr(place, last):
            last = f"{last}_{number}"
        place.register_parameter(last, nn.Parameter(value, requires_grad=False))
        self._places[name] = ".".join([*path, last])

    def _run(self, given: Any) -> Any:
        values: dict[str, Any] = {"": None, **self._numbers, **dict(zip(self.inputs, given, strict=True))}
        values |= {name: self.get_parameter(place) for name, place in self._places.items()}
        for op in self._ops:
            found = OPERATIONS[op.kind](op, *(values[name] for name in op.inputs))
            several = found if isinstance(found, tuple | list) else (found,)
            values.update(zip(op.outputs, several, strict=False))
        found = tuple(values[name] for name in self.outputs)
        return found[0] if len(found) == 1 else found

    @torch.no_grad()
    def check(self, args: Sequence[Tensor], named: Mapping[str, Tensor] | None = None) -> float:
        """The largest difference from onnxruntime on these inputs; refuses one beyond rounding."""
        with require("a file of ONNX", "alive[export]"):
            runtime = import_module("onnxruntime")
        given = list(self._asked.bind(*args, **(named or {})).arguments.values())
        ours = self._within_bounds(given)
        options = runtime.SessionOptions()
        options.log_severity_level = 4  # it would print what it raises
        try:
            session = runtime.InferenceSession(self._data, options, providers=["CPUExecutionProvider"])
            theirs = session.run(list(self.outputs), {n: t.numpy() for n, t in zip(self.inputs, given, strict=True)})
        except Exception as error:
            said = " ".join(str(error).split())[:200]
            raise AliveError(f"onnxruntime cannot run {self._file} on these data: {said}", self._how_to_fit()) from None
        pairs = list(zip(ours if isinstance(ours, tuple) else (ours,), map(torch.from_numpy, theirs), strict=True))
        worst = max(float((a.double() - b.double()).abs().max()) if a.numel() else 0.0 for a, b in pairs)
        scale = max(1.0, *(float(b.double().abs().max()) for _, b in pairs if b.numel()))
        if not worst <= TOLERANCE * scale:
            raise AliveError(
                f"{self._file} gives other outputs here than in onnxruntime, by {worst:.2g}",
                "Take the census of the model of torch that it was exported from",
            )
        return worst

    def _within_bounds(self, given: list[Tensor]) -> Any:
        """The outputs, of which none may be far larger than the file and what it is given."""
        try:
            with Bounded(self._file, given):
                return self._run(given)
        except AliveError:
            raise
        except Exception as error:
            said = reason(error)[:200]
            raise AliveError(f"{self._file} cannot be run on these data: {said}", self._how_to_fit()) from None

    def _how_to_fit(self) -> str:
        size = self.batch_size
        return f"Give it {size} points at once: batch_size={size}" if size else "Give data that fit it"


def _op(onnx: ModuleType, node: Any, version: int) -> Op:
    attributes = {a.name: onnx.helper.get_attribute_value(a) for a in node.attribute}
    for name, value in attributes.items():
        if isinstance(value, bytes):
            attributes[name] = value.decode()
        elif isinstance(value, onnx.TensorProto):
            attributes[name] = torch.from_numpy(onnx.numpy_helper.to_array(value).copy())
    kind = node.op_type if node.domain in ("", "ai.onnx") else f"{node.domain}.{node.op_type}"
    return Op(kind, tuple(node.input), tuple(node.output), attributes, version)
