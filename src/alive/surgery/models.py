"""What every operation needs: a copy of a model, what it returns and how far that moved, a module or number by name."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from copy import deepcopy
from typing import Any, TypeVar

import torch
from torch import Tensor, nn

from ..diagnosis.modes import Modes
from ..errors import AliveError, reason
from ..provenance import tensors
from ..torch_private import children_of, tree_map

LAYERS = (nn.Linear, nn.Conv1d, nn.Conv2d, nn.Conv3d)
NORMS = (nn.BatchNorm1d, nn.BatchNorm2d, nn.BatchNorm3d)
Module = TypeVar("Module", bound=nn.Module)


def copied(model: Module) -> Module:
    """A copy of a model, or why torch cannot make one."""
    if torch.is_inference_mode_enabled():
        raise AliveError("parameters made in torch.inference_mode can never be trained", "Leave it for surgery")
    try:
        return deepcopy(model)
    except Exception as error:
        raise AliveError(
            f"{type(model).__name__} cannot be copied: {reason(error)}",
            "Take off what computes weights by hooks, as torch.nn.utils.remove_weight_norm and prune.remove do",
        ) from error


@contextmanager
def evaluating(*models: nn.Module) -> Iterator[None]:
    """Eval mode, no gradients and no cache of transformers inside; every module's own mode afterwards."""
    modes = [Modes(model) for model in models]
    parts = [getattr(module, "config", None) for model in models for module in model.modules()]
    caching = list({id(config): config for config in parts if getattr(config, "use_cache", None) is True}.values())
    try:
        for mode in modes:
            mode.evaluate()
        for config in caching:  # a cache is no tensor, and torch.export takes none among the outputs
            config.use_cache = False  # type: ignore[union-attr]
        with torch.no_grad():
            yield
    finally:
        for config in caching:
            config.use_cache = True  # type: ignore[union-attr]
        for mode in modes:
            mode.restore()


def outputs(model: nn.Module, example: Any) -> Any:
    """What the model returns for an example: a tensor, a tuple of arguments, or a dict of named ones.

    It is given a copy, which it may change in place.
    """
    fresh = tree_map(lambda leaf: leaf.clone() if isinstance(leaf, Tensor) else leaf, example)
    if isinstance(fresh, Mapping):
        return model(**fresh)
    return model(*fresh) if isinstance(fresh, tuple) else model(fresh)


def largest_difference(one: Any, other: Any) -> float:
    """The largest difference of two outputs, which must be tensors."""
    if not (isinstance(one, Tensor) and isinstance(other, Tensor)):
        raise AliveError(
            f"the model returns {type(one).__name__}, and only tensors can be compared",
            "Wrap the model so that it returns its logits",
        )
    return apart([one], [other])[0]


def reals(output: Any) -> list[Tensor]:
    """The tensors of real numbers in an output."""
    return [x.detach().clone() for x in tensors(output) if x.is_floating_point()]


def apart(before: Sequence[Tensor], after: Sequence[Tensor]) -> tuple[float, float]:
    """The largest difference of tensors, and the largest size of the first; a NaN makes it NaN."""
    pairs = [(a, b) for a, b in zip(before, after, strict=True) if a.numel()]
    if not pairs:
        return 0.0, 0.0
    ends = [torch.stack([(a - b).abs().max(), a.abs().max()]).double().cpu() for a, b in pairs]
    largest, scale = torch.stack(ends).amax(0).tolist()
    return largest, scale


def replace_module(model: nn.Module, old: nn.Module, new: nn.Module) -> nn.Module:
    """Put a module in the place of another, wherever it is used; gives the model, which may be the new one itself."""
    if model is old:
        return new
    for parent in list(model.modules()):
        for name, child in list(children_of(parent).items()):
            if child is old:
                parent.add_module(name, new)
    return model


def tensor_of(model: nn.Module, name: str) -> Tensor:
    """A parameter or buffer by its name."""
    holder, _, last = name.rpartition(".")
    try:
        found = getattr(model.get_submodule(holder), last)
    except AttributeError:
        found = None
    if not isinstance(found, Tensor):
        raise AliveError(f"the model has no parameter or buffer {name!r}", "Names are those of model.state_dict()")
    return found


def size(model: nn.Module) -> int:
    """How many numbers a model has to train."""
    return sum(parameter.numel() for parameter in model.parameters())


def named(path: str) -> str:
    """A path for a sentence."""
    return path or "the model itself"
