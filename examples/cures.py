"""Cures in other people's code on trial: `python examples/cures.py` prints a table of what `alive.check_cure` finds.

    pip install --no-deps vector-quantize-pytorch dictionary-learning sae-lens transformer-lens jaxtyping beartype

Each implementation runs as its package brings it, on 512 points; what is not installed is left out, and said.
Of dictionary_learning the trainers alone are imported, without the package's `__init__`, which wants nnsight.
"""

from __future__ import annotations

import contextlib
import io
import sys
import warnings
from collections.abc import Callable
from importlib import import_module, metadata
from importlib.util import find_spec
from types import ModuleType
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

import alive

D, WIDTH = 8, 32
Case = tuple[Callable[[], Any], Callable[..., Any], dict[str, Any]]


def data() -> list[Tensor]:
    """Two batches of 256 points around forty centres."""
    chance = torch.Generator().manual_seed(0)
    centres = torch.randn(40, D, generator=chance)
    x = centres[torch.randint(40, (512,), generator=chance)] + 0.1 * torch.randn(512, D, generator=chance)
    return list(x.split(256))


class Coder(nn.Module):
    """An encoder, somebody's quantiser and a decoder."""

    def __init__(self, quantiser: nn.Module) -> None:
        super().__init__()
        self.encode, self.quantiser, self.decode = nn.Linear(D, D), quantiser, nn.Linear(D, D)

    def forward(self, x: Tensor) -> Tensor:
        """Encode, quantise, decode."""
        return self.decode(self.quantiser(self.encode(x))[0])


def quantised(kind: str, **options: Any) -> Case:
    """A quantiser of vector-quantize-pytorch, with its own expiry of codes that are used by less than two points."""
    made = getattr(import_module("vector_quantize_pytorch"), kind)

    def make() -> tuple[nn.Module, Any]:
        model = Coder(made(dim=D, codebook_size=WIDTH, threshold_ema_dead_code=2, **options))
        return model, torch.optim.Adam(model.parameters(), 1e-3)

    def step(model: Coder, optimiser: Any, batch: Tensor) -> Tensor:
        quantised, _, commitment = model.quantiser(model.encode(batch))[:3]
        loss = F.mse_loss(model.decode(quantised), batch) + commitment.sum()
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
        return loss

    return make, step, {"steps": 60}


def dictionary(file: str, kind: str, window: int = 0, **options: Any) -> Case:
    """A trainer of dictionary_learning; `window`: after so many points a latent is dead to it, not 10 million."""
    if "dictionary_learning" not in sys.modules:
        package, spec = ModuleType("dictionary_learning"), find_spec("dictionary_learning")
        assert spec is not None
        package.__path__ = list(spec.submodule_search_locations or [])
        sys.modules["dictionary_learning"] = package
    trainers = import_module(f"dictionary_learning.trainers.{file}")

    def make() -> tuple[nn.Module, Any, Any]:
        shared = {"steps": 100_000, "activation_dim": D, "dict_size": WIDTH, "layer": 0, "lm_name": "", "device": "cpu"}
        trainer = getattr(trainers, kind)(**shared, warmup_steps=1, **options)
        trainer.at = 0
        if window:
            trainer.dead_feature_threshold = window
        return trainer.ae, trainer.optimizer, trainer

    def step(_: nn.Module, __: Any, trainer: Any, batch: Tensor) -> float:
        trainer.at += 1
        with torch.no_grad():
            loss = float(F.mse_loss(trainer.ae(batch), batch))
        trainer.update(trainer.at, batch)
        return loss

    return make, step, {"steps": 200}


