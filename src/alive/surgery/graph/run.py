"""One run of a model: which layer or norm made each tensor, and which functions read it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

from ...torch_private import BatchNorm, tree_leaves, version_of
from ..models import LAYERS

TRANSPOSED = (torch.conv_transpose1d, torch.conv_transpose2d, torch.conv_transpose3d)
SUMS = (F.linear, torch.conv1d, torch.conv2d, torch.conv3d, *TRANSPOSED)
DROPOUTS = (F.dropout, F.dropout1d, F.dropout2d, F.dropout3d, F.alpha_dropout, F.feature_alpha_dropout, torch.dropout)
ADDS = ("add", "iadd", "radd")
NEVER_NEGATIVE = ("relu", "relu6", "sigmoid", "hardsigmoid", "softmax", "abs")
KEEP_SIGN = ("dropout", "contiguous", "clone", "flatten", "view", "reshape", "permute", "transpose", "pad", "detach")
VALUES = ("item", "tolist", "numpy")  # functions that return no tensor and yet read one; a shape is no value


@dataclass(slots=True, eq=False)
class Made:
    """A tensor that a layer or a norm made: in which state it left them, and which functions read it."""

    tensor: Tensor
    version: int
    module: nn.Module
    source: Made | None = None  # for a norm: what the layer before it made
    norm: Made | None = None  # for a layer: what the norm behind it made
    readers: list[str] = field(default_factory=list)
    dropped: bool = False

    @property
    def read_by_norm_alone(self) -> bool:
        """Whether nothing but a norm reads what a layer made."""
        return self.norm is not None and self.readers == ["batch_norm"]


@dataclass(slots=True, eq=False)
class Sum:
    """A tensor that was added up of others, each by a layer or norm, a sum, or never negative (None)."""

    tensor: Tensor
    version: int
    sides: tuple[Made | Sum | None, ...]

    def terms(self) -> tuple[Made | None, ...]:
        """What it is the sum of in the end."""
        return tuple(term for side in self.sides for term in (side.terms() if isinstance(side, Sum) else (side,)))


class Run(TorchFunctionMode):
    """Follows a forward pass inside it: whose numbers a function takes tells which module it is the work of."""

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.paths: dict[nn.Module, list[str]] = {}
        for path, module in model.named_modules(remove_duplicate=False):
            self.paths.setdefault(module, []).append(path)
        self.owners: dict[int, list[nn.Module]] = {}
        self.numbers: list[Tensor] = []  # held, for hooks such as weight_norm's make new ones, which may take their ids
        for module in self.paths:
            for name in ("weight", "bias", "running_mean"):
                if isinstance(number := getattr(module, name, None), Tensor):
                    self.numbers.append(number)
                    self.owners.setdefault(id(number), []).append(module)
        self.made: dict[int, Made] = {}
        self.sums: dict[int, Sum] = {}  # of what layers made and what is never negative; without sides, the latter
        self.calls: dict[nn.Module, list[Made]] = {}

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        read = [made for x in _tensors((args, kwargs)) if (made := self.maker(x)) is not None]
        name, given = func.__name__.strip("_"), [x for x in args if isinstance(x, Tensor)]
        sides = tuple(self._side(x) for x in given)
        out = func(*args, **kwargs)
        if isinstance(out, Tensor):
            self._add(name, out, given, sides, kwargs)
        if next(_tensors(out), None) is not None or func.__name__ in VALUES:
            for made in read:
                made.readers.append(func.__name__.strip("_"))
                made.dropped |= func in DROPOUTS
        if func in SUMS:
            self._note(out, [kwargs.get("weight"), *args[1:2]], None)
        elif func is F.batch_norm:
            numbers = [*args[3:4], *args[1:2], kwargs.get("weight"), kwargs.get("running_mean")]
            self._note(out, numbers, read[0] if read else None)
        return out

    def sum_at(self, x: Tensor) -> Sum | None:
        """The sum that x is, unless it was changed in place since."""
        found = self.sums.get(id(x))
        return found if found is not None and found.version == version_of(x) else None

    def _side(self, x: Tensor) -> Made | Sum | str:
        return self.maker(x) or self.sum_at(x) or "unknown"

    def _add(self, name: str, out: Tensor, given: list[Tensor], sides: tuple[Any, ...], kwargs: Any) -> None:
        """Note a sum of what layers made and of what is never negative, or what is never negative by itself."""
        positive = [isinstance(side, Sum) and not side.terms() for side in sides]
        kept = bool(positive) and positive[0] and ("pool" in name or (name in KEEP_SIGN and not kwargs.get("value")))
        adds = name in ADDS and len(sides) == 2 and "unknown" not in sides and "alpha" not in kwargs
        if name in NEVER_NEGATIVE or kept:
            self.sums[id(out)] = Sum(out, version_of(out), ())
        elif adds and all(x.shape == out.shape for x in given):
            terms = tuple(side if isinstance(side, Made) or side.terms() else None for side in sides)
            self.sums[id(out)] = Sum(out, version_of(out), () if all(positive) else terms)

    def _note(self, out: Tensor, numbers: list[Tensor | None], source: Made | None) -> None:
        """A layer or norm made `out`; its numbers tell which."""
        owned = next((self.owners[id(n)] for n in numbers if n is not None and id(n) in self.owners), [])
        for module in owned:
            made = Made(out, version_of(out), module, source)
            self.made[id(out)] = made  # holds the tensor, so that no later one can have its id
            self.calls.setdefault(module, []).append(made)
            if source is not None:
                source.norm = made

    def maker(self, x: Tensor) -> Made | None:
        """Who made x, unless it was changed in place since, as by `out += x`."""
        made = self.made.get(id(x))
        return made if made is not None and made.version == version_of(x) else None

    def is_shared(self, module: nn.Module) -> bool:
        """Whether a module is called twice, or it or one of its parameters is shared or has a second name."""
        own = [number for number in (*module.parameters(False), *module.buffers(False)) if id(number) in self.owners]
        twice = len(self.paths[module]) > 1 or len(self.calls.get(module, [])) > 1
        return twice or any(len(self.owners[id(number)]) > 1 for number in own)

    def lone_pairs(self, output: Any) -> Iterator[tuple[Any, Any]]:
        """Layers and the batch norms that alone read them, each called once, if the layer's weight is its own."""
        last = {id(x) for x in _tensors(output)}
        for layer, (made, *more) in self.calls.items():
            norm = made.norm.module if made.norm is not None and made.read_by_norm_alone else None
            own = type(layer) in LAYERS and "weight" in dict(layer.named_parameters(recurse=False))
            if (
                own
                and not more
                and isinstance(norm, BatchNorm)
                and len(self.calls[norm]) == 1
                and id(made.tensor) not in last
            ):
                yield layer, norm


def _tensors(values: Any) -> Iterator[Tensor]:
    return (value for value in tree_leaves(values) if isinstance(value, Tensor))
