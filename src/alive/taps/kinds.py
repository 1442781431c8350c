"""Which calls are one-sided activations: one line a kind.

Each reader has the signature of the torch function it reads, and says what goes in, which activation it is, and
whether it happens in place; None where the call is not one-sided after all.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Mapping
from math import inf, nan
from typing import Any, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from ..functional.activations import Activation, celu, elu, relu6, selu, softplus
from ..registry import Registry
from ..torch_private import unwrapped
from .formulas import where


class Seen(NamedTuple):
    """An activation call, read."""

    z: Tensor
    activation: Activation
    inplace: bool = False
    other: Tensor | None = None  # which may be z as well, for both are zero
    gate: Gate | None = None  # by which it is on, where that is not a cutoff


class Gate(NamedTuple):
    """A mask by which values are on: where sign · scores > sign · reach."""

    scores: Tensor
    reach: Any
    sign: int
    mask: Tensor


Reader = Callable[..., Seen | None]
RELU = Activation("relu")


def _relu(input: Tensor, inplace: bool = False) -> Seen:
    return Seen(input, RELU, inplace)


def _leaky_relu(input: Tensor, negative_slope: float = 0.01, inplace: bool = False) -> Seen:
    return Seen(input, Activation("leaky_relu", leaks=True), inplace)


def _rrelu(
    input: Tensor, lower: float = 1 / 8, upper: float = 1 / 3, training: bool = False, inplace: bool = False, **_: Any
) -> Seen:
    return Seen(input, Activation("rrelu", leaks=True), inplace)


def _prelu(input: Tensor, weight: Tensor) -> Seen:
    return Seen(input, Activation("prelu", leaks=True))


def _hardtanh(input: Tensor, min_val: float = -1.0, max_val: float = 1.0, inplace: bool = False) -> Seen:
    known = relu6(max_val) if min_val == 0 else Activation("hardtanh", cutoff=min_val, ceiling=max_val)
    return Seen(input, known, inplace)


def _relu6(input: Tensor, inplace: bool = False) -> Seen:
    return Seen(input, relu6(), inplace)


def _elu(input: Tensor, alpha: float = 1.0, inplace: bool = False) -> Seen:
    return Seen(input, elu(alpha), inplace)


def _celu(input: Tensor, alpha: float = 1.0, inplace: bool = False) -> Seen:
    return Seen(input, celu(alpha), inplace)


def _selu(input: Tensor, inplace: bool = False) -> Seen:
    return Seen(input, selu(), inplace)


def _gelu(input: Tensor, approximate: str = "none") -> Seen:
    return Seen(input, Activation.smooth("gelu"))


def _silu(input: Tensor, inplace: bool = False) -> Seen:
    return Seen(input, Activation.smooth("silu"), inplace)


def _hardswish(input: Tensor, inplace: bool = False) -> Seen:
    return Seen(input, Activation.smooth("hardswish", straight_from=3.0), inplace)


def _mish(input: Tensor, inplace: bool = False) -> Seen:
    return Seen(input, Activation.smooth("mish"), inplace)


def _threshold(input: Tensor, threshold: float, value: float, inplace: bool = False) -> Seen:
    return Seen(input, Activation("threshold", cutoff=threshold), inplace)


def _clamp(input: Tensor, min: Any = None, max: Any = None, **_: Any) -> Seen | None:
    if isinstance(max, Tensor):
        max = max.item() if max.numel() == 1 else nan
    if min is None or not _is_zero(min) or max != max:
        return None
    return Seen(input, Activation("clamp", ceiling=inf if max is None else max))


def _maximum(input: Tensor, other: Any = None, *_: Any, **__: Any) -> Seen | None:
    if not isinstance(other, Tensor) or not isinstance(input, Tensor):
        return None
    for z, floor in ((input, other), (other, input)):
        if _is_zero(floor) and z.shape == torch.broadcast_shapes(z.shape, floor.shape):
            return Seen(z, Activation("maximum"), other=floor if z.shape == floor.shape else None)
    return None


def _is_zero(bound: Any) -> bool:
    """Whether a bound is 0, as a number or all over a tensor."""
    if not isinstance(bound, Tensor):
        return bool(bound == 0)
    if not bound.numel() or bound.is_meta or torch.compiler.is_compiling():
        return False
    bound = unwrapped(bound).detach()
    return not bool(bound.flatten()[0]) and not bool(bound.any())


def _softplus(input: Tensor, beta: float = 1.0, threshold: float = 20.0) -> Seen:
    return Seen(input, softplus(beta))


def _inplace(read: Reader) -> Reader:
    def reader(*args: Any, **kwargs: Any) -> Seen | None:
        seen = read(*args, **kwargs)
        return seen and seen._replace(inplace=True)

    return reader


READERS: dict[Callable[..., Any], Reader] = {
    F.relu: _relu,
    torch.relu: _relu,
    torch.Tensor.relu: _relu,
    torch.relu_: _inplace(_relu),
    torch.Tensor.relu_: _inplace(_relu),
    F.leaky_relu: _leaky_relu,
    F.leaky_relu_: _inplace(_leaky_relu),
    F.rrelu: _rrelu,
    torch.rrelu: _rrelu,
    torch.rrelu_: _inplace(_rrelu),
    F.prelu: _prelu,
    torch.prelu: _prelu,
    torch.Tensor.prelu: _prelu,
    F.hardtanh: _hardtanh,
    F.hardtanh_: _inplace(_hardtanh),
    F.relu6: _relu6,
    F.elu: _elu,
    F.elu_: _inplace(_elu),
    F.celu: _celu,
    torch.celu: _celu,
    torch.celu_: _inplace(_celu),
    F.selu: _selu,
    torch.selu: _selu,
    torch.selu_: _inplace(_selu),
    F.gelu: _gelu,
    F.silu: _silu,
    F.hardswish: _hardswish,
    F.mish: _mish,
    F.softplus: _softplus,
    F.threshold: _threshold,
    torch.threshold_: _inplace(_threshold),
    torch.threshold: _threshold,
    **dict.fromkeys((torch.maximum, torch.fmax, torch.max, Tensor.maximum, Tensor.fmax, Tensor.max), _maximum),
    **dict.fromkeys((torch.clamp, torch.clip, torch.clamp_min), _clamp),
    **dict.fromkeys((Tensor.clamp, Tensor.clip, Tensor.clamp_min), _clamp),
    **dict.fromkeys((torch.clamp_, torch.clip_, torch.clamp_min_), _inplace(_clamp)),
    **dict.fromkeys((Tensor.clamp_, Tensor.clip_, Tensor.clamp_min_), _inplace(_clamp)),
}


def is_pre_activation(z: Tensor) -> bool:
    """Whether z can be what units compute of points: not integers, and not a weight, as in softplus(self.scale)."""
    return isinstance(z, Tensor) and type(z) is not nn.Parameter and z.is_floating_point()


def is_of_losses(activation: Activation) -> bool:
    """Whether an activation is as common in a loss as in a layer: there, where it leads to decides."""
    return activation.name in ("softplus", "flattening", "self_gated", "rectified")


class Masks:
    """Remembers what masks such as x > y were made of, so that values that other numbers let through are seen.

    Of its own numbers, compared with one number, x * (x > 0) is a formula (`formulas`). `kept` holds, by the id of a
    tensor, what it is: "+" where one tensor is above another, "-" where it is not, with both; "p" a softmax.
    """

    def __init__(self) -> None:
        self._kept: dict[int, tuple[weakref.ref[Tensor], str, Any]] = {}

    def clear(self) -> None:
        """A new pass begins, or one has ended."""
        self._kept.clear()

    def is_softmax(self, t: Tensor) -> bool:
        """Whether a tensor is a softmax."""
        return self._of(t)[0] == "p"

    def note_softmax(self, t: Tensor) -> None:
        """A tensor is a copy of a softmax."""
        self._kept[id(t)] = (weakref.ref(t), "p", None)

    def note(self, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any], out: Any) -> Any:
        """Remember what came out, if it may be part of an activation."""
        if isinstance(out, Tensor) and args and isinstance(args[0], Tensor):
            kind, compared = self._kind(MASKS[func], args, kwargs)
            if kind:
                self._kept[id(out)] = (weakref.ref(out), kind, compared)
        return out

    def _kind(self, role: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[str, Any]:
        x = args[0]
        other = args[1] if len(args) > 1 else kwargs.get("other", kwargs.get("values"))
        if role in "+-":
            return ("", None) if other is None else (role, (x, other))
        if role == "h":
            return ("+" if _is_zero(other) else "", (x, 0))
        known, compared = self._of(x)
        if role == "p":
            return "p", None
        if role == "cast":
            return known, compared
        if role == "not":
            return {"+": "-", "-": "+"}.get(known, ""), compared
        return "", None

    def _of(self, t: Any) -> tuple[str, Any]:
        kept = self._kept.get(id(t))
        return kept[1:] if kept is not None and kept[0]() is t else ("", None)

    def read(
        self, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any], is_constant: Callable[[Tensor], bool]
    ) -> Seen | None:
        """The values that a call lets through where a mask says so, if it does."""
        role = MASKS[func]
        if not self._kept or role not in ("mul", "mul_", "where", "fill", "fill_", "set"):
            return None
        given = (*args, *kwargs.values())
        if role == "where" and len(given) >= 3:
            condition, x, y = given[:3] if given[0].dtype == torch.bool else (given[1], given[0], given[2])
            for z, other, holds in ((x, y, 1), (y, x, -1)):
                zero = _is_zero(other) and (not isinstance(other, Tensor) or is_constant(other))
                if zero and (seen := self._seen(z, condition, holds)):
                    return seen
            return None
        if role in ("fill", "fill_", "set") and len(given) >= 3:
            seen = self._seen(given[0], given[1], -1) if _is_zero(given[2]) else None
            return seen and seen._replace(inplace=role != "fill")
        if len(given) < 2:
            return None
        for z, other in ((given[0], given[1]), (given[1], given[0])):
            if seen := self._seen(z, other):
                return seen._replace(inplace=role == "mul_" and z is given[0])
        return None

    def _seen(self, z: Any, mask: Any, holds: int = 1) -> Seen | None:
        """z where a mask of other numbers holds (1), or does not (−1)."""
        kind, compared = self._of(mask)
        if not isinstance(z, Tensor) or compared is None or mask.shape != z.shape:
            return None
        a, b = compared
        return _gate(z, mask, a, b, side=holds if kind == "+" else -holds)


def _gate(z: Tensor, mask: Tensor, a: Any, b: Any, *, side: int) -> Seen | None:
    """z, on where a > b (side 1) or a < b (side −1): the scores are whichever is z itself, or else has its shape."""
    own = isinstance(b, Tensor) and where(b) == where(z)
    if own or not (is_pre_activation(a) and a.shape == z.shape):
        a, b, side = b, a, -side
    if not is_pre_activation(a) or a.shape != z.shape:
        return None
    return Seen(z, JUMP if where(a) == where(z) else GATE, gate=Gate(a, b, side, mask))


JUMP, GATE = Activation("jump"), Activation("gate")  # on where z, or other scores, reach what no cutoff says


_OF_TENSOR = {
    "+": "gt ge greater greater_equal __gt__ __ge__",
    "-": "lt le less less_equal __lt__ __le__",
    "cast": "float double half bfloat16 to type type_as",
    "not": "logical_not __invert__ bitwise_not",
    "p": "softmax",
    "h": "heaviside",
    "mul": "mul multiply __mul__ __rmul__",
    "mul_": "mul_ multiply_ __imul__",
    "fill": "masked_fill",
    "fill_": "masked_fill_",
    "set": "__setitem__",
    "where": "where",
}
_OF_TORCH = {
    "+": "gt ge greater greater_equal",
    "-": "lt le less less_equal",
    "not": "logical_not bitwise_not",
    "p": "softmax",
    "h": "heaviside",
    "mul": "mul multiply",
    "fill": "masked_fill",
    "where": "where",
}
# What a function can be in an activation that is spelled out.
MASKS: dict[Callable[..., Any], str] = {
    **{getattr(Tensor, n): role for role, names in _OF_TENSOR.items() for n in names.split() if hasattr(Tensor, n)},
    **{getattr(torch, n): role for role, names in _OF_TORCH.items() for n in names.split() if hasattr(torch, n)},
    F.softmax: "p",
}


# Modules that spell an activation out in elementary operations; by name, so that their package need not be there.
HANDMADE: dict[str, Activation] = {
    "transformers.activations.GELUActivation": Activation.smooth("gelu"),
    "transformers.activations.GELUTanh": Activation.smooth("gelu"),
    "transformers.activations.NewGELUActivation": Activation.smooth("gelu"),
    "transformers.activations.FastGELUActivation": Activation.smooth("gelu"),
    "transformers.activations.QuickGELUActivation": Activation.smooth("gelu"),
    "transformers.activations.AccurateGELUActivation": Activation.smooth("gelu"),
    "transformers.models.bloom.modeling_bloom.BloomGelu": Activation.smooth("gelu"),
}

OneSided = Mapping[type[nn.Module], Activation]
"""Modules that are one-sided activations by themselves, by class."""


def _fault(name: str, thing: object) -> str:
    if isinstance(thing, Mapping) and all(
        isinstance(kind, type) and isinstance(known, Activation) for kind, known in thing.items()
    ):
        return ""
    return "it is no mapping of module classes to alive.functional.Activation records"


# Activation modules that installed packages declare, as users do in `Declared`.
DECLARED: Registry[OneSided] = Registry("alive.activations", "activation", {}, fault=_fault)


# Modules in whose forward no activation can be called: they need no hooks.
PLAIN: frozenset[type[nn.Module]] = frozenset(
    {nn.Linear, nn.Conv1d, nn.Conv2d, nn.Conv3d, nn.BatchNorm1d, nn.BatchNorm2d, nn.BatchNorm3d}
    | {nn.LayerNorm, nn.Dropout, nn.Flatten, nn.Identity, nn.Embedding}
)


def hides(module: nn.Module) -> str:
    """Why activations inside the module cannot be seen; empty where they can."""
    if isinstance(module, torch.jit.ScriptModule):
        return "is TorchScript, which calls no Python: its units are neither counted nor penalised"
    if isinstance(module, nn.RNN | nn.RNNCell) and module.nonlinearity == "relu":
        return "has its ReLU inside one fused call, where it is not seen: its units are neither counted nor penalised"
    return ""


# The axis on which the units of the last weighted sum lie; it tells a map [N, C, T] from a sequence [N, T, C].
UNIT_AXIS: dict[Callable[..., Any], int] = {
    F.linear: -1,
    torch.addmm: -1,
    torch.mm: -1,
    torch.matmul: -1,
    torch.bmm: -1,
    torch.baddbmm: -1,
    **dict.fromkeys((Tensor.addmm, Tensor.mm, Tensor.matmul, Tensor.bmm, Tensor.baddbmm), -1),
    torch.einsum: -1,
    F.bilinear: -1,
    F.embedding: -1,
    F.multi_head_attention_forward: -1,
    **dict.fromkeys((torch.lstm, torch.gru, torch.rnn_tanh, torch.rnn_relu), -1),
    torch.conv1d: 1,
    torch.conv2d: 1,
    torch.conv3d: 1,
    torch.conv_transpose1d: 1,
    torch.conv_transpose2d: 1,
    torch.conv_transpose3d: 1,
}
