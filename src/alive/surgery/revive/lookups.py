"""What a model looks up in a codebook, seen while it runs."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import torch
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

from ...errors import AliveError
from ...torch_private import tree_leaves
from ..graph.calls import Call
from ..models import tensor_of
from .wires import Part

COMPARES = ("cdist", "matmul", "__matmul__", "mm", "bmm", "einsum", "linear", "addmm", "baddbmm", "sub", "__sub__")
SCALES = (1.0, 0.5, -0.5, -1.0)  # distances are often written as x² − 2xy + y², with 2x or −2x beside the codes


class _Watch(TorchFunctionMode):
    """Keeps what is compared with any of some tensors, by the memory that they or views of them lie in."""

    def __init__(self, books: Mapping[int, tuple[str, int]]) -> None:
        super().__init__()
        self.books = books
        self.met: dict[tuple[str, str], list[Tensor]] = {}

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        name = getattr(func, "__name__", "")
        given = [x for x in tree_leaves((args, kwargs or {})) if isinstance(x, Tensor)] if name in COMPARES else []
        for tensor in given:
            book, length = self.books.get(tensor.untyped_storage().data_ptr(), ("", 0))
            for other in given if book else ():
                if other is not tensor and other.ndim > 1 and other.shape[-1] == length and other.is_floating_point():
                    rows = other.detach().reshape(-1, length).double().cpu()
                    self.met.setdefault((book, name), []).append(rows)
        return func(*args, **(kwargs or {}))


def looked_up(model: nn.Module, calls: Iterable[Call], made_by: str, dead: Tensor, count: int) -> tuple[Part, Tensor]:
    """The codebook of `count` codes, and the vectors [M, d] that are looked up in it.

    Of what is compared with a tensor of so many codes, the vectors are those for which the nearest codes leave exactly
    the `dead` ones over: then it is known what is looked up. Else it is refused.
    """
    books = dict(_candidates(model, made_by, count))
    tensors = {name: tensor_of(model, name) for name in books}
    watch = _Watch({t.untyped_storage().data_ptr(): (name, t.shape[-1]) for name, t in tensors.items()})
    with torch.no_grad(), watch:
        for call in calls:
            call(model)
    for (name, _), rows in watch.met.items():
        vectors, codes = torch.cat(rows), tensors[name].detach().double().cpu()
        codes = codes.movedim(books[name].axis, -2).reshape(-1, count, codes.shape[-1])
        for scale in SCALES if len(codes) == 1 else ():
            used = torch.cdist(scale * vectors, codes[0]).argmin(1).bincount(minlength=count)
            if torch.equal((used == 0).nonzero().flatten(), dead):
                return books[name], scale * vectors
    known = f"of {', '.join(books)}" if books else f"(none has {count})"
    raise AliveError(f"it is not known what is looked up in the codes {known}: no nearest neighbours leave these over")


def _candidates(model: nn.Module, made_by: str, count: int) -> Iterable[tuple[str, Part]]:
    """Tensors that hold so many vectors; those of the module that made the choice first."""
    tensors = [*model.named_parameters(), *model.named_buffers()]
    for name, tensor in sorted(tensors, key=lambda each: not (made_by and each[0].startswith(made_by))):
        axes = [d for d, size in enumerate(tensor.shape[:-1]) if size == count]
        if axes and tensor.is_floating_point():
            yield name, Part(name, axes[-1])
