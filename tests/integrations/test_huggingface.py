"""The Trainer of transformers: the penalty of a loop by hand, its state in checkpoints, nothing left behind."""

from __future__ import annotations

import pytest
import torch
from by_hand import BATCH, EPOCHS, LR, X, Y, network, same, trained_by_hand, weights
from hooks import hooks_of
from torch import nn

pytest.importorskip("transformers")
pytest.importorskip("accelerate")

from transformers import Trainer, TrainerCallback, TrainingArguments
from transformers.modeling_outputs import SequenceClassifierOutput

from alive import AliveError, Jumpstart
from alive.integrations.huggingface import AliveMixin, AliveTrainer, CensusCallback
from alive.integrations.probe import Probe
from alive.integrations.sinks import CsvSink

pytestmark = pytest.mark.filterwarnings("ignore")


class Model(nn.Module):
    def __init__(self, breaks_at=None):
        super().__init__()
        self.net, self.breaks_at, self.calls = network(), breaks_at, 0

    def forward(self, x, labels=None):
        self.calls += 1
        if self.calls == self.breaks_at:
            raise RuntimeError("on purpose")
        logits = self.net(x)
        loss = None if labels is None else nn.functional.cross_entropy(logits, labels)
        return SequenceClassifierOutput(loss=loss, logits=logits)


class Scaled(Model):
    """Divides by the number of labels of all batches of a step, as language models do."""

    def forward(self, x, labels=None, num_items_in_batch=None, **kwargs):
        logits = self.net(x)
        loss = nn.functional.cross_entropy(logits, labels, reduction="sum")
        return {"loss": loss / (len(labels) if num_items_in_batch is None else num_items_in_batch), "logits": logits}


class Rows(torch.utils.data.Dataset):
    def __init__(self, labels=True):
        self.labels = labels

    def __len__(self):
        return len(X)

    def __getitem__(self, i):
        return {"x": X[i], "labels": Y[i]} if self.labels else {"x": X[i]}


def trainer(model, folder, options=None, kind=AliveTrainer, *, labels=True, callbacks=None, **settings):
    told = {
        "output_dir": str(folder),
        "num_train_epochs": EPOCHS,
        "per_device_train_batch_size": BATCH,
        "learning_rate": LR,
        "lr_scheduler_type": "constant",
        "optim": "sgd",
        "max_grad_norm": 0.0,
        "use_cpu": True,
        "report_to": [],
        "disable_tqdm": True,
        "save_strategy": "no",
        "logging_steps": 1,
        "train_sampling_strategy": "sequential",
        "remove_unused_columns": False,
    }
    args = TrainingArguments(**(told | settings))
    more = {} if kind is Trainer else {"alive": options}
    return kind(model, args, train_dataset=Rows(labels), eval_dataset=Rows(), callbacks=callbacks, **more)


def test_the_penalty_is_that_of_a_loop_by_hand(options, heard, tmp_path):
    mine, twin = Model(), Model()
    wanted, state = trained_by_hand(mine, options, call=lambda model, x: model(x).logits)
    heard.clear()
    made = trainer(twin, tmp_path, options)
    made.train()
    assert heard == wanted
    assert same(weights(twin), weights(mine))
    assert made.alive.state_dict() == state
    told = [row["alive/penalty"] for row in made.state.log_history if "alive/penalty" in row]
    assert told == wanted


@pytest.mark.parametrize("kind", [Model, Scaled])
def test_batches_that_make_one_step_share_the_penalty(kind, heard, tmp_path):
    mine, twin = kind(), kind()
    wanted, _ = trained_by_hand(mine, {"weight": "auto"}, together=2, call=lambda model, x: model.net(x))
    heard.clear()
    trainer(twin, tmp_path, {"weight": "auto"}, gradient_accumulation_steps=2).train()
    assert heard == pytest.approx(wanted, rel=1e-6)
    assert all(torch.allclose(a, b, rtol=1e-5, atol=1e-7) for a, b in zip(weights(twin), weights(mine), strict=True))


