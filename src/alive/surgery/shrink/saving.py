"""A small network as a file: its weights, and what its layers have become, so that the model can be cut to it."""

from __future__ import annotations

import json
from copy import deepcopy
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
    """Write a small network as .safetensors, which `load_shrunk` reads; into a folder a model of transformers.

    The folder is one for `from_pretrained`. It is refused where no configuration describes the small network, as where
    widths differ by layer.
    """
    from safetensors.torch import save

    if not Path(path).suffix and hasattr(model, "save_pretrained"):
        if why := fit_config(model):
            raise AliveError(
                f"no configuration of {type(model).__name__} describes the small network: {why}",
                "Write a file that ends in .safetensors, and read it with alive.surgery.load_shrunk",
            )
        model.save_pretrained(path)  # type: ignore[operator]
        return
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
        if type(old).__name__ == name and type(old) in SIZED and shape_of(old) == _as_json(given):
            continue  # as it was: what is tied to others stays tied
        made = _make(name, given)
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
        p: (type(module).__name__, shape_of(module)) for p, module in model.named_modules() if type(module) in SIZED
    }


def shape_of(module: nn.Module) -> dict[str, Any]:
    """What a layer is made with."""
    bias = {"bias": module.bias is not None} if isinstance(module, LAYERS) else {}
    return _as_json(arguments(module) | bias)


def _as_json(given: dict[str, Any]) -> dict[str, Any]:
    """Arguments as JSON has them."""
    return {key: list(value) if isinstance(value, tuple) else value for key, value in given.items()}


def fit_config(model: nn.Module) -> str:
    """Write the new widths into the configuration of a model of transformers; why not, if none describes the model.

    A configuration fits if the class builds the same tensors from it. Of one width in it, every layer has one new one.
    """
    config: Any = getattr(model, "config", None)
    if not hasattr(config, "to_dict") or not hasattr(model, "save_pretrained"):
        return ""
    here = {name: value.shape for name, value in model.state_dict().items()}
    known = _build_sizes(model, config)
    if here == known:
        return ""
    if here.keys() != known.keys():
        names = sorted(here.keys() ^ known.keys())
        return f"its architecture has no such layers as {names[0].rpartition('.')[0] or names[0]} has become"
    sizes = [(a, b) for name in here for a, b in zip(known[name], here[name], strict=True) if a != b]
    widths: dict[int, set[int]] = {}
    for before, after in sizes:
        widths.setdefault(before, set()).add(after)
    for before, found in widths.items():
        if len(found) > 1:
            return f"layers of width {before} differ now, {' and '.join(map(str, sorted(found)))}"
    trial = deepcopy(config)
    for before, (after,) in widths.items():
        fits = [name for name, value in vars(trial).items() if value == before and type(value) is int] or NAMELESS
        for name in (name for name in fits if hasattr(trial, name)):
            if _mends(model, trial, name, after, here):
                break
        else:
            return f"it has no setting for {before} units that are {after} now"
    for name, value in vars(trial).items():
        if name != "_attn_implementation" and vars(config).get(name) != value:
            setattr(config, name, value)
    return ""


NAMELESS = ["n_inner"]  # settings that are None where a width follows from others


def _mends(model: nn.Module, trial: Any, name: str, after: int, here: dict[str, torch.Size]) -> bool:
    """Set a width in a configuration, if more tensors have their size then."""
    before, wrong = getattr(trial, name), _wrong(model, trial, here)
    setattr(trial, name, after)
    if _wrong(model, trial, here) < wrong:
        return True
    setattr(trial, name, before)
    return False


def _wrong(model: nn.Module, config: Any, here: dict[str, torch.Size]) -> int:
    """How many tensors of what a configuration builds are of another size."""
    built = _build_sizes(model, config)
    return sum(built.get(name) != size for name, size in here.items())


def _build_sizes(model: nn.Module, config: Any) -> dict[str, torch.Size]:
    """The sizes of what the model's class makes of a configuration; none if it cannot."""
    try:
        with torch.device("meta"):
            return {name: value.shape for name, value in type(model)(config).state_dict().items()}
    except (ValueError, TypeError, RuntimeError, AttributeError):
        return {}


def _make(name: str, given: dict[str, Any]) -> nn.Module:
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
