"""One file from which a run resumes to the bit: tensors and a JSON header in safetensors, never a pickle."""

from __future__ import annotations

import json
import zlib
from dataclasses import dataclass
from os import PathLike
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn, optim

from ..data.unpickled import load_tensors, safe_tensors
from ..errors import AliveError
from ..files import write_atomically

FORMAT = 1
SHRUNK = "shrunk"  # in the header of what alive.save_shrunk wrote


@dataclass(frozen=True, slots=True, eq=False)
class Checkpoint:
    """Tensors of the model, of the optimiser by parameter and key, and of the random generators; `about` is JSON."""

    model: dict[str, Tensor]
    optimiser: dict[str, dict[str, Tensor]]
    random: dict[str, Tensor]
    about: dict[str, Any]


def capture(model: nn.Module, optimiser: optim.Optimizer, about: dict[str, Any]) -> Checkpoint:
    """Copy all that the next step depends on."""
    state = model.state_dict()
    strange = [name for name, value in state.items() if not isinstance(value, Tensor)]
    if strange:
        raise AliveError(
            f"the model's state {strange[0]!r} is not a tensor and cannot be kept in a checkpoint",
            "Let the module give its extra state as a tensor, or train without a checkpoint",
        )
    names = _parameter_names(model, optimiser)
    kept = {
        names[index]: {key: _copy(value) for key, value in entry.items() if isinstance(value, Tensor)}
        for index, entry in optimiser.state_dict()["state"].items()
    }
    tensors = {name: _copy(value) for name, value in state.items()}
    return Checkpoint(tensors, kept, _random_state(), about | {"optimised": names})


def restore(checkpoint: Checkpoint, model: nn.Module, optimiser: optim.Optimizer) -> None:
    """Put a checkpoint back into a model and an optimiser of the same architecture, and set the random generators."""
    _expect_same_architecture(checkpoint.model, model.state_dict())
    names = _parameter_names(model, optimiser)
    if names != checkpoint.about["optimised"]:
        raise AliveError(
            f"the checkpoint trained {len(checkpoint.about['optimised'])} parameters, the model trains {len(names)}",
            "Freeze the same parameters as before",
        )
    model.load_state_dict(checkpoint.model)
    trained = [parameter for group in optimiser.param_groups for parameter in group["params"]]
    state = {
        index: {key: _lay_out_as(parameter, value) for key, value in checkpoint.optimiser[name].items()}
        for index, (name, parameter) in enumerate(zip(names, trained, strict=True))
        if name in checkpoint.optimiser
    }
    optimiser.load_state_dict({"state": state, "param_groups": optimiser.state_dict()["param_groups"]})
    torch.set_rng_state(checkpoint.random["cpu"])
    if torch.cuda.is_available():
        for name, value in checkpoint.random.items():
            if name != "cpu":
                torch.cuda.set_rng_state(value, name)


def save(checkpoint: Checkpoint, path: str | PathLike[str]) -> None:
    """Write a checkpoint whole or not at all: a reader finds the old file or the new one."""
    from safetensors.torch import save as to_bytes

    tensors = {f"model/{name}": value for name, value in checkpoint.model.items()}
    tensors |= {f"random/{name}": value for name, value in checkpoint.random.items()}
    for name, entry in checkpoint.optimiser.items():
        tensors |= {f"optimiser/{name}/{key}": value for key, value in entry.items()}
    about = json.dumps(checkpoint.about)
    header = {"alive": about, "format": str(FORMAT), "sum": _sum(tensors, about)}
    write_atomically(Path(path), to_bytes(tensors, header))


def load(path: str | PathLike[str]) -> Checkpoint:
    """Read a checkpoint, refusing what is damaged or not one of ours."""
    return _parse(Path(path), *_read(Path(path)))


