"""Hugging Face Trainer: the penalty in compute_loss, its state in checkpoints, and censuses as a callback."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch

from ..errors import AliveError, require
from .attachment import LOSS, Attachment
from .probe import Probe

with require("alive.integrations.huggingface", "alive[huggingface]"):
    from transformers import Trainer, TrainerCallback
    from transformers.trainer_callback import ExportableState


class AliveMixin:
    """Adds the penalty to the training loss of any Trainer: `class Mine(AliveMixin, SomeTrainer)`.

    `alive` holds the options of `alive.Jumpstart`. The penalty is attached at the first step and let go of when train()
    ends, well or not; its state is part of every checkpoint. The loss that is logged holds the penalty, which is also
    logged by itself, as alive/penalty.
    """

    def __init__(self, *args: Any, alive: Mapping[str, Any] | None = None, **kwargs: Any) -> None:
        self.alive = Attachment(alive or {})
        super().__init__(*args, **kwargs)
        self.add_callback(JumpstartState(self.alive))  # type: ignore[attr-defined]

    def train(self, *args: Any, **kwargs: Any) -> Any:
        """As the Trainer does; nothing stays attached."""
        self.alive.load_state_dict({})
        try:
            return super().train(*args, **kwargs)  # type: ignore[misc]
        finally:
            self.alive.detach()

    def compute_loss(
        self, model: Any, inputs: Any, return_outputs: bool = False, num_items_in_batch: Any = None, **more: Any
    ) -> Any:
        """The Trainer's loss, plus the penalty while it trains."""
        trains = model.training and torch.is_grad_enabled()
        if trains:
            self._begin(model)
        named: dict[str, Any] = {"return_outputs": return_outputs, "num_items_in_batch": num_items_in_batch, **more}
        try:
            made = super().compute_loss(model, inputs, **named)  # type: ignore[misc]
        except ValueError as error:
            if "did not return a loss" in str(error):
                raise AliveError(f"the Trainer has no loss: {error}".rstrip("."), LOSS) from None
            raise
        if not trains:
            return made
        loss, *outputs = made if return_outputs else (made,)
        total = self.alive.add(loss, share=self._share(num_items_in_batch))
        return (total, *outputs) if return_outputs else total

    def log(self, logs: dict[str, float], *args: Any, **kwargs: Any) -> None:
        """What the Trainer logs of its training, with the penalty."""
        told = self.alive.read() if "loss" in logs else {}
        super().log({**logs, **told}, *args, **kwargs)  # type: ignore[misc]

    def _begin(self, model: Any) -> None:
        """Attach at the first step, when the model is as the Trainer has prepared it; tell how far the run is."""
        trainer: Any = self
        if self.alive.keep is None:
            kept = trainer.state.stateful_callbacks.get(JumpstartState.__name__) or {}
            self.alive.load_state_dict(kept.get("attributes", {}).get("saved") or {})
            for callback in trainer.callback_handler.callbacks:  # a resumed Trainer may have made it anew
                if isinstance(callback, JumpstartState):
                    callback.attachment = self.alive
            self.alive.attach(model)
        self.alive.forget()
        self.alive.progress(trainer.state.global_step, trainer.state.max_steps)

    def _share(self, items: Any) -> float:
        """The part of the penalty that belongs to one of several batches whose gradients are added up.

        The Trainer divides the loss by their number itself, unless the loss was made a part of all of them.
        """
        trainer: Any = self
        scaled = getattr(trainer, "loss_is_scaled_for_ga", None)
        if scaled is None:
            by_items = trainer.model_accepts_loss_kwargs and items is not None
            scaled = by_items or trainer.compute_loss_func is not None
        return 1.0 / trainer.current_gradient_accumulation_steps if scaled else 1.0


class JumpstartState(TrainerCallback, ExportableState):  # type: ignore[misc]
    """Carries the state of the penalty into checkpoints, and out of them."""

    def __init__(self, attachment: Attachment | None = None) -> None:
        self.attachment = attachment
        self.saved: dict[str, Any] = {}

    def state(self) -> dict[str, Any]:
        """What a checkpoint holds of it."""
        saved = self.saved if self.attachment is None else self.attachment.state_dict()
        return {"args": {}, "attributes": {"saved": saved}}


class AliveTrainer(AliveMixin, Trainer):  # type: ignore[misc]
    """A Trainer that keeps units and points alive: `AliveTrainer(model, args, alive={"weight": "auto"}, ...)`."""


class CensusCallback(TrainerCallback):  # type: ignore[misc]
    """Takes a census at every `every`-th step and at the end of training; any Trainer takes it.

    The numbers go to the sinks of the probe; the last census is `probe.last`.
    """

    def __init__(self, probe: Probe) -> None:
        self.probe = probe

    def on_step_end(self, args: Any, state: Any, control: Any, model: Any = None, **_: Any) -> None:
        """Look, if it is time."""
        self.probe.look(model, state.global_step)

    def on_train_end(self, args: Any, state: Any, control: Any, model: Any = None, **_: Any) -> None:
        """Look at the trained model, unless it was looked at just now."""
        if state.global_step % self.probe.every:
            self.probe.look(model, state.global_step, always=True)
