"""Owners: which point, and which unit, every entry of a tensor belongs to; and what operations make of them.

Both are kept as integers of the tensor's rank, with size 1 along every axis on which they do not vary: a map
[N, C, H, W] has points [N, 1, 1, 1] and units [1, C, 1, 1], whatever its size.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from functools import reduce as fold
from functools import wraps
from typing import Any, NamedTuple, TypeVar

import torch
from torch import Tensor

NONE = -2  # depends on no point, or on no unit
MANY = -1  # on several: a statistic
LOST = 1 << 30  # not understood
UNSEEN = "what they are made of comes from outside, where nothing was followed, as in another thread or process"
INPUTS = 33  # bits in `behind` for tensors of the batch, the last but one for all that are more, and for OUTSIDE
OUTSIDE = 1 << INPUTS - 1  # in `behind`: made where nothing was followed; the bits of activations follow
ROOM = 16  # numbers an owner, up to which a table of all numbers between the least and the most is made


class Recipe(NamedTuple):
    """How weights are made of others (see `copies`).

    numbers  makes them again, with numbers of their own in place of the parameters
    chosen   how many rows of a table the data chose for it; 0 if they chose nothing
    copies   whether something may have been copied, or left out
    steady   whether they are made of parameters alone, so that every pass makes the same numbers
    """

    numbers: Callable[[bool, dict[int, Tensor]], Tensor]
    depth: int = 0
    chosen: int = 0
    copies: bool = False
    steady: bool = True


class Owners(NamedTuple):
    """Of one tensor: the owners of its entries, and how they came about.

    data     whether it depends on any point; if not, it is a weight or a constant
    weight   whether it is made of parameters, and of no point
    source   what it was made of, for weights and constants: equal sources have equal values
    placed   whether the data decide which entry lies where, as after x[indices]
    picked   whether the data decide which units are there, as after topk
    pure     whether all data in it went through weights
    crossed  bits of the activations that lie on every path to it
    behind   bits of the activations that lie on some path to it, and of the tensors of the batch that it is made of
    choice   bits of the choices (top-k, argmax) whose indices or values it is made of
    tables   the memories of the weights and buffers it is made of, of data those that they met last
    why      how the owners were lost
    made     of weights that are made of others, or of rows of them that the data choose: how
    noise    of a constant: whether it is made of numbers drawn in the pass
    inputs   bits of the inputs that its points are of (`Pairing`)
    moved    whether its points lie in another order, or other numbers, than in the inputs
    among    of places that a sort or a top-k found among rows of points: the point of each row
    """

    point: Tensor
    unit: Tensor
    data: bool = True
    weight: bool = False
    source: Hashable = None
    placed: bool = False
    picked: bool = False
    pure: bool = False
    crossed: int = 0
    behind: int = 0
    choice: int = 0
    tables: frozenset[int] = frozenset()
    why: str = ""
    made: Recipe | None = None
    noise: bool = False
    inputs: int = 0
    moved: bool = False
    among: Tensor | None = None

    @property
    def is_foreign(self) -> bool:
        """Whether nothing is known of where it comes from, but that nothing that was followed made it."""
        return self.is_outside and self.data and not self.inputs and not bool((self.point != MANY).any())

    @property
    def is_outside(self) -> bool:
        """Whether something in it was made where nothing was followed."""
        return bool(self.behind & OUTSIDE)

    def of_points(self, t: Tensor) -> bool:
        """Whether the tensor may hold something of each point, and not only a statistic over them."""
        return has_points(self) or (t.numel() > 1 and (self.is_outside or bool((self.point == LOST).any())))


def _nobody(ndim: int, code: int) -> Tensor:
    return torch.full((1,) * ndim, code, dtype=torch.int32)


USUAL = {(ndim, code): _nobody(ndim, code) for ndim in range(7) for code in (NONE, MANY, LOST)}


def nobody(ndim: int, code: int = NONE) -> Tensor:
    """One code for all entries of a tensor of that rank; owners are never written to, so that one tensor does."""
    usual = USUAL.get((ndim, code))
    return _nobody(ndim, code) if usual is None else usual


def constant(ndim: int, source: Hashable, *, weight: bool = False) -> Owners:
    """A tensor that depends on no point."""
    return Owners(nobody(ndim), nobody(ndim), data=False, weight=weight, source=source)


def shared(ndim: int) -> Owners:
    """A tensor that comes with the batch and belongs to no single point."""
    why = "what they are made of comes with the batch, and belongs to no single point"
    return Owners(nobody(ndim, MANY), nobody(ndim), why=why)


def foreign(ndim: int, past: int = 0) -> Owners:
    """A tensor of unknown origin: its owners are unknown, and any of the past may be behind it."""
    return Owners(nobody(ndim, MANY), nobody(ndim), behind=OUTSIDE | past, why=UNSEEN)


def lost(ndim: int, why: str, like: Sequence[Owners] = (), past: int = 0) -> Owners:
    """A tensor whose owners are unknown, and why; of nothing that is known, any of the past may be behind it."""
    common = together(like) | {"data": True}
    if not like:
        common["behind"] = OUTSIDE | past
    return Owners(nobody(ndim, LOST), nobody(ndim, LOST), **common | {"why": common["why"] or why})


def together(operands: Sequence[Owners]) -> dict[str, Any]:
    """What every result of these operands has in common."""
    data = [o for o in operands if o.data]
    return {
        "data": bool(data),
        "placed": any(o.placed for o in data),
        "picked": any(o.picked for o in data),
        "pure": all(o.pure for o in data),
        "crossed": fold(int.__and__, (o.crossed for o in data)) if data else 0,
        "behind": fold(int.__or__, (o.behind for o in data), 0),
        "choice": fold(int.__or__, (o.choice for o in data), 0),
        "why": next((o.why for o in data if o.why), ""),
        "inputs": _inputs(data),
        "moved": any(o.moved for o in data),
    }


def _inputs(operands: Sequence[Owners]) -> int:
    """The inputs whose points an operation of these has: what is a statistic of another gives way."""
    several = len({o.inputs for o in operands}) > 1
    return fold(int.__or__, (o.inputs for o in operands if not several or has_points(o)), 0)


def has_points(o: Owners) -> bool:
    """Whether the point of any entry is known."""
    return has_names(o.point)


def shares_units(a: Tensor, b: Tensor) -> bool:
    """Whether some unit is an owner in both."""
    named = a[(a >= 0) & (a != LOST)]
    return bool(torch.isin(named, b.flatten().contiguous()).any())


def aligned(owner: Tensor, ndim: int) -> Tensor:
    """The same with axes of size 1 in front, as broadcasting adds them."""
    return owner if owner.ndim == ndim else owner.view((1,) * (ndim - owner.ndim) + tuple(owner.shape))


def squeezed(owner: Tensor) -> Tensor:
    """The same with size 1 along axes that were only expanded."""
    for axis, (size, stride) in enumerate(zip(owner.shape, owner.stride(), strict=True)):
        if size > 1 and stride == 0:
            owner = owner.narrow(axis, 0, 1)
    return owner


Told = TypeVar("Told")


def remembered(tell: Callable[[Tensor], Told]) -> Callable[[Tensor], Told]:
    """What is told of an owner, which never changes, is told once."""
    name = f"_alive_{tell.__name__}"

    @wraps(tell)
    def told(owner: Tensor) -> Told:
        known = owner.__dict__
        if name not in known:
            known[name] = tell(owner)
        found: Told = known[name]
        return found

    return told


@remembered
def varying(owner: Tensor) -> list[int]:
    """The axes along which the owner really changes."""
    return [d for d in range(owner.ndim) if varies(owner, d)]


def varies(owner: Tensor, axis: int) -> bool:
    """Whether the owner really changes along an axis."""
    return owner.shape[axis] > 1 and not torch.equal(owner, owner.narrow(axis, 0, 1).expand_as(owner))


@remembered
def spread(owner: Tensor) -> list[int]:
    """The axes along which several owners lie; entries of nobody do not count."""
    return [d for d, size in enumerate(owner.shape) if size > 1 and _lie_along(owner, d)]


def _lie_along(owner: Tensor, axis: int) -> bool:
    high = owner.amax(axis, keepdim=True)
    low = torch.where(owner < 0, high, owner).amin(axis, keepdim=True)
    return bool(((low < high) & (high != LOST)).any())


@remembered
def has_names(owner: Tensor) -> bool:
    """Whether the owner of any entry is known."""
    return bool(((owner >= 0) & (owner != LOST)).any())


@remembered
def names_of(owner: Tensor) -> Tensor:
    """The owners that there are, in order."""
    names: Tensor = owner[(owner >= 0) & (owner != LOST)].unique()
    return names


@remembered
def is_lost(owner: Tensor) -> bool:
    """Whether the owner of some entry is not understood."""
    return owner.numel() > 0 and int(owner.max()) == LOST


def compact(owner: Tensor) -> Tensor:
    """The same with size 1 along every axis on which it does not vary."""
    axes = varying(owner)
    for axis, size in enumerate(owner.shape):
        if size > 1 and axis not in axes:
            owner = owner.narrow(axis, 0, 1)
    return owner


def joined(a: Tensor, b: Tensor) -> Tensor:
    """Owner of a sum: constants and statistics give way; two different owners are lost."""
    if a is b or (a.ndim == b.ndim and b is USUAL.get((b.ndim, NONE))) or (a.shape == b.shape and torch.equal(a, b)):
        return a
    if a.ndim == b.ndim and a is USUAL.get((a.ndim, NONE)):
        return b
    both = torch.maximum(a, b)
    clash = (a >= 0) & (b >= 0) & (a != b)
    return both.masked_fill_(clash, LOST) if bool(clash.any()) else both


def reduced(owner: Tensor, axes: Sequence[int]) -> Tensor:
    """Owner of a sum over some axes, which are kept with size 1; different owners make a statistic."""
    axes = [axis % owner.ndim for axis in axes] if owner.ndim else []
    axes = [axis for axis in axes if owner.shape[axis] > 1]
    if not axes:
        return owner
    high = owner.amax(axes, keepdim=True)
    low = torch.where(owner < 0, high, owner).amin(axes, keepdim=True)
    return torch.where((low == high) | (high == LOST), high, MANY)


def refined(a: Tensor, b: Tensor, summed: Callable[[Tensor, Tensor], Tensor] = lambda chosen, other: chosen) -> Tensor:
    """Unit of a sum: the finer of two ways to divide into units, where one refines the other; else lost.

    Units that lie side by side, as on the two branches of a skip, are `summed`; a gate of one unit gives way to what
    it gates; and units that lie across each other, as in an outer sum, are lost.
    """
    if a is b:
        return a
    ndim = max(a.ndim, b.ndim)
    a, b = aligned(a, ndim), aligned(b, ndim)
    if a.shape != b.shape and a.numel() and b.numel():  # else what does not vary would unfold
        a, b = compact(a), compact(b)
    if (told := _tell_apart(a, b)) is None:
        real = (a >= 0) & (b >= 0)
        if not bool((real & (a != b)).any()):
            return torch.maximum(a, b)
        if bool((a == LOST).any()) or bool((b == LOST).any()):
            return nobody(ndim, LOST)
        here, there = (owner[real] for owner in torch.broadcast_tensors(a, b))
        told = _tells(here, there), _tells(there, here)
    later = int(b.max() >= a.max())  # where both are as fine, the later operation gives the names
    whole = torch.broadcast_tensors(a, b)
    for which in (later, 1 - later):
        chosen, other = whole[which], whole[1 - which]
        if told[which] and not bool(((chosen < 0) & (other >= 0)).any()):
            several = all(told) and not _is_one(a[a >= 0])
            return squeezed(summed(chosen, other) if several else chosen).clone()
    return nobody(ndim, LOST)


def _tell_apart(a: Tensor, b: Tensor) -> tuple[bool, bool] | None:
    """Of units along some axes and units along the rest, all of which meet: whether one says what the other is."""
    if any(n > 1 and m > 1 for n, m in zip(a.shape, b.shape, strict=True)) or not a.numel() or not b.numel():
        return None
    if any(int(owner.min()) < 0 or int(owner.max()) == LOST for owner in (a, b)):
        return None
    return _is_one(b), _is_one(a)


def _is_one(owner: Tensor) -> bool:
    """Whether all entries are the same."""
    return owner.numel() < 2 or not bool((owner != owner.flatten()[0]).any())


def _tells(a: Tensor, b: Tensor) -> bool:
    """Whether wherever one owner lies in a row, there is always the same in another row."""
    least, most = int(a.min()), int(a.max())
    at = (a - least).long() if most - least < ROOM * len(a) else a.unique(return_inverse=True)[1]
    found = b.new_empty(int(at.max()) + 1)
    found[at] = b  # any of them
    return torch.equal(found[at], b)


def regrouped(owner: Tensor, old: Sequence[int], new: Sequence[int]) -> Tensor:
    """The owner of a tensor of shape `old` after it is viewed as `new`: only axes that are merged or split unfold."""
    owner = owner.expand(old) if 0 in old else owner
    if 0 in old:
        return owner.reshape(new)
    i = j = 0
    shape: list[int] = []
    steps: list[int] = []  # sizes to expand to before the reshape
    while i < len(old) or j < len(new):
        left, right, i0, j0 = 1, 1, i, j
        if i < len(old):
            left, i = old[i], i + 1
        if j < len(new):
            right, j = new[j], j + 1
        while left != right:
            if left < right:
                left, i = left * old[i], i + 1
            else:
                right, j = right * new[j], j + 1
        flat = all(owner.shape[d] == 1 for d in range(i0, i))
        steps += owner.shape[i0:i] if flat else old[i0:i]
        shape += [1] * (j - j0) if flat else new[j0:j]
    return owner.expand(steps).reshape(shape)
