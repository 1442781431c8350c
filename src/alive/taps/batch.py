"""The batch that a pass is a part of."""

from __future__ import annotations

from typing import Any

from torch import Tensor

from ..provenance import leaves
from ..torch_private import storage_id


class Batch:
    """A batch that may take several passes: notices tensors of one shape that are run one by one."""

    why = (
        "the batch is a row of tensors that are run one by one, which may be points, or parts of a batch each: "
        "say point_axis=None if each is one point"
    )

    def __init__(self, batch: Any, point_axis: int | None) -> None:
        found = [leaf for leaf in leaves(batch) if isinstance(leaf, Tensor) and leaf.is_floating_point()]
        alike = point_axis is not None and len(found) > 1 and len({leaf.shape for leaf in found}) == 1
        self._storages = {storage_id(leaf): k for k, leaf in enumerate(found)} if alike else {}
        self._alone: set[int] = set()

    def enter(self, inputs: Any) -> None:
        """A pass on part of the batch begins."""
        if self._storages:
            given = {
                self._storages[s]
                for leaf in leaves(inputs)
                if isinstance(leaf, Tensor) and (s := storage_id(leaf)) in self._storages
            }
            self._alone |= given if len(given) == 1 else set()

    @property
    def doubtful(self) -> bool:
        """Whether it is unknown what a point is."""
        return len(self._storages) > 1 and len(self._alone) > 0


def shapes_of(inputs: Any) -> tuple[Any, ...]:
    """The shapes of all tensors in the inputs."""
    return tuple(tuple(leaf.shape) if isinstance(leaf, Tensor) else "packed" for leaf in leaves(inputs))