def load_weights(model: nn.Module, path: str | PathLike[str]) -> str:
    """Put weights into a model of the same architecture; returns in words what was unwrapped, "" if nothing.

    Taken are a checkpoint, a .safetensors state dict, what `alive shrink` wrote (the model is then cut to size), and
    what torch.save wrote: a state dict, alone or as the entry "state_dict", "model_state_dict" or "model" of a mapping.
    Prefixes that wrappers add to every name are dropped.
    """
    path = Path(path)
    if path.is_file() and not _is_of_torch(path) and SHRUNK in (header := _read(path, what="file", cure=SAVE)[0]):
        from ..surgery.shrink.saving import resized

        resized(model, header[SHRUNK], _read(path)[1])
        return "cut to size, as alive shrink wrote it"
    wanted = model.state_dict()
    kept, notes = _unwrap(path, *_weights(path), wanted)
    _expect_same_architecture(kept, wanted, WEIGHTS)
    kinds = {(kept[name].dtype, value.dtype) for name, value in wanted.items() if kept[name].dtype != value.dtype}
    notes += [
        f"{str(a).removeprefix('torch.')} read as {str(b).removeprefix('torch.')}" for a, b in sorted(kinds, key=str)
    ]
    model.load_state_dict(kept)
    return ", ".join(notes)


SAVE = "Save weights with safetensors.torch.save_file(model.state_dict(), path)"
WRAPPERS = ("state_dict", "model_state_dict", "model")
PREFIXES = ("module.", "_orig_mod.", "model.")


def _weights(path: Path) -> tuple[Any, list[str]]:
    """What a file of weights holds, and what was taken off it."""
    if path.is_file() and _is_of_torch(path):
        found, notes = load_tensors(path, "Save model.state_dict() alone, not the model"), []
        while isinstance(found, dict) and (name := next((n for n in WRAPPERS if isinstance(found.get(n), dict)), None)):
            found = found[name]
            notes.append(f"taken out of {name!r}")
        return found, notes
    header, tensors = _read(path, what="file", cure=SAVE)
    return _parse(path, header, tensors).model if "alive" in header else tensors, []


def _is_of_torch(path: Path) -> bool:
    """Whether torch.save wrote it: a zip or a pickle. The header of safetensors begins at byte 8."""
    with path.open("rb") as file:
        first = file.read(9)
    return first.startswith((b"PK\x03\x04", b"\x80")) and first[8:] != b"{"


def _unwrap(path: Path, found: Any, notes: list[str], wanted: dict[str, Tensor]) -> tuple[dict[str, Tensor], list[str]]:
    """The weights without the prefixes that DataParallel, torch.compile and trainers add."""
    if not (isinstance(found, dict) and found and all(isinstance(value, Tensor) for value in found.values())):
        held = ", ".join(map(str, list(found)[:5])) if isinstance(found, dict) else f"a {type(found).__name__}"
        raise AliveError(f"{path} holds {held or 'nothing'}, and no weights by name", SAVE)
    while not found.keys() <= wanted.keys():
        own = (p for p in PREFIXES if not any(name.startswith(p) for name in wanted))
        prefix = next((p for p in own if all(name.startswith(p) for name in found)), None)
        if prefix is None:
            break
        found = {name.removeprefix(prefix): value for name, value in found.items()}
        notes = [*notes, f"prefix {prefix!r} dropped"]
    return found, notes


def _read(
    path: Path, *, what: str = "checkpoint", cure: str = "Take another file, or begin anew"
) -> tuple[dict[str, str], dict[str, Tensor]]:
    """Header and tensors of a safetensors file."""
    from safetensors import SafetensorError

    if not path.is_file():
        begin = "Leave out resume to begin, or correct the path" if what == "checkpoint" else "Correct the path"
        raise AliveError(f"there is no {what} {str(path)!r}", begin)
    try:
        return safe_tensors(path)
    except AliveError:
        raise
    except (OSError, ValueError, SafetensorError) as error:
        kind = "checkpoint" if what == "checkpoint" else "safetensors file"
        raise AliveError(f"{path} is damaged or no {kind}: {error}", cure) from None


