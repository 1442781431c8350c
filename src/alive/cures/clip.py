"""Bounded gradients."""

from typing import Any

from .cure import Cure


class Clip(Cure):
    """Gradients of norm 1 at most."""

    words = "clip gradients, after backward"
    small = True
    changes = "no step is driven by a gradient of a norm above 1"

    def gradients(self, model: Any) -> None:
        import torch

        torch.nn.utils.clip_grad_norm_(model.parameters(), max_norm=1.0)


CURES = {"clip": Clip()}
