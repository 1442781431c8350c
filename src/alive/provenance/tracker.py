"""Tracker: follows every operation of one forward pass, and knows the point and unit of every entry of every tensor.

It sees what torch runs underneath Python, so that all spellings of an operation look the same to it. It costs
some tens of microseconds an operation, and is on for the first pass only (see `taps`).
"""

from __future__ import annotations

import weakref
from collections import deque
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import reduce
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.parameter import UninitializedBuffer, UninitializedParameter

from ..errors import fault_of_ours
from ..torch_private import (
    DisableTorchFunction,
    EnableTorchFunction,
    HigherOrderOperator,
    TorchDispatchMode,
    current_dispatch_mode,
    is_functorch_wrapped_tensor,
    leave,
    pop_dispatch_mode,
    push_dispatch_mode,
    schema_of,
    storage_id,
    tree_leaves,
)
from .choices import Choices
from .copies import recipe
from .families import Families, Family
from .glimpse import Glimpse, may_be_one_sided, may_gate_itself, values_of
from .looked_up import made_of
from .masking import WRITES, looks_up, masks_units
from .memory import Memory
from .one_sided import gates_itself, is_one_sided
from .op import Op, Results
from .owners import NONE, Owners, constant, foreign, lost
from .pairing import Pairing
from .rules import RULES, attended_by, elementwise, viewed
from .threads import Threads
from .uncompiled import UNCOMPILED

RECENT = 8  # tensors that a result is compared with, to see whether it is one-sided
REDUCES = {  # newer torch has a tag for them, 2.6 has not
    *("all", "amax", "amin", "aminmax", "any", "argmax", "argmin", "count_nonzero", "linalg_vector_norm"),
    *("linalg__powsum", "logsumexp", "max", "mean", "min", "nansum", "norm", "prod", "std", "std_mean", "sum", "var"),
    "var_mean",
}
ELSEWHERE = "runs in a thread of its own, where activations are not seen: what they let through is not counted"
RUN_FUNCTIONS = {"while_loop", "map_impl", "scan", "associative_scan"}  # higher-order operators
SPELLS = {"mul", "div", "where", "maximum", "minimum", "fmax", "fmin", "add"}  # with which a leaky one may end
MAKES_Z = {"addmm", "mm", "bmm", "baddbmm", "convolution", "native_batch_norm", "native_layer_norm", "stack", "cat"}
BY_BYTES = {torch.ops.aten.as_strided.default, torch.ops.aten.as_strided_.default}  # known by the bytes they show
ONE_SIDED = {
    *(
        "relu",
        "relu6",
        "leaky_relu",
        "gelu",
        "silu",
        "elu",
        "celu",
        "selu",
        "softplus",
        "threshold",
        "hardswish",
        "mish",
    ),
    *("_prelu_kernel", "rrelu_with_noise", "rrelu_with_noise_functional"),
}


