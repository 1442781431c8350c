"""Ways against dead latents on SAELens's own benchmark: its classes, trainer, synthetic data and counters."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

import torch
from torch import Tensor

from alive.data import Data
from alive.diagnosis import census
from alive.errors import require
from alive.surgery import Part, Wires, revive

from .record import Curves, Run, RunResult, Tell
from .ways import RARE

with require("the study of SAELens", "alive[sae]"), warnings.catch_warnings():
    warnings.simplefilter("ignore")  # of its own imports
    from sae_lens import GatedTrainingSAE, GatedTrainingSAEConfig, TopKTrainingSAE, TopKTrainingSAEConfig
    from sae_lens.config import LoggingConfig, SAETrainerConfig
    from sae_lens.synthetic import (
        ActivationGenerator,
        FeatureDictionary,
        SyntheticActivationIterator,
        eval_sae_on_synthetic_data,
        zipfian_firing_probabilities,
    )
    from sae_lens.training import sae_trainer

    from alive.integrations.sae_lens import (
        SepUGatedTrainingSAE,
        SepUGatedTrainingSAEConfig,
        SepUTopKTrainingSAE,
        SepUTopKTrainingSAEConfig,
    )

FEATURES, INPUTS, BATCH, TEST = 128, 64, 128, 4096
SPREAD = 1.55  # root mean square distance of these data from their mean
CHOSEN = 3  # latents of top-k, about as many as features are on; a gated one has the weight of L1 that SAELens gives it
PLAIN = {"topk": (TopKTrainingSAE, TopKTrainingSAEConfig), "gated": (GatedTrainingSAE, GatedTrainingSAEConfig)}
SEP_U = {
    "topk": (SepUTopKTrainingSAE, SepUTopKTrainingSAEConfig),
    "gated": (SepUGatedTrainingSAE, SepUGatedTrainingSAEConfig),
}
_OWN = {"topk": ("b_enc",), "gated": ("b_gate", "b_mag", "r_mag")}
LAYER = {"topk": "activation_fn", "gated": "gate"}  # where latents are chosen, as a census names it


def wires(kind: str) -> dict[str, Wires]:
    """What makes and reads the latents: SAELens keeps bare parameters, which `revive` does not follow."""
    into = (Part("W_enc", axis=1), *map(Part, _OWN[kind]))
    return {LAYER[kind]: Wires(into, (Part("W_dec"),))}


def autoencoder(run: Run, kind: str) -> Any:
    """One of SAELens's, or ours with Sep-U; AuxK is its own loss, which is off otherwise."""
    made, config = (SEP_U if run.method.startswith("Sep-U") else PLAIN)[kind]
    own: dict[str, Any] = {} if kind == "gated" else {"k": CHOSEN}
    if kind == "topk" and not run.method.startswith("Sep-U"):
        own["aux_loss_coefficient"] = 1.0 if run.method == "AuxK" else 0.0
    if run.method.startswith("Sep-U"):
        own["sep_u_coefficient"] = float(run.option("weight", 1e-2))
    return made(config(d_in=INPUTS, d_sae=run.width, apply_b_dec_to_input=True, **own))


def train_lens(run: Run, data: Data, tell: Tell) -> RunResult:
    """One autoencoder by SAELens's trainer; the data are its synthetic ones, and the argument is not read."""
    kind, gamma = str(run.option("kind", "topk")), float(run.option("gamma", 0.0))
    with torch.random.fork_rng(devices=[]), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch.manual_seed(run.seed)
        features = FeatureDictionary(FEATURES, INPUTS, bias=gamma * SPREAD, seed=run.seed).eval()
        draw = ActivationGenerator(FEATURES, zipfian_firing_probabilities(FEATURES))
        sae = autoencoder(run, kind)
        test = features(draw.sample(TEST)).detach()
        if "centring" in run.method:
            sae.b_dec.data.copy_(features(draw.sample(BATCH)).detach().mean(0))
        curves: Curves = {}

        def look(**_: object) -> None:
            for name, value in (("epoch", trainer.n_training_steps), *measured(sae, test).items()):
                curves.setdefault(name, []).append(float(value))
            tell(trainer.n_training_steps)
            if run.method == "resampling" and trainer.n_training_steps < 0.9 * run.steps:
                own = int(torch.randint(2**31, ()))
                found = census(sae, test)
                revive(sae, found, trainer.optimizer, how="loss", data=test, exact=False, wires=wires(kind), seed=own)
                sae.train()

        trainer = sae_trainer.SAETrainer(
            cfg=_settings(run),
            sae=sae,
            data_provider=SyntheticActivationIterator(features, draw, BATCH),
            save_checkpoint_fn=look,
        )
        with _quiet():
            trainer.fit()
        look()
        theirs = eval_sae_on_synthetic_data(sae, features, draw, num_samples=TEST)
    curves["matched"] = [0.0] * (len(curves["epoch"]) - 1) + [theirs.mcc]
    return RunResult(curves, 1 - curves["unexplained"][-1], round(curves["dead"][-1] * run.width))


@contextmanager
def _quiet() -> Iterator[None]:
    """Without the trainer's own bar of progress, for there is ours."""
    own = sae_trainer.tqdm
    sae_trainer.tqdm = partial(own, disable=True)
    try:
        yield
    finally:
        sae_trainer.tqdm = own


def _settings(run: Run) -> Any:
    return SAETrainerConfig(
        n_checkpoints=4,
        checkpoint_path=None,
        save_final_checkpoint=False,
        total_training_samples=run.steps * BATCH,
        device="cpu",
        autocast=False,
        lr=run.lr,
        lr_end=run.lr,
        lr_scheduler_name="constant",
        lr_warm_up_steps=0,
        adam_beta1=0.9,
        adam_beta2=0.999,
        lr_decay_steps=0,
        n_restart_cycles=1,
        train_batch_size_samples=BATCH,
        dead_feature_window=50,
        feature_sampling_window=10 * run.steps,
        logger=LoggingConfig(log_to_wandb=False, eval_every_n_wandb_logs=2**31 - 1),
        n_batches_for_norm_estimate=10,
    )


@torch.no_grad()
def measured(sae: Any, x: Tensor) -> dict[str, float]:
    """On points not learnt from, by the library's census and by SAELens's counter of dead latents, which must agree."""
    from sae_lens.synthetic import DeadLatentsCalculator

    training = sae.training
    (layer,) = [layer for layer in census(sae.eval(), x).layers if layer.noun == "latent"]
    h = sae.encode(x)
    theirs = DeadLatentsCalculator(len(layer.states))
    theirs.add_batch(h)
    assert theirs.compute() == layer.units.dead, (theirs.compute(), layer.units.dead)
    assert layer.rates is not None
    again = sae.decode(h)
    sae.train(training)
    return {
        "dead": layer.units.dead / layer.units.total,
        "rare": float((layer.rates.values < RARE).double().mean()),
        "unexplained": float((again - x).square().sum() / (x - x.mean(0)).square().sum()),
        "chosen": float((h != 0).sum(1).double().mean()),
    }
