"""DistributedDataParallel with find_unused_parameters: what reaches only the penalty is used all the same.

It looks for parameters below the outputs of a pass, and counts the others as done. One that gets a gradient from the
penalty alone would be done twice, which it refuses. So it is told to look again, below the penalty as well.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel

from ..torch_private import find_as_ddp, module_inside


def searching(model: nn.Module) -> DistributedDataParallel | None:
    """Who looks for unused parameters of the model; None if nobody does."""
    ddp = module_inside(model)
    return ddp if isinstance(ddp, DistributedDataParallel) and ddp.find_unused_parameters else None


def outputs(output: Any) -> list[Tensor]:
    """The tensors of an output below which it looks."""
    return [tensor for tensor in find_as_ddp(output) if tensor.requires_grad]


def show(ddp: DistributedDataParallel | None, outputs: Sequence[Tensor], penalty: Tensor) -> None:
    """Have it look below the outputs and the penalty."""
    if ddp is None or ddp.static_graph or not ddp.require_backward_grad_sync:
        return
    if penalty.requires_grad and torch.is_grad_enabled():
        ddp.reducer.prepare_for_backward([*outputs, penalty])