def lens(kind: str, **options: Any) -> Case:
    """A training class of SAELens in its own trainer."""
    saes, config = import_module("sae_lens.saes"), import_module("sae_lens.config")
    trainer_of = import_module("sae_lens.training.sae_trainer").SAETrainer

    def make() -> tuple[nn.Module, Any, Any]:
        sae = getattr(saes, kind)(getattr(saes, f"{kind}Config")(d_in=D, d_sae=WIDTH, **options))
        told = config.SAETrainerConfig(
            total_training_samples=10**8, train_batch_size_samples=256, lr=1e-2, lr_end=1e-2, dead_feature_window=10
        )
        trainer = trainer_of(told, sae, iter(()))
        return sae, trainer.optimizer, trainer

    def step(_: nn.Module, __: Any, trainer: Any, batch: Tensor) -> float:
        found = trainer.step(batch)
        trainer.n_training_steps += 1
        return float(found.loss)

    return make, step, {"steps": 200}


def cases() -> dict[str, tuple[str, Callable[[], Case]]]:
    """What is tried: a name, the package it comes from, and how it is made."""
    vq, dl, sl = "vector-quantize-pytorch", "dictionary-learning", "sae-lens"
    resampled: dict[str, Any] = {"resample_steps": 40, "lr": 1e-3}
    return {
        "VectorQuantize, running means": (vq, lambda: quantised("VectorQuantize")),
        "VectorQuantize, cosine": (vq, lambda: quantised("VectorQuantize", use_cosine_sim=True)),
        "VectorQuantize, k-means at first": (vq, lambda: quantised("VectorQuantize", kmeans_init=True)),
        "VectorQuantize, codes learnt by gradient": (
            vq,
            lambda: quantised("VectorQuantize", ema_update=False, learnable_codebook=True),
        ),
        "ResidualVQ, running means": (vq, lambda: quantised("ResidualVQ", num_quantizers=2)),
        "GroupedResidualVQ, running means": (vq, lambda: quantised("GroupedResidualVQ", num_quantizers=2, groups=2)),
        "StandardTrainer, resampling": (dl, lambda: dictionary("standard", "StandardTrainer", **resampled)),
        "PAnnealTrainer, resampling": (dl, lambda: dictionary("p_anneal", "PAnnealTrainer", **resampled)),
        "GatedAnnealTrainer, resampling": (dl, lambda: dictionary("gated_anneal", "GatedAnnealTrainer", **resampled)),
        "TopKTrainer, auxiliary loss": (dl, lambda: dictionary("top_k", "TopKTrainer", 2560, k=4, lr=1e-2)),
        "BatchTopKTrainer, auxiliary loss": (
            dl,
            lambda: dictionary("batch_top_k", "BatchTopKTrainer", 2560, k=4, lr=1e-2),
        ),
        "TopKTrainingSAE, auxiliary loss": (sl, lambda: lens("TopKTrainingSAE", k=4)),
        "JumpReLUTrainingSAE, pre-activation loss": (
            sl,
            lambda: lens("JumpReLUTrainingSAE", l0_coefficient=0.1, pre_act_loss_coefficient=1.0),
        ),
    }


def row(name: str, package: str, make: Callable[[], Case]) -> str:
    """A line of the table."""
    try:
        version = metadata.version(package)
        with warnings.catch_warnings(), contextlib.redirect_stdout(io.StringIO()):
            warnings.simplefilter("ignore")
            made, step, options = make()
            found = alive.check_cure(made, step, data(), **options)
    except (ImportError, metadata.PackageNotFoundError) as error:
        return f"| {name} | {package} | not installed: {error} | | |"
    except alive.AliveError as error:
        return f"| {name} | {package} {version} | refused: {error} | | |"
    came = f"{len(found.revived)} of {len(found.planted)} {found.noun}s"
    faults = "; ".join(f"*{check.name}*: {check.seen}" for check in found.checks if check.fault) or "none"
    said = f"{found['stays'].answer or '·'}"
    print(found, file=sys.stderr)
    return f"| {name} | {package} {version} | {came} | {said} | {faults} |"


def main() -> None:
    """The table; names that are given as words choose."""
    torch.set_num_threads(1)
    print("| implementation | package | came back | and stayed | faults |\n|---|---|---|---|---|")
    for name, (package, make) in cases().items():
        if not sys.argv[1:] or any(word in name for word in sys.argv[1:]):
            print(row(name, package, make), flush=True)


if __name__ == "__main__":
    main()
