"""Models of transformers from a folder on this machine; nothing is downloaded, and no code in the folder is run."""

from __future__ import annotations

import re
import zipfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from torch import nn

from ...errors import AliveError, require
from ...gate import Allowance

PREFIX = "hf:"
FOREIGN = (".h5", ".msgpack", ".gguf", ".onnx")
# Settings by which transformers picks code: implementations it brings along, and those that are always of elsewhere.
PICKS, OWN = re.compile(r"_implementation$"), ("eager", "sdpa", "flex_attention", "batched_mm", "grouped_mm")
CODE = re.compile(
    r"auto_map|trust_remote_code|custom_\w+|use_kernels|kernel_\w+|quantization_config|use_pretrained_backbone"
)
LAYERS, MOST = re.compile(r"layers?$|num_\w*(blocks|experts|stages)$|^depth"), 10_000
ADAPTER = "adapter_config.json"  # names a library, which peft would import
WEIGHTS = ("model.safetensors", "model.safetensors.index.json", "pytorch_model.bin", "pytorch_model.bin.index.json")


def folder(source: str) -> Path:
    """The folder that `hf:folder` names; there must be a config.json in it."""
    path = _find_in_cache(source.removeprefix(PREFIX)) or Path(source.removeprefix(PREFIX)).expanduser()
    if not (path / "config.json").is_file():
        what = f"{path} holds no config.json" if path.is_dir() else f"there is no folder {str(path)!r}"
        raise AliveError(
            what,
            "Give a folder that model.save_pretrained(folder) wrote, or the name of a model in the offline cache of "
            "Hugging Face; nothing is downloaded",
        )
    return path


def _find_in_cache(name: str) -> Path | None:
    """Where the offline cache keeps a model of that name, if it was ever downloaded; a folder here goes first."""
    if Path(name).expanduser().exists() or not re.fullmatch(r"[\w.-]+(/[\w.-]+)?(@[\w./-]+)?", name):
        return None
    try:
        from huggingface_hub import try_to_load_from_cache
    except ImportError:
        return None
    model, _, revision = name.partition("@")
    try:
        found = try_to_load_from_cache(model, "config.json", revision=revision or None)
    except Exception:  # which names no model
        return None
    return Path(found).parent if isinstance(found, str) else None


def has_weights(source: str) -> bool:
    """Whether the folder holds weights, or a configuration alone; weights of another framework are refused."""
    path = folder(source)
    if any((path / name).is_file() for name in WEIGHTS):
        return True
    foreign = sorted(file.name for ending in FOREIGN for file in path.glob(f"*{ending}"))
    if foreign:
        raise AliveError(f"{path} holds {foreign[0]}, which torch does not read", "Save it from a model of torch")
    return False


def model(source: str) -> nn.Module:
    """The model of a folder: with its weights, or a fresh start where there is a configuration alone."""
    path = folder(source)
    _expect_no_code(path, _configuration(path))
    _expect_few(path, _configuration(path))
    if (path / ADAPTER).exists():
        raise AliveError(
            f"{path} holds {ADAPTER}, an adapter, which is code from elsewhere",
            "Merge it into its model, and save that",
        )
    with require(source, "alive[huggingface]"):
        import transformers
    with _quiet(transformers):
        try:
            local: dict[str, Any] = {"local_files_only": True, "trust_remote_code": False}
            config = transformers.AutoConfig.from_pretrained(path, **local)
            kind = _kind(transformers, path)
            fresh = kind.from_config if kind is transformers.AutoModel else kind
            _expect_room(path, lambda: fresh(config))
            if not has_weights(source):
                made: nn.Module = fresh(config)
                return made
            made, info = kind.from_pretrained(path, config=config, local_files_only=True, output_loading_info=True)
        except Exception as error:  # a damaged folder fails in as many ways as it has files
            if isinstance(error, AliveError):
                raise
            reason = " ".join(str(error).split()).split(". ")[0].rstrip(".") or type(error).__name__
            raise AliveError(
                f"transformers cannot load {path}: {reason}", "Save it again with model.save_pretrained(folder)"
            ) from error
    _expect_whole(path, info)
    return made


