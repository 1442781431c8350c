"""Choices: what becomes of the indices and values that a top-k or an argmax chose, followed through a pass.

A choice is of units where its result meets weights or points again: the chosen values are scattered back or masked
(latents), rows of a table are looked up (codes), points are sent elsewhere (experts). An argmax that is only returned,
or compared with labels, chooses a prediction and no unit; and so does one that looks up in a table in which ids that
were not chosen are looked up too: these are words, and the choice is what the model says next.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from .looked_up import (
    WEIGHTED,
    fills_zero,
    is_beside,
    is_ids,
    others_are_zero,
    rows_of,
    stack_of,
    table_of,
    told_axes,
)
from .op import Op
from .owners import Owners, has_names, shares_units, varying

VALUES, LOOKS_UP, SENDS, READ, WEIGHS = "values", "looks up", "sends", "read", "weighs"
ODD = "odd"  # looks up in a table of another size
SUMS = "sums"  # over the points that chose alike: to send them, or for a statistic
STACKED = "stacked"  # takes one of several weights
GONE = "gone"  # where it is not followed
MIXED = "mixed"  # among ids that were given
STRAIGHT = "straight"  # to the scores, for the gradient: hard + soft − soft
INDEXED = {"index", "_unsafe_index", "index_select", "gather", "take", "embedding", "_embedding_bag", "masked_select"}
INDEXED |= {"_embedding_bag_forward_only"}
WRITES = {"scatter", "scatter_add", "scatter_reduce"}
PLACES = {"index_add", "index_copy", "index_reduce", "index_put", "_unsafe_index_put", "_index_put_impl"}
MASKED = {"mul", "where", "masked_fill"}
COMPARED = {"eq", "ne", "lt", "le", "gt", "ge"}
SHIFTED = {"add", "sub", "rsub", "div", "maximum", "minimum", "fmax", "fmin"}
STACKS = {"index", "_unsafe_index", "index_select"}
KEEPS = {"clone", "_to_copy", "contiguous", "alias", "detach"}  # each entry where it is, as pointwise operations do


class Part(NamedTuple):
    """Some of what one choice chose: the bit of the choice, which of its entries, and whether their values or who.

    Where it is `moved`, a tensor made of it has them in another order, as after nonzero.
    """

    choice: int
    places: Tensor
    values: bool = False
    moved: bool = False


class Scores(NamedTuple):
    """What was chosen by: how many candidates there are, their units, and the tables that the scores are made of."""

    size: int
    units: Tensor
    tables: frozenset[int]


class Decoded(NamedTuple):
    """Which values were not 0 when they met weights, and whether they were of one choice alone."""

    on: Tensor
    alone: bool


class Choices:
    """All choices of one pass, and parts of them, a bit each.

    `Owners.choice` holds the bits of what a tensor is made of. Who was chosen has the bit of the choice itself; the
    chosen values, and any part of both, bits of their own.
    """

    def __init__(self) -> None:
        self._scores: dict[int, Scores] = {}  # by choice
        self._parts: list[Part] = []
        self._elsewhere: dict[int, int] = {}  # by bit: that of the same part in another order
        self._words: set[int] = set()  # tables in which ids are looked up that were not chosen
        self._asked: dict[int, set[frozenset[int]]] = {}  # by choice: the tables that it looks up in
        self._judged: list[Tensor] = []  # the units of what is compared with labels
        self._uses: list[dict[str, tuple[int, ...]]] = []
        self._decoded: dict[tuple[int, int], Decoded] = {}  # by choice and number of values
        # By choice and table: what the table is made of, and the entries looked up there.
        self._tables: dict[int, dict[int, tuple[frozenset[int], list[Tensor]]]] = {}

    def begin(self, size: int, shape: Sequence[int], scores: Owners) -> int:
        """Of `size` candidates, whose scores have these owners, some were chosen, told by indices of this shape."""
        bit = 1 << len(self._parts)
        self._scores[bit] = Scores(size, scores.unit, scores.tables)
        places = torch.arange(torch.Size(shape).numel(), dtype=torch.int32).view(torch.Size(shape))
        return self._add(Part(bit, places))

    def values_of(self, bit: int) -> int:
        """The bit of the values that a choice chose."""
        return self._add(self._parts[_number(bit)]._replace(values=True))

    def _add(self, part: Part) -> int:
        self._parts.append(part)
        self._uses.append({})
        return 1 << (len(self._parts) - 1)

    def _in_another_order(self, bits: int) -> int:
        """The bits of the same parts, of which it is not known where in a tensor they lie."""
        found = 0
        for k in _numbers(bits):
            if k not in self._elsewhere:
                part = self._parts[k]
                self._elsewhere[k] = 1 << k if part.moved else self._add(part._replace(moved=True))
            found |= self._elsewhere[k]
        return found

    def roots(self, bits: int) -> int:
        """The choices that parts are of."""
        found = 0
        for k in _numbers(bits):
            found |= self._parts[k].choice
        return found

    def uses(self, bit: int) -> dict[str, tuple[int, ...]]:
        """What became of a choice and its parts: each use, with the shape of the table that was looked up in."""
        found: dict[str, tuple[int, ...]] = {}
        for part, uses in zip(self._parts, self._uses, strict=True):
            for use, table in uses.items() if part.choice == bit else ():
                found[use] = max(table, found.get(use, ()), key=len)
        return found

    def taken(self, bit: int) -> Tensor:
        """Which of the chosen were used, in the shape of the indices: some choose more than they take."""
        found = torch.zeros(self._parts[_number(bit)].places.shape, dtype=torch.bool)
        for part, uses in zip(self._parts, self._uses, strict=True):
            if part.choice == bit and uses:
                found.view(-1)[part.places.flatten().long()] = True
        return found

    def decoded(self, bit: int, size: int) -> Decoded | None:
        """Which of so many values were not 0 when they met weights, in a row; None where that was not seen."""
        return self._decoded.get((bit, size))

    def is_of_several_tables(self, bit: int) -> bool:
        """Whether parts of what was chosen were looked up in tables of their own."""
        mine, tables = self._scores[bit].tables, list(self._tables.get(bit, {}).values())
        own = [parts for made, parts in tables if made & mine] or [parts for _, parts in tables]
        whole = self._parts[_number(bit)].places.numel()
        return len(own) > 1 and any(len(torch.cat(parts).unique()) < whole for parts in own)

    def is_near(self, bit: int) -> bool:
        """Whether the scores are made of the very rows that are looked up, as distances to codes are."""
        return any(self._scores[bit].tables & tables for tables in self._asked.get(bit, ()))

    def made_of(self, bit: int) -> frozenset[int]:
        """The tables that the scores are made of."""
        return self._scores[bit].tables

    def is_a_word(self, bit: int) -> bool:
        """Whether ids that were given are looked up where the chosen ones are: a token, not a code."""
        asked, made = self._asked.get(bit, set()), self._scores[bit].tables
        near = {tables for tables in asked if tables & made}
        if not asked:  # the last word is looked up nowhere
            return any(
                self.is_a_word(k) for k, one in self._scores.items() if one.tables == made and self._asked.get(k)
            )
        return (not near and MIXED in self.uses(bit)) or any(tables & self._words for tables in near or asked)

    def is_said(self, bit: int, said: Iterable[Owners]) -> bool:
        """Whether the scores themselves are what the model says: they come out, or are compared with labels."""
        mine = self._scores[bit].units
        return any(shares_units(mine, unit) for unit in [*(o.unit for o in said), *self._judged])

    def lose(self, bits: int) -> None:
        """Choices went into something that is not followed."""
        self._note(bits, READ)
        self._note(bits, GONE)

    def look_up(self, bits: int, table: Tensor) -> None:
        """Python takes one row of a table, by an index that was chosen."""
        self._note(bits, LOOKS_UP, table_of(table), 1)

    def follow(self, op: Op) -> list[int]:
        """Note what an operation does with choices; the bits that each of its results still carries."""
        many = max(len(op.outputs()), len(op.written()), 1)
        self._note_given(op)
        if not self._parts:
            return [0] * many
        bits = 0
        for t in op.tensors():
            bits |= op.of(t).choice
        if not bits:
            return [0] * many
        own = op.of(op["self"]).choice if isinstance(op["self"], Tensor) else 0
        if own == bits and (op.func.is_view or op.name in ("index", "index_select")) and not op.written():
            return self._part(op, bits)
        return [self._use(op, bits)] * many

    def _note_given(self, op: Op) -> None:
        """Note tables in which ids are looked up that nobody chose, and what is compared with labels."""
        if op.name in INDEXED:
            x = op["weight"] if "weight" in op else op["self"]
            ids = [t for t in op.tensors() if t is not x and not t.is_floating_point() and t.dtype != torch.bool]
            if ids and not op.of(x).data and not any(op.of(t).choice for t in ids):
                self._words |= op.of(x).tables
        elif op.name.startswith("nll_loss") and isinstance(op["self"], Tensor):
            self._judged.append(op.of(op["self"]).unit)

    def _part(self, op: Op, bits: int) -> list[int]:
        """x[:, :k] and its kin: each result is a part of what x is."""
        x, rest = op["self"], {name: value for name, value in op.given.items() if name != "self"}
        found = [0] * len(op.outputs())
        for k in _numbers(bits):
            part = self._parts[k]
            if part.moved or not _broadcasts(part.places, x):
                found = [one | 1 << k for one in found]
                continue
            moved = op.func(part.places.expand(x.shape).contiguous(), **rest)
            for n, places in enumerate([moved] if isinstance(moved, Tensor) else moved):
                found[n] |= self._add(part._replace(places=places))
        return found

    def _use(self, op: Op, bits: int) -> int:
        name = op.name.rstrip("_") if op.name.endswith("_") else op.name
        if name.endswith("_like") or name.startswith(("new_", "nll_loss")):  # where who was chosen is a label
            return 0
        if name in INDEXED:
            return self._index(op)
        if name in WRITES or name in PLACES:
            return self._written(op, name, bits)
        if name in WEIGHTED:
            return self._weigh(op)
        if name in MASKED:
            return self._mask(op, bits)
        if name in COMPARED or name in SHIFTED:
            return self._measure(op, name, bits)
        if name == "_local_scalar_dense":
            if not op["self"].is_floating_point():  # as a mean over points is
                self._note(bits, READ)
            return 0
        if name in ("min", "max", "aminmax", "any", "all") and not op.outputs()[0].ndim:  # over all, it tells nobody
            return 0
        if name in ("cat", "stack") and any(is_ids(op, t) for t in op.tensors()):
            self._note(bits, MIXED)
        stays = torch.Tag.pointwise in op.func.tags or op.func.is_view or name in KEEPS
        return bits if stays else self._in_another_order(bits)

    def _note(self, bits: int, use: str, table: tuple[int, ...] = (), asked: int = 0, rows: int = 0) -> None:
        for k in _numbers(bits):
            part = self._parts[k]
            size = self._scores[part.choice].size
            # A table [C, D] in a row, where each chosen row is told by D indices.
            flat = len(table) == 1 and size * asked == table[0] * len(part.places.unique())
            fits = size == rows if rows else size in table
            own = ODD if use == LOOKS_UP and not fits and not flat else use
            self._uses[k][own] = max(table, self._uses[k].get(own, ()), key=len)

    def _note_table(self, bits: int, op: Op, table: Tensor) -> None:
        for k in _numbers(bits):
            part = self._parts[k]
            known = self._tables.setdefault(part.choice, {})
            known.setdefault(table.data_ptr(), (op.of(table).tables, []))[1].append(part.places.flatten())
        self._ask(bits, op, [table])

    def _that(self, use: str) -> int:
        """The bits of the choices that were used so, with all their parts."""
        used = {part.choice for part, uses in zip(self._parts, self._uses, strict=True) if use in uses}
        return sum(1 << k for k, part in enumerate(self._parts) if part.choice in used)

    def _values(self) -> int:
        """The bits of values."""
        return sum(1 << k for k, part in enumerate(self._parts) if part.values)

    def _measure(self, op: Op, name: str, bits: int) -> int:
        """What is compared with a chosen value is chosen with it; what is measured from one (z − max z) is not."""
        free = [t for t in op.tensors() if not op.of(t).choice and op.of(t).data and t.is_floating_point()]
        if not free:
            among = name in COMPARED and name != "eq" and not any(t.is_floating_point() for t in op.tensors())
            others = [t for t in op.tensors() if not op.of(t).choice]
            return 0 if among and all(not op.of(t).data for t in others) else bits  # whoever has a number below 3
        if name in COMPARED:
            return self.roots(bits)
        out = op.outputs()[0]
        for t in free if not bits & self._values() else ():
            if t.shape == out.shape:
                kin = [k for k in _numbers(self.roots(bits)) if self._is_by(1 << k, op.of(t).unit)]
                self._note(sum(1 << k for k in kin), STRAIGHT)
        return 0 if all(t.shape != out.shape for t in op.tensors() if op.of(t).choice) else bits

    def _is_by(self, bit: int, unit: Tensor) -> bool:
        """Whether units are those by whose scores a choice was made."""
        return shares_units(unit, self._scores[bit].units)

    def _index(self, op: Op) -> int:
        """x[i]: a look-up where x is a table, values again where i tells units, points sent elsewhere otherwise."""
        x = op["weight"] if "weight" in op else op["self"]
        own = op.of(x)
        asked = [t for t in op.tensors() if t is not x]
        bits = 0
        for t in asked:
            bits |= op.of(t).choice
        if not bits:
            return own.choice
        if not own.data and not own.choice & bits:
            if not own.tables:  # eye(C)[i] is another spelling of one_hot(i, C)
                return self._in_another_order(bits)
            if is_beside(op, asked):
                return 0
            table = table_of(x)
            self._note_table(bits, op, x)
            stack = stack_of(op, x, bits) if len(table) > 2 and op.name in STACKS else None
            if stack is not None and len(table) - len(stack) > 0:  # matrices are taken: the weights of experts
                self._note(bits, SENDS)
                self._note(bits, STACKED, stack)
            else:
                self._note(bits, LOOKS_UP, stack or table, max(t.numel() for t in asked), rows_of(op, x))
            if isinstance(times := op["per_sample_weights"], Tensor):  # of a bag
                self._note(op.of(times).choice & self._values(), VALUES)
            return 0
        kept = self._in_another_order(own.choice)
        if own.choice and not x.is_floating_point():  # who was chosen, of those that were
            return kept | self._in_another_order(bits)
        told = told_axes(op, own)
        if own.choice & bits or (told and not self._is_of_others(op, own, bits)):
            return kept | (bits & ~self._that(SENDS))
        if told:  # of what all experts made, those that were chosen
            counts = {x.shape[d] for d in told}
            bits = sum(1 << k for k in _numbers(bits) if self._scores[self._parts[k].choice].size in counts)
        self._note(bits & ~self._values(), SENDS)  # by how large a value is, nobody is chosen
        return kept

    def _is_of_others(self, op: Op, own: Owners, bits: int) -> bool:
        """Whether x[i] takes what many units made, as of experts that all ran, and not the units that were scored."""
        if set(varying(own.unit)) <= set(told_axes(op, own)):
            return False
        return not any(self._is_by(1 << k, own.unit) for k in _numbers(self.roots(bits)))

    def _written(self, op: Op, name: str, bits: int) -> int:
        src = next((op[n] for n in ("src", "source", "values") if n in op and isinstance(op[n], Tensor)), None)
        if src is None or not (wrote := op.of(src)).data:
            return self._in_another_order(bits)
        if wrote.choice and name in (WRITES | {"index_put", "_index_put_impl"}):
            if not src.is_floating_point():
                self._note(wrote.choice, MIXED)
            elif op.of(op["self"]).choice or others_are_zero(op):
                self._note(wrote.choice, VALUES)
            return self._in_another_order(bits)
        if name not in PLACES:
            return self._in_another_order(bits)
        if not is_beside(op, [i for i in op["indices"] or () if i is not None] if "indices" in op else []):
            self._note(bits & ~self._values(), SENDS)
        return 0

    def _weigh(self, op: Op) -> int:
        """A one-hot row times a table looks up in it; chosen values times weights are decoded."""
        operands = [t for t in op.tensors() if t.ndim]
        chosen = [t for t in operands if op.of(t).choice]
        others = [t for t in operands if not op.of(t).choice]
        for t in chosen:
            o = op.of(t)
            of_data = any(op.of(other).data for other in others)
            if of_data:
                rows = self._that(LOOKS_UP) & self._values()  # the looked-up rows, each times its value
                self._note(o.choice & rows, VALUES)
                self._note(o.choice & ~rows, SUMS)
            elif has_names(o.unit):
                self._note(o.choice, WEIGHS)
                self._ask(o.choice, op, others)
                self._decode(o.choice, t)
            else:
                who = o.choice & ~self._values()
                self._note(who, LOOKS_UP, max(map(table_of, others), key=len, default=()))
                self._ask(who, op, others)
                self._decode(who, t)
        return 0

    def _ask(self, bits: int, op: Op, tables: Sequence[Tensor]) -> None:
        for k in _numbers(self.roots(bits)):
            self._asked.setdefault(1 << k, set()).update(op.of(t).tables for t in tables)

    def _decode(self, bits: int, t: Tensor) -> None:
        roots = self.roots(bits)
        if t.is_contiguous():
            found = Decoded((t.detach() != 0).flatten(), roots & (roots - 1) == 0)
            self._decoded.update({(1 << k, t.numel()): found for k in _numbers(roots)})

    def _mask(self, op: Op, bits: int) -> int:
        """z times a mask of what was chosen: values. Anything else times a choice: points sent elsewhere, weighted."""
        out = op.outputs()[0]
        if not out.is_floating_point():
            if op.name.startswith("where") and any(is_ids(op, t) and op.of(t).data for t in op.tensors()):
                self._note(bits, MIXED)
            return bits
        if not fills_zero(op):
            return bits
        for t in op.tensors():
            o = op.of(t)
            if o.choice or not o.data or not t.is_floating_point():
                continue
            masks = [m for m in op.tensors() if op.of(m).choice]
            alike = t.shape == out.shape and all(m.shape == t.shape for m in masks)
            if not alike:  # whole maps of units, the looked-up rows, each times its value, or the results of experts
                own = sum(
                    1 << k for k in _numbers(bits & ~self._values()) if self._is_by(self._parts[k].choice, o.unit)
                )
                rows = self._that(LOOKS_UP) | own
                self._note(bits & rows, VALUES)
                self._note(bits & ~rows & ~self._values(), SENDS)
                return self._in_another_order(own)
            self._note(bits, VALUES)
        return bits


def _broadcasts(places: Tensor, x: Tensor) -> bool:
    return places.ndim == x.ndim and all(n in (1, m) for n, m in zip(places.shape, x.shape, strict=True))


def _number(bit: int) -> int:
    return bit.bit_length() - 1


def _numbers(bits: int) -> Iterable[int]:
    """Which bits are set."""
    return (k for k in range(bits.bit_length()) if bits >> k & 1)
