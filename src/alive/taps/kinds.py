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
from ..torch_private import unwrap
from .formulas import where
from .pointwise import functions


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


def _reads(known: Activation | Callable[[dict[str, Any]], Activation], names: str = "inplace", **usual: Any) -> Reader:
    """A reader of calls with these settings after z, of which some have defaults; they may make the activation."""
    order = names.split()

    def reader(input: Tensor, *args: Any, **kwargs: Any) -> Seen:
        given = usual | dict(zip(order, args, strict=False)) | kwargs
        return Seen(input, known(given) if callable(known) else known, bool(given.get("inplace")))

    return reader


def _hardtanh(given: dict[str, Any]) -> Activation:
    least, most = given["min_val"], given["max_val"]
    return relu6(most) if least == 0 else Activation("hardtanh", cutoff=least, ceiling=most)


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
    bound = unwrap(bound).detach()
    return not bool(bound.flatten()[0]) and not bool(bound.any())


def _inplace(read: Reader) -> Reader:
    def reader(*args: Any, **kwargs: Any) -> Seen | None:
        seen = read(*args, **kwargs)
        return seen and seen._replace(inplace=True)

    return reader


_BY_NAME: dict[str, Reader] = {
    "relu": _reads(RELU),
    "leaky_relu": _reads(Activation("leaky_relu", leaks=True), "negative_slope inplace"),
    "rrelu": _reads(Activation("rrelu", leaks=True), "lower upper training inplace"),
    "prelu": _reads(Activation("prelu", leaks=True), "weight"),
    "hardtanh": _reads(_hardtanh, "min_val max_val inplace", min_val=-1.0, max_val=1.0),
    "relu6": _reads(relu6()),
    "elu": _reads(lambda given: elu(given["alpha"]), "alpha inplace", alpha=1.0),
    "celu": _reads(lambda given: celu(given["alpha"]), "alpha inplace", alpha=1.0),
    "selu": _reads(selu()),
    "gelu": _reads(Activation.smooth("gelu"), "approximate"),
    "silu": _reads(Activation.smooth("silu")),
    "hardswish": _reads(Activation.smooth("hardswish", straight_from=3.0)),
    "mish": _reads(Activation.smooth("mish")),
    "softplus": _reads(lambda given: softplus(given["beta"]), "beta", beta=1.0),
    "threshold": _reads(lambda given: Activation("threshold", cutoff=given["threshold"]), "threshold value inplace"),
    **dict.fromkeys(("maximum", "fmax", "max"), _maximum),
    **dict.fromkeys(("clamp", "clip", "clamp_min"), _clamp),
}
READERS: dict[Callable[..., Any], Reader] = {
    **{func: read for name, read in _BY_NAME.items() for func in functions(name)},
    **{func: _inplace(read) for name, read in _BY_NAME.items() for func in functions(f"{name}_")},
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
    **dict.fromkeys(
        functions("linear addmm mm matmul bmm baddbmm einsum bilinear embedding lstm gru rnn_tanh rnn_relu"), -1
    ),
    F.multi_head_attention_forward: -1,
    **dict.fromkeys(functions("conv1d conv2d conv3d conv_transpose1d conv_transpose2d conv_transpose3d"), 1),
}
