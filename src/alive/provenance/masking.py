"""Whether an operation sets some units to zero where the data say so: a selection, however it is spelled."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import torch
from torch import Tensor

from .families import Families
from .glimpse import values_of
from .op import Op
from .owners import has_names, varying

WRITES = ("index_put", "_index_put_impl", "_unsafe_index_put")


def masks_units(op: Op, families: Families) -> bool:
    """Whether values that have units are set to zero by a mask made of the data, which differs from unit to unit."""
    for z, mask in _pairs(op):
        o, m = op.of(z), op.of(mask)
        if z.shape != mask.shape or not (o.data and m.data) or o.choice or m.choice or not z.is_floating_point():
            continue
        axes = varying(o.unit) if has_names(o.unit) else []
        if axes and _is_mask(mask) and not _is_input(op, mask, families):
            mask = mask.detach()
            if any(bool((mask != mask.narrow(d, 0, 1)).any()) for d in axes):
                return True
    return False


def looks_up(op: Op, is_activated: Callable[[Tensor], bool]) -> bool:
    """Whether rows of a table are taken by rows of one 1 and zeros, which are made of what weights made of the data.

    What comes out of an activation chooses nothing, even if it happens to be ones and zeros.
    """
    if op.name not in ("mm", "bmm", "addmm", "baddbmm", "linear"):
        return False
    operands = [t for t in op.tensors() if t.ndim > 1]
    return any(
        t.shape[-1] > 2
        and o.pure
        and not o.choice
        and not is_activated(t)
        and _is_mask(t)
        and bool(((t != 0).sum(-1) == 1).all())
        for t in operands
        if (o := op.of(t)).data and not any(op.of(other).data for other in operands if other is not t)
    )


def _pairs(op: Op) -> Iterator[tuple[Tensor, Tensor]]:
    """The pairs of values and mask that an operation may be about."""
    name = op.name.rstrip("_") if op.name.endswith("_") else op.name
    if name == "mul" and isinstance(op["other"], Tensor):
        yield op["self"], op["other"]
        yield op["other"], op["self"]
    elif name == "where" and op["condition"] is not None:
        for z, other in ((op["self"], op["other"]), (op["other"], op["self"])):
            if isinstance(z, Tensor) and _is_zero(other):
                yield z, op["condition"]
    elif name == "masked_fill" and _is_zero(op["value"]):
        yield op["self"], op["mask"]
    elif name in WRITES and len(op["indices"]) == 1 and _is_zero(op["values"]):
        yield op["self"], op["indices"][0]


def _is_zero(value: object) -> bool:
    return not bool(value.detach().any()) if isinstance(value, Tensor) else value == 0


def _is_mask(t: Tensor) -> bool:
    """Whether it holds 0 and 1, and nothing else; 1 up to rounding, as hard + soft − soft is."""
    if t.dtype == torch.bool:
        return True
    t = t.detach()
    if not t.is_floating_point() or any(min(abs(a), abs(a - 1)) > 0.1 for a in values_of(t)):
        return False
    if not bool((t == 0).any()):
        return False
    return bool(((t == 0) | ((t - 1).abs() <= 4 * torch.finfo(t.dtype).eps)).all())


def _is_input(op: Op, t: Tensor, families: Families) -> bool:
    """Whether it is a table of zeros and ones that came with the batch."""
    family = families.last(op.of(t).unit)
    return family is not None and family.made_by == "input"
