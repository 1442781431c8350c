"""Which forward passes a penalty is made of: those of this step, run here, with a graph to send it through.

A pass is kept until penalty() reads it, or until it can no longer be read:

* It was run inside something that has ended: a transform of torch.func, forward-mode differentiation, fake tensors, a
  tracer. Its tensors are worth nothing outside. A penalty() inside the same reads it; one further in leaves it alone.
* backward() has been through it and freed its graph, as when a generator is trained through a watched discriminator.
  torch tells so in two ways. The node of a Function, such as the one that ReLU and slacks share or that of a compiled
  model, refuses to show what it saved once that is freed. Slacks measured beside an activation lie off the way that
  backward takes, so a hook waits on the way, at the node of the pre-activations, and asks when it is called whether
  this backward keeps the graph (retain_graph, create_graph). What other nodes saved is not looked at: showing it may
  run a checkpointed part again. The first and the last layer are enough: backward ends at the parameters, behind the
  first, unless it was told to end at some features, and then it came by the last. Where it did neither (one of three
  towers), torch itself refuses to send the penalty.

A step may fail between the pass and penalty(), say in the loss, and the user go on with the next batch. Nothing tells
that from several passes of one step but this: nobody holds the output, or what was made of it, any more. A pass may be
made for its penalty alone, so it counts, with a warning; Jumpstart.forget() is for a step that failed. Where the node
of the output is one that measured (a last ReLU in one with its slacks, a compiled model), it is held by us, unseen.
"""

from __future__ import annotations

import sys
import weakref
from collections.abc import Callable, Iterator, Sequence
from types import FrameType
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.autograd import forward_ad, functional

from ..errors import AliveError
from ..functional import Slacks, fused, parts
from ..functional.ends import Ends
from ..functional.together import Pending
from ..torch_private import (
    FakeTensor,
    has_level,
    in_backward,
    is_dual,
    is_freed,
    is_fx_tracing,
    is_traced_whole,
    is_transformed,
    keeps_graph,
    level_token,
    modes_without_values,
    transform_levels,
)

ENDED, SENT, TRACED, HOLLOW, COPIED = "ended", "sent", "traced", "hollow", "copied"
LOST = {
    ENDED: (
        "what the forward pass since the last penalty() ran inside of (a transform of torch.func, forward-mode "
        "differentiation, make_fx, FakeTensorMode) has ended, and the pass with it",
        "Call penalty() in there too, in the function that calls the model",
    ),
    SENT: (
        "backward() has been through the forward pass since the last penalty() and freed its graph",
        "Add penalty() to the loss before backward(), or keep the graph: backward(retain_graph=True)",
    ),
    TRACED: (
        "the forward pass since the last penalty() was exported or traced, which is no step of training",
        "Call the attached model once more, with a batch, for each penalty()",
    ),
    HOLLOW: (
        "the forward pass since the last penalty() was on tensors without values, and the model's parameters have some",
        "Call the attached model once more, with a batch, for each penalty()",
    ),
    COPIED: (
        "this Jumpstart is a copy, which is attached to no model",
        "Attach a new one, Jumpstart(model), and load the state_dict() of the first",
    ),
}
GONE = (
    "penalty() counts a forward pass whose output nobody holds any more, beside one in use: if that step failed, call "
    "forget() where you catch its error"
)
with torch.inference_mode(False):
    NOTHING = torch.empty(0)
WHOLE = (torch.func.linearize, functional.jacobian, functional.hessian, functional.vjp, functional.jvp)
WHOLE_CODE = {id(function.__code__) for function in (*WHOLE, functional.vhp, functional.hvp)}
_is_exporting = getattr(torch.compiler, "is_exporting", lambda: False)


class Inside(NamedTuple):
    """What a pass runs inside of. Each token lives as long as its transform, or its level of forward-mode AD."""

    transforms: tuple[Tensor, ...] = ()
    duals: tuple[Tensor, ...] = ()
    modes: tuple[weakref.ref[Any], ...] = ()
    calls: tuple[FrameType, ...] = ()

    @classmethod
    def here(cls) -> Inside:
        """What runs now; a compiled model runs where it is called from, and sees none of it."""
        if not _depth():
            return cls()
        transforms = tuple(level_token(NOTHING, level) for level in transform_levels())
        duals = (forward_ad.make_dual(NOTHING, NOTHING),) if is_dual() and not transforms else ()
        return cls(transforms, duals, tuple(map(weakref.ref, modes_without_values())), tuple(_calls()))

    @property
    def depth(self) -> int:
        """How many things these are."""
        return sum(map(len, self))

    @property
    def lives(self) -> bool:
        """Whether all of it still runs."""
        return (
            all(map(has_level, self.transforms))
            and all(forward_ad.unpack_dual(token, level=0).tangent is not None for token in self.duals)
            and all(any(mode() is running for running in modes_without_values()) for mode in self.modes)
            and (not self.calls or set(self.calls) <= set(_calls()))
        )


