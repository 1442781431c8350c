"""Which calls of torch work entry by entry: those that an activation may be spelled in."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

Function = Callable[..., Any]
_ROOMS = (torch, Tensor, torch.special, F)


def functions(names: str) -> Iterator[Function]:
    """All functions of these names."""
    for name in names.split():
        yield from (getattr(room, name) for room in _ROOMS if callable(getattr(room, name, None)))


_ONE = """abs absolute neg negative positive exp exp2 expm1 log log1p log2 log10 sqrt rsqrt square reciprocal sign sgn
    sin cos tan sinh cosh tanh asinh atan arctan sigmoid expit erf erfc ndtr log_ndtr logsigmoid hardsigmoid softsign
    tanhshrink softshrink hardshrink logical_not bitwise_not relu relu6 elu celu selu gelu silu mish hardswish softplus
    leaky_relu hardtanh threshold prelu nan_to_num"""
_SEVERAL = """add sub subtract rsub mul multiply div divide true_divide pow float_power maximum minimum max min fmax
    fmin logaddexp logaddexp2 hypot where heaviside lerp addcmul addcdiv clamp clip clamp_min clamp_max xlogy copysign
    gt ge lt le eq ne greater greater_equal less less_equal logical_and logical_or logical_xor bitwise_and bitwise_or
    masked_fill masked_scatter masked_select zeros_like ones_like full_like empty_like"""
_BY_SIGN = """__add__ __radd__ __sub__ __rsub__ __mul__ __rmul__ __truediv__ __rtruediv__ __rdiv__ __pow__ __rpow__
    __neg__ __abs__ __invert__ __and__ __or__ __xor__ __gt__ __ge__ __lt__ __le__ __eq__ __ne__ __getitem__"""
_CHANGES = "__iadd__ __isub__ __imul__ __itruediv__ __idiv__ __ipow__ __setitem__ copy_ zero_ fill_"

CASTS = frozenset(functions("float double half bfloat16 bool to type type_as clone detach contiguous"))
"""Those that change no number, or only its type."""

IN_PLACE = frozenset(
    {f for name in (_ONE + " " + _SEVERAL).split() for f in functions(f"{name}_")} | set(functions(_CHANGES))
)
"""Those that change their first argument."""

POINTWISE = frozenset({*functions(f"{_ONE} {_SEVERAL} {_BY_SIGN}"), *IN_PLACE, *CASTS})
GATES = frozenset(functions("hardsigmoid"))  # no activations by name either, as a sigmoid is none
SELECTS = frozenset(
    functions("where maximum minimum max min fmax fmin logaddexp __setitem__ masked_scatter masked_scatter_")
)
"""Those in which a tensor of zeros may be written for 0."""

EMPTY = frozenset(functions("empty_like"))
GUARDED = frozenset(
    functions("exp exp_ exp2 expm1 log log_ log1p log2 log10 sqrt rsqrt reciprocal pow __pow__ sinh cosh")
)
"""Those whose argument is often kept within bounds, lest they overflow."""

BOUNDS = frozenset(
    functions("clamp clip clamp_min clamp_max clamp_ clip_ clamp_min_ clamp_max_ maximum minimum max min")
)
SCALES = frozenset(functions("mul mul_ div div_ __mul__ __rmul__ __truediv__ __imul__ __itruediv__"))
WITH_TENSOR = frozenset(functions("max min __getitem__"))  # entry by entry only with a tensor as second argument
