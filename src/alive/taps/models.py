"""Models as people have them: wrapped, compiled or declared in part; and warnings about parts that cannot be seen."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator

import torch
from torch import nn
from torch.nn.parallel import DataParallel, DistributedDataParallel

from ..errors import AliveError
from ..torch_private import children_of
from .kinds import hides


def bare(model: nn.Module) -> nn.Module:
    """The user's own module inside torch.compile, DataParallel and DistributedDataParallel."""
    if not isinstance(model, nn.Module):
        raise AliveError(
            f"expected a torch.nn.Module, got {type(model).__name__}",
            "Pass the model itself, not its output or its class",
        )
    while True:
        if isinstance(model, DataParallel | DistributedDataParallel):
            model = model.module
        elif isinstance(inner := getattr(model, "_orig_mod", None), nn.Module):
            model = inner
        elif isinstance(model, torch.jit.ScriptModule):
            raise AliveError(
                f"{type(model).__name__} is TorchScript, which calls no Python: nothing inside it can be seen",
                "Pass the model that it was made from",
            )
        else:
            return model


def named_modules(root: nn.Module) -> Iterator[tuple[str, nn.Module]]:
    """Every module that runs in Python, with its path; what torch.compile wraps around a part is no part of its own."""
    for path, module in root.named_modules():
        if not isinstance(module, torch.jit.ScriptModule) and "_orig_mod" not in children_of(module):
            yield ".".join(step for step in path.split(".") if step != "_orig_mod"), module


def tell_hidden(root: nn.Module, asked_for: Callable[[str], bool]) -> None:
    """Warn of parts whose activations cannot be seen."""
    inside = None
    for path, module in root.named_modules():
        why = hides(module)
        if why and asked_for(path) and not (inside and path.startswith(inside)):
            warnings.warn(f"{path or type(module).__name__} {why}", stacklevel=4)
            inside = f"{path}."


def expect_no_replica(module: nn.Module) -> None:
    """Refuse a replica: several run at once, in threads."""
    if "_is_replica" in module.__dict__:
        raise AliveError(
            f"{type(module).__name__} runs as one of several replicas of DataParallel, which cannot be watched",
            "Use DistributedDataParallel, or one device",
        )
