"""The graph of a model as torch.export follows it, and which channels its layers share."""

from __future__ import annotations

import logging
import operator
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from dataclasses import dataclass, field
from io import StringIO
from math import prod
from typing import Any

import torch
from torch import Tensor, fx, nn
from torch.export.graph_signature import InputKind

from ...errors import AliveError, reason
from ...torch_private import schema_of, tree_leaves
from ..models import LAYERS, NORMS, tensor_of
from .calls import Call
from .pieces import Pieces, clipped, leaky

SUMS = ("linear", "conv1d", "conv2d", "conv3d")
SAME = ("clone", "alias", "contiguous", "detach", "dropout", "feature_dropout", "_to_copy", "to", "lift_fresh_copy")
SHAPES = ("view", "_unsafe_view", "reshape", "flatten", "squeeze", "unsqueeze", "unflatten")
BENT = ("relu", "leaky_relu", "prelu", "hardtanh", "relu6", "clamp", "clamp_min", "clamp_max")
MEANS = ("avg_pool1d", "avg_pool2d", "avg_pool3d", "adaptive_avg_pool1d", "adaptive_avg_pool2d", "adaptive_avg_pool3d")
OTHERS = (
    *("gelu", "silu", "sigmoid", "tanh", "elu", "celu", "selu", "softplus", "hardswish", "hardsigmoid", "mish"),
    *("neg", "abs", "exp", "pow", "square", "sqrt", "pad", "constant_pad_nd", "reflection_pad2d", "replication_pad2d"),
    *("upsample_nearest2d", "upsample_bilinear2d"),
)
TIES = ("add", "sub", "mul", "div")
CATS = ("cat", "concat", "concatenate", "hstack")
NORM = "_native_batch_norm_legit_no_training"
ASKS = ("_assert_tensor_metadata", "sym_size", "_assert_scalar")
KINDS = {  # what a step does to each channel by itself
    **dict.fromkeys((*SAME, *SHAPES, "permute", "transpose"), "same"),
    **dict.fromkeys(BENT, "bent"),
    **dict.fromkeys((*MEANS, "mean"), "mean"),
    **dict.fromkeys(("max_pool1d", "max_pool2d", "max_pool3d", "amax"), "max"),
    **dict.fromkeys(OTHERS, "other"),
}
STATE = (InputKind.PARAMETER, InputKind.BUFFER)
OUTPUT = "it is an output of the model"


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
class Segment:
    """The channels of a space in a value, each as a run of `block` entries; several segments make a concatenation."""

    space: Space
    block: int = 1


@dataclass(frozen=True, slots=True, eq=False)
class Place:
    """One of the segments of a value; each of its entries may have become a run of `block` behind it."""

    segments: list[Segment]
    number: int
    block: int

    @property
    def is_joined(self) -> bool:
        """Whether the value is a concatenation."""
        return len(self.segments) > 1

    @property
    def features(self) -> int:
        """How many features each channel of the segment has."""
        return self.segments[self.number].block * self.block

    @property
    def start(self) -> int:
        """The first feature of the segment, as those before it are cut now."""
        return self.block * sum(len(each.space.kept) * each.block for each in self.segments[: self.number])

    def own(self, ends: tuple[Tensor, Tensor]) -> tuple[Tensor, Tensor]:
        """The extremes of the segment's channels, of those of all entries of the value before any cut."""
        start = sum(each.space.channels * each.block for each in self.segments[: self.number])
        own = self.segments[self.number]
        lo, hi = (end[start : start + own.space.channels * own.block].reshape(-1, own.block) for end in ends)
        return lo.amin(1), hi.amax(1)


@dataclass(slots=True, eq=False)
class Reader:
    """A layer that reads the channels of a space, and where they lie in what it reads."""

    layer: Layer
    source: fx.Node
    place: Place


@dataclass(slots=True, eq=False)
class Space:
    """Channels that several values have in common, so that a channel goes everywhere or nowhere.

    producers  layers whose units the channels are
    each       layers and modules with numbers of their own for each channel: norms, PReLU, depthwise convolutions
    steps      what is done to the channels on their way, by kind
    fixed      why all channels must stay; empty if they need not
    kept       the channels that are left, by their first numbers
    """

    channels: int
    producers: list[Layer] = field(default_factory=list)
    each: list[tuple[Layer | nn.Module, Place]] = field(default_factory=list)
    readers: list[Reader] = field(default_factory=list)
    steps: dict[fx.Node, str] = field(default_factory=dict)
    fixed: str = ""
    kept: Tensor = field(init=False)

    def __post_init__(self) -> None:
        self.kept = torch.arange(self.channels)

    @property
    def is_joined(self) -> bool:
        """Whether some layer reads the channels in a concatenation."""
        return any(reader.place.is_joined for reader in self.readers)

    def fix(self, why: str) -> None:
        """Every channel must stay; the first reason counts."""
        self.fixed = self.fixed or why


