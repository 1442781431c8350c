"""The trace of a pass: all that Python asked of torch, in order, which decides where entries lie.

Two passes of one trace move their entries alike. Of each call it holds the function, which tensors it got (by the calls
that made them), and its other arguments; numbers as well, where the function does not merely reckon with them. A tensor
that says which entries are taken is held by its values, unless the calls of the pass tell them.
"""

from __future__ import annotations

import weakref
from collections.abc import Iterable, Mapping
from itertools import count
from types import EllipsisType
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from ..torch_private import is_functorch_wrapped_tensor

MOST = 1 << 16  # numbers of an index that are read
LOST = count()


def words(text: str) -> frozenset[str]:
    """The words of a text."""
    return frozenset(text.split())


# Functions for which a number is a number, and not a place or a size.
RECKONS = words(
    "add sub rsub mul div true_divide floor_divide pow rpow remainder fmod neg eq ne lt le gt ge maximum minimum clamp "
    "clip clamp_min clamp_max masked_fill fill lerp addcmul addcdiv where threshold dropout batch_norm layer_norm "
    "group_norm radd rmul truediv rtruediv floordiv rfloordiv mod iadd isub imul itruediv exp log sigmoid"
)
# Functions in which an index says which entries are taken, or where they go.
TAKES = words(
    "getitem setitem index_select gather take take_along_dim scatter scatter_add scatter_reduce index_add index_copy "
    "index_put index_fill masked_select masked_scatter repeat_interleave split tensor_split split_with_sizes where "
    "index_reduce select narrow roll nonzero pad_sequence pack_padded_sequence embedding_bag tolist"
)
RANDOM = words("randperm randint rand randn bernoulli multinomial normal rand_like randn_like randint_like")
PLAIN = (bool, str, EllipsisType, torch.dtype)


class _Function(NamedTuple):
    """What a function does with its arguments, by its name."""

    reckons: bool
    takes: bool
    random: bool
    like: bool  # makes new numbers in the shape of another tensor
    attribute: bool


_KNOWN: dict[Any, _Function] = {}


SURE, UNSURE, DATA = range(3)  # made of what the calls of the pass tell; of anything else; of the inputs


class Mark(NamedTuple):
    """Where in its trace a call is: what led to it, the numbers among it, and how many of these there are."""

    structure: int
    numbers: int
    length: int


class Look(NamedTuple):
    """The sizes of the inputs of a pass, and all whole numbers that Python gave to torch."""

    sizes: tuple[int, ...]
    numbers: list[int]