class Held:
    """Lives as long as the node of an output, which holds it."""


class Sent:
    """Hears of backward going through a pass; holds nothing of the pass, which holds it."""

    def __init__(self) -> None:
        self.freed = False

    def __call__(self, gradients: Any) -> None:
        """Backward goes through a layer of the pass."""
        if not torch.compiler.is_compiling():
            self.freed = self.freed or not keeps_graph()


Measured = Slacks | Ends | Pending
"""What a pass keeps of a layer: its slacks, the ends that they will be made of, or what they will be measured on."""


def _tensors_of(layer: Slacks | Ends) -> Slacks:
    return {"ends": layer.values} if isinstance(layer, Ends) else layer


class Pass(NamedTuple):
    """What one forward pass measured, where, what it ran inside of, who hears of its backward, and outputs if asked."""

    slacks: list[Measured]
    parts: list[parts.Part]
    taps: tuple[list[str], list[str]]  # the names of the taps of both
    inside: Inside
    sent: Sent
    outputs: list[Tensor]
    goes: list[weakref.ref[Any]]  # what lives as long as somebody beside us holds the way from its output

    def nodes(self) -> Iterator[Any]:
        """The nodes that measured the first and the last layer."""
        measured = [next(iter(layer.values())) for layer in self._layers() if layer]
        measured = measured or [part.ends for part in self.parts]
        sendable = [s for s in measured if s.requires_grad]
        yield from (s.grad_fn for s in (*sendable[:1], *sendable[1:][-1:]))

    def loss(self) -> str:
        """Why it can no longer be read; empty where it can."""
        if not self.inside.lives:
            return ENDED
        if not self.inside.depth and (self.sent.freed or any(map(is_freed, self.nodes()))):
            return SENT
        return ""

    @property
    def is_gone(self) -> bool:
        """Whether nobody can send a loss through it any more: its output was let go, and all that was made of it."""
        return bool(self.goes) and all(each() is None for each in self.goes)

    def is_hollow(self) -> bool:
        """Whether some layer has no values."""
        return any(s.is_meta or isinstance(s, FakeTensor) for layer in self._layers() for s in layer.values())

    def _layers(self) -> list[Slacks]:
        """Those that were measured at once; of the others, which have values, backward is heard of on its way."""
        return [_tensors_of(layer) for layer in self.slacks if not isinstance(layer, Pending)]


