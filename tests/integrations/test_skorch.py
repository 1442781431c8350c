"""skorch: the penalty of a loop by hand, its state in the history, nothing left behind."""

from __future__ import annotations

import pickle

import pytest
import torch
from by_hand import BATCH, EPOCHS, LR, X, Y, network, same, trained_by_hand, weights
from hooks import hooks_of
from sklearn.base import clone
from torch import nn

pytest.importorskip("skorch")
from skorch import NeuralNetClassifier
from skorch.callbacks import Callback, Checkpoint, LoadInitState

from alive import AliveError, Jumpstart
from alive.integrations.probe import Probe
from alive.integrations.skorch import AliveCallback

pytestmark = pytest.mark.filterwarnings("ignore")


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.net = network()

    def forward(self, x):
        return self.net(x)


def made(*callbacks, epochs=EPOCHS, **settings):
    return NeuralNetClassifier(
        Net,
        criterion=nn.CrossEntropyLoss,
        max_epochs=epochs,
        lr=LR,
        batch_size=BATCH,
        train_split=None,
        verbose=0,
        callbacks=list(callbacks),
        **settings,
    )


def by_epochs(step, steps):
    return (step // 4) / (steps // 4)


class Looks(Callback):
    """Runs the net in training mode between the batches."""

    def on_epoch_begin(self, net, **kwargs):
        net.module_.train()
        net.module_(X * 10)


def test_the_penalty_is_that_of_a_loop_by_hand(options, heard):
    mine = Net()
    wanted, state = trained_by_hand(mine, options, fraction=by_epochs)
    heard.clear()
    net = made(AliveCallback(options), Looks()).fit(X, Y)
    assert heard == wanted
    assert same(weights(net.module_), weights(mine))
    told = [row["penalty"] for epoch in net.history for row in epoch["batches"]]
    assert told == wanted
    kept = [row["alive"] for epoch in net.history for row in epoch["batches"] if "alive" in row]
    assert kept == [state]
    assert net.history[:, "penalty"] == [sum(wanted[:4]) / 4, sum(wanted[4:]) / 4]


@pytest.mark.parametrize("alive_first", [True, False])
def test_a_checkpoint_holds_the_state(heard, tmp_path, alive_first):
    whole = made(AliveCallback({"weight": "auto"}), epochs=4).fit(X, Y)
    wanted = heard[:]
    heard.clear()
    files = Checkpoint(dirname=str(tmp_path), monitor=None)
    both = [AliveCallback({"weight": "auto"}), files]
    made(*(both if alive_first else reversed(both)), epochs=2).fit(X, Y)
    again = made(AliveCallback({"weight": "auto"}), LoadInitState(files), epochs=2)
    if alive_first:
        again.set_params(callbacks=[LoadInitState(files), AliveCallback({"weight": "auto"})])
    again.fit(X, Y)
    assert heard == wanted
    assert same(weights(again.module_), weights(whole.module_))


def test_a_pickle_in_the_middle_of_a_fit_goes_on(heard):
    whole = made(AliveCallback({"weight": "auto"}), epochs=4).fit(X, Y)
    wanted = heard[:]
    heard.clear()
    kept = []

    class Pickle(Callback):
        def on_epoch_end(self, net, **kwargs):
            kept.append(pickle.dumps(net))

        def __reduce__(self):
            return Callback, ()

    made(AliveCallback({"weight": "auto"}), Pickle(), epochs=2).fit(X, Y)
    again = pickle.loads(kept[1])
    again.partial_fit(X, Y)
    assert heard == wanted
    assert same(weights(again.module_), weights(whole.module_))


class Break(Callback):
    def on_train_begin(self, net, **kwargs):
        if net.history:
            raise KeyError("at the beginning")

    def on_batch_end(self, net, **kwargs):
        if len(net.history) == 1 and len(net.history[-1]["batches"]) == 3:
            raise RuntimeError("on purpose")


def test_nothing_is_left_after_an_exception():
    net = made(AliveCallback(), Break()).initialize()
    before, had = hooks_of(net.module_), {*vars(net), "classes_inferred_"}
    with pytest.raises(RuntimeError, match="on purpose"):
        net.partial_fit(X, Y)
    assert hooks_of(net.module_) == before
    assert set(vars(net)) == had
    with pytest.raises(KeyError):
        net.partial_fit(X, Y)
    assert hooks_of(net.module_) == before
    net.callbacks_ = []
    net.partial_fit(X, Y)  # without the callback there is no penalty
    assert "penalty" not in net.history[-1]["batches"][0]
    assert set(vars(net)) == had


def test_two_at_once_are_refused():
    with pytest.raises(AliveError, match="at once"):
        made(AliveCallback(), ("second", AliveCallback())).fit(X, Y)
    net = made(AliveCallback()).initialize()
    with Jumpstart(net.module_), pytest.raises(AliveError, match="at once"):
        net.partial_fit(X, Y)
    assert list(filter(None, (h for each in hooks_of(net.module_) for h in each.values()))) == []


def test_scikit_learn_can_clone_and_search():
    from sklearn.model_selection import GridSearchCV

    net = clone(made(AliveCallback({"weight": 0.1}), epochs=1))
    search = GridSearchCV(net, {"lr": [0.01, 0.1]}, cv=2, refit=False).fit(X.numpy(), Y.numpy())
    assert len(search.cv_results_["params"]) == 2


def test_a_loss_that_is_none_is_told():
    class Each(nn.CrossEntropyLoss):
        def forward(self, a, b):
            return nn.functional.cross_entropy(a, b, reduction="none")

    net = made(AliveCallback())
    net.set_params(criterion=Each)
    with pytest.raises(AliveError, match="not one number"):
        net.fit(X, Y)


def test_a_census_stands_in_the_history():
    net = made(AliveCallback(probe=Probe(X, every=2))).fit(X, Y)
    assert net.history[-1]["alive/units"] == 12
    assert "alive/units" not in net.history[0]
    assert torch.isfinite(torch.tensor(net.history[-1]["penalty"]))