class Trace:
    """What was asked of torch in this pass so far."""

    def __init__(self) -> None:
        self.look = Look((), [])
        self._structure = self._hashed = 0
        self._made: dict[int, tuple[weakref.ref[Tensor], int, int]] = {}  # by id: tensors, what made them, of what kind
        self._lasting: dict[int, weakref.ref[Tensor]] = {}  # what the model holds from pass to pass
        self._kind = SURE  # of what the present call makes
        self._told = True  # whether nothing unsure was written over what is sure

    def begin(self, shapes: tuple[Any, ...], inputs: Iterable[Any]) -> None:
        """A pass on these inputs begins."""
        self.look = Look(tuple(n for shape in shapes if isinstance(shape, tuple) for n in shape), [])
        self._hashed, self._structure = hash(shapes), hash(tuple(len(shape) for shape in shapes))
        self._made, self._told = {}, True
        for place, leaf in enumerate(inputs):
            if isinstance(leaf, Tensor):
                self._made[id(leaf)] = (weakref.ref(leaf), hash(("input", place)), DATA)

    def holds(self, model: nn.Module) -> None:
        """Note the tensors that a model holds beside its parameters, among which Python may choose."""
        found = {id(t): weakref.ref(t) for module in model.modules() for t in _tensors_held(module)}
        known = self._lasting
        self._lasting = {
            key: ref for key, ref in found.items() if not known or (key in known and known[key]() is ref())
        }

    @property
    def way(self) -> int:
        """All that was asked so far, but for numbers."""
        return self._structure

    def mark(self, z: Tensor) -> Mark:
        """The place of a call on z that comes now."""
        return Mark(hash((self._structure, self._of(z))), self._hashed, len(self.look.numbers))

    def note(self, func: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any], out: Any) -> None:
        """A function was called, and this came out."""
        known = _KNOWN.get(func) or _recognise(func)
        if out is None and args:
            out = args[0]  # written to
        single = isinstance(out, Tensor)
        if not single and (known.attribute or type(out) is torch.Size or not isinstance(out, tuple | list)):
            return  # a number that Python reads, or a size
        self._kind = UNSURE if known.random else SURE
        numbers: list[int] | None = None if known.reckons else []
        read: list[Any] = []
        for value in args:  # the usual arguments are read here, for this runs at every call
            kind = type(value)
            made = self._made.get(id(value)) if kind is Tensor and not known.takes else None
            if made is not None and made[0]() is value:
                read.append(made[1])
                if made[2] > self._kind:
                    self._kind = made[2]
            else:
                read.append(value if value is None else self._read(value, numbers, known.takes))
        if kwargs:
            read += [(key, self._read(value, numbers, known.takes)) for key, value in kwargs.items()]
        if numbers:
            self.look.numbers.extend(numbers)
            self._hashed = hash((self._hashed, *numbers))
        self._structure = hash((self._structure, func, *read))
        if known.like:
            self._kind = UNSURE if known.random else SURE
        if self._kind == UNSURE and args and out is args[0]:
            self._told = False
        if single:
            self._made[id(out)] = (weakref.ref(out), self._structure, self._kind)
        else:
            self._put(out)

    def lose(self) -> None:
        """A call could not be read: no other pass is taken for this one."""
        self._structure = hash((self._structure, next(LOST)))

    def made(self, out: Any) -> None:
        """This came out of what is not looked into."""
        self._structure, self._kind = hash((self._structure, "made")), DATA
        self._put(out)

    def _put(self, out: Any) -> None:
        for place, t in enumerate(_tensors(out)):
            self._made[id(t)] = (weakref.ref(t), self._structure + place, self._kind)

    def _read(self, value: Any, numbers: list[int] | None, takes: bool) -> Any:
        """What stands for an argument; its whole numbers go to a list of their own."""
        kind = type(value)
        if kind is nn.Parameter:
            self._kind = max(self._kind, UNSURE)
            return id(value)
        if isinstance(value, Tensor):
            return self._index(value) if takes and not value.is_floating_point() else self._of(value)
        if value is None or kind in PLAIN:
            return value
        if isinstance(value, int):
            if numbers is not None:
                numbers.append(value)
            return int
        if kind is float or kind is complex:
            return float
        if isinstance(value, slice):
            return (slice, *[self._read(part, numbers, takes) for part in (value.start, value.stop, value.step)])
        if isinstance(value, list | tuple):
            return tuple([self._read(part, numbers, takes) for part in value])
        if isinstance(value, dict):
            return tuple([(key, self._read(part, numbers, takes)) for key, part in value.items()])
        if hasattr(value, "tobytes"):  # an array
            return hash(value.tobytes())
        return type(value)

    def _of(self, t: Tensor) -> int:
        """Which tensor it is: by what made it, or which weight; others are alike, unless Python may choose one."""
        made = self._made.get(id(t))
        if made is not None and made[0]() is t:
            self._kind = max(self._kind, made[2])
            return made[1]
        self._kind = max(self._kind, UNSURE)
        return id(t) if self._lasts(t) else t.ndim

    def _lasts(self, t: Tensor) -> bool:
        lasting = self._lasting.get(id(t))
        return (
            isinstance(t, nn.Parameter) or (lasting is not None and lasting() is t) or (t.is_leaf and t.requires_grad)
        )

    def _index(self, t: Tensor) -> int:
        """An index: by what made it, where that says its values or where the followed pass judges them; by values."""
        made = self._made.get(id(t))
        kind = UNSURE if made is None or made[0]() is not t else made[2]
        if t.ndim and (kind == DATA or (kind == SURE and self._told)):
            return self._of(t)
        self._kind = DATA if kind == DATA else self._kind
        read = type(t) is Tensor and not t.is_meta and t.numel() <= MOST and not is_functorch_wrapped_tensor(t)
        if not read or (t.device.type != "cpu" and self._lasts(t)):
            return hash((id(t), t._version))
        return hash((tuple(t.shape), t.detach().cpu().contiguous().numpy().tobytes()))


def _recognise(func: Any) -> _Function:
    name = str(getattr(func, "__name__", "")).strip("_")
    like = name.startswith("new_") or name.endswith("_like")
    found = _Function(name in RECKONS, name in TAKES, name in RANDOM, like, name in ("get", "set"))
    return _KNOWN.setdefault(func, found)


def _tensors_held(module: nn.Module) -> Iterable[Tensor]:
    """Buffers, whole numbers, and tensors that stand beside one another: Python may take one or another."""
    values = vars(module)
    yield from (t for t in values["_buffers"].values() if t is not None)
    for value in values.values():
        if isinstance(value, Mapping | list | tuple):
            yield from _tensors(list(value.values()) if isinstance(value, Mapping) else value)
        elif isinstance(value, Tensor) and not value.is_floating_point():
            yield value


def _tensors(out: Any) -> Iterable[Tensor]:
    if isinstance(out, Tensor):
        return (out,)
    return [t for part in out for t in _tensors(part)] if isinstance(out, tuple | list) else ()