class Tracker(TorchDispatchMode):
    """Watches one pass. Tensors get their owners by `enter`; `owners` tells those of any other."""

    supports_higher_order_operators = True

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        return False  # while a pass is followed nothing is compiled anyhow, and asking costs more than following

    def __init__(self, root: nn.Module, unseen: Callable[..., None] = lambda name, why="", kind="": None) -> None:
        super().__init__()
        self.memory = Memory()
        self.deaf = 0  # while somebody else computes
        self._judged = 0  # while somebody else tells what the operations are
        self.faults: list[str] = []  # where we failed; for tests
        self.broken = ""  # why nothing is known any more
        self.branched = False  # whether torch.cond took a branch: the next pass may take the other
        self._unseen = unseen
        self._recent: deque[Glimpse] = deque(maxlen=RECENT)
        self._activated: deque[weakref.ref[Tensor]] = deque(maxlen=RECENT)  # what came out of activations
        self._is_on = False
        self._scalars = 0  # met so far, that came from outside
        self._crossed = 0  # the bits of the activations so far
        self._threads = Threads()
        self._names: dict[Any, str] = {}
        self.families = Families(self._names)
        self.choices = Choices()
        self.pairing = Pairing()
        for name, p in root.named_parameters(remove_duplicate=False):
            if not isinstance(p, UninitializedParameter):
                self._enter_weight(p, name)
        for name, b in root.named_buffers():
            if not isinstance(b, UninitializedBuffer):
                self._enter_constant(b, ("buffer", name))
        for path, module in root.named_modules():
            for name, value in vars(module).items():
                for place, t in enumerate(_tensors(value) if isinstance(value, Tensor | list | tuple) else ()):
                    if not isinstance(t, nn.Parameter) and not self._is_of_parameter(t):
                        self._enter_constant(t, ("attribute", path, name, place))

    def _is_of_parameter(self, t: Tensor) -> bool:
        """Whether it is another name for the numbers of a parameter, as a norm by hooks leaves behind."""
        with suppress(RuntimeError, NotImplementedError, ValueError):
            return storage_id(t) in self.families.storages
        return False

    def _enter_constant(self, t: Tensor, source: Hashable) -> None:
        self._put(t, constant(t.ndim, source)._replace(tables=_memory_of(t)))

    def _enter_weight(self, p: Tensor, name: str) -> Owners:
        source = ("parameter", name or id(p))
        self._names.setdefault(source, name)
        owners = constant(p.ndim, source, weight=True)._replace(tables=_memory_of(p))
        self.families.storages |= owners.tables
        self._put(p, owners)
        return owners

    def _put(self, t: Tensor, owners: Owners) -> None:
        with suppress(RuntimeError, NotImplementedError, ValueError):  # it has no bytes of its own, or none yet
            self.memory.put(t, owners)

    def enter(self, t: Tensor, owners: Owners) -> None:
        """Set the owners of a tensor's entries."""
        self._put(t, owners)

    @contextmanager
    def quiet(self) -> Iterator[None]:
        """Inside, nothing is followed: what is computed there is not part of the model."""
        on_top = current_dispatch_mode() is self  # else another mode was entered since, and stays
        self.deaf += 1
        if on_top:
            pop_dispatch_mode()
        try:
            yield
        finally:
            self.deaf -= 1
            if on_top:
                push_dispatch_mode(self)

    @contextmanager
    def judged(self) -> Iterator[None]:
        """Inside, operations are followed, and somebody else tells whether they are one-sided."""
        self._judged += 1
        try:
            yield
        finally:
            self._judged -= 1

    @contextmanager
    def contracting(self) -> Iterator[None]:
        """Inside, products are sums over an axis that holds one entry."""
        self.families.contracts = True
        try:
            yield
        finally:
            self.families.contracts = False

    def family(self, owners: Owners) -> Family | None:
        """The operation that made the units of a tensor: the last one, where there are several."""
        return self.families.memo("last", (owners.unit,), lambda: self.families.last(owners.unit))

    def owners(self, t: Tensor) -> Owners:
        """The owners of a tensor's entries."""
        if self.broken:
            return self._unknown(t, self.broken)
        try:
            found = self.memory.get(t)
        except (RuntimeError, NotImplementedError):
            return self._unknown(t, _why_not_followed(t))
        if (found is None or not (found.data or found.weight)) and _is_weight(t):
            return self._enter_weight(t, "")
        if found is None and t.ndim and t.is_floating_point() and self._threads.may_have_made(t, self.families.points):
            self._unseen("thread", ELSEWHERE)
        if found is None:
            self._scalars += not t.ndim
            found = foreign(t.ndim, self.past) if t.ndim else constant(0, ("scalar", self._scalars))
            self._put(t, found)
        return found

    def __enter__(self) -> Tracker:
        self._is_on = True
        try:
            UNCOMPILED.begin()
            self._threads.__enter__()
            super().__enter__()
        except BaseException:
            self.let_go()
            raise
        return self

    def __exit__(self, *failure: Any) -> None:
        self.let_go()

    def let_go(self) -> None:
        """Leave torch as it was, wherever the pass ended; nothing, if that was done."""
        if self._is_on:
            try:
                leave(self)
            finally:
                self._is_on = False
                self._threads.__exit__()
                UNCOMPILED.end()

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        with DisableTorchFunction():  # function modes have seen the call already, by its own name
            return self._run(func, args, kwargs or {})

    def _run(self, func: Any, args: Any, kwargs: dict[str, Any]) -> Any:
        if self.deaf or schema_of(func) is None:
            return self._opaque(func, args, kwargs)
        if func in BY_BYTES:
            return func(*args, **kwargs)
        if schema_of(func).name == "aten::lift_fresh" and args[0].ndim and self.memory.get(args[0]) is None:
            self._put(args[0], foreign(args[0].ndim, self.past))
        # What is ours may fail; what is the model's runs, once, and fails as it would without us.
        op, found, failure = None, None, None
        try:
            op = Op(func, args, kwargs, self.owners)
            early = _early(op)
            if early is not None:
                found = self._ruled(early, op)
        except Exception as error:
            failure = error
        out = func(*args, **kwargs)
        if op is not None and failure is None:
            op.out = out
            try:
                if not (op.signature.is_view and all(map(self.memory.knows, op.outputs()))):
                    self._note(op, found if early is not None else self._ruled(self._rule(op), op))
            except Exception as error:
                failure = error
        if failure is not None:
            self._own_fault(func, (args, kwargs, out), failure)
        return out

    def _own_fault(self, func: Any, touched: Any, error: Exception) -> None:
        """We failed to follow an operation, which is no fault of the model's: all that it touched is unknown."""
        why = fault_of_ours(f"following {func}", error)
        self.faults.append(why)
        self._unseen(str(func), why)
        for t in tree_leaves(touched):
            if isinstance(t, Tensor):
                try:
                    self._put(t, self._unknown(t, why))
                except Exception:  # then nothing is known any more
                    self.broken = why

    def _opaque(self, func: Any, args: Any, kwargs: Any) -> Any:
        if self.deaf:
            return func(*args, **kwargs)
        name = func.name() if isinstance(func, HigherOrderOperator) else ""
        if name == "cond":
            return self._one_of_two(*args, **kwargs)
        if name in RUN_FUNCTIONS:
            self._unseen(name, "runs a function of its own many times, in which nothing is followed")
        out = func(*args, **kwargs)
        found = None
        if name == "flex_attention":
            with suppress(Exception):
                found = attended_by(self.owners, args)
        for t in _tensors(out):
            self._put(t, self._unknown(t, f"{func} is not followed"))
        if found is not None:
            self._put(out[0], found)
        return out

    def _one_of_two(self, pred: Any, if_true: Any, if_false: Any, operands: Sequence[Any]) -> Any:
        """torch.cond: the branch that is taken, followed as all else is."""
        self.branched = True
        branch = if_true if pred else if_false
        push_dispatch_mode(self)
        try:
            with EnableTorchFunction():
                return branch(*operands)
        finally:
            pop_dispatch_mode()

    def _rule(self, op: Op) -> Callable[[Op, Families], Results]:
        name = op.name[:-1] if op.name.endswith("_") and op.written() else op.name
        op.name = name
        if op.func.namespace == "aten" and name in RULES:
            return RULES[name]
        if op.signature.is_view:
            return viewed
        return _unknown

    def _ruled(self, rule: Callable[[Op, Families], Results], op: Op) -> Results | None:
        try:
            return rule(op, self.families)
        except Exception as error:
            op.fault = fault_of_ours(f"following {op.func}", error)
            self.faults.append(op.fault)
            return None

    def _note(self, op: Op, found: Results | None) -> None:
        written, outputs = op.written(), op.outputs()
        results = [found] * max(len(outputs), 1) if isinstance(found, Owners) or found is None else found
        for tie in op.ties:
            self.pairing.tie(*tie)
        self._look(op)
        carried, tables = self.choices.follow(op), made_of(op)
        known = op.name in RULES or op.signature.pointwise or op.signature.is_view
        if not known and any(carried):
            self.choices.lose(reduce(int.__or__, carried))
        if written:
            for k, (t, owners, choice) in enumerate(zip(written, results, carried, strict=False)):
                owners = owners or self._unknown(t, op.fault or f"{op.func} is not followed")
                self.memory.write(t, owners._replace(choice=choice, tables=tables, made=recipe(op, k)))
            return
        for k, (t, choice) in enumerate(zip(outputs, carried, strict=False)):
            owners = (results[k] if k < len(results) else None) or self._lose(op, t)
            if not _fits(owners, t):
                self.faults.append(f"{op.func}: owners {list(owners.point.shape)} of {list(t.shape)}")
                owners = self._lose(op, t)
            owners = owners._replace(choice=choice, tables=tables, made=recipe(op, k))
            self._put(t, owners)
            if owners.weight:
                self._name(op, owners)

    @property
    def past(self) -> int:
        """The bits of the activations so far, and of the tensors of the batch that met weights."""
        return self._crossed | (self.families.fed & self.families.inputs)

    def _unknown(self, t: Tensor, why: str) -> Owners:
        return lost(t.ndim, why, past=self.past)

    def cross(self, y: Tensor, bit: int) -> None:
        """An activation was seen, and this came out: nothing before it is checked again."""
        self._crossed |= bit
        self._recent.clear()
        self._activated.append(weakref.ref(y))

    def _look(self, op: Op) -> None:
        """Report one-sided operations that no tap saw: by name, or by what they do to values."""
        if not any(op.of(t).data for t in op.tensors()):
            return
        if op.name.startswith("scatter") and isinstance(src := op["src"], Tensor):
            wrote = op.of(src)
            if wrote.picked and not wrote.choice:  # else a tap saw who was chosen
                self._unseen("topk")
        kind = "" if self._judged else self._kind(op)
        if kind:
            if kind == "masked":
                self._unseen(kind)
            else:
                self._unseen(op.name.rstrip("_"), kind=kind)
            self._recent.clear()  # what comes behind it would show the same again
        for y in op.outputs() if _computes(op) else ():
            if _has_values(y) and not op.written():
                self._recent.append(Glimpse.of(y))

    def _kind(self, op: Op) -> str:
        """In which way an operation is one-sided, by its name or by what it does to values; empty if it is not."""
        if op.name.rstrip("_") in ONE_SIDED:
            return op.name.rstrip("_")
        with suppress(RuntimeError, NotImplementedError):  # some tensor has no values to look at
            if masks_units(op, self.families) or looks_up(op, self._is_activated):
                return "masked"
            if _is_floored(op):
                return "a ReLU"
        writes = op.name.rstrip("_") in WRITES
        for y in (
            (op.written() or op.outputs()) if writes else op.outputs() if _computes(op) and not op.written() else ()
        ):
            if _has_values(y) and (kind := self._compare(op, y)):
                return kind
        return ""

    def _compare(self, op: Op, y: Tensor) -> str:
        """In which way what came out is one-sided in something that came out shortly before."""
        given = op["self"] if op.name in ("mul", "div") and not isinstance(op["other"], Tensor) else None
        alike = [(g, z) for g in self._recent if (z := g.ref()) is not None and z.shape == y.shape and z is not given]
        if not alike:
            return ""
        some, y = values_of(y), y.detach()
        before = [(glimpse.now(z), z.detach()) for glimpse, z in alike]
        if any(may_be_one_sided(few, some) and is_one_sided(z, y) for few, z in before):
            return "a ReLU"
        if op.name in SPELLS and any(may_gate_itself(few, some) and gates_itself(z, y) for few, z in before):
            return "a leaky or smooth ReLU"
        return ""

    def _is_activated(self, t: Tensor) -> bool:
        """Whether a tensor is what came out of an activation, or a view of it."""
        return any(storage_id(t) == storage_id(y) for ref in self._activated if (y := ref()) is not None)

    def _lose(self, op: Op, t: Tensor) -> Owners:
        return op.lost(t.ndim) if any(op.of(x).data for x in op.tensors()) else op.plain(t.ndim)

    def _name(self, op: Op, owners: Owners) -> None:
        """What is made of a parameter is called after it; a slice says which."""
        parent = next((op.of(t).source for t in op.tensors() if op.of(t).weight), None)
        self.families.trace(op, parent, owners.source)
        name = self._names.get(parent, "")
        if op.name in ("stack", "cat"):  # of slices of one, it is of that one
            of = {self._names.get(self.owners(t).source, "").partition("[")[0] for t in op.tensors()}
            name = of.pop() if len(of) == 1 else name
        if name and owners.source is not None and owners.source not in self._names:
            self._names[owners.source] = f"{name}[{op['index']}]" if op.name == "select" and not op["dim"] else name


