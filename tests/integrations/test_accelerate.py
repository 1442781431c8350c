"""Accelerate: the penalty of a loop by hand, its state with the accelerator's, nothing left behind."""

from __future__ import annotations

import pytest
import torch
from by_hand import BATCH, EPOCHS, LR, X, Y, network, same, trained_by_hand, weights
from hooks import hooks_of
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

pytest.importorskip("accelerate")
from accelerate import Accelerator

from alive import AliveError, Jumpstart
from alive.integrations.accelerate import keeping

pytestmark = pytest.mark.filterwarnings("ignore")


def prepared(model, together=1):
    accelerator = Accelerator(cpu=True, gradient_accumulation_steps=together)
    loader = DataLoader(TensorDataset(X, Y), batch_size=BATCH)
    return accelerator, *accelerator.prepare(model, torch.optim.SGD(model.parameters(), lr=LR), loader)


def steps(accelerator, model, optimiser, loader, keep, *, epochs, done=0, total=EPOCHS):
    for epoch in range(done, done + epochs):
        for number, (x, y) in enumerate(loader):
            with accelerator.accumulate(model):
                per_epoch = len(loader) // accelerator.gradient_accumulation_steps
                step = epoch * per_epoch + number // accelerator.gradient_accumulation_steps
                keep.set_progress(step / (total * per_epoch))
                accelerator.backward(nn.functional.cross_entropy(model(x), y) + keep.penalty())
                optimiser.step()
                optimiser.zero_grad()


@pytest.mark.parametrize("together", [1, 2])
def test_the_penalty_is_that_of_a_loop_by_hand(options, heard, together):
    mine, twin = network(), network()
    wanted, state = trained_by_hand(mine, options, together=together)
    heard.clear()
    ready = prepared(twin, together)
    with keeping(*ready[:2], **options) as keep:
        steps(*ready, keep, epochs=EPOCHS)
        assert keep.state_dict() == state
    assert heard == wanted
    assert same(weights(twin), weights(mine))


def test_state_is_saved_and_loaded_with_the_accelerators(options, heard, tmp_path):
    mine = network()
    wanted, _ = trained_by_hand(mine, options)
    heard.clear()
    ready = prepared(network())
    with keeping(*ready[:2], **options) as keep:
        steps(*ready, keep, epochs=1)
        ready[0].save_state(tmp_path / "half")
    again = prepared(network(seed=9))
    with keeping(*again[:2], **options) as keep:
        again[0].load_state(tmp_path / "half")
        steps(*again, keep, epochs=1, done=1)
    assert heard == wanted
    assert same(weights(again[1]), weights(mine))


def test_a_folder_without_the_state_is_told(tmp_path):
    ready = prepared(network())
    ready[0].save_state(tmp_path)
    with keeping(*ready[:2]), pytest.raises(AliveError, match=r"no state of a penalty in .*alive\.json"):
        ready[0].load_state(tmp_path)


def test_nothing_is_left_after_an_exception(tmp_path):
    accelerator, model, *_ = prepared(network())
    before = hooks_of(model)
    with pytest.raises(RuntimeError), keeping(accelerator, model):
        raise RuntimeError
    assert hooks_of(model) == before
    accelerator.save_state(tmp_path)
    assert not (tmp_path / "alive.json").exists()


def test_two_at_once_are_refused():
    accelerator, model, *_ = prepared(network())
    with keeping(accelerator, model), pytest.raises(AliveError, match="at once"), keeping(accelerator, model):
        pass
    with Jumpstart(model), pytest.raises(AliveError, match="at once"), keeping(accelerator, model):
        pass
    assert hooks_of(model) == hooks_of(network())
