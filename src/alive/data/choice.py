"""Which points a smaller data set keeps."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from ..errors import AliveError


def choose(name: str, what: str, y: Tensor, wanted: int | Sequence[int] | Tensor, *, seed: int | None) -> Tensor:
    """Numbers of the wanted points, of labels y [N]: given as they are, or a count spread evenly over classes.

    A count takes the r-th point of every class before the (r+1)-th of any, so a class that has too few gives all.
    Without one label a point, all points count as one class.

    >>> choose("toy", "training", torch.tensor([0, 0, 0, 1, 0]), 4, seed=None)
    tensor([0, 1, 2, 3])
    """
    if not isinstance(wanted, int):
        return _numbers(name, what, torch.as_tensor(wanted, device=y.device), len(y))
    if not 1 <= wanted <= len(y):
        raise AliveError(f"{name}: there are {len(y)} {what} points to choose from, not {wanted}")
    order = torch.arange(len(y))
    if seed is not None:
        order = order[torch.randperm(len(y), generator=torch.Generator().manual_seed(seed))]
    labels = y.cpu()[order] if y.dim() == 1 and not y.is_floating_point() else torch.zeros(len(y), dtype=torch.long)
    rank = _rank(labels)
    first = (rank * (int(labels.max()) + 1) + labels).argsort()[:wanted]
    return order[first].sort().values.to(y.device)


def _rank(labels: Tensor) -> Tensor:
    """How many points of the same class stand before each point."""
    by_class = labels.argsort(stable=True)
    counts = labels.bincount()
    rank = torch.empty_like(labels)
    rank[by_class] = torch.arange(len(labels)) - (counts.cumsum(0) - counts)[labels[by_class]]
    return rank


def _numbers(name: str, what: str, chosen: Tensor, points: int) -> Tensor:
    whole = chosen.dim() == 1 and len(chosen) > 0 and not chosen.is_floating_point() and chosen.dtype != torch.bool
    if not whole or chosen.min() < 0 or chosen.max() >= points:
        raise AliveError(f"{name}: {what} points must be numbers in 0..{points - 1}, at least one")
    return chosen.long()
