"""A small network as a file: its weights, and what its layers have become, so that the model can be cut to it."""

from __future__ import annotations

import json
from os import PathLike
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from ...data.unpickled import safe_tensors
from ...errors import AliveError
from ...files import write_atomically
from ...nn.farkas import materialised
from ...taps import bare
from ..models import LAYERS, NORMS, copied, named, replace_module
from ..weights import ARGUMENTS, arguments

KEY = "shrunk"  # in the header of the file
SIZED = (*LAYERS, *NORMS, nn.PReLU, nn.Identity)


def save_shrunk(model: nn.Module, path: str | PathLike[str]) -> None:
    """Write a small network as .safetensors; `load_shrunk` reads it."""
    from safetensors.torch import save

    state = {name: value.detach().cpu().contiguous().clone() for name, value in model.state_dict().items()}
    write_atomically(Path(path), save(state, {KEY: json.dumps(shapes(model))}))


def load_shrunk(model: nn.Module, path: str | PathLike[str]) -> nn.Module:
    """The small network of a file, from a model as it was before: a copy, cut to size, in eval mode.

    >>> import tempfile
    >>> net = nn.Sequential(nn.Linear(2, 3), nn.ReLU(), nn.Linear(3, 1))
    >>> small = nn.Sequential(nn.Linear(2, 1), nn.ReLU(), nn.Linear(1, 1))
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     save_shrunk(small, f"{folder}/small.safetensors")
    ...     load_shrunk(net, f"{folder}/small.safetensors")[0]
    Linear(in_features=2, out_features=1, bias=True)
    """
    from safetensors import SafetensorError

    try:
        header, state = safe_tensors(path)
    except AliveError:
        raise
    except (OSError, ValueError, SafetensorError) as error:
        raise AliveError(f"cannot read {path}: {error}", "Give a file that alive shrink wrote") from None
    if KEY not in header:
        raise AliveError(f"{path} holds weights that nothing was cut from", "Load them with model.load_state_dict")
    return resized(copied(bare(model)), header[KEY], state)


def resized(model: nn.Module, header: str, state: dict[str, Tensor]) -> nn.Module:
    """The model with layers as the header says, in place, and these weights."""
    model = materialised(model)
    kind = next((p for p in model.parameters()), torch.empty(0))
    try:
        layers = [(path, str(name), dict(given)) for path, (name, given) in json.loads(header).items()]
    except (ValueError, TypeError, AttributeError, RecursionError) as error:
        raise AliveError(f"what is said of the layers cannot be read: {error}", "Write the file anew") from None
    for path, name, given in layers:
        try:
            old = model.get_submodule(path)
        except AttributeError:
            raise AliveError(
                f"the weights are of another network: there is no {named(path)}", "Build it as it was before"
            ) from None
        made = _made(name, given)
        sizes = {f"{path}.{key}".removeprefix("."): value.shape for key, value in made.state_dict().items()}
        if any(key not in state or state[key].shape != size for key, size in sizes.items()):
            raise AliveError(
                f"the weights of {named(path)} are not of the size that is said of them", "Write the file anew"
            )
        model = replace_module(model, old, made.to_empty(device=kind.device).to(kind.dtype))
    try:
        model.load_state_dict(state)
    except (RuntimeError, AttributeError) as error:
        said = str(error).strip().splitlines()[1:2] or [str(error)]
        raise AliveError(
            f"the weights are of another network: {said[0].strip().rstrip('.')}", "Build it as it was before"
        ) from None
    return model.eval()


def shapes(model: nn.Module) -> dict[str, tuple[str, dict[str, Any]]]:
    """What every layer that may have been cut is made with, by its path."""
    return {
        path: (
            type(module).__name__,
            arguments(module) | ({"bias": module.bias is not None} if isinstance(module, LAYERS) else {}),
        )
        for path, module in model.named_modules()
        if type(module) in SIZED
    }


def _made(name: str, given: dict[str, Any]) -> nn.Module:
    kinds: dict[str, Any] = {kind.__name__: kind for kind in SIZED}
    if name not in kinds or not {*ARGUMENTS[name]} <= {*given} <= {*ARGUMENTS[name], "bias"}:
        raise AliveError(f"the file names a layer {name!r} that alive shrink does not write", "Write it anew")
    listed = {key: tuple(value) if isinstance(value, list) else value for key, value in given.items()}
    try:
        with torch.device("meta"):  # which takes no memory: the sizes are those of the file
            made: nn.Module = kinds[name](**listed)
    except (ValueError, TypeError, RuntimeError, ArithmeticError) as error:
        raise AliveError(f"the file names a layer that is none: {name} with {error}", "Write it anew") from None
    return made