@pytest.mark.parametrize(("options", "restore"), [("auto", False), ("schedule", True)], indirect=["options"])
def test_a_resumed_run_goes_on_to_the_bit(options, heard, tmp_path, restore):
    whole = Model()
    trainer(whole, tmp_path / "whole", options).train()
    wanted = heard[:]
    heard.clear()
    parts = Model(breaks_at=6)
    saving = {"save_strategy": "steps", "save_steps": 2}
    with pytest.raises(RuntimeError, match="on purpose"):
        trainer(parts, tmp_path / "parts", options, **saving).train()
    again = Model()
    made = trainer(again, tmp_path / "parts", options, **saving, restore_callback_states_from_checkpoint=restore)
    made.train(resume_from_checkpoint=True)
    assert heard[:5] == wanted[:5]
    assert heard[5:] == wanted[4:]
    assert same(weights(again), weights(whole))


class Plain(Trainer):
    """A trainer as people write one: its loss comes alone, whatever was asked for."""

    def compute_loss(self, model, inputs, return_outputs=False, num_items_in_batch=None):
        return nn.functional.cross_entropy(model(inputs["x"]).logits, inputs["labels"])


class KeptPlain(AliveMixin, Plain):
    pass


class Looks(TrainerCallback):
    """Runs the model in training mode between the steps."""

    def on_step_begin(self, args, state, control, model=None, **kwargs):
        model.train()
        model(X * 10)


def test_a_trainer_of_ones_own_is_kept_and_passes_between_steps_do_not_count(heard, tmp_path):
    mine, twin = Model(), Model()
    wanted, _ = trained_by_hand(mine, {"weight": "auto"}, call=lambda model, x: model(x).logits)
    heard.clear()
    trainer(twin, tmp_path, {"weight": "auto"}, KeptPlain, callbacks=[Looks()]).train()
    assert heard == wanted
    assert same(weights(twin), weights(mine))


def test_nothing_is_left_after_an_exception(tmp_path):
    model = Model(breaks_at=3)
    before = hooks_of(model)
    made = trainer(model, tmp_path)
    with pytest.raises(RuntimeError, match="on purpose"):
        made.train()
    assert hooks_of(model) == before
    assert made.alive.keep is None


def test_the_loss_of_an_evaluation_has_no_penalty(tmp_path):
    model = Model()
    found = trainer(model, tmp_path, {"weight": 100.0}).evaluate()
    with torch.no_grad():
        assert found["eval_loss"] == pytest.approx(nn.functional.cross_entropy(model.net(X), Y).item(), rel=1e-5)
    assert found["eval_loss"] < 2


class Bare(nn.Module):
    """Gives logits and nothing else."""

    def __init__(self):
        super().__init__()
        self.net = network()

    def forward(self, x, labels=None):
        return self.net(x)


@pytest.mark.parametrize(("model", "labels", "told"), [(Model, False, "no loss"), (Bare, True, "not one number")])
def test_a_trainer_without_a_loss_is_told(model, labels, told, tmp_path):
    made = model()
    with pytest.raises(AliveError, match=told) as refused:
        trainer(made, tmp_path, labels=labels).train()
    assert "Give the model labels or the trainer a loss function" in str(refused.value)
    assert not any(hook for each in hooks_of(made) for hook in each.values())


def test_two_at_once_are_refused(tmp_path):
    model = Model()
    with Jumpstart(model), pytest.raises(AliveError, match="at once"):
        trainer(model, tmp_path).train()


def test_censuses_come_at_every_third_step_and_at_the_end(tmp_path):
    probe = Probe({"x": X}, every=3, sinks=[CsvSink(tmp_path / "log.csv")])
    trainer(Model(), tmp_path, kind=Trainer, callbacks=[CensusCallback(probe)]).train()
    rows = [row.split(",")[0] for row in (tmp_path / "log.csv").read_text().splitlines()]
    assert rows == ["step", "3", "6", "8"]
    assert probe.last.units.total == 12
