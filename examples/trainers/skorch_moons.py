"""A deep thin network on MOONS as a skorch classifier, searched by scikit-learn; and our own estimator beside it.

Run it: python examples/trainers/skorch_moons.py
"""

import numpy as np
import torch
from sklearn.model_selection import GridSearchCV
from skorch import NeuralNetClassifier

from alive.data import moons
from alive.integrations.probe import Probe
from alive.integrations.sklearn import AliveClassifier
from alive.integrations.skorch import AliveCallback
from alive.nn import Rectangular

data = moons()
x, y = data.train_x.numpy(), data.train_y.numpy().astype(np.int64)
torch.manual_seed(0)
net = NeuralNetClassifier(
    Rectangular,
    module__inputs=2,
    module__outputs=2,
    module__depth=10,
    module__width=4,
    module__generator=None,
    criterion=torch.nn.CrossEntropyLoss,
    optimizer=torch.optim.Adam,
    max_epochs=20,
    batch_size=-1,
    train_split=None,
    verbose=0,
    callbacks=[AliveCallback({"mode": "UP"}, probe=Probe(data.train_x, every=20))],
)
search = GridSearchCV(net, {"lr": [0.001, 0.01]}, cv=2).fit(x, y)
last = search.best_estimator_.history[-1]
print(f"penalty {last['penalty']:.3f}")
print(f"{last['alive/dead_units'] * last['alive/units']:.0f} of {last['alive/units']:.0f} units are dead")

own = AliveClassifier(depth=10, width=4, random_state=0).fit(x, y)
print(f"AliveClassifier: accuracy {own.score(x, y):.3f}, {own.census_.units.dead} units are dead")
