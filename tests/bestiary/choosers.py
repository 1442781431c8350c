"""Who was chosen by every top-k and argmax of a model, seen by putting our own functions in the place of torch's."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import pytest
import torch
from torch import Tensor, nn

Chosen = tuple[int, int, int]  # candidates, how many of them are never chosen, how many always


@contextmanager
def _spied() -> Iterator[list[Tensor]]:
    """Which candidates were chosen [rows, C] in every call meanwhile."""
    calls: list[Tensor] = []

    def spy(choose: Callable[..., Any]) -> Callable[..., Any]:
        def spied(z: Tensor, *args: Any, **kwargs: Any) -> Any:
            out = choose(z, *args, **kwargs)
            ids = out if isinstance(out, Tensor) else out.indices if hasattr(out, "indices") else None
            given = args[1:2] if choose.__name__ == "topk" else args[:1]
            axis = kwargs.get("dim", given[0] if given else -1 if choose.__name__ == "topk" else None)
            if ids is not None and z.is_floating_point() and isinstance(axis, int) and axis in (-1, z.ndim - 1):
                size = z.shape[-1]
                rows = ids.reshape(z.numel() // size, -1).tolist()
                calls.append(torch.tensor([[c in row for c in range(size)] for row in rows]))
            return out

        return spied

    with pytest.MonkeyPatch.context() as patch:
        for place in (torch, Tensor):
            for name in ("topk", "argmax", "argmin", "max", "min"):
                patch.setattr(place, name, spy(getattr(place, name)))
        yield calls


def choices(model: nn.Module, batches: Sequence[Any], run: Callable[[nn.Module, Any], Any]) -> list[Chosen]:
    """The choices of a model, those of the same place in every batch together."""
    found: list[list[Tensor]] = []
    for batch in batches:
        with _spied() as calls:
            run(model, batch)
        found += [[] for _ in range(len(calls) - len(found))]
        for place, call in zip(found, calls, strict=False):
            place.append(call)
    whole = [torch.cat(calls) for calls in found if len({call.shape[1] for call in calls}) == 1]
    return [(call.shape[1], int((~call.any(0)).sum()), int(call.all(0).sum())) for call in whole]
