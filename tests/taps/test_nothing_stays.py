"""Nothing of ours stays behind, wherever a pass ends: in the model, in torch, in our own code, or by an interrupt."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from hooks import hooks_of
from torch import Tensor, nn
from torch._C import _len_torch_dispatch_stack
from torch.overrides import _len_torch_function_stack
from torch.utils._python_dispatch import TorchDispatchMode

import alive
from alive import Jumpstart, census
from alive.preflight import preflight
from alive.provenance import choices, copies, families, memory, op, tracker
from alive.taps import hooks, kinds, selecting, taps


class Net(nn.Module):
    """A little of all that is followed: convolutions, norms, in-place, masks, experts, a loop, a top-k."""

    def __init__(self) -> None:
        super().__init__()
        self.conv, self.norm = nn.Conv1d(1, 3, 3, padding=1), nn.BatchNorm1d(3)
        self.inside = nn.Sequential(nn.Linear(12, 6), nn.ReLU(inplace=True), nn.Dropout(0.5))
        self.router, self.experts = nn.Linear(6, 2), nn.ModuleList(nn.Linear(6, 6) for _ in range(2))
        self.step, self.out = nn.Linear(6, 6), nn.Linear(6, 2)
        self.frozen = nn.Parameter(torch.ones(6), requires_grad=False)

    def forward(self, x: Tensor) -> Tensor:
        z = self.norm(self.conv(x[:, None]))
        h = self.inside((z * (z > 0)).flatten(1)) * self.frozen
        w, i = self.router(h).topk(1, -1)
        y = torch.zeros_like(h)
        for k, expert in enumerate(self.experts):
            rows = (i == k).any(-1).nonzero()[:, 0]
            y.index_add_(0, rows, w[rows] * F.relu(expert(h[rows])))
        for _ in range(2):
            y = torch.relu(self.step(y.t().t()) + h)
        return self.out(y)


class Stopped(Exception):
    """What the tests throw."""


def state(model: nn.Module) -> dict[str, Any]:
    """All that must be as before."""
    dynamo = torch._dynamo.eval_frame._stance
    return {
        "functions": _len_torch_function_stack(),
        "dispatch": _len_torch_dispatch_stack(),
        "hooks": hooks_of(model),
        "training": [m.training for m in model.modules()],
        "requires_grad": [p.requires_grad for p in model.parameters()],
        "grad": torch.is_grad_enabled(),
        "inference": torch.is_inference_mode_enabled(),
        "dtype": torch.get_default_dtype(),
        "stance": (dynamo.stance, dynamo.backend),
        "functorch": torch._C._functorch.maybe_current_level(),
        "attributes": [sorted(vars(m)) for m in model.modules()],
        "random": torch.get_rng_state().sum().item(),
    }


class Bomb(TorchDispatchMode):
    """Throws in the n-th operation that torch runs, the model's or ours."""

    def __init__(self, at: int, error: type[BaseException]) -> None:
        super().__init__()
        self.left, self.error = at, error

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self.left -= 1
        if not self.left:
            raise self.error("thrown")
        return func(*args, **(kwargs or {}))


@contextmanager
def in_torch(at: int, error: type[BaseException]) -> Iterator[Callable[[], bool]]:
    bomb = Bomb(at, error)
    with bomb:
        yield lambda: bomb.left <= 0
