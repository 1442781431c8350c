"""Our estimators pass scikit-learn's own checks, and train as a loop by hand does."""

from __future__ import annotations

import pickle

import numpy as np
import pytest
import torch
from by_hand import X, Y, same, weights
from hooks import hooks_of
from sklearn.datasets import make_friedman1, make_moons
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import check_estimator
from torch import nn

from alive import AliveError, Jumpstart
from alive.integrations.sklearn import AliveClassifier, AliveRegressor
from alive.nn import Rectangular, Standardise

BOTH = [AliveClassifier, AliveRegressor]


@pytest.mark.filterwarnings("ignore")  # the checks feed it odd data
@pytest.mark.parametrize(
    "made", [AliveClassifier(depth=1, epochs=25, lr=0.1), AliveRegressor(depth=1, epochs=25, lr=0.1)]
)
def test_scikit_learns_own_checks(made):
    check_estimator(made, on_skip=None)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("kind", BOTH)
def test_scikit_learns_own_checks_of_the_defaults(kind):
    check_estimator(kind(), on_skip=None)


def test_the_penalty_is_that_of_a_loop_by_hand(heard):
    settings = {"depth": 3, "width": 5, "lr": 0.01}
    found = AliveClassifier(**settings, epochs=2, weight="auto", random_state=4).fit(X.numpy(), Y.numpy())
    told = heard[:]
    heard.clear()
    seed = int(np.random.RandomState(4).randint(2**31))
    chance = torch.Generator().manual_seed(seed)
    points = Standardise(X.double())(X.double()).float()
    model = Rectangular(3, 1, depth=3, width=5, generator=chance)
    optimiser = torch.optim.Adam(model.parameters(), lr=0.01, eps=1e-7, fused=True)
    with Jumpstart(model, weight="auto") as keep:
        for _ in range(2):
            loss = nn.functional.binary_cross_entropy_with_logits(model(points)[:, 0], Y.float())
            optimiser.zero_grad()
            (loss + keep.penalty()).backward()
            optimiser.step()
    assert told == heard
    assert same(weights(found.network_[1]), weights(model.double()))


@pytest.mark.parametrize("kind", BOTH)
def test_a_fit_is_resumed_from_its_checkpoint(kind, tmp_path, monkeypatch):
    settings = {"epochs": 6, "depth": 2, "weight": "auto", "random_state": 0}
    whole = kind(**settings).fit(X.numpy(), Y.numpy())
    plain, calls = Jumpstart.penalty, []

    def breaks(self):
        calls.append(None)
        if len(calls) == 4:
            raise KeyboardInterrupt
        return plain(self)

    half = kind(**settings, checkpoint=tmp_path / "half.safetensors")
    from alive.train import loop

    monkeypatch.setattr(loop.Saver, "between_steps", lambda self, place: self.save(place))
    with monkeypatch.context() as patched:
        patched.setattr(Jumpstart, "penalty", breaks)
        with pytest.raises(KeyboardInterrupt):
            half.fit(X.numpy(), Y.numpy())
    half.fit(X.numpy(), Y.numpy())
    assert same(weights(half.network_), weights(whole.network_))


@pytest.mark.parametrize("kind", BOTH)
def test_a_pickle_answers_alike_and_nothing_is_attached(kind):
    made = kind(epochs=2, random_state=0).fit(X.numpy(), Y.numpy())
    again = pickle.loads(pickle.dumps(made))
    assert np.array_equal(again.predict(X.numpy()), made.predict(X.numpy()))
    assert not any(hook for each in hooks_of(made.network_) for hook in each.values())


def test_deep_thin_networks_learn_in_pipelines_and_searches():
    x, y = make_moons(150, noise=0.1, random_state=0)
    piped = make_pipeline(StandardScaler(), AliveClassifier(depth=8, width=4, random_state=0))
    search = GridSearchCV(piped, {"aliveclassifier__lr": [1e-6, 0.02]}, cv=2).fit(x, y)
    assert search.best_params_ == {"aliveclassifier__lr": 0.02}
    assert search.score(x, y) > 0.85
    names = np.array(["no", "yes"])[y]
    assert set(AliveClassifier(epochs=5, random_state=0).fit(x, names).predict(x)) <= {"no", "yes"}


@pytest.mark.parametrize(("times", "plus"), [(1, 1.7e9), (1e-60, 0), (1e40, 0)])
def test_features_of_any_scale_are_told_apart(times, plus):
    """As dates in seconds and masses in kilograms are; single precision does not hold these."""
    x, y = make_moons(150, noise=0.1, random_state=0)
    found = AliveClassifier(random_state=0).fit(x * times + plus, y)
    assert found.score(x * times + plus, y) > 0.9
    assert found.census_.points.total == 150


def test_numbers_of_numpy_are_numbers():
    x, y = make_moons(60, noise=0.1, random_state=0)
    grid = {"depth": np.arange(1, 3), "width": np.array([4]), "epochs": np.array([3]), "batch_size": np.array([20])}
    found = GridSearchCV(AliveClassifier(lr=np.float32(0.01), random_state=0), grid, cv=2, error_score="raise")
    assert found.fit(x, y).best_params_["width"] == 4


def test_several_targets_at_once():
    x, y = make_friedman1(100, random_state=0)
    made = AliveRegressor(epochs=60, random_state=0).fit(x, np.stack([y, -y, y * 0 + 3], 1))
    assert made.predict(x).shape == (100, 3)
    assert made.score(x, np.stack([y, -y, y * 0 + 3], 1)) > 0.5


def test_bad_settings_are_told():
    with pytest.raises(AliveError, match="one class"):
        AliveClassifier().fit(X.numpy(), np.zeros(32))
    with pytest.raises(AliveError, match="unknown mode"):
        AliveClassifier(mode="X").fit(X.numpy(), Y.numpy())
