"""Which layer feeds which activation, seen on one run over an example.

Taps name the activations, and a function mode notes which layer made each tensor. A layer feeds an activation where the
very tensor that it, or a batch norm behind it, made comes to the activation unchanged.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

from ...diagnosis.modes import Modes
from ...feed import batches
from ...functional import Activation
from ...functional.extremes import canonical
from ...nn.farkas.plain import Guaranteed
from ...taps import Call, Taps, without_activations
from ...torch_private import BatchNorm, version_of

LAYERS = (nn.Linear, nn.Conv1d, nn.Conv2d, nn.Conv3d)
SUMS = (F.linear, torch.conv1d, torch.conv2d, torch.conv3d)
DROPOUTS = (F.dropout, F.dropout1d, F.dropout2d, F.dropout3d, F.alpha_dropout, F.feature_alpha_dropout, torch.dropout)


@dataclass(slots=True, eq=False)
class Made:
    """A tensor that a layer or a norm made: in which state it left them, and which functions read it."""

    tensor: Tensor
    version: int
    path: str
    source: Made | None = None  # for a norm: what the layer before it made
    norm: Made | None = None  # for a layer: what the norm behind it made
    readers: list[str] = field(default_factory=list)
    dropped: bool = False


@dataclass(frozen=True, slots=True)
class Pair:
    """A layer and what it made, the path of a norm behind it, the activation they feed, the largest z a unit [C]."""

    layer: nn.Module
    norm: str | None
    activation: Activation
    tap: str
    top: Tensor
    made: Made

    @property
    def read_by_norm_alone(self) -> bool:
        """Whether nothing but the norm reads what the layer made."""
        return self.made.readers == ["batch_norm"]


class Trace(TorchFunctionMode):
    """Follows one forward pass; a watcher of taps at the same time."""

    def __init__(self, root: nn.Module) -> None:
        super().__init__()
        self.root = root
        self.paths: dict[nn.Module, list[str]] = {}
        for path, module in root.named_modules(remove_duplicate=False):
            self.paths.setdefault(module, []).append(path)
        self.owners: dict[int, list[nn.Module]] = {}
        self.numbers: list[Tensor] = []  # held, for hooks such as weight_norm's make new ones, which may take their ids
        for module in self.paths:
            for name in ("weight", "bias", "running_mean"):
                if isinstance(number := getattr(module, name, None), Tensor):
                    self.numbers.append(number)
                    self.owners.setdefault(id(number), []).append(module)
        self.made: dict[int, Made] = {}
        self.calls: dict[nn.Module, list[Made]] = {}
        self.pairs: dict[nn.Module, Pair] = {}
        self.seen = 0

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        read = [made for x in _tensors(args) if (made := self._intact(x)) is not None]
        out = func(*args, **kwargs)
        for made in read if next(_tensors([out]), None) is not None else ():  # a shape is no value
            made.readers.append(func.__name__.strip("_"))
            made.dropped |= func in DROPOUTS
        if func in SUMS:
            self._note(out, [kwargs.get("weight"), *args[1:2]], None)
        elif func is F.batch_norm:
            numbers = [*args[3:4], *args[1:2], kwargs.get("weight"), kwargs.get("running_mean")]
            self._note(out, numbers, read[0] if read else None)
        return out

    def _note(self, out: Tensor, numbers: list[Tensor | None], source: Made | None) -> None:
        """A layer or norm made `out`; its numbers tell which."""
        owned = next((self.owners[id(n)] for n in numbers if n is not None and id(n) in self.owners), [])
        for module in owned:
            made = Made(out, version_of(out), self.paths[module][0], source)
            self.made[id(out)] = made  # holds the tensor, so that no later one can have its id
            self.calls.setdefault(module, []).append(made)
            if source is not None:
                source.norm = made

    def _intact(self, x: Tensor) -> Made | None:
        """Who made x, unless it was changed in place since, as by `out += x`."""
        made = self.made.get(id(x))
        return made if made is not None and made.version == version_of(x) else None

    def begin(self) -> None:
        """A pass begins."""

    def end(self, output: Any) -> None:
        """Nothing to do."""

    def watch(self, call: Call) -> Any:
        """Note whose tensor meets the activation."""
        self.seen += 1
        made = self._intact(call.z)
        if made is not None and not made.dropped:
            self._pair(made, call)
        return call.activate()

    def _pair(self, made: Made, call: Call) -> None:
        layer, norm = made, None
        if isinstance(self.root.get_submodule(made.path), BatchNorm):
            if made.source is None or made.source.dropped:
                return
            layer, norm = made.source, made.path
        module = self.root.get_submodule(layer.path)
        z = canonical(call.z.detach(), -1 if isinstance(module, nn.Linear) else 1, 0)  # [N, C, ...]
        top = z.transpose(0, 1).flatten(1).amax(1)
        self.pairs.setdefault(module, Pair(module, norm, call.tap.activation, call.tap.name, top, layer))

    def findings(self) -> Iterator[tuple[str, Pair | str]]:
        """Every dense, convolutional or Farkas layer: the activation it feeds, or the reason why it stays."""
        for module, paths in self.paths.items():
            if isinstance(module, (*LAYERS, Guaranteed)):
                yield paths[0], self._finding(module)

    def _finding(self, module: nn.Module) -> Pair | str:
        if isinstance(module, Guaranteed):
            return "it has its guarantee already"
        if type(module) not in LAYERS:
            return f"{type(module).__name__} is a layer of its own kind, which may do more than the plain one"
        calls = self.calls.get(module, [])
        if not calls:
            return "the example did not run through it, or its weight is computed on the way"
        if self._shared(module):
            return "it is shared: it, its weight or its bias is used more than once"
        parent = self.root.get_submodule(self.paths[module][0].rpartition(".")[0])
        if isinstance(parent, nn.TransformerEncoderLayer):
            return "in eval mode nn.TransformerEncoderLayer reads its weight past its forward"
        pair = self.pairs.get(module)
        if pair is not None and pair.norm is not None and self._shared(self.root.get_submodule(pair.norm)):
            return f"{pair.norm} behind it is shared: it, or one of its numbers, is used more than once"
        return pair or _whereto(calls[0])

    def _shared(self, module: nn.Module) -> bool:
        """Whether a module is called twice, or it or one of its parameters is shared or has a second name."""
        own = [number for number in (*module.parameters(False), *module.buffers(False)) if id(number) in self.owners]
        twice = len(self.paths[module]) > 1 or len(self.calls.get(module, [])) > 1
        return twice or any(len(self.owners[id(number)]) > 1 for number in own)


def traced(root: nn.Module, example: Any, layers: Sequence[str], forward: Callable[..., Any] | None) -> Trace:
    """Run the example through the model in eval mode, and leave the model as it was."""
    trace = Trace(root)
    taps = Taps(root, trace, layers=layers)
    modes = Modes(root)
    device = next((p.device for p in root.parameters()), torch.device("cpu"))
    try:
        modes.evaluate()
        with trace:
            batches.run(root, batches.moved(example, device), 0, forward)
    finally:
        taps.remove()
        modes.restore()
    if not trace.seen:
        raise without_activations(root, taps.passed_over)
    return trace


def _whereto(made: Made) -> str:
    """Why what a layer made meets no activation."""
    last = made.norm or made
    behind = " after the norm" if made.norm else ""
    if last.dropped or made.dropped:
        return f"its output{behind} goes to dropout, which may silence any unit before an activation sees it"
    if not last.readers:
        return "no activation follows: it is the output of the model"
    return f"its output{behind} goes to {last.readers[0]}, not straight to a one-sided activation that was asked for"


def _tensors(args: Any) -> Iterator[Tensor]:
    """The tensors among the arguments of a function, also in lists, as for torch.cat."""
    for x in args:
        if isinstance(x, Tensor):
            yield x
        elif isinstance(x, list | tuple):
            yield from (part for part in x if isinstance(part, Tensor))
