"""The graph of a model, and which channels its layers share: what can be cut, and what must stay and why."""

from __future__ import annotations

import logging
import operator
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from dataclasses import dataclass, field
from io import StringIO
from math import prod
from typing import Any

import torch
from torch import Tensor, fx, nn
from torch.export.graph_signature import InputKind

from ...errors import AliveError
from ...torch_private import schema_of, tree_leaves
from .calls import Call
from .pieces import Pieces, clipped, leaky, relu

LAYERS = (nn.Linear, nn.Conv1d, nn.Conv2d, nn.Conv3d)
NORMS = (nn.BatchNorm1d, nn.BatchNorm2d, nn.BatchNorm3d)
SUMS = ("linear", "conv1d", "conv2d", "conv3d")
SAME = ("clone", "alias", "contiguous", "detach", "dropout", "feature_dropout", "_to_copy", "to", "lift_fresh_copy")
SHAPES = ("view", "_unsafe_view", "reshape", "flatten", "squeeze", "unsqueeze", "unflatten")
ORDERS = ("permute", "transpose")
BENT = ("relu", "leaky_relu", "prelu", "hardtanh", "relu6", "clamp", "clamp_min", "clamp_max")
MEANS = ("avg_pool1d", "avg_pool2d", "avg_pool3d", "adaptive_avg_pool1d", "adaptive_avg_pool2d", "adaptive_avg_pool3d")
TOPS = ("max_pool1d", "max_pool2d", "max_pool3d", "amax")
OTHERS = (
    *("gelu", "silu", "sigmoid", "tanh", "elu", "celu", "selu", "softplus", "hardswish", "hardsigmoid", "mish"),
    *("neg", "abs", "exp", "pow", "sqrt", "pad", "constant_pad_nd", "reflection_pad2d", "replication_pad2d"),
    *("upsample_nearest2d", "upsample_bilinear2d"),
)
TIES = ("add", "sub", "mul", "div")
CATS = ("cat", "concat", "concatenate", "hstack")
NORM = "_native_batch_norm_legit_no_training"
ASKS = ("_assert_tensor_metadata", "sym_size", "_assert_scalar")


@dataclass(frozen=True, slots=True)
class Layout:
    """Where the channels of a value lie: on one axis, each as a run of `block` entries."""

    axis: int
    channels: int
    block: int = 1

    def extremes(self, value: Tensor) -> tuple[Tensor, Tensor]:
        """The least and the largest number of every channel [C]."""
        shape = value.shape
        parts = value.detach().reshape(*shape[: self.axis], self.channels, -1).movedim(self.axis, 0).flatten(1)
        return parts.amin(1).double().cpu(), parts.amax(1).double().cpu()


@dataclass(slots=True, eq=False)
class Layer:
    """A dense or convolutional layer in the graph."""

    path: str
    module: Any
    node: fx.Node
    padded: bool  # zeros stand around what it reads

    @property
    def groups(self) -> int:
        """How many groups of channels it keeps apart."""
        return int(getattr(self.module, "groups", 1))


@dataclass(slots=True, eq=False)
class Reader:
    """A layer that reads the channels of a space, and how they lie in what it reads."""

    layer: Layer
    layout: Layout
    source: fx.Node
    place: Place | None = None  # among what it reads, if that is a concatenation

    @property
    def start(self) -> int:
        """The first of the features it reads that are of these channels, as it is cut now."""
        return 0 if self.place is None else self.place.start

    def own(self, ends: tuple[Tensor, Tensor]) -> tuple[Tensor, Tensor]:
        """The extremes of these channels, of those of all that it reads."""
        return ends if self.place is None else self.place.own(ends)


@dataclass(slots=True, eq=False)
class Part:
    """The channels of a space in a concatenation, each as a run of `block` entries there."""

    space: Space
    block: int


@dataclass(frozen=True, slots=True, eq=False)
class Place:
    """One of the parts of a concatenation; each entry may have become a run of `block` behind it."""

    parts: list[Part]
    number: int
    block: int

    @property
    def features(self) -> int:
        """How many features each channel of the part has."""
        return self.parts[self.number].block * self.block

    @property
    def start(self) -> int:
        """The first feature of the part, as the parts before it are cut now."""
        return self.block * sum(len(part.space.kept) * part.block for part in self.parts[: self.number])

    def own(self, ends: tuple[Tensor, Tensor]) -> tuple[Tensor, Tensor]:
        """The extremes of the part's channels, of those of all entries of the concatenation before any cut."""
        start = sum(part.space.channels * part.block for part in self.parts[: self.number])
        part = self.parts[self.number]
        lo, hi = (end[start : start + part.space.channels * part.block].reshape(-1, part.block) for end in ends)
        return lo.amin(1), hi.amax(1)