def _parse(path: Path, header: dict[str, str], tensors: dict[str, Tensor]) -> Checkpoint:
    if not {"alive", "format", "sum"} <= header.keys():
        raise AliveError(f"{path} holds tensors but is not a checkpoint of a training run", "Correct the path")
    if header["format"] != str(FORMAT):
        raise AliveError(
            f"{path} has checkpoint format {header['format']}, expected {FORMAT}",
            "Resume with the version that wrote it",
        )
    if header["sum"] != _sum(tensors, header["alive"]):
        raise AliveError(
            f"{path} is damaged: its content does not match its checksum", "Resume from another, or begin anew"
        )
    optimiser: dict[str, dict[str, Tensor]] = {}
    for name, value in _part(tensors, "optimiser/").items():
        parameter, _, key = name.rpartition("/")
        optimiser.setdefault(parameter, {})[key] = value
    try:
        about = json.loads(header["alive"])
    except ValueError as error:
        raise AliveError(f"{path} is damaged: {error}", "Resume from another, or begin anew") from None
    return Checkpoint(_part(tensors, "model/"), optimiser, _part(tensors, "random/"), about)


def _part(tensors: dict[str, Tensor], prefix: str) -> dict[str, Tensor]:
    return {name.removeprefix(prefix): value for name, value in tensors.items() if name.startswith(prefix)}


def checksum(*parts: Tensor | str) -> int:
    """CRC-32 of numbers and texts, in order.

    >>> checksum("abc") == zlib.crc32(b"abc")
    True
    """
    total = 0
    for part in parts:
        total = zlib.crc32(part.encode() if isinstance(part, str) else _bytes(part), total)
    return total


def _sum(tensors: dict[str, Tensor], about: str) -> str:
    """Covers names, numbers and header: safetensors itself would not notice a changed number."""
    return str(checksum(about, *(part for name in sorted(tensors) for part in (name, tensors[name]))))


def _bytes(tensor: Tensor) -> memoryview:
    return tensor.detach().cpu().contiguous().reshape(-1).view(torch.uint8).numpy().data


def _copy(value: Tensor) -> Tensor:
    return value.detach().cpu().clone(memory_format=torch.contiguous_format)


def _lay_out_as(parameter: Tensor, value: Tensor) -> Tensor:
    """The value in the parameter's layout: fused optimisers pair the numbers of the two in the order of memory."""
    if value.shape != parameter.shape:
        return value
    return torch.empty_like(parameter, dtype=value.dtype, requires_grad=False).copy_(value)


def _random_state() -> dict[str, Tensor]:
    state = {"cpu": torch.get_rng_state()}
    if torch.cuda.is_available():
        state |= {f"cuda:{index}": value for index, value in enumerate(torch.cuda.get_rng_state_all())}
    return state


def _parameter_names(model: nn.Module, optimiser: optim.Optimizer) -> list[str]:
    """Names of the optimiser's parameters, in its order."""
    names = {id(parameter): name for name, parameter in model.named_parameters()}
    return [names[id(parameter)] for group in optimiser.param_groups for parameter in group["params"]]


def _expect_same_architecture(
    kept: dict[str, Tensor], wanted: dict[str, Tensor], what: tuple[str, str] | None = None
) -> None:
    """Refuse a checkpoint of another network, or with `what` weights in another shape, naming how they differ."""
    differing = [
        f"{name} ({_describe(kept[name])}, model {_describe(wanted[name])})"
        for name in kept
        if name in wanted
        and (kept[name].shape != wanted[name].shape or (what is None and kept[name].dtype != wanted[name].dtype))
    ]
    faults = {
        "missing": [name for name in wanted if name not in kept],
        "unexpected": [name for name in kept if name not in wanted],
        "different": differing,
    }
    if any(faults.values()):
        told = "; ".join(f"{len(names)} {kind}: {_first(names)}" for kind, names in faults.items() if names)
        subject, cure = what or ("the checkpoint is", "Build the network as it was, or begin anew at another path")
        raise AliveError(f"{subject} of another network: {told}", cure)


WEIGHTS = ("the weights are", "Build the network as it was when they were saved, or give its own weights")


def _describe(tensor: Tensor) -> str:
    return f"{str(tensor.dtype).removeprefix('torch.')}{list(tensor.shape)}"


def _first(names: list[str]) -> str:
    return ", ".join(names[:3]) + (", ..." if len(names) > 3 else "")
