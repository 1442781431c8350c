"""Keras 3 on torch: the penalty in compute_loss while a model is fitted."""

from __future__ import annotations

import os
from os import PathLike
from types import TracebackType
from typing import Any, Self

from torch import Tensor

from ..errors import AliveError, require
from .attachment import Attachment, Replaced
from .probe import Probe

os.environ.setdefault("KERAS_BACKEND", "torch")
with require("alive.integrations.keras", "alive[keras]"):
    import keras


class Keeping(keras.callbacks.Callback):  # type: ignore[misc]
    """Keeps a Keras model alive inside a `with` block; it is the callback of fit too.

        with Keeping(model, weight="auto") as keep:
            model.fit(x, y, epochs=10, callbacks=[keep])

    `options` are those of `alive.Jumpstart`. The loss that fit shows holds the penalty, which stands beside it as
    alive/penalty. With a `probe` a census is logged after every `probe.every`-th epoch. `save_to` is a file that
    holds the state after every epoch, `resume_from` one to go on from. At the end of the block, and after an
    exception, the model is as before.
    """

    def __init__(
        self,
        model: keras.Model,
        *,
        probe: Probe | None = None,
        save_to: str | PathLike[str] | None = None,
        resume_from: str | PathLike[str] | None = None,
        **options: Any,
    ) -> None:
        super().__init__()
        if keras.backend.backend() != "torch":
            raise AliveError(
                f"Keras runs on {keras.backend.backend()}, and alive sees what runs on torch",
                "Set KERAS_BACKEND=torch before keras is imported",
            )
        self.attachment, self.probe, self.save_to = Attachment(options), probe, save_to
        if resume_from is not None:
            self.attachment.load(resume_from)
        self._kept, self._fits, self._epoch = model, False, 0
        self._loss: Replaced | None = None

    def __enter__(self) -> Self:
        self.attachment.attach(self._kept)
        self._loss = Replaced(self._kept, "compute_loss", self._add)
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._fits = False
        if self._loss is not None:
            self._loss.restore()
        self.attachment.detach()

    def on_train_begin(self, logs: Any = None) -> None:
        """Keras fits a model with us: it must be ours."""
        if self.attachment.keep is None or self.model is not self._kept:
            raise AliveError(
                "this callback keeps no model of this fit",
                "Write: with Keeping(model) as keep: model.fit(..., callbacks=[keep])",
            )
        if self._kept.jit_compile:
            raise AliveError(
                "this model has jit_compile=True, and torch.compile fails in Keras's layers where alive looks at them",
                "Write model.compile(..., jit_compile=False), as Keras on torch has it by default",
            )
        self._fits = True

    def on_epoch_begin(self, epoch: int, logs: Any = None) -> None:
        """Count the epochs."""
        self._epoch = epoch

    def on_train_batch_begin(self, batch: int, logs: Any = None) -> None:
        """Tell how far the fit is."""
        steps, epochs = self.params.get("steps"), self.params["epochs"]
        done, total = (self._epoch * steps + batch, epochs * steps) if steps else (self._epoch, epochs)
        self.attachment.progress(done, total)
        self.attachment.forget()

    def on_epoch_end(self, epoch: int, logs: Any = None) -> None:
        """Log the mean penalty, take a census if one is due, write the state."""
        found = self.attachment.read()
        if self.probe is not None:
            found |= self.probe.look(self._kept, epoch + 1)
        if logs is not None:
            logs.update(found)
        if self.save_to is not None:
            self.attachment.save(self.save_to)

    def on_train_end(self, logs: Any = None) -> None:
        """This fit is over; the block may have others."""
        self._fits = False

    def _add(self, compute_loss: Any, *args: Any, **kwargs: Any) -> Tensor:
        """The model's loss, plus the penalty while it trains."""
        loss: Tensor = compute_loss(*args, **kwargs)
        trains = kwargs.get("training", args[5] if len(args) > 5 else True)
        if not trains or not self._kept.training:
            return loss
        if not self._fits:
            raise AliveError("fit does not know who keeps its model alive", "Write model.fit(..., callbacks=[keep])")
        return self.attachment.add(loss)