def _memory_of(t: Tensor) -> frozenset[int]:
    """Where a tensor's numbers lie; nothing where it has none of its own, or none yet."""
    try:
        return frozenset((storage_id(t),))
    except (RuntimeError, NotImplementedError, ValueError):
        return frozenset()


def _fits(owners: Owners, t: Tensor) -> bool:
    """Whether owners have the rank of a tensor, and along each axis its size or 1."""
    shape = t.shape
    for owner in (owners.point, owners.unit):
        own = owner.shape
        if own != shape and (len(own) != len(shape) or any(n not in (1, m) for n, m in zip(own, shape, strict=True))):
            return False
    return True


def _early(op: Op) -> Callable[[Op, Families], Results] | None:
    """The rule of what may happen in place, which is read beforehand."""
    if op.signature.pointwise:
        return elementwise
    return viewed if op.signature.moves_itself else None


def _why_not_followed(t: Tensor) -> str:
    """Why a tensor that does not lie in memory entry by entry is not followed."""
    if is_functorch_wrapped_tensor(t):
        return "it is inside a transform of torch.func, such as vmap or grad, where a tensor is not followed"
    kind = "nested" if t.is_nested else str(t.layout).removeprefix("torch.sparse_").replace("_", " ")
    kind = kind if t.is_nested else f"sparse ({kind})" if t.layout != torch.strided else type(t).__name__
    return f"a tensor of the kind {kind} is not followed"