class Passes:
    """The forward passes that no penalty() has read."""

    def __init__(self) -> None:
        self.kept: tuple[Pass, ...] = ()  # never changed in place: a compiler would let tensors of a transform escape
        self.run = _pass_of_none()  # the one that began last
        self.idle = self.was_idle = False  # whether passes came that need no record, in eval mode or under no_grad
        self.lost = ""  # why the last one was lost that was
        self.hears = False  # whether the backward of this one concerns us
        self.way: tuple[Any, ...] = ()  # and where it passes the first and the last layer
        self.last: Tensor | None = None  # what the last layer got, if it is not in there yet

    def __reduce__(self) -> tuple[Callable[[], Passes], tuple[()]]:  # deepcopy goes this way too
        return _of_a_copy, ()

    def begin(self, *, trains: bool) -> bool:
        """A pass begins; whether to record it."""
        self.run, self.was_idle, self.hears = _pass_of_none(), self.idle, False
        if _in_backward():  # a checkpointed part, run again
            return False
        self._drop()
        if _is_traced():
            self.lost = TRACED
            return False
        if not trains:
            self.idle = True
            return False
        self.run = Pass([], [], ([], []), Inside.here(), Sent(), [], [])
        self.kept = (*self.kept, self.run)
        self.hears = not self.run.inside.depth
        return True

    def hear(self, z: Tensor, layer: Measured) -> None:
        """A layer was measured: note where backward will pass, if its slacks lie off the way."""
        if torch.compiler.is_compiling() or not self.hears:  # a part may be compiled by itself
            return
        on_the_way = not isinstance(layer, Pending) and fused.passes_through(layer)
        if not on_the_way and z.grad_fn is not None:
            self.way = (*self.way[:1], z.grad_fn)

    def hear_of(self, z: Tensor) -> None:
        """As `hear`, of a layer whose slacks lie off the way, and which nobody changes before the pass has ended."""
        if self.hears and not self.way and z.grad_fn is not None:
            self.way = (z.grad_fn,)
        self.last = z

    def follow(self, outputs: Sequence[Tensor]) -> None:
        """From now on, know whether somebody still holds the way from one of these outputs."""
        nodes: set[Any] = {each.grad_fn for each in outputs if self.hears and each.numel()} - {None}
        for node in nodes:
            token = Held()
            node.metadata["alive"] = token
            self.run.goes.append(weakref.ref(token))

    def end(self, outputs: Sequence[Tensor]) -> None:
        """The pass has ended: from now on, hear of its backward."""
        if self.hears and self.last is not None and self.last.grad_fn is not None:
            self.way = (*self.way[:1], self.last.grad_fn)
        for node in self.way:
            node.register_prehook(self.run.sent)
        self.run.outputs.extend(outputs)
        self.run, self.way, self.last = _pass_of_none(), (), None

    def forget(self) -> None:
        """The pass has failed."""
        self.kept, self.idle = tuple(run for run in self.kept if run is not self.run), self.was_idle
        self.run, self.way, self.last = _pass_of_none(), (), None

    def read(self, model: nn.Module) -> tuple[list[Pass], str]:
        """The passes to be read here, which are forgotten, and what is to be told of one that was lost."""
        self._drop()
        depth = _depth()
        mine = [run for run in self.kept if run.inside.depth == depth]
        if not depth and any(run.is_hollow() for run in mine) and not _is_hollow(model):
            mine, self.lost = [run for run in mine if not run.is_hollow()], HOLLOW
        idle, lost = self.idle, self.lost
        self.kept = tuple(run for run in self.kept if run.inside.depth < depth)
        self.idle, self.lost = False, ""
        if not mine and not idle:
            raise _fault_of_nothing(lost)
        if lost == SENT and not mine:
            return mine, ". ".join(LOST[SENT])
        told = [run.is_gone for run in mine if run.goes]  # the others, such as one without points, do not show it
        return mine, GONE if any(told) and not all(told) else ""

    def _drop(self) -> None:
        """Let go of what can no longer be read."""
        if torch.compiler.is_compiling() or not self.kept:
            return
        losses = [run.loss() for run in self.kept]
        self.lost = next(filter(None, reversed(losses)), self.lost)
        self.kept = tuple(run for run, loss in zip(self.kept, losses, strict=True) if not loss)


def _of_a_copy() -> Passes:
    """Nothing: graphs stay with the model that made them."""
    passes = Passes()
    passes.lost = COPIED
    return passes


def _pass_of_none() -> Pass:
    return Pass([], [], ([], []), Inside(), Sent(), [], [])


def _fault_of_nothing(lost: str) -> AliveError:
    if lost:
        return AliveError(*LOST[lost])
    return AliveError(
        "penalty() found no forward pass since the last call",
        "Call the attached model first, model(x) and not a method of it, once for each penalty(); a compiled "
        "model must be attached before its first call (or call torch._dynamo.reset() after attaching)",
    )


def _is_hollow(model: nn.Module) -> bool:
    """Whether the model itself has parameters without values."""
    return any(p.is_meta or isinstance(p, FakeTensor) for p in model.parameters())


def _depth() -> int:
    """How many things run around us."""
    if torch.compiler.is_compiling():
        return 0
    levels = len(transform_levels()) if is_transformed() else 0
    return (levels or is_dual()) + len(modes_without_values()) + len(_calls())


def _calls() -> list[FrameType]:
    """The calls around us that differentiate a function as a whole, and call it for no other reason."""
    frame: FrameType | None = sys._getframe()
    found = []
    while frame is not None:
        if id(frame.f_code) in WHOLE_CODE:
            found.append(frame)
        frame = frame.f_back
    return found


def _is_traced() -> bool:
    """Whether the model is exported or traced as a whole, so that what runs is no step of training."""
    if _is_exporting():
        return True
    if torch.compiler.is_compiling():
        return False
    return is_traced_whole() or (is_fx_tracing() and not modes_without_values())


def _in_backward() -> bool:
    return not torch.compiler.is_compiling() and in_backward()