class Reading:
    """A model as a graph of operations, with the layout of each value and the spaces its channels are of."""

    def __init__(self, model: nn.Module, example: Call) -> None:
        self.model = model
        self.program = exported(model, example)
        self.nodes: list[fx.Node] = list(self.program.graph_module.graph.nodes)
        self.specs: list[Any] = list(self.program.graph_signature.input_specs)
        self.inputs = [spec.arg.name for spec in self.specs if spec.kind is InputKind.USER_INPUT]
        self.owner = {spec.arg.name: str(spec.target) for spec in self.specs if spec.kind in STATE}
        self.aliases = _aliases(model)
        self.layouts: dict[fx.Node, Layout] = {}
        self.segments: dict[fx.Node, list[Segment]] = {}
        self.layers: list[Layer] = []
        self.shown: list[fx.Node] = []  # what the model returns
        for node in self.nodes:
            self._read(node)

    def all_spaces(self) -> list[Space]:
        """Every space once, in the order of the graph."""
        return list(dict.fromkeys(each.space for segments in self.segments.values() for each in segments))

    def spaces_of(self, node: fx.Node) -> list[Space]:
        """The spaces whose channels a value holds: several behind a concatenation, none if they are not followed."""
        return [each.space for each in self.segments.get(node, ())]

    def space_of(self, node: fx.Node) -> Space | None:
        """The one space whose channels a value holds."""
        spaces = self.spaces_of(node)
        return spaces[0] if len(spaces) == 1 else None

    def made_by(self, layer: Layer) -> Space:
        """The space of a layer's units."""
        return self.segments[layer.node][0].space

    def layer_at(self, path: str) -> Layer | None:
        """The layer of this path."""
        return next((layer for layer in self.layers if layer.path == path), None)

    def given(self, call: Call) -> list[Any]:
        """What the graph is run on: the model's numbers as they are now, and the inputs of a call."""
        state = dict(self.model.named_parameters(remove_duplicate=False)) | dict(
            self.model.named_buffers(remove_duplicate=False)
        )
        inputs = iter(call.leaves())
        return [
            state[str(spec.target)]
            if spec.kind in STATE and spec.target in state
            else next(inputs)
            if spec.kind is InputKind.USER_INPUT
            else self.program.constants[str(spec.target)]
            for spec in self.specs
        ]

    def run(self, call: Call, note: Callable[[fx.Node, Any], object]) -> Any:
        """Run the graph, and show each value; gives the outputs."""
        return _Interpreter(self.program.graph_module, note).run(*self.given(call))

    def module_of(self, node: fx.Node) -> tuple[str, nn.Module] | None:
        """The module whose call a node is, if it makes no other node."""
        path = _innermost(node)
        if path is None:
            return None
        module = self.model.get_submodule(path)
        nodes = [n for n in self.nodes if n.op == "call_function" and _innermost(n) == path]
        alone = nodes == [node] and not list(module.children()) and len(self.aliases.get(id(module), [])) == 1
        return (path, module) if alone else None

    def pieces(self, node: fx.Node) -> Pieces:
        """The activation that a node is."""
        name, args = name_of(node), list(node.args[1:])
        if name == "relu":
            return leaky(0.0)
        if name == "leaky_relu":
            return leaky(float(args[0]) if args else 0.01)  # type: ignore[arg-type]
        if name == "prelu":
            return leaky(tensor_of(self.model, self.owner[args[0].name]))  # type: ignore[union-attr]
        low = args[0] if args and name != "clamp_max" else node.kwargs.get("min_val", node.kwargs.get("min"))
        high = args[1] if len(args) > 1 else node.kwargs.get("max_val", node.kwargs.get("max"))
        if name == "hardtanh":
            low, high = (-1.0 if low is None else low), (1.0 if high is None else high)
        if name == "relu6":
            low, high = 0.0, 6.0
        if name == "clamp_max":
            low, high = None, args[0]
        return clipped(None if low is None else float(low), None if high is None else float(high))  # type: ignore[arg-type]

    # Reading one node: its layout and spaces, or why what it reads must stay.

    def _read(self, node: fx.Node) -> None:
        if node.op == "output":
            self.shown = node.all_input_nodes
            self._stop(node, OUTPUT)
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
            self._join(node, node.args[0], "norm")
        elif name in TIES:
            self._tie(node)
        elif name in CATS:
            self._cat(node)
        elif (kind := self._kind(node, name)) is not None:
            self._step(node, kind)
        else:
            self._stop(node, f"its output goes to {name}, which mixes channels or is not followed")

    def _kind(self, node: fx.Node, name: str) -> str | None:
        """What a step does to each channel by itself: same, mean, padded, max, bent or other; None if it mixes them."""
        source: Any = node.args[0] if node.args else None
        layout, kind = self.layouts.get(source), KINDS.get(name)
        if layout is None or kind is None:
            return None
        if name in BENT and name != "prelu" and any(isinstance(arg, fx.Node) for arg in node.args[1:]):
            return None
        if name in ("mean", "amax") and layout.axis in _axes(node):
            return None
        if name in ("pad", "constant_pad_nd") and len(_numbers(node.args, 1)) // 2 >= _dims(source) - layout.axis:
            return None
        return "padded" if name in MEANS and any(_numbers(node.args, 3)) else kind

    def _sum(self, node: fx.Node) -> None:
        source: Any = node.args[0]
        layer = self._layer(node, node.args[1])
        if isinstance(layer, str):
            self._stop(node, layer)
            return
        self.layers.append(layer)
        axis = _dims(node) - 1 if isinstance(layer.module, nn.Linear) else 1
        units = len(layer.module.weight)
        layout, segments = self.layouts.get(source), self.segments.get(source, [])
        depthwise = layout == Layout(axis, layer.groups) and layer.groups > 1 and len(segments) == 1
        if layout is not None and depthwise:
            segments[0].space.each.append((layer, Place(segments, 0, units // layer.groups)))
            self._join(node, source, "other", Layout(1, layout.channels, units // layer.groups))
            return
        for number, segment in enumerate(segments):
            assert layout is not None
            if layout.axis != axis:
                segment.space.fix(f"its channels do not lie where {layer.path} reads them")
            elif layer.groups > 1 and len(segments) > 1:
                segment.space.fix(f"{layer.path} reads them in groups, behind a concatenation")
            elif layer.groups > 1 and layout.block > 1:
                segment.space.fix(f"{layer.path} reads them in groups, several features a channel")
            segment.space.readers.append(Reader(layer, source, Place(segments, number, layout.block)))
        space = Space(units, [layer])
        self.layouts[node], self.segments[node] = Layout(axis, units), [Segment(space)]
        if layer.groups > 1 and layer.groups == units:
            space.fix(f"each unit of {layer.path} reads a channel of its own that must stay")

    def _layer(self, node: fx.Node, weight: Any) -> Layer | str:
        """The layer of a weighted sum, or why it is left alone."""
        if weight.name not in self.owner:
            return f"the weight of {_innermost(node) or node.name} is computed on the way"
        path, _, name = self.owner[weight.name].rpartition(".")
        module: Any = self.model.get_submodule(path)
        if type(module) not in LAYERS or name != "weight":
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
        return any(len(number.users) > 1 for number in used) or not self._is_alone(module)

    def _is_alone(self, module: nn.Module) -> bool:
        """Whether each number of a module has one name."""
        return all(len(self.aliases[id(n)]) == 1 for n in (*module.parameters(False), *module.buffers(False)))

    def _norm(self, node: fx.Node) -> None:
        source: Any = node.args[0]
        layout, holder = self.layouts.get(source), node.args[3]
        live = name_of(node) != NORM and bool(node.args[5])
        if layout is None or live or not isinstance(holder, fx.Node) or holder.name not in self.owner:
            self._stop(node, "it is normalised by numbers that are not followed")
            return
        path = self.owner[holder.name].rpartition(".")[0]
        module = self.model.get_submodule(path)
        alone = all(len(arg.users) == 1 for arg in node.args[1:5] if isinstance(arg, fx.Node))
        if type(module) not in NORMS or not alone or not self._is_alone(module) or layout.axis != 1:
            self._stop(node, f"{path} ({type(module).__name__}) is shared or no plain batch norm")
            return
        self._number_each(source, module, layout.block)
        self._join(node, source, "norm")  # of a tuple, of which the next node takes the first

    def _number_each(self, source: fx.Node, module: nn.Module, block: int) -> None:
        """A module has numbers of its own for each channel of a value."""
        segments = self.segments[source]
        for number, segment in enumerate(segments):
            segment.space.each.append((module, Place(segments, number, block)))

    def _cat(self, node: fx.Node) -> None:
        """Values one behind the other along the axis of their channels; what is not followed stays as it is."""
        sources: Any = node.args[0]
        axis, layouts = cat_axis(node), [self.layouts.get(source) for source in sources]
        if len(sources) == 1:
            self._join(node, sources[0], "same")
        if not any(layouts) or len(sources) == 1:
            return
        if any(layout is not None and layout.axis != axis for layout in layouts):
            self._stop(node, f"it meets others in {node.name} along another axis than that of its channels")
            return
        if any(_dims(source) != _dims(node) for source in sources):
            self._stop(node, f"it meets in {node.name} an empty value of another shape")
            return
        segments: list[Segment] = []
        for source, layout in zip(sources, layouts, strict=True):
            if layout is None:
                segments.append(Segment(Space(source.meta["val"].shape[axis], fixed="it is not followed")))
            else:
                segments += [Segment(each.space, each.block * layout.block) for each in self.segments[source]]
        self.segments[node] = segments
        self.layouts[node] = Layout(axis, sum(each.space.channels * each.block for each in segments))

    def _tie(self, node: fx.Node) -> None:
        """Two values added or multiplied entry by entry: their channels stay or go together."""
        sides = [arg for arg in node.args[:2] if isinstance(arg, fx.Node) and _dims(arg) > 0]
        layouts = {self.layouts.get(side) for side in sides}
        if layouts == {None} or not sides:
            return
        if len(sides) == 1:
            self._step(node, "other", sides[0])
            return
        if len(layouts) > 1 or len({_dims(side) for side in sides}) > 1:
            self._stop(node, f"it meets in {node.name} something whose channels are not its own")
            return
        first, second = (self.segments[side] for side in sides)
        if [(each.space.channels, each.block) for each in first] != [(e.space.channels, e.block) for e in second]:
            self._stop(node, f"it meets in {node.name} a concatenation of other parts")
            return
        for one, other in zip(first, second, strict=True):
            self._merge(one.space, other.space)
        self._join(node, sides[0], "tie")

    def _merge(self, kept: Space, other: Space) -> None:
        if kept is other:
            return
        kept.producers += other.producers
        kept.each += other.each
        kept.readers += other.readers
        kept.steps |= other.steps
        kept.fix(other.fixed)
        for segment in (each for segments in self.segments.values() for each in segments if each.space is other):
            segment.space = kept

    def _step(self, node: fx.Node, kind: str, source: Any = None) -> None:
        """Channels that go through a step, each by itself."""
        source = node.args[0] if source is None else source
        after = _move(node, source, self.layouts[source])
        why = f"{node.name} moves its channels apart" if after is None else ""
        if name_of(node) == "prelu":
            why = why or self._slopes(node, source)
        if why:
            self._stop(node, why)
        if after is not None:
            self._join(node, source, kind, after)

    def _slopes(self, node: fx.Node, source: fx.Node) -> str:
        """Take the slopes of a PReLU into the space; why not, if they cannot be cut."""
        weight: Any = node.args[1]
        path = self.owner.get(weight.name, "").rpartition(".")[0]
        module = self.model.get_submodule(path)
        if not isinstance(module, nn.PReLU):
            return f"{node.name} has slopes that are computed on the way"
        if module.weight.numel() > 1:
            if len(weight.users) > 1 or not self._is_alone(module):
                return f"{path} is shared: its slopes are used more than once"
            self._number_each(source, module, 1)
        return ""

    def _join(self, node: fx.Node, source: Any, kind: str, layout: Layout | None = None) -> None:
        """A node has the channels of what it reads."""
        if source not in self.layouts:
            return
        self.layouts[node] = layout or self.layouts[source]
        self.segments[node] = self.segments[source]
        if (space := self.space_of(node)) is not None:
            space.steps[node] = kind

    def _stop(self, node: fx.Node, why: str) -> None:
        """What the node reads must keep all its channels."""
        for source in node.all_input_nodes:
            for space in self.spaces_of(source):
                space.fix(why)


class _Interpreter(fx.Interpreter):
    """Runs a graph, and shows each value."""

    def __init__(self, graph_module: fx.GraphModule, note: Callable[[fx.Node, Any], object]) -> None:
        super().__init__(graph_module)
        self._note = note

    def run_node(self, n: fx.Node) -> Any:
        """Run one step."""
        value = super().run_node(n)
        self._note(n, value)
        return value


def exported(model: nn.Module, example: Call) -> Any:
    """The model as torch.export follows it, its in-place steps written out; refuses what cannot be followed."""
    try:
        with _unspoken(), torch.no_grad():
            program = torch.export.export(model, example.args, example.keywords, strict=False)
            # Most models change nothing in place, and writing it out takes most of the time.
            in_place = any(getattr(schema_of(node.target), "is_mutable", False) for node in program.graph.nodes)
            return program.run_decompositions({}) if in_place else program
    except Exception as error:
        raise AliveError(
            f"the forward of {type(model).__name__} cannot be traced: {reason(error)}",
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


def _move(node: fx.Node, source: fx.Node, layout: Layout) -> Layout | None:
    """Where the channels lie after a step; None if they are no longer runs on one axis."""
    name = name_of(node)
    before, after = (list(n.meta["val"].shape) for n in (source, node))
    if name in SHAPES:
        return _view(layout, before, after)
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


def _view(layout: Layout, before: list[int], after: list[int]) -> Layout | None:
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
    space = reading.made_by(producer)
    while node is not producer.node:
        if node in space.steps:
            yield node, space.steps[node]
        node = node.all_input_nodes[0]
