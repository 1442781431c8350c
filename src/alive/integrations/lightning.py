"""Lightning: a callback that adds the penalty to the loss of training_step, logs it, and is saved with the run."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from torch import Tensor

from ..errors import AliveError, require
from .attachment import Attachment, Replaced
from .probe import Probe

with require("alive.integrations.lightning", "alive[lightning]"):
    try:
        from lightning.pytorch import Callback, LightningModule, Trainer
    except ImportError:
        from pytorch_lightning import Callback, LightningModule, Trainer


class AliveCallback(Callback):  # type: ignore[misc]
    """`Trainer(callbacks=[AliveCallback()])`: the penalty in the loss of training_step; options are those of Jumpstart.

    It is attached when fit begins and let go of when it ends, well or not. It is logged as alive/penalty; with a
    `probe` a census is logged after every `probe.every`-th epoch. Checkpoints hold the state.
    """

    def __init__(self, *, probe: Probe | None = None, **options: Any) -> None:
        self.probe, self.attachment = probe, Attachment(options)
        self._step: Replaced | None = None
        self._has_run = False

    def setup(self, trainer: Trainer, pl_module: LightningModule, stage: str) -> None:
        """A run from its beginning takes nothing over from the run before; a checkpoint is loaded after this."""
        if trainer.global_step == 0 and self._has_run:
            self.attachment.load_state_dict({})
            self._has_run = False

    def on_fit_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """Attach, and put the penalty into training_step."""
        if not pl_module.automatic_optimization:
            raise AliveError(
                f"{type(pl_module).__name__} makes its steps by hand, so no loss passes the callback",
                "Take no callback: make an alive.Jumpstart, and add its penalty() before manual_backward",
            )
        model = trainer.strategy.model
        self.attachment.attach(pl_module if model is None else model)
        self._step = Replaced(
            pl_module, "training_step", lambda *args, **kw: self._add(trainer, pl_module, *args, **kw)
        )

    def _add(self, trainer: Trainer, pl_module: LightningModule, step: Any, *args: Any, **kwargs: Any) -> Any:
        """What training_step gave, with the penalty in its loss; a step that is skipped has none."""
        self.attachment.progress(trainer.global_step, trainer.estimated_stepping_batches)
        self.attachment.forget()
        made = step(*args, **kwargs)
        loss = made.get("loss") if isinstance(made, Mapping) else made
        if not isinstance(loss, Tensor):  # nothing, or what Lightning refuses itself
            self.attachment.forget()
            return made
        total = self.attachment.add(loss)
        pl_module.log_dict(self.attachment.read())
        return {**made, "loss": total} if isinstance(made, Mapping) else total

    def on_train_epoch_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """Take a census, if one is due."""
        if self.probe is not None:
            found = self.probe.look(pl_module, trainer.current_epoch + 1)
            pl_module.log_dict(found)

    def on_fit_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """Let go."""
        self._let_go()

    def on_exception(self, trainer: Trainer, pl_module: LightningModule, exception: BaseException) -> None:
        """Let go."""
        self._let_go()

    def teardown(self, trainer: Trainer, pl_module: LightningModule, stage: str) -> None:
        """Let go."""
        self._let_go()

    def _let_go(self) -> None:
        if self._step is not None:
            self._step.restore()
            self._step, self._has_run = None, True
        self.attachment.detach()

    def state_dict(self) -> dict[str, Any]:
        """What checkpoints hold of it."""
        return self.attachment.state_dict()

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Go on from there."""
        self.attachment.load_state_dict(state_dict)
        self._has_run = False
