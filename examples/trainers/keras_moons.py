"""A deep thin Keras model on MOONS, on torch, kept alive while it is fitted.

Run it: python examples/trainers/keras_moons.py
"""

import os

os.environ["KERAS_BACKEND"] = "torch"

import keras

from alive.data import moons
from alive.integrations.keras import Keeping
from alive.integrations.probe import Probe

data = moons()
keras.utils.set_random_seed(0)
hidden = [keras.layers.Dense(4, activation="relu") for _ in range(20)]
model = keras.Sequential([keras.Input((2,)), *hidden, keras.layers.Dense(1)])
loss = keras.losses.BinaryCrossentropy(from_logits=True)
model.compile(optimizer=keras.optimizers.Adam(0.01), loss=loss)
with Keeping(model, probe=Probe(data.train_x, every=5)) as keep:
    history = model.fit(
        data.train_x.numpy(), data.train_y.numpy(), epochs=10, batch_size=85, verbose=0, callbacks=[keep]
    ).history
print(f"penalty {history['alive/penalty'][0]:.3f} at first, {history['alive/penalty'][-1]:.3f} at last")
print(f"{keep.probe.last.units.dead} of {keep.probe.last.units.total} units are dead")
