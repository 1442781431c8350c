"""Keras 3 on torch: the penalty of a loop by hand, its state in a file, nothing left behind."""

from __future__ import annotations

import pytest
import torch
from by_hand import BATCH, EPOCHS, X, Y
from hooks import hooks_of

pytest.importorskip("keras")
pytestmark = pytest.mark.filterwarnings("ignore")

import keras  # noqa: E402

from alive import AliveError, Jumpstart, census  # noqa: E402
from alive.integrations.keras import Keeping  # noqa: E402
from alive.integrations.probe import Probe  # noqa: E402

x, y = X.numpy(), Y.numpy()


def model(lr=0.05):
    keras.utils.set_random_seed(3)
    layers = keras.layers
    made = keras.Sequential(
        [keras.Input((3,)), layers.Dense(6, activation="relu"), layers.Dense(6), layers.ReLU(), layers.Dense(2)]
    )
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    made.compile(optimizer=keras.optimizers.Adam(lr), loss=loss, metrics=["accuracy"])
    return made


def values(made):
    return [torch.as_tensor(each) for each in made.get_weights()]


def fit(made, keep, epochs=EPOCHS, first=0, **more):
    told = {"batch_size": BATCH, "shuffle": False, "verbose": 0, "initial_epoch": first, "callbacks": [keep]}
    return made.fit(x, y, epochs=epochs, **(told | more))


def by_hand(made, options):
    """The steps of fit, written out."""
    found, steps = [], len(X) // BATCH
    made.train()
    with Jumpstart(made, **options) as keep:
        for step in range(EPOCHS * steps):
            keep.set_progress(step / (EPOCHS * steps))
            part = slice(step % steps * BATCH, (step % steps + 1) * BATCH)
            loss = made.loss(Y[part], made(X[part], training=True))
            penalty = keep.penalty()
            found.append(penalty.item())
            made.zero_grad()
            (loss + penalty).backward()
            with torch.no_grad():
                made.optimizer.apply([v.value.grad for v in made.trainable_weights], made.trainable_weights)
        return found, keep.state_dict()


def test_the_penalty_is_that_of_a_loop_by_hand(options, heard):
    mine, twin = model(), model()
    wanted, state = by_hand(mine, options)
    heard.clear()
    with Keeping(twin, **options) as keep:
        history = fit(twin, keep, validation_data=(x, y)).history
    assert heard == wanted
    assert all(map(torch.equal, values(twin), values(mine)))
    assert [list(of.values()) for of in keep.attachment.state_dict().get("multipliers", {}).values()] == [
        list(of.values()) for of in state.get("multipliers", {}).values()
    ]
    assert history["alive/penalty"] == pytest.approx([sum(wanted[:4]) / 4, sum(wanted[4:]) / 4])


class Looks(keras.callbacks.Callback):
    """Runs the model in training mode between the batches."""

    def on_epoch_begin(self, epoch, logs=None):
        self.model.train()
        self.model(X * 10, training=True)


def test_passes_between_steps_do_not_count(heard):
    wanted, _ = by_hand(model(), {"weight": "auto"})
    heard.clear()
    twin = model()
    with Keeping(twin, weight="auto") as keep:
        fit(twin, keep, callbacks=[Looks(), keep])
    assert heard == wanted


def test_keras_units_are_known():
    found = census(model(), X)
    assert (found.units.total, found.units.unknown, found.points.unknown) == (12, 0, 0)


def test_a_keras_convolution_has_a_unit_a_channel():
    layers = keras.layers
    made = keras.Sequential(
        [keras.Input((8, 8, 2)), layers.Conv2D(5, 3, activation="relu"), layers.Flatten(), layers.Dense(2)]
    )
    found = census(made, torch.randn(4, 8, 8, 2))
    assert (found.units.total, found.units.unknown, found.points.total) == (5, 0, 4)


def test_the_state_is_saved_and_resumed(options, heard, tmp_path):
    whole = model()
    with Keeping(whole, **options) as keep:
        fit(whole, keep)
    wanted = heard[:]
    heard.clear()

    class Stop(keras.callbacks.Callback):
        def on_epoch_end(self, epoch, logs=None):
            self.model.save(tmp_path / "half.keras")
            raise KeyError("power failure")

    parts = model()
    with pytest.raises(KeyError), Keeping(parts, save_to=tmp_path / "half.json", **options) as keep:
        fit(parts, keep, callbacks=[keep, Stop()])
    again = keras.models.load_model(tmp_path / "half.keras")
    with Keeping(again, resume_from=tmp_path / "half.json", **options) as keep:
        fit(again, keep, first=1)
    assert heard == wanted
    assert all(map(torch.equal, values(again), values(whole)))


def test_nothing_is_left_after_an_exception():
    made = model()
    before, had = hooks_of(made), set(vars(made))

    class Stop(keras.callbacks.Callback):
        def on_train_batch_end(self, batch, logs=None):
            raise RuntimeError("on purpose")

    with pytest.raises(RuntimeError, match="on purpose"), Keeping(made) as keep:
        fit(made, keep, callbacks=[keep, Stop()])
    assert hooks_of(made) == before
    assert "compute_loss" not in set(vars(made)) - had
    fit(made, keras.callbacks.Callback())


def test_wrong_use_is_told():
    made, other = model(), model()
    with pytest.raises(AliveError, match=r"callbacks=\[keep\]"), Keeping(made):
        fit(made, keras.callbacks.Callback())
    with pytest.raises(AliveError, match="with Keeping"):
        fit(made, Keeping(made))
    with pytest.raises(AliveError, match="with Keeping"), Keeping(made) as keep:
        fit(other, keep)
    with pytest.raises(AliveError, match="at once"), Keeping(made), Keeping(made):
        pass
    with pytest.raises(AliveError, match="no state of a penalty"):
        Keeping(made, resume_from="nowhere.json")
    assert "compute_loss" not in vars(made)
    made.jit_compile = True
    with pytest.raises(AliveError, match=r"jit_compile=True.*jit_compile=False"), Keeping(made) as keep:
        fit(made, keep)


def test_an_evaluation_has_no_penalty_and_a_census_is_logged():
    made = model()
    probe = Probe(X)
    with Keeping(made, weight=100.0, probe=probe) as keep:
        history = fit(made, keep, epochs=1).history
        assert made.evaluate(x, y, verbose=0)[0] < 5 < history["loss"][0]
    assert history["alive/units"] == [12]
