"""SAELens: Sep-U against dead latents, as training classes that SAELens makes, trains and saves by their name."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from ..errors import require
from ..functional import Separation, aggregate, slacks

with require("alive.integrations.sae_lens", "alive[sae]"), warnings.catch_warnings():
    warnings.simplefilter("ignore")  # of its own imports
    from sae_lens import (
        GatedTrainingSAE,
        GatedTrainingSAEConfig,
        TopKTrainingSAE,
        TopKTrainingSAEConfig,
        register_sae_training_class,
    )
    from sae_lens.registry import SAE_TRAINING_CLASS_REGISTRY, get_sae_class

SEP_U = Separation(mode="U", against="death")


@dataclass
class SepUTopKTrainingSAEConfig(TopKTrainingSAEConfig):  # type: ignore[misc]
    """As SAELens's, with the weight of Sep-U; its own auxiliary loss is off unless it is asked for."""

    sep_u_coefficient: float = 1e-2
    aux_loss_coefficient: float = 0.0

    @classmethod
    def architecture(cls) -> str:
        """The name in configurations."""
        return "topk_sep_u"

    def get_inference_config_class(self) -> Any:
        """What is trained is saved as what it is when it is used: top-k."""
        return get_sae_class("topk")[1]


class SepUTopKTrainingSAE(TopKTrainingSAE):  # type: ignore[misc]
    """Top-k with the mean of squares of relu(1 − the batch's largest margin to being chosen), over the latents.

        cfg = SepUTopKTrainingSAEConfig(d_in=768, d_sae=4096, k=32)

    wherever SAELens takes the configuration of a training SAE.
    """

    def calculate_aux_loss(self, step_input: Any, feature_acts: Any, hidden_pre: Tensor, sae_out: Tensor) -> Any:
        """SAELens's own, and Sep-U."""
        losses = super().calculate_aux_loss(step_input, feature_acts, hidden_pre, sae_out)
        top = hidden_pre.detach().topk(self.cfg.k + 1, dim=-1).values
        chosen = hidden_pre.detach() >= top[..., -2:-1]
        bar = torch.where(chosen, top[..., -1:], top[..., -2:-1]).clamp(min=0)
        return {**losses, "sep_u_loss": self.cfg.sep_u_coefficient * _penalty(hidden_pre - bar)}


@dataclass
class SepUGatedTrainingSAEConfig(GatedTrainingSAEConfig):  # type: ignore[misc]
    """As SAELens's, with the weight of Sep-U."""

    sep_u_coefficient: float = 1e-2

    @classmethod
    def architecture(cls) -> str:
        """The name in configurations."""
        return "gated_sep_u"

    def get_inference_config_class(self) -> Any:
        """What is trained is saved as what it is when it is used: gated."""
        return get_sae_class("gated")[1]


class SepUGatedTrainingSAE(GatedTrainingSAE):  # type: ignore[misc]
    """Gated: a latent is on where both its gate and its magnitude are positive, and the lower one is the margin."""

    def calculate_aux_loss(self, step_input: Any, feature_acts: Any, hidden_pre: Tensor, sae_out: Tensor) -> Any:
        """SAELens's own, and Sep-U."""
        losses = super().calculate_aux_loss(step_input, feature_acts, hidden_pre, sae_out)
        gate = self.process_sae_in(step_input.sae_in) @ self.W_enc + self.b_gate
        margin = torch.minimum(gate, hidden_pre)
        return {**losses, "sep_u_loss": self.cfg.sep_u_coefficient * _penalty(margin)}


def _penalty(margin: Tensor) -> Tensor:
    return aggregate([slacks(margin.flatten(0, -2), SEP_U)], "meansq")


for _made, _config in (
    (SepUTopKTrainingSAE, SepUTopKTrainingSAEConfig),
    (SepUGatedTrainingSAE, SepUGatedTrainingSAEConfig),
):
    if _config.architecture() not in SAE_TRAINING_CLASS_REGISTRY:
        register_sae_training_class(_config.architecture(), _made, _config)
