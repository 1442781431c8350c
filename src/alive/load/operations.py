"""The operations of ONNX as calls of torch: one line each where the two agree."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial, reduce
from math import prod
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.nn import functional as F

from ..errors import AliveError


class Op(NamedTuple):
    """A node: its kind, the names it reads and makes, its attributes, and the version of the operator set."""

    kind: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    attributes: Mapping[str, Any]
    version: int

    def get(self, name: str, otherwise: Any = None) -> Any:
        """An attribute."""
        return self.attributes.get(name, otherwise)


def _refusal(op: Op, what: str) -> AliveError:
    return AliveError(
        f"{op.kind} with {what} cannot be followed", "Take the census of the model of torch that it was exported from"
    )


def _gemm(op: Op, a: Tensor, b: Tensor, c: Tensor | None = None) -> Tensor:
    a = a.t() if op.get("transA", 0) else a
    weight = b if op.get("transB", 0) else b.t()
    alpha, beta = op.get("alpha", 1.0), op.get("beta", 1.0)
    if alpha == beta == 1.0 and (c is None or c.ndim == 1):
        return F.linear(a, weight, c)
    made: Tensor = alpha * F.linear(a, weight)
    return made if c is None else made + beta * c


def _pads(op: Op, x: Tensor, kernel: list[int], strides: list[int], dilations: list[int]) -> list[int]:
    """What is added at both sides of each axis, the first axis first: [begin, end] pairs."""
    kind, n = op.get("auto_pad", "NOTSET"), len(kernel)
    if kind in ("NOTSET", "VALID"):
        pads = op.get("pads") or [0] * (2 * n)
        return [side for k in range(n) for side in (pads[k], pads[k + n])]
    found = []
    for size, k, step, apart in zip(x.shape[2:], kernel, strides, dilations, strict=True):
        whole = max((-(-size // step) - 1) * step + (k - 1) * apart + 1 - size, 0)
        less, more = whole // 2, whole - whole // 2
        found += [less, more] if kind == "SAME_UPPER" else [more, less]
    return found


def _backwards(pads: list[int]) -> list[int]:
    """As F.pad takes them: the last axis first."""
    pairs = [pads[k : k + 2] for k in range(0, len(pads), 2)]
    return [side for pair in reversed(pairs) for side in pair]


def _conv(op: Op, x: Tensor, w: Tensor, b: Tensor | None = None) -> Tensor:
    n = w.ndim - 2
    strides, dilations = op.get("strides") or [1] * n, op.get("dilations") or [1] * n
    pads = _pads(op, x, list(w.shape[2:]), strides, dilations)
    call = (F.conv1d, F.conv2d, F.conv3d)[n - 1]
    even = pads[::2] == pads[1::2]
    x = x if even else F.pad(x, _backwards(pads))
    return call(x, w, b, strides, pads[::2] if even else [0] * n, dilations, op.get("group", 1))


def _pool(op: Op, x: Tensor) -> Tensor:
    kernel = list(op.attributes["kernel_shape"])
    n = len(kernel)
    strides, dilations = op.get("strides") or [1] * n, op.get("dilations") or [1] * n
    pads = _pads(op, x, kernel, strides, dilations)
    if op.get("ceil_mode", 0) or op.get("storage_order", 0):
        raise _refusal(op, "ceil_mode")
    if op.kind == "MaxPool":
        x = F.pad(x, _backwards(pads), value=float("-inf")) if any(pads) else x
        return (F.max_pool1d, F.max_pool2d, F.max_pool3d)[n - 1](x, kernel, strides, 0, dilations)
    if any(pads) and not op.get("count_include_pad", 0):
        raise _refusal(op, "padding that does not count")
    if any(step != 1 for step in dilations):
        raise _refusal(op, "dilations")
    x = F.pad(x, _backwards(pads)) if any(pads) else x
    return (F.avg_pool1d, F.avg_pool2d, F.avg_pool3d)[n - 1](x, kernel, strides)


def _norm(op: Op, x: Tensor, scale: Tensor, bias: Tensor, mean: Tensor, var: Tensor) -> Tensor:
    if op.get("training_mode", 0):
        raise _refusal(op, "training_mode")
    return F.batch_norm(x, mean, var, scale, bias, False, 0.0, op.get("epsilon", 1e-5))


def _clip(op: Op, x: Tensor, low: Tensor | None = None, high: Tensor | None = None) -> Tensor:
    ends = [op.get(name) if end is None else end.item() for name, end in (("min", low), ("max", high))]
    return torch.clamp(x, *ends) if any(end is not None for end in ends) else x


def _prelu(op: Op, x: Tensor, slope: Tensor) -> Tensor:
    if slope.numel() == 1:
        return F.prelu(x, slope.reshape(1))
    if x.ndim > 1 and slope.numel() == x.shape[1] == slope.shape[0] and slope.ndim == x.ndim - 1:
        return F.prelu(x, slope.reshape(-1))
    raise _refusal(op, "a slope at every position")


def _axes(op: Op, given: Tensor | None) -> list[int] | None:
    """Axes, an attribute in older files and an input in newer ones."""
    return op.get("axes") if given is None else [int(axis) for axis in given.tolist()]


def _squeeze(op: Op, x: Tensor, axes: Tensor | None = None) -> Tensor:
    found = _axes(op, axes)
    return x.squeeze() if found is None else x.squeeze(tuple(found))


def _unsqueeze(op: Op, x: Tensor, axes: Tensor | None = None) -> Tensor:
    found = _axes(op, axes) or []
    for axis in sorted(axis % (x.ndim + len(found)) for axis in found):
        x = x.unsqueeze(axis)
    return x


def _reshape(op: Op, x: Tensor, shape: Tensor) -> Tensor:
    sizes = [int(n) for n in shape.tolist()]
    return x.reshape([x.shape[k] if n == 0 and not op.get("allowzero", 0) else n for k, n in enumerate(sizes)])


def _flatten(op: Op, x: Tensor) -> Tensor:
    axis = op.get("axis", 1)
    axis = axis + x.ndim if axis < 0 else axis
    if axis == 1:
        return x.flatten(1) if x.ndim > 1 else x[:, None]
    return x.reshape(prod(x.shape[:axis]), -1)


def _slice(op: Op, x: Tensor, *ends: Tensor | None) -> Tensor:
    given = [None if end is None else [int(n) for n in end.tolist()] for end in ends]
    if not given:
        given = [list(op.attributes["starts"]), list(op.attributes["ends"]), op.get("axes")]
    starts, stops, axes, steps = [*given, None, None][:4]
    assert starts is not None
    assert stops is not None
    for k, (start, stop) in enumerate(zip(starts, stops, strict=True)):
        axis, step = axes[k] if axes else k, steps[k] if steps else 1
        if step < 0:
            raise _refusal(op, "steps backwards")
        place = slice(*slice(start, stop, step).indices(x.shape[axis]))  # "to the end" is written as a huge number
        x = x[(slice(None),) * (axis % x.ndim) + (place,)]
    return x


def _gather(op: Op, x: Tensor, index: Tensor) -> Tensor:
    axis = op.get("axis", 0) % x.ndim
    index = torch.where(index < 0, index + x.shape[axis], index)
    if axis == 0 and x.ndim == 2:
        return F.embedding(index, x)
    if index.ndim == 0:
        return x.select(axis, int(index))
    found = x.index_select(axis, index.flatten())
    return found.unflatten(axis, list(index.shape)) if index.ndim > 1 else found


def _split(op: Op, x: Tensor, sizes: Tensor | None = None) -> tuple[Tensor, ...]:
    axis, parts = op.get("axis", 0), len(op.outputs)
    given = op.get("split") if sizes is None else [int(n) for n in sizes.tolist()]
    if given is None:
        given = -(-x.shape[axis] // parts)
    return tuple(torch.split(x, given, axis))


def _softmax(op: Op, x: Tensor) -> Tensor:
    if op.version < 13:
        raise _refusal(op, "an operator set before 13")
    call = torch.log_softmax if op.kind == "LogSoftmax" else torch.softmax
    return call(x, op.get("axis", -1))


def _reduce(call: Callable[..., Tensor]) -> Callable[..., Tensor]:
    def reduce(op: Op, x: Tensor, axes: Tensor | None = None) -> Tensor:
        found = _axes(op, axes)
        if found is None and op.get("noop_with_empty_axes", 0):
            return x
        return call(x, tuple(found) if found is not None else tuple(range(x.ndim)), bool(op.get("keepdims", 1)))

    return reduce


def _pad(
    op: Op, x: Tensor, pads: Tensor | None = None, value: Tensor | None = None, axes: Tensor | None = None
) -> Tensor:
    if axes is not None or op.get("mode", "constant") != "constant":
        raise _refusal(op, "axes, or a mode that is not constant")
    given = op.attributes["pads"] if pads is None else [int(n) for n in pads.tolist()]
    n = len(given) // 2
    pairs = [side for k in range(n) for side in (given[k], given[k + n])]
    return F.pad(x, _backwards(pairs), value=op.get("value", 0.0) if value is None else value.item())


def _constant(op: Op) -> Tensor:
    for name, kind in (("value_float", torch.float32), ("value_floats", torch.float32), ("value_int", torch.int64),
                       ("value_ints", torch.int64)):  # fmt: skip
        if name in op.attributes:
            return torch.tensor(op.attributes[name], dtype=kind)
    if "value" not in op.attributes:
        raise _refusal(op, "a value of another kind")
    found: Tensor = op.attributes["value"]
    return found


TYPES = {1: torch.float32, 6: torch.int32, 7: torch.int64, 9: torch.bool, 10: torch.float16, 11: torch.float64}


def _cast(op: Op, x: Tensor) -> Tensor:
    if op.attributes["to"] not in TYPES:
        raise _refusal(op, f"type {op.attributes['to']}")
    return x.to(TYPES[op.attributes["to"]])


SELU = {"alpha": 1.67326319217681884765625, "gamma": 1.05070102214813232421875}  # the standard's own constants


def _selu(op: Op, x: Tensor) -> Tensor:
    if any(abs(op.get(name, own) - own) > 1e-6 for name, own in SELU.items()):
        raise _refusal(op, "constants of its own")
    return F.selu(x)


PLAIN: dict[str, Callable[..., Any]] = {  # of tensors alone
    "MatMul": torch.matmul, "Relu": F.relu, "Softplus": F.softplus, "HardSwish": F.hardswish, "Mish": F.mish,
    "Sigmoid": torch.sigmoid, "Tanh": torch.tanh, "Erf": torch.erf, "Add": torch.add, "Sub": torch.sub,
    "Mul": torch.mul, "Sqrt": torch.sqrt, "Exp": torch.exp, "Log": torch.log, "Abs": torch.abs, "Neg": torch.neg,
    "Floor": torch.floor, "Ceil": torch.ceil, "Reciprocal": torch.reciprocal, "Sin": torch.sin, "Cos": torch.cos,
    "Where": torch.where, "Equal": torch.eq, "Greater": torch.gt, "GreaterOrEqual": torch.ge, "Less": torch.lt,
    "LessOrEqual": torch.le, "Not": torch.logical_not, "And": torch.logical_and, "Or": torch.logical_or,
    "Identity": lambda x: x, "Dropout": lambda x, *_: x,
    "Pow": lambda a, b: torch.pow(a, b).to(a.dtype),
    "Div": lambda a, b: torch.div(a, b, rounding_mode=None if a.is_floating_point() else "trunc"),
    "Max": lambda *given: reduce(torch.maximum, given), "Min": lambda *given: reduce(torch.minimum, given),
    "Sum": lambda *given: reduce(torch.add, given),
    "GlobalAveragePool": lambda x: x.mean(tuple(range(2, x.ndim)), keepdim=True),
    "GlobalMaxPool": lambda x: x.amax(tuple(range(2, x.ndim)), keepdim=True),
    "Expand": lambda x, shape: x.expand(torch.broadcast_shapes(x.shape, tuple(shape.tolist()))),
    "Range": lambda start, stop, step: torch.arange(start.item(), stop.item(), step.item()),
}  # fmt: skip
OPERATIONS: dict[str, Callable[..., Any]] = {  # of the node as well
    **{kind: partial(lambda call, op, *given: call(*given), call) for kind, call in PLAIN.items()},
    "Gemm": _gemm, "Conv": _conv, "MaxPool": _pool, "AveragePool": _pool, "BatchNormalization": _norm,
    "LayerNormalization": lambda op, x, scale, bias=None: F.layer_norm(
        x, x.shape[op.get("axis", -1) % x.ndim :], scale, bias, op.get("epsilon", 1e-5)),
    "InstanceNormalization": lambda op, x, scale, bias: F.instance_norm(
        x, weight=scale, bias=bias, eps=op.get("epsilon", 1e-5)),
    "LeakyRelu": lambda op, x: F.leaky_relu(x, op.get("alpha", 0.01)), "PRelu": _prelu, "Selu": _selu,
    "Elu": lambda op, x: F.elu(x, op.get("alpha", 1.0)), "Celu": lambda op, x: F.celu(x, op.get("alpha", 1.0)),
    "Gelu": lambda op, x: F.gelu(x, approximate=op.get("approximate", "none")), "Clip": _clip,
    "ThresholdedRelu": lambda op, x: F.threshold(x, op.get("alpha", 1.0), 0.0),
    "Softmax": _softmax, "LogSoftmax": _softmax, "Cast": _cast,
    "Reshape": _reshape, "Flatten": _flatten, "Squeeze": _squeeze, "Unsqueeze": _unsqueeze, "Slice": _slice,
    "Transpose": lambda op, x: x.permute(op.get("perm") or list(range(x.ndim))[::-1]),
    "Concat": lambda op, *parts: torch.cat(parts, op.attributes["axis"]), "Split": _split, "Gather": _gather,
    "Constant": _constant, "Pad": _pad,
    "Shape": lambda op, x: torch.tensor(list(x.shape)[op.get("start", 0) : op.get("end")], dtype=torch.int64),
    "ConstantOfShape": lambda op, shape: op.get("value", torch.zeros(1)).reshape(()).expand(shape.tolist()).clone(),
    "ReduceMean": _reduce(torch.mean), "ReduceSum": _reduce(torch.sum), "ReduceMax": _reduce(torch.amax),
    "ReduceMin": _reduce(torch.amin),
    "ReduceL2": _reduce(lambda x, dim, keepdim: x.square().sum(dim, keepdim).sqrt()),
}  # fmt: skip