@dataclass(slots=True, eq=False)
class Space:
    """Channels that several values have in common, so that a channel goes everywhere or nowhere.

    producers  layers whose units the channels are
    each       layers and modules with numbers of their own for each channel: norms, PReLU, depthwise convolutions
    beside     norms and PReLU with numbers for the channels of a concatenation, of which these are a part
    steps      what is done to the channels on their way, by kind
    fixed      why all channels must stay; empty if they need not
    kept       the channels that are left, by their first numbers
    """

    channels: int
    producers: list[Layer] = field(default_factory=list)
    each: list[tuple[Layer | nn.Module, int]] = field(default_factory=list)
    beside: list[tuple[nn.Module, Place]] = field(default_factory=list)
    readers: list[Reader] = field(default_factory=list)
    steps: dict[fx.Node, str] = field(default_factory=dict)
    fixed: str = ""
    kept: Tensor = field(default_factory=lambda: torch.empty(0, dtype=torch.long))

    @property
    def is_joined(self) -> bool:
        """Whether some layer reads the channels in a concatenation."""
        return any(reader.place is not None for reader in self.readers)

    def fix(self, why: str) -> None:
        """Every channel must stay; the first reason counts."""
        self.fixed = self.fixed or why


class Reading:
    """A model as a graph of operations, with the layout and the space of each value."""

    def __init__(self, model: nn.Module, example: Call) -> None:
        self.model = model
        self.program = exported(model, example)
        self.graph_module = self.program.graph_module
        self.owner = {spec.arg.name: spec.target for spec in self._specs() if spec.kind in STATE}
        self.aliases = _aliases(model)
        self.layouts: dict[fx.Node, Layout] = {}
        self.spaces: dict[fx.Node, Space] = {}
        self.joined: dict[fx.Node, list[Part]] = {}  # concatenations, which have a layout but no space of their own
        self.layers: list[Layer] = []
        for node in self.graph_module.graph.nodes:
            self._read(node)
        for space in self.all_spaces():
            space.kept = torch.arange(space.channels)

    def all_spaces(self) -> list[Space]:
        """Every space once, in the order of the graph."""
        return list(dict.fromkeys(self.spaces.values()))

    def spaces_of(self, node: fx.Node) -> list[Space]:
        """The spaces whose channels a value holds: several behind a concatenation, none if they are not followed."""
        if node in self.joined:
            return [part.space for part in self.joined[node]]
        return [self.spaces[node]] if node in self.spaces else []

    def fed(self, call: Call) -> list[Any]:
        """What the graph is run on: the model's numbers as they are now, and the inputs of a call."""
        state = dict(self.model.named_parameters(remove_duplicate=False)) | dict(
            self.model.named_buffers(remove_duplicate=False)
        )
        given = iter(call.leaves())
        return [
            state[str(spec.target)]
            if spec.kind in STATE and spec.target in state
            else next(given)
            if spec.kind is InputKind.USER_INPUT
            else self.program.constants[str(spec.target)]
            for spec in self._specs()
        ]

    def inputs(self) -> list[str]:
        """The names of the placeholders that get the inputs of the model."""
        return [spec.arg.name for spec in self._specs() if spec.kind is InputKind.USER_INPUT]

    def layer_of(self, node: fx.Node) -> Layer | None:
        """The layer that a node is the call of."""
        return next((layer for layer in self.layers if layer.node is node), None)

    def module_of(self, node: fx.Node) -> tuple[str, nn.Module] | None:
        """The module whose call a node is, if it makes no other node."""
        path = _innermost(node)
        if path is None:
            return None
        module = self.model.get_submodule(path)
        nodes = [n for n in self.graph_module.graph.nodes if n.op == "call_function" and _innermost(n) == path]
        alone = nodes == [node] and not list(module.children()) and len(self.aliases.get(id(module), [])) == 1
        return (path, module) if alone else None

    def pieces(self, node: fx.Node) -> Pieces:
        """The activation that a node is."""
        name, args = name_of(node), list(node.args[1:])
        if name == "relu":
            return relu()
        if name == "leaky_relu":
            return leaky(float(args[0]) if args else 0.01)  # type: ignore[arg-type]
        if name == "prelu":
            return leaky(self._number(args[0]))
        low = args[0] if args and name != "clamp_max" else node.kwargs.get("min_val", node.kwargs.get("min"))
        high = args[1] if len(args) > 1 else node.kwargs.get("max_val", node.kwargs.get("max"))
        if name == "hardtanh":
            low, high = (-1.0 if low is None else low), (1.0 if high is None else high)
        if name == "relu6":
            low, high = 0.0, 6.0
        if name == "clamp_max":
            low, high = None, args[0]
        return clipped(None if low is None else float(low), None if high is None else float(high))  # type: ignore[arg-type]

    def _specs(self) -> list[Any]:
        return list(self.program.graph_signature.input_specs)

    def _number(self, node: Any) -> Tensor:
        """A parameter by the node that holds it."""
        holder, _, name = str(self.owner[node.name]).rpartition(".")
        number = getattr(self.model.get_submodule(holder), name)
        assert isinstance(number, Tensor)
        return number

    # Reading one node: its layout and space, or why what it reads must stay.

    def _read(self, node: fx.Node) -> None:
        if node.op == "output":
            self._stop(node, "it is an output of the model")
        if node.op != "call_function":
            return
        name = name_of(node)
        if name in ASKS:
            return
        if name in SUMS:
            self._sum(node)
        elif name in (NORM, "batch_norm"):
            self._norm(node)
        elif node.target is operator.getitem and name_of(node.args[0]) == NORM and node.args[1] == 0:
            self._pass_on(node, node.args[0], "norm", step=False)
        elif name in TIES:
            self._tie(node)
        elif name in CATS:
            self._cat(node)
        elif (kind := self._kind(node, name)) is not None:
            self._pass_on(node, node.args[0], kind)
        else:
            self._stop(node, f"its output goes to {name}, which mixes channels or is not followed")

    def _kind(self, node: fx.Node, name: str) -> str | None:
        """What a step does to each channel by itself: same, mean, padded, max, bent or other; None if it mixes them."""
        layout = self.layouts.get(node.args[0]) if node.args and isinstance(node.args[0], fx.Node) else None
        if layout is None:
            return None
        if name in SAME or name in SHAPES or name in ORDERS:
            return "same"
        if name in BENT:
            tensors = [arg for arg in node.args[1:] if isinstance(arg, fx.Node)]
            return "bent" if name == "prelu" or not tensors else None
        if name in MEANS:
            return "padded" if any(_numbers(node.args, 3)) else "mean"
        if name == "mean":
            return None if layout.axis in _axes(node) else "mean"
        if name in TOPS:
            return None if name == "amax" and layout.axis in _axes(node) else "max"
        if name in ("pad", "constant_pad_nd") and len(_numbers(node.args, 1)) // 2 >= _dims(node.args[0]) - layout.axis:
            return None
        return "other" if name in OTHERS else None

    def _sum(self, node: fx.Node) -> None:
        source, weight = node.args[0], node.args[1]
        layer = self._layer(node, weight)
        before = self.spaces.get(source) if isinstance(source, fx.Node) else None
        layout = self.layouts.get(source) if isinstance(source, fx.Node) else None
        if isinstance(layer, str):
            self._stop(node, layer)
            return
        self.layers.append(layer)
        dense = isinstance(layer.module, nn.Linear)
        axis = _dims(node) - 1 if dense else 1
        if isinstance(source, fx.Node) and source in self.joined:
            self._read_joined(layer, source, axis)
        elif before is not None and layout is not None and layout.axis != axis:
            before.fix(f"its channels do not lie where {layer.path} reads them")
        elif before is not None and layout is not None and _is_depthwise(layer, layout):
            before.each.append((layer, layout.block * len(layer.module.weight) // layer.groups))
            self._join(node, before, Layout(1, layout.channels, before.each[-1][1]), "other")
            return
        elif before is not None and layout is not None:
            assert isinstance(source, fx.Node)
            if layer.groups > 1 and layout.block > 1:
                before.fix(f"{layer.path} reads them in groups, several features a channel")
            before.readers.append(Reader(layer, layout, source))
        units = len(layer.module.weight)
        space = Space(units, [layer])
        self._join(node, space, Layout(axis, units), "")
        if layer.groups > 1 and layer.groups == units:
            space.fix(f"each unit of {layer.path} reads a channel of its own that must stay")

    def _read_joined(self, layer: Layer, source: fx.Node, axis: int) -> None:
        """A layer that reads a concatenation reads each of its parts."""
        layout, parts = self.layouts[source], self.joined[source]
        for number, part in enumerate(parts):
            place = Place(parts, number, layout.block)
            part.space.readers.append(Reader(layer, Layout(axis, part.space.channels, place.features), source, place))
            if layout.axis != axis:
                part.space.fix(f"its channels do not lie where {layer.path} reads them")
            if layer.groups > 1:
                part.space.fix(f"{layer.path} reads them in groups, behind a concatenation")

    def _layer(self, node: fx.Node, weight: Any) -> Layer | str:
        """The layer of a weighted sum, or why it is left alone."""
        target = self.owner.get(weight.name)
        if target is None:
            return f"the weight of {_innermost(node) or node.name} is computed on the way"
        path = str(target).rpartition(".")[0]
        module: Any = self.model.get_submodule(path)
        if type(module) not in LAYERS or str(target).rpartition(".")[2] != "weight":
            return f"{path or 'the model'} ({type(module).__name__}) is no plain layer of torch"
        bias = node.args[2] if len(node.args) > 2 else node.kwargs.get("bias")
        if self._is_shared(module, weight, bias):
            return f"{path} is shared: it or its weight is used more than once"
        padding = node.args[4] if len(node.args) > 4 else 0
        around = padding == "same" if isinstance(padding, str) else any(_numbers(node.args, 4))
        wide = any(size > 1 for size in module.weight.shape[2:])
        return Layer(path, module, node, bool(around) and (wide or not isinstance(padding, str)))

    def _is_shared(self, module: nn.Module, weight: fx.Node, bias: Any) -> bool:
        """Whether some number of a layer is used more than once."""
        used = [number for number in (weight, bias) if isinstance(number, fx.Node)]
        names = [self.aliases[id(number)] for number in module.parameters(recurse=False)]
        return any(len(number.users) > 1 for number in used) or any(len(n) > 1 for n in names)

    def _norm(self, node: fx.Node) -> None:
        source = node.args[0]
        assert isinstance(source, fx.Node)
        layout, holder = self.layouts.get(source), node.args[3]
        live = name_of(node) != NORM and bool(node.args[5])
        if layout is None or live or not isinstance(holder, fx.Node) or holder.name not in self.owner:
            self._stop(node, "it is normalised by numbers that are not followed")
            return
        path = str(self.owner[holder.name]).rpartition(".")[0]
        module = self.model.get_submodule(path)
        used = [arg for arg in node.args[1:5] if isinstance(arg, fx.Node)]
        plain = type(module) in NORMS and all(len(arg.users) == 1 for arg in used)
        alone = all(len(self.aliases[id(n)]) == 1 for n in (*module.parameters(False), *module.buffers(False)))
        if not plain or not alone or layout.axis != 1:
            self._stop(node, f"{path} ({type(module).__name__}) is shared or no plain batch norm")
            return
        self._number_each(source, module, layout.block)
        self._pass_on(node, source, "norm")

    def _number_each(self, source: fx.Node, module: nn.Module, block: int) -> None:
        """A module has numbers of its own for each channel of a value."""
        if source not in self.joined:
            self.spaces[source].each.append((module, block))
            return
        parts = self.joined[source]
        for number, part in enumerate(parts):
            part.space.beside.append((module, Place(parts, number, block)))

    def _cat(self, node: fx.Node) -> None:
        """Values one behind the other along the axis of their channels; what is not followed stays as it is."""
        sources: Any = node.args[0]
        axis, layouts = cat_axis(node), [self.layouts.get(source) for source in sources]
        if not any(layouts):
            return
        if any(layout is not None and layout.axis != axis for layout in layouts):
            self._stop(node, f"it meets others in {node.name} along another axis than that of its channels")
            return
        if any(_dims(source) != _dims(node) for source in sources):
            self._stop(node, f"it meets in {node.name} an empty value of another shape")
            return
        parts: list[Part] = []
        for source, layout in zip(sources, layouts, strict=True):
            if layout is None:
                size = source.meta["val"].shape[axis]
                parts.append(Part(Space(size, fixed="it is not followed", kept=torch.arange(size)), 1))
            elif source in self.joined:
                parts += [Part(part.space, part.block * layout.block) for part in self.joined[source]]
            else:
                parts.append(Part(self.spaces[source], layout.block))
        self.joined[node] = parts
        self.layouts[node] = Layout(axis, sum(part.space.channels * part.block for part in parts))

    def _tie(self, node: fx.Node) -> None:
        """Two values added or multiplied entry by entry: their channels stay or go together."""
        sides = [arg for arg in node.args[:2] if isinstance(arg, fx.Node)]
        sides = [side for side in sides if _dims(side) > 0]
        known = [side for side in sides if side in self.layouts]
        if not known:
            return
        if len(sides) == 1:
            self._pass_on(node, sides[0], "other")
            return
        layouts = {self.layouts.get(side) for side in sides}
        if len(layouts) > 1 or None in layouts or len({_dims(side) for side in sides}) > 1:
            self._stop(node, f"it meets in {node.name} something whose channels are not its own")
            return
        first, second = (self._parts(side) for side in sides)
        if [(part.space.channels, part.block) for part in first] != [(p.space.channels, p.block) for p in second]:
            self._stop(node, f"it meets in {node.name} a concatenation of other parts")
            return
        for one, other in zip(first, second, strict=True):
            self._merge(one.space, other.space)
        self._hand_on(node, sides[0], self.layouts[sides[0]], "tie")

    def _parts(self, node: fx.Node) -> list[Part]:
        """What a value is a concatenation of; itself if it is none."""
        return self.joined.get(node) or [Part(self.spaces[node], 1)]

    def _merge(self, kept: Space, other: Space) -> None:
        if kept is other:
            return
        kept.producers += other.producers
        kept.each += other.each
        kept.beside += other.beside
        kept.readers += other.readers
        kept.steps |= other.steps
        kept.fix(other.fixed)
        for node, space in list(self.spaces.items()):
            if space is other:
                self.spaces[node] = kept
        for part in (part for parts in self.joined.values() for part in parts if part.space is other):
            part.space = kept

    def _pass_on(self, node: fx.Node, source: Any, kind: str, *, step: bool = True) -> None:
        """Channels that go through a step, each by itself."""
        layout = self.layouts.get(source)
        if layout is None:
            return
        if name_of(node) == NORM:  # a tuple, of which the next node takes the first
            self._hand_on(node, source, layout, kind)
            return
        after = _moved(node, source, layout) if step else layout
        if after is None:
            self._stop(node, f"{node.name} moves its channels apart")
            return
        if name_of(node) == "prelu" and (why := self._slopes(node, source)):
            self._stop(node, why)
        self._hand_on(node, source, after, kind)

    def _slopes(self, node: fx.Node, source: fx.Node) -> str:
        """Take the slopes of a PReLU into the space; why not, if they cannot be cut."""
        weight = node.args[1]
        target = self.owner.get(weight.name) if isinstance(weight, fx.Node) else None
        path = str(target).rpartition(".")[0]
        module = None if target is None else self.model.get_submodule(path)
        if not isinstance(module, nn.PReLU) or not isinstance(weight, fx.Node):
            return f"{node.name} has slopes that are computed on the way"
        if module.weight.numel() > 1:
            if len(weight.users) > 1 or len(self.aliases[id(module.weight)]) > 1:
                return f"{path} is shared: its slopes are used more than once"
            self._number_each(source, module, 1)
        return ""

    def _hand_on(self, node: fx.Node, source: fx.Node, layout: Layout, kind: str) -> None:
        """A node has the channels of what it reads."""
        if source in self.joined:
            self.layouts[node], self.joined[node] = layout, self.joined[source]
        else:
            self._join(node, self.spaces[source], layout, kind)

    def _join(self, node: fx.Node, space: Space, layout: Layout, kind: str) -> None:
        self.layouts[node], self.spaces[node] = layout, space
        if kind:
            space.steps[node] = kind

    def _stop(self, node: fx.Node, why: str) -> None:
        """What the node reads must keep all its channels."""
        for source in node.all_input_nodes:
            for space in self.spaces_of(source):
                space.fix(why)


STATE = (InputKind.PARAMETER, InputKind.BUFFER)


def exported(model: nn.Module, example: Call) -> Any:
    """The model as torch.export follows it, its in-place steps written out; refuses what cannot be followed."""
    try:
        with _unspoken(), torch.no_grad():
            program = torch.export.export(model, example.args, example.keywords, strict=False)
            return program.run_decompositions({}) if _changes_in_place(program) else program
    except Exception as error:
        said = next((line.strip() for line in str(error).splitlines() if line.strip()), type(error).__name__)
        raise AliveError(
            f"the forward of {type(model).__name__} cannot be traced: {said.rstrip('.')}",
            "torch.export must be able to follow it: no branching on values, and no numpy on the way",
        ) from None


@contextmanager
def _unspoken() -> Iterator[None]:
    """Without torch's own warnings, log lines and printed graphs: what went wrong is said once, in our error."""
    before = logging.root.manager.disable
    logging.disable(logging.CRITICAL)
    try:
        with warnings.catch_warnings(), redirect_stdout(StringIO()), redirect_stderr(StringIO()):
            warnings.simplefilter("ignore")
            yield
    finally:
        logging.disable(before)


def _changes_in_place(program: Any) -> bool:
    """Whether some step changes what it reads; most models have none, and writing it out takes most of the time."""
    return any(getattr(schema_of(node.target), "is_mutable", False) for node in program.graph.nodes)


def name_of(node: Any) -> str:
    """The name of an operation: linear of aten.linear.default."""
    if not isinstance(node, fx.Node):
        return ""
    parts = str(node.target).split(".")
    return parts[1] if len(parts) > 1 else getattr(node.target, "__name__", str(node.target))


def _aliases(model: nn.Module) -> dict[int, list[str]]:
    """The names of every module and number; more than one where it is shared."""
    found: dict[int, list[str]] = {}
    for path, module in model.named_modules(remove_duplicate=False):
        found.setdefault(id(module), []).append(path)
    for named in (model.named_parameters, model.named_buffers):
        for path, number in named(remove_duplicate=False):
            found.setdefault(id(number), []).append(path)
    return found


def _innermost(node: fx.Node) -> str | None:
    stack: Mapping[str, Any] = node.meta.get("nn_module_stack") or {}
    return list(stack.values())[-1][0] if stack else None


def _dims(node: Any) -> int:
    value = node.meta.get("val")
    return value.dim() if isinstance(value, Tensor) else 0


def _axes(node: fx.Node) -> list[int]:
    """The axes that a mean or a maximum runs over; all of them if it names none."""
    dims, given = _dims(node.args[0]), node.args[1] if len(node.args) > 1 else None
    axes: Any = [given] if isinstance(given, int) else given
    return [axis % dims for axis in (axes or range(dims))]


def cat_axis(node: fx.Node) -> int:
    """The axis along which a concatenation puts values one behind the other."""
    if name_of(node) == "hstack":
        return min(1, _dims(node) - 1)
    axis: Any = node.args[1] if len(node.args) > 1 else node.kwargs.get("dim", 0)
    return int(axis) % _dims(node)


def _numbers(args: tuple[Any, ...], place: int) -> list[Any]:
    """The numbers of one argument, none if it was left out."""
    return [leaf for leaf in tree_leaves(args[place]) if isinstance(leaf, int)] if len(args) > place else []


def _is_depthwise(layer: Layer, layout: Layout) -> bool:
    return layer.groups > 1 and layer.groups == layout.channels and layout.block == 1


def _moved(node: fx.Node, source: fx.Node, layout: Layout) -> Layout | None:
    """Where the channels lie after a step; None if they are no longer runs on one axis."""
    name = name_of(node)
    before, after = (list(n.meta["val"].shape) for n in (source, node))
    if name in SHAPES:
        return _viewed(layout, before, after)
    if name == "permute":
        order: Any = node.args[1]
        return Layout([axis % len(before) for axis in order].index(layout.axis), layout.channels, layout.block)
    if name == "transpose":
        one, two = (int(axis) % len(before) for axis in node.args[1:3])  # type: ignore[arg-type]
        axis = {one: two, two: one}.get(layout.axis, layout.axis)
        return Layout(axis, layout.channels, layout.block)
    if name in ("mean", "amax") and len(after) < len(before):
        gone = sum(axis < layout.axis for axis in _axes(node))
        return Layout(layout.axis - gone, layout.channels, layout.block)
    return layout


def _viewed(layout: Layout, before: list[int], after: list[int]) -> Layout | None:
    """A view keeps runs of channels where it cuts the shape at the same place."""
    ahead, behind = prod(before[: layout.axis]), prod(before[layout.axis :])
    for axis, size in enumerate(after):
        cuts = prod(after[:axis]) == ahead and prod(after[axis:]) == behind
        if cuts and size and size % layout.channels == 0:
            return Layout(axis, layout.channels, size // layout.channels)
    return None


def steps_back(reading: Reading, reader: Reader, producer: Layer) -> Iterator[tuple[fx.Node, str]]:
    """The steps from a reader back to the one layer that made its channels, by kind."""
    node: Any = reader.source
    space = reading.spaces[reader.source]
    while node is not producer.node:
        if node in space.steps:
            yield node, space.steps[node]
        node = node.args[0]
