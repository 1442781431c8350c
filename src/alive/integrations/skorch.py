"""skorch: a callback that adds the penalty to the training loss and keeps its state in the history."""

from __future__ import annotations

from typing import Any

from ..errors import AliveError, require
from .attachment import Attachment, Replaced
from .probe import Probe

with require("alive.integrations.skorch", "alive[skorch]"):
    from skorch import NeuralNet
    from skorch.callbacks import Callback

STATE = "alive"


class AliveCallback(Callback):  # type: ignore[misc]
    """`NeuralNetClassifier(..., callbacks=[AliveCallback()])`: the penalty in the loss while the net is fitted.

    `options` are those of `alive.Jumpstart`. train_loss holds the penalty, which stands by itself in the column
    penalty. With a `probe` a census is taken after every `probe.every`-th epoch, into columns of the history. The
    state lies in the history, with the last training batch: skorch's Checkpoint and LoadInitState keep it, as does a
    pickle of the net. While no fit runs, nothing is attached; an exception changes nothing of that.
    """

    def __init__(self, options: dict[str, Any] | None = None, *, probe: Probe | None = None) -> None:
        self.options, self.probe = options, probe

    def on_train_begin(self, net: NeuralNet, X: Any = None, y: Any = None, **kwargs: Any) -> None:
        """Be there when the fit begins, and when it ends in whichever way."""
        if any(isinstance(cb, AliveCallback) and cb is not self for _, cb in net.callbacks_):
            raise AliveError("two integrations of alive would add the penalty to this net at once", "Keep one of them")
        loop = Replaced(net, "fit_loop", lambda *args, **kw: self._fit(net, loop, *args, **kw))

    def _fit(self, net: NeuralNet, loop: Replaced, fit: Any, *args: Any, **kwargs: Any) -> Any:
        """The whole fit, with the penalty attached."""
        loop.restore()
        if not any(cb is self for _, cb in net.callbacks_):  # taken out before the fit it was called for began
            return fit(*args, **kwargs)
        attachment = Attachment(self.options or {})
        attachment.load_state_dict(_earlier_state(net))
        epochs = kwargs.get("epochs") or (args[2] if len(args) > 2 else None) or net.max_epochs
        whole = _Fit(attachment, begun=len(net.history), epochs=epochs)
        added = Replaced(net, "get_loss", whole.loss_of)
        self._running = whole
        try:
            attachment.attach(net.module_)
            return fit(*args, **kwargs)
        finally:
            del self._running
            added.restore()
            attachment.detach()

    def on_epoch_begin(
        self, net: NeuralNet, dataset_train: Any = None, dataset_valid: Any = None, **kwargs: Any
    ) -> None:
        """Tell how far the fit is."""
        if hasattr(self, "_running"):
            self._running.progress(net)

    def on_batch_begin(self, net: NeuralNet, batch: Any = None, training: bool = False, **kwargs: Any) -> None:
        """Only what runs from here on is part of the step."""
        if training and hasattr(self, "_running"):
            self._running.attachment.forget()

    def on_batch_end(self, net: NeuralNet, batch: Any = None, training: bool = False, **kwargs: Any) -> None:
        """Note the penalty, and the state in place of that of the batch before."""
        if training and hasattr(self, "_running"):
            _forget_state(net)
            attachment = self._running.attachment
            net.history.record_batch("penalty", attachment.read()["alive/penalty"])
            net.history.record_batch(STATE, attachment.state_dict())

    def on_epoch_end(self, net: NeuralNet, dataset_train: Any = None, dataset_valid: Any = None, **kwargs: Any) -> None:
        """The mean penalty of the epoch, and a census if one is due."""
        found = [row["penalty"] for row in net.history[-1]["batches"] if "penalty" in row]
        if found:
            net.history.record("penalty", sum(found) / len(found))
        if self.probe is not None:
            for name, value in self.probe.look(net.module_, len(net.history)).items():
                net.history.record(name, value)

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in vars(self).items() if name != "_running"}


class _Fit:
    """One fit under way."""

    def __init__(self, attachment: Attachment, *, begun: int, epochs: int) -> None:
        self.attachment, self.begun, self.epochs = attachment, begun, epochs

    def progress(self, net: NeuralNet) -> None:
        """By epochs, of which those of an earlier fit that is gone on with are a part."""
        self.attachment.progress(len(net.history) - 1, self.begun + self.epochs)

    def loss_of(self, get_loss: Any, *args: Any, training: bool = False, **kwargs: Any) -> Any:
        """The net's loss, plus the penalty while it trains."""
        loss = get_loss(*args, training=training, **kwargs)
        return self.attachment.add(loss) if training else loss


def _earlier_state(net: NeuralNet) -> dict[str, Any]:
    """The state that an earlier fit left in the history; empty if there was none."""
    batches = net.history[-1]["batches"] if len(net.history) else []
    return next((row[STATE] for row in reversed(batches) if STATE in row), {})


def _forget_state(net: NeuralNet) -> None:
    """Take the older state out of this epoch and the one before."""
    for epoch in net.history[-2:]:
        for row in epoch["batches"][-2 if epoch is net.history[-1] else 0 :]:
            row.pop(STATE, None)
