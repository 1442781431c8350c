"""Accelerate: the penalty in a loop of one's own, saved and loaded with the accelerator's state."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

from torch import nn

from ..errors import require
from ..penalties import Jumpstart
from .attachment import Attachment

with require("alive.integrations.accelerate", "alive[accelerate]"):
    from accelerate import Accelerator

FILE = "alive.json"


@contextmanager
def keeping(accelerator: Accelerator, model: nn.Module, **options: Any) -> Iterator[Jumpstart]:
    """A Jumpstart on a prepared model, whose state `save_state` and `load_state` of the accelerator keep.

        model, optimiser, loader = accelerator.prepare(model, optimiser, loader)
        with keeping(accelerator, model, weight="auto") as keep:
            for x, y in loader:
                with accelerator.accumulate(model):
                    accelerator.backward(loss(model(x), y) + keep.penalty())
                    optimiser.step()
                    optimiser.zero_grad()

    With gradient accumulation the accelerator divides loss and penalty alike, so the penalty is the mean over the
    batches. At the end of the block, and after an exception, model and accelerator are as before.
    """
    attachment = Attachment(options)

    def save(models: list[nn.Module], weights: list[Any], folder: str) -> None:
        if accelerator.is_main_process:
            attachment.save(Path(folder) / FILE)

    def load(models: list[nn.Module], folder: str) -> None:
        attachment.load(Path(folder) / FILE)

    with ExitStack() as at_end:
        at_end.callback(attachment.detach)
        attachment.attach(model)
        for handle in (
            accelerator.register_save_state_pre_hook(save),
            accelerator.register_load_state_pre_hook(load),
        ):
            at_end.callback(handle.remove)
        assert attachment.keep is not None
        yield attachment.keep
