"""A model in eval mode for a while, and then as it was.

A module's own train() may do more than set a flag: loralib's adds what was learned to the weight in eval mode, and
takes it out again in training. So such a module is asked, if its mode changes, and no other is.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn


class Modes:
    """The mode of every module of a model, parents first, and the weights of those whose train() may change them."""

    def __init__(self, model: nn.Module) -> None:
        self._modes = {module: module.training for module in model.modules()}
        asked = [
            module for module, mode in self._modes.items() if mode and (_own(module, "train") or _own(module, "eval"))
        ]
        self._weights: dict[nn.Parameter, Tensor] = {
            p: p.detach().clone()
            for module in asked
            for p in module.parameters(recurse=False)
            if type(p) is nn.Parameter and not p.is_meta
        }

    def evaluate(self) -> None:
        """Put every module into eval mode that is not."""
        for module in self._modes:
            if module.training and _own(module, "eval"):
                module.eval()
            elif module.training and _own(module, "train"):
                module.train(False)
            else:
                module.training = False

    def restore(self) -> None:
        """Put every module back into its mode, and what rounding changed on the way."""
        try:
            for module, mode in self._modes.items():
                if module.training != mode and _own(module, "train"):
                    module.train(mode)
        finally:
            for module, mode in self._modes.items():
                module.training = mode
            with torch.no_grad():
                for p, value in self._weights.items():
                    if not torch.equal(p, value):
                        p.data.copy_(value)


def _own(module: nn.Module, method: str) -> bool:
    """Whether a module has a train() or an eval() of its own; those of torch only set the flag."""
    return not getattr(module, method).__module__.startswith("torch.")