def _configuration(path: Path) -> dict[str, Any]:
    file = path / "config.json"
    try:
        found = Allowance(file).json(file.read_bytes())
    except (OSError, ValueError, RecursionError) as error:
        raise AliveError(
            f"transformers cannot load {path}: config.json: {error}", "Save it again with model.save_pretrained(folder)"
        ) from None
    if not isinstance(found, dict):
        raise AliveError(f"{file} holds no configuration", "Save it again with model.save_pretrained(folder)")
    return found


def _expect_few(path: Path, settings: Any) -> None:
    """Refuse more layers than anybody could wait for."""
    for key, value in settings.items() if isinstance(settings, dict) else ():
        if LAYERS.search(str(key)) and isinstance(value, int | float) and value > MOST:
            raise AliveError(f"{path}/config.json says {key}={value:.3g}", f"Give at most {MOST:,} of them")
        _expect_few(path, value)


def _expect_no_code(path: Path, settings: Any, name: str = "") -> None:
    """Refuse settings that name code of another place, which transformers would fetch and import."""
    is_code = bool(settings) and CODE.search(name) is not None
    if isinstance(settings, str):
        is_code |= PICKS.search(name) is not None and settings not in OWN
        is_code |= name == "backbone" and not settings.isidentifier()
    if is_code:
        raise AliveError(
            f"{path}/config.json says {name}={settings!r:.80}, which is code from elsewhere, and is not fetched or run",
            "Take that line out, or write eager or sdpa",
        )
    if isinstance(settings, dict):
        for key, value in settings.items():
            _expect_no_code(path, value, str(key) if not PICKS.search(name) else name)
    elif isinstance(settings, list):
        for value in settings:
            _expect_no_code(path, value, name)


def _kind(transformers: Any, path: Path) -> Any:
    """The class that the configuration names; AutoModel where it names none."""
    names = _configuration(path).get("architectures") or []
    if not names:
        return transformers.AutoModel
    found = getattr(transformers, str(names[0]), None)
    if not (isinstance(found, type) and issubclass(found, nn.Module)):
        raise AliveError(
            f"transformers {transformers.__version__} has no model {names[0]}, which {path}/config.json names",
            "Install the version that has it; code that lies in the folder is not run",
        )
    return found


def _expect_room(path: Path, make: Callable[[], nn.Module]) -> None:
    """Refuse a model that is larger than the memory that is free, and weights that open to far more than they are."""
    for file in path.glob("*.bin"):
        if zipfile.is_zipfile(file):
            with zipfile.ZipFile(file) as archive:
                Allowance(file).entries(archive)
    try:
        with torch.random.fork_rng(devices=[]), torch.device("meta"):
            rehearsed = make()
    except Exception:  # it looks at numbers while it is made
        return
    allowance = Allowance(path / "config.json")
    allowance.limit = sum(each.nbytes for each in rehearsed.state_dict().values())
    allowance.take(allowance.limit)


def _expect_whole(path: Path, info: Any) -> None:
    """Refuse weights that are not those of the model: some of it would be left at a random start."""
    for what in ("missing_keys", "mismatched_keys"):
        if found := sorted(map(str, info.get(what) or ())):
            raise AliveError(
                f"{len(found)} weights of {path} are {what.split('_')[0]}, {found[0]} among them",
                "Save it again with model.save_pretrained(folder)",
            )


@contextmanager
def _quiet(transformers: Any) -> Iterator[None]:
    """Without the bars and warnings of transformers."""
    speech = transformers.utils.logging
    before = speech.get_verbosity(), speech.is_progress_bar_enabled()
    speech.set_verbosity_error()
    speech.disable_progress_bar()
    try:
        yield
    finally:
        speech.set_verbosity(before[0])
        if before[1]:
            speech.enable_progress_bar()
