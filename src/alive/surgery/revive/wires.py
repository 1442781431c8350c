"""Wires: which numbers of a model make the units of a layer, and which read them."""

from __future__ import annotations

import operator
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, cast

import torch
from torch import Tensor, fx, nn

from ...errors import AliveError, expect
from ..graph.calls import Call
from ..graph.channels import BENT, CATS, OUTPUT, SUMS, Layer, Reader, Reading, Space, name_of
from ..models import copied, evaluating, tensor_of

PUTS = ("scatter", "scatter_", "scatter_add")
ZEROS = ("zeros", "zeros_like", "new_zeros")
KEEPS_ZERO = ("same", "mean", "padded", "max")  # kinds of steps that leave zero as it is
CHOSEN = "chosen"  # a step of a space: a few of the channels are kept, the others are zero


class Part(NamedTuple):
    """The numbers of one tensor, by its name in the model, that belong to units: `block` of them along an axis a unit.

    A grouped convolution reads its channels in `groups`: then a unit is read by the rows of its own group alone.

    >>> Part("weight", axis=1).mask(torch.empty(2, 3), torch.tensor([2])).int().tolist()
    [[0, 0, 1], [0, 0, 1]]
    """

    name: str
    axis: int = 0
    block: int = 1
    groups: int = 1

    def spread(self, like: Tensor, numbers: Tensor) -> Tensor:
        """Of numbers of the units [C] the one whose unit each entry belongs to, in a tensor of this shape."""
        if self.groups == 1:
            own = numbers.repeat_interleave(self.block)
            return own.view(-1, *[1] * (like.dim() - self.axis % like.dim() - 1)).expand(like.shape)
        own = numbers.view(self.groups, -1).repeat_interleave(len(like) // self.groups, 0)
        return own.view(*own.shape, *[1] * (like.dim() - 2)).expand(like.shape)

    def mask(self, like: Tensor, units: Tensor) -> Tensor:
        """Where they lie: true in a tensor of this shape."""
        chosen = torch.zeros(self.units_in(like), dtype=torch.bool)
        chosen[units] = True
        return self.spread(like, chosen).to(like.device)

    def units_in(self, like: Tensor) -> int:
        """How many units have numbers in a tensor of this shape."""
        return like.shape[self.axis] * (self.groups if self.axis else 1) // self.block


@dataclass(frozen=True, slots=True)
class Wires:
    """What makes the units of a layer, and what reads them; declare it where the model cannot be followed.

    into    weights and biases of the units themselves, drawn anew
    out     weights that read them, set to zero
    each    numbers that each unit has on its way, as in a batch norm: set as in a new module
    biases  of the layers that read them, in the order of `out`; "" where there is none or it is not known

    >>> Wires(into=(Part("W_enc", axis=1), Part("b_enc")), out=(Part("W_dec"),)).out[0].name
    'W_dec'
    """

    into: tuple[Part, ...]
    out: tuple[Part, ...] = ()
    each: tuple[Part, ...] = ()
    biases: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        expect([(bool(self.into), "wires need at least one part in `into`: the weights that make the units")])

    @property
    def parts(self) -> tuple[Part, ...]:
        """All of them."""
        return (*self.into, *self.out, *self.each)

    def units(self, model: nn.Module) -> int:
        """How many units there are; refuses parts that differ."""
        counts = {part.name: part.units_in(tensor_of(model, part.name)) for part in self.parts}
        if len(set(counts.values())) > 1:
            said = ", ".join(f"{name} {count}" for name, count in counts.items())
            raise AliveError(f"the parts of these wires have different numbers of units: {said}", "Check their axes")
        return next(iter(counts.values()))


class Wired(Reading):
    """The graph of a model, in which channels are also followed through a choice of a few: top-k, or a threshold."""

    @classmethod
    def of(cls, model: nn.Module, example: Call) -> Wired:
        """The graph of a copy that nothing is attached to."""
        with evaluating(twin := copied(model)):
            return cls(twin, example)

    def _read(self, node: fx.Node) -> None:
        chosen = chosen_from(node)
        if chosen is not None and chosen in self.layouts and self._puts_back(node, chosen):
            self._join(node, chosen, CHOSEN)
        elif (value := let_through(node)) is not None and value in self.layouts:
            self._join(node, value, CHOSEN)
        elif name_of(node) in CATS:
            self._stop(node, f"its output goes to {name_of(node)}, behind which wires are not followed")
        else:
            super()._read(node)

    def _puts_back(self, node: fx.Node, chosen: fx.Node) -> bool:
        """Whether what was chosen goes back to the axis that it was chosen from, in a tensor of the same shape."""
        axis: Any = node.args[1]
        value: Any = node.meta.get("val")
        same = isinstance(value, Tensor) and value.shape == chosen.meta["val"].shape
        return same and axis % value.dim() == self.layouts[chosen].axis

    def _is_shared(self, module: nn.Module, weight: fx.Node, bias: Any) -> bool:
        """Only the weight counts: autoencoders often subtract the bias of what reads their latents from the input."""
        assert isinstance(module.weight, Tensor)
        return len(weight.users) > 1 or len(self.aliases[id(module.weight)]) > 1

    def shares_bias(self, layer: Layer) -> bool:
        """Whether the bias of a layer is used more than once."""
        args = layer.node.args
        bias = args[2] if len(args) > 2 else layer.node.kwargs.get("bias")
        return super()._is_shared(layer.module, cast(fx.Node, args[1]), bias)

    def _stop(self, node: fx.Node, why: str) -> None:
        decided_later = chosen_from(node) is None and _leads_to_choice(node)  # by that scatter or threshold
        if node.op != "output" and not decided_later:
            super()._stop(node, why)


def chosen_from(node: fx.Node) -> fx.Node | None:
    """What the values that a scatter puts back were chosen from by top-k; None if it is no such scatter."""
    if name_of(node) not in PUTS or len(node.args) < 4:
        return None
    places = node.args[2]
    if not isinstance(places, fx.Node) or places.target is not operator.getitem or places.args[1] != 1:
        return None
    top = places.args[0]
    found = top.args[0] if isinstance(top, fx.Node) and name_of(top) == "topk" else None
    return found if isinstance(found, fx.Node) else None


def let_through(node: fx.Node) -> fx.Node | None:
    """The values that a step lets through where a condition holds, zero elsewhere: z * (z > t), where(z > t, z, 0)."""
    sides: Any = node.args
    if name_of(node) == "where" and len(sides) == 3:
        zero = sides[2] == 0 or name_of(sides[2]) in ZEROS
        return sides[1] if zero and _same_shape(node, sides[1]) else None
    if name_of(node) != "mul" or not all(isinstance(side, fx.Node) for side in sides):
        return None
    value = next((one for one, other in (sides, sides[::-1]) if _is_condition(other)), None)
    return value if _same_shape(node, value) else None


def _same_shape(node: fx.Node, other: Any) -> bool:
    return isinstance(other, fx.Node) and other.meta["val"].shape == node.meta["val"].shape


def _is_condition(node: fx.Node) -> bool:
    """Whether a value is true or false, maybe as a number, or what a scatter put at the places of a choice."""
    if chosen_from(node) is not None:
        return True
    source: Any = node.args[0] if name_of(node) in ("_to_copy", "to") else node
    return getattr(source.meta.get("val"), "dtype", None) == torch.bool


def _leads_to_choice(node: fx.Node) -> bool:
    """Whether a step only makes what is chosen by: places, values or zeros of a scatter, a threshold, a condition."""

    def chooses_by(user: fx.Node) -> bool:
        value = let_through(user)
        return chosen_from(user) is not None or (value is not None and value is not node)

    return all(user.op != "output" and (chooses_by(user) or _leads_to_choice(user)) for user in node.users)


def wires_of(reading: Wired, path: str) -> Wires | str:
    """The wires of the units of the layer there, or why they cannot be told exactly."""
    layer = reading.layer_at(path)
    if layer is None:
        return f"{path or 'what made it'} is no plain layer that is used once; declare its wires"
    space = reading.made_by(layer)
    if space.fixed:
        return space.fixed
    if len(space.producers) > 1:  # which a depthwise layer shares too
        others = ", ".join(other.path for other in space.producers if other is not layer)
        return f"its units meet those of {others} in a sum or product, so that they are not its own"
    if reading.shares_bias(layer):
        return f"{layer.path} is shared: its bias is used more than once"
    if not space.readers:
        return OUTPUT if is_shown(reading, layer) else "nothing reads its units"
    numbers = [own for own, _ in space.each]
    behind = space.each[numbers.index(layer) + 1 :] if layer in numbers else space.each  # of a depthwise layer
    each = tuple(
        Part(name, block=place.features)
        for one, place in behind
        for name in _numbers(one.path if isinstance(one, Layer) else reading.aliases[id(one)][0], one)
    )
    layers = [(reader.layer, reader.place.features) for reader in space.readers]
    out = tuple(Part(f"{own.path}.weight", axis=1, block=block, groups=own.groups) for own, block in layers)
    biases = tuple("" if own.module.bias is None else f"{own.path}.bias" for own, _ in layers)
    return Wires(tuple(map(Part, _numbers(layer.path, layer))), out, each, biases)


def is_shown(reading: Wired, layer: Layer) -> bool:
    """Whether its units are an output of the model."""
    return any(reading.space_of(node) is reading.made_by(layer) for node in reading.shown)


def chooses(reading: Reading, layer: Layer) -> bool:
    """Whether only a few of its units are chosen at a time."""
    return CHOSEN in reading.made_by(layer).steps.values()


def read_loudly(reading: Reading, layer: Layer, *, chosen: bool) -> str:
    """The first reader that may read a unit where it is not zero although it is off, or was not `chosen`; or empty."""
    space = reading.made_by(layer)
    loud = (r.layer.path for r in space.readers if not _hears_nothing(reading, space, r, layer, chosen=chosen))
    return next(loud, "")


def _hears_nothing(reading: Reading, space: Space, reader: Reader, layer: Layer, *, chosen: bool) -> bool:
    """Whether a reader gets zero from a unit that is off wherever it meets an activation of its own, or the choice.

    On the way back from the reader there must be such an activation before any step that makes another number of zero,
    and no other layer on the way to the unit's own.
    """
    node: Any = reader.source
    silent = False
    while isinstance(node, fx.Node) and node is not layer.node:
        kind = space.steps.get(node, "")
        silent = silent or (kind == CHOSEN if chosen else _is_silent(reading, space, node))
        if name_of(node) in SUMS or not (silent or kind in KEEPS_ZERO):
            return False
        node = chosen_from(node) or let_through(node) or (node.args[0] if node.args else None)
    return silent and node is layer.node


def _is_silent(reading: Reading, space: Space, node: fx.Node) -> bool:
    """Whether a step gives zero for a unit that is off."""
    if space.steps.get(node) == CHOSEN:
        return True
    if name_of(node) not in BENT or name_of(node) == "prelu":
        return False
    pieces = reading.pieces(node)
    return len(pieces.knots) > 0 and bool((pieces.slopes[0] == 0).all()) and pieces.offsets[0] == 0


def _numbers(path: str, each: Layer | nn.Module) -> list[str]:
    """The names of what a layer or a norm has for each unit."""
    module = each.module if isinstance(each, Layer) else each
    tensors = [*module.named_parameters(recurse=False), *module.named_buffers(recurse=False)]
    return [f"{path}.{name}" for name, value in tensors if value.ndim]


def declared(wires: Wires | Sequence[Any]) -> Wires:
    """Wires as users give them."""
    if not isinstance(wires, Wires):
        raise AliveError(
            f"wires maps names of layers to alive.surgery.Wires, got {type(wires).__name__}",
            'Write wires={"relu": alive.surgery.Wires(into=(Part("W_enc", axis=1),), out=(Part("W_dec"),))}',
        )
    return wires