def _is_floored(op: Op) -> bool:
    """Whether of data and zeros side by side the larger is taken, or the smaller, as in stack([z, zeros]).amax(0)."""
    if op.name not in ("amax", "amin", "max", "min") or "dim" not in op:
        return False
    x, dim = op["self"], op["dim"]
    dim = dim[0] if isinstance(dim, Sequence) and len(dim) == 1 else dim
    point = op.of(x).point
    if not isinstance(dim, int) or not x.ndim or point.shape[dim] != 2:
        return False
    plain = [bool((side == NONE).all()) for side in point.unbind(dim)]
    return plain.count(True) == 1 and not bool(x.detach().select(dim, plain.index(True)).any())


def _computes(op: Op) -> bool:
    """Whether an operation makes numbers that may be what units compute, or an activation of them."""
    return op.signature.pointwise or op.name in REDUCES or op.name in MAKES_Z


def _has_values(t: Tensor) -> bool:
    known = t.layout == torch.strided and not t.is_meta and type(t) in (Tensor, nn.Parameter)
    return known and t.is_floating_point() and bool(t.numel())


def _is_weight(t: Tensor) -> bool:
    return isinstance(t, nn.Parameter) or (t.requires_grad and t.is_leaf)


def _unknown(op: Op, families: Families) -> Results:
    found = [op.of(t) for t in op.tensors()]
    if any(o.data for o in found):
        return [op.lost(t.ndim) for t in op.outputs()]
    return [op.plain(t.ndim) for t in op.outputs()]


def _tensors(value: Any) -> Iterable[Tensor]:
    if isinstance(value, Tensor):
        yield value
    elif isinstance(value, list | tuple):
        for item in value:
            yield from _tensors(item)
