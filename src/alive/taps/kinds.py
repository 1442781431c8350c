"""Which calls are one-sided activations: one line a kind.

Each reader has the signature of the torch function it reads, and says what goes in, which activation it is, and
whether it happens in place; None where the call is not one-sided after all.
"""

from __future__ import annotations

from collections.abc import Callable
from math import inf
from typing import Any, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from ..functional.activations import Activation, celu, elu, relu6, selu, softplus


class Seen(NamedTuple):
    """An activation call, read."""

    z: Tensor
    activation: Activation
    inplace: bool = False


Reader = Callable[..., Seen | None]


def _relu(input: Tensor, inplace: bool = False) -> Seen:
    return Seen(input, Activation("relu"), inplace)


def _leaky_relu(input: Tensor, negative_slope: float = 0.01, inplace: bool = False) -> Seen:
    return Seen(input, Activation("leaky_relu"), inplace)


def _rrelu(
    input: Tensor, lower: float = 1 / 8, upper: float = 1 / 3, training: bool = False, inplace: bool = False, **_: Any
) -> Seen:
    return Seen(input, Activation("rrelu"), inplace)


def _prelu(input: Tensor, weight: Tensor) -> Seen:
    return Seen(input, Activation("prelu"))


def _hardtanh(input: Tensor, min_val: float = -1.0, max_val: float = 1.0, inplace: bool = False) -> Seen | None:
    return Seen(input, relu6(max_val), inplace) if min_val == 0 else None


def _relu6(input: Tensor, inplace: bool = False) -> Seen:
    return Seen(input, relu6(), inplace)


def _elu(input: Tensor, alpha: float = 1.0, inplace: bool = False) -> Seen:
    return Seen(input, elu(alpha), inplace)


def _celu(input: Tensor, alpha: float = 1.0, inplace: bool = False) -> Seen:
    return Seen(input, celu(alpha), inplace)


def _selu(input: Tensor, inplace: bool = False) -> Seen:
    return Seen(input, selu(), inplace)


def _gelu(input: Tensor, approximate: str = "none") -> Seen:
    return Seen(input, Activation("gelu"))


def _silu(input: Tensor, inplace: bool = False) -> Seen:
    return Seen(input, Activation("silu"), inplace)


def _hardswish(input: Tensor, inplace: bool = False) -> Seen:
    return Seen(input, Activation("hardswish"), inplace)


def _mish(input: Tensor, inplace: bool = False) -> Seen:
    return Seen(input, Activation("mish"), inplace)


def _threshold(input: Tensor, threshold: float, value: float, inplace: bool = False) -> Seen:
    return Seen(input, Activation("threshold", cutoff=threshold), inplace)


def _clamp(input: Tensor, min: Any = None, max: Any = None, **_: Any) -> Seen | None:
    # A bound that is a tensor may hold anything, and looking would wait for the device.
    if isinstance(min, Tensor) or isinstance(max, Tensor) or min is None or min != 0:
        return None
    return Seen(input, Activation("clamp", ceiling=inf if max is None else max))


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
    **dict.fromkeys((torch.clamp, torch.clip, torch.clamp_min), _clamp),
    **dict.fromkeys((Tensor.clamp, Tensor.clip, Tensor.clamp_min), _clamp),
    **dict.fromkeys((torch.clamp_, torch.clip_, torch.clamp_min_), _inplace(_clamp)),
    **dict.fromkeys((Tensor.clamp_, Tensor.clip_, Tensor.clamp_min_), _inplace(_clamp)),
}


def is_pre_activation(z: Tensor) -> bool:
    """Whether z can be what units compute of points: not integers, and not a weight, as in softplus(self.scale)."""
    return type(z) is not nn.Parameter and z.is_floating_point()


# Modules that spell an activation out in elementary operations; by name, so that their package need not be there.
HANDMADE: dict[str, Activation] = {
    "transformers.activations.GELUActivation": Activation("gelu"),
    "transformers.activations.GELUTanh": Activation("gelu"),
    "transformers.activations.NewGELUActivation": Activation("gelu"),
    "transformers.activations.FastGELUActivation": Activation("gelu"),
    "transformers.activations.QuickGELUActivation": Activation("gelu"),
    "transformers.activations.AccurateGELUActivation": Activation("gelu"),
}

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
