"""Lightning with the real package: the penalty of a loop by hand, its state in checkpoints, nothing left behind."""

from __future__ import annotations

import copy
import logging
import warnings

import pytest
import torch
from by_hand import BATCH, EPOCHS, LR, X, Y, network, same, trained_by_hand, weights
from hooks import hooks_of
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

from alive import AliveError, Jumpstart
from alive.taps import watchers

pytest.importorskip("lightning")
with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    import lightning.pytorch as pl

from alive.integrations.lightning import AliveCallback
from alive.integrations.probe import Probe
from alive.integrations.sinks import CsvSink

pytestmark = pytest.mark.filterwarnings("ignore")  # Lightning's own; ours are looked at by name
logging.getLogger("lightning.pytorch").setLevel(logging.ERROR)


class Module(pl.LightningModule):
    def __init__(self, *, gives: str = "tensor", breaks_at: int | None = None):
        super().__init__()
        self.net, self.gives, self.breaks_at, self.calls = network(), gives, breaks_at, 0

    def training_step(self, batch, batch_idx):
        self.calls += 1
        if self.calls == self.breaks_at:
            raise RuntimeError("on purpose")
        x, y = batch
        logits = self.net(x)
        loss = nn.functional.cross_entropy(logits, y)
        return {"tensor": loss, "dict": {"loss": loss, "more": 1}, "none": None, "logits": logits}[self.gives]

    def forward(self, x):
        return self.net(x)

    def validation_step(self, batch, batch_idx):
        x, y = batch
        self.log("val_loss", nn.functional.cross_entropy(self.net(x), y))

    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), lr=LR)


def fit(module, *callbacks, epochs=EPOCHS, resume=None, folder=None, together=1):
    trainer = pl.Trainer(
        max_epochs=epochs,
        accelerator="cpu",
        logger=False,
        enable_checkpointing=False,
        enable_progress_bar=False,
        enable_model_summary=False,
        callbacks=list(callbacks),
        default_root_dir=folder,
        accumulate_grad_batches=together,
    )
    loader = DataLoader(TensorDataset(X, Y), batch_size=BATCH)
    trainer.fit(module, loader, loader, ckpt_path=resume)
    return trainer


@pytest.mark.parametrize("gives", ["tensor", "dict"])
def test_the_penalty_is_that_of_a_loop_by_hand(options, heard, gives):
    mine, twin = Module(), Module(gives=gives)
    wanted, state = trained_by_hand(mine, options, call=lambda module, x: module.net(x))
    heard.clear()
    callback = AliveCallback(**options)
    trainer = fit(twin, callback)
    assert heard == wanted
    assert same(weights(twin), weights(mine))
    assert callback.state_dict() == state
    assert trainer.logged_metrics["alive/penalty"].item() == pytest.approx(wanted[-1])


def test_batches_that_make_one_step_share_the_penalty(heard):
    mine, twin = Module(), Module()
    wanted, _ = trained_by_hand(mine, {"weight": "auto"}, together=2, call=lambda module, x: module.net(x))
    heard.clear()
    fit(twin, AliveCallback(weight="auto"), together=2)
    assert heard == wanted
    assert same(weights(twin), weights(mine))


def test_a_resumed_fit_goes_on_to_the_bit(options, heard, tmp_path):
    whole, parts = Module(), Module()
    fit(whole, AliveCallback(**options), epochs=4)
    wanted = heard[:]
    heard.clear()

    class Stop(pl.Callback):
        def on_train_epoch_end(self, trainer, pl_module):
            if trainer.current_epoch == 1:
                trainer.save_checkpoint(tmp_path / "half.ckpt")
                raise KeyError("power failure")

    with pytest.raises(KeyError):
        fit(parts, AliveCallback(**options), Stop(), epochs=4)
    assert len(heard) == 8
    again = Module()
    fit(again, AliveCallback(**options), epochs=4, resume=tmp_path / "half.ckpt")
    assert heard == wanted
    assert same(weights(again), weights(whole))


def test_a_new_run_takes_nothing_over_and_a_longer_one_goes_on():
    callback, other = AliveCallback(weight="auto"), AliveCallback(weight="auto")
    trainer = fit(Module(), callback)
    wanted = callback.state_dict()
    assert fit(Module(), callback).global_step == 8
    assert callback.state_dict() == wanted  # a second fold of a cross-validation
    trainer = fit(module := Module(), other)
    trainer.fit_loop.max_epochs = 2 * EPOCHS
    trainer.fit(module, DataLoader(TensorDataset(X, Y), batch_size=BATCH))
    whole = AliveCallback(weight="auto")
    fit(Module(), whole, epochs=2 * EPOCHS)
    assert other.state_dict() == whole.state_dict()


def test_nothing_is_left_after_an_exception():
    module = Module(breaks_at=3)
    before, had = hooks_of(module), set(vars(module))
    callback = AliveCallback()
    with pytest.raises(RuntimeError, match="on purpose"):
        fit(module, callback)
    assert hooks_of(module) == before
    assert "training_step" not in set(vars(module)) - had
    assert callback.attachment.keep is None
    module.breaks_at = None
    fit(module, callback)
    assert hooks_of(module) == before


def test_two_at_once_are_refused():
    module = Module()
    with pytest.raises(RuntimeError, match="more than one stateful callback of type `AliveCallback`"):
        fit(module, AliveCallback(), AliveCallback(mode="U"))  # Lightning says so itself
    with Jumpstart(module.net), pytest.raises(AliveError, match=r"at once.*Keep one of them"):
        fit(module, AliveCallback())
    assert list(watchers(module)) == []


def test_a_loss_that_is_none_is_told():
    with pytest.raises(AliveError, match=r"no loss: it got a tensor float32\[8, 2\], not one number"):
        fit(Module(gives="logits"), AliveCallback())
    fit(Module(gives="none"), AliveCallback())  # Lightning skips the step


def test_steps_by_hand_are_refused():
    module = Module()
    module.automatic_optimization = False
    with pytest.raises(AliveError, match="makes its steps by hand"):
        fit(module, AliveCallback())


def test_unknown_options_are_named():
    with pytest.raises(AliveError, match="did you mean 'weight'"):
        AliveCallback(wieght=1.0)


def test_a_census_is_logged_every_second_epoch(tmp_path):
    probe = Probe(X, every=2, sinks=[CsvSink(tmp_path / "log.csv")])
    module = Module()
    trainer = fit(module, AliveCallback(probe=probe), epochs=4)
    rows = (tmp_path / "log.csv").read_text().splitlines()
    assert [row.split(",")[0] for row in rows] == ["step", "2", "4"]
    assert trainer.logged_metrics["alive/units"] == 12
    assert probe.last is not None


def test_a_copy_of_a_module_in_training_is_its_own():
    copies = []

    class Copy(pl.Callback):
        def on_train_batch_end(self, trainer, pl_module, outputs, batch, batch_idx):
            copies.append(copy.deepcopy(pl_module))

    module = Module()
    fit(module, AliveCallback(), Copy(), epochs=1)
    first = copies[0]
    assert first.training_step.__self__ is first
    assert list(watchers(first)) == []
