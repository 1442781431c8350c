"""How a model is called: a point or two of the data, kept so that its graph can be followed later."""

from __future__ import annotations

from typing import Any, NamedTuple

from torch import Tensor, nn

from ..data.calls import take
from ..errors import AliveError
from ..torch_private import tree_map


class Example(NamedTuple):
    """How a model is called: one or two points of the data, as arguments and keywords of forward()."""

    args: tuple[Any, ...]
    keywords: dict[str, Any]
    points: int


def example_of(model: nn.Module, batch: Any, points: int) -> Example | None:
    """The first two points of a batch; None where they cannot be told from the rest."""
    try:
        found = take(model, batch)
    except AliveError:
        return None
    few = min(points, 2)

    def cut(x: Any) -> Any:
        has = isinstance(x, Tensor) and x.ndim and len(x) == points
        return x.detach()[:few].clone() if has else x

    args, keywords = tree_map(cut, (found.args, dict(found.keywords)))
    return Example(args, keywords, few) if points else None
