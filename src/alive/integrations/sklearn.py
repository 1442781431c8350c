"""scikit-learn: a classifier and a regressor whose deep thin networks stay alive."""

from __future__ import annotations

from os import PathLike
from pathlib import Path
from typing import Any, Self

import numpy as np
import torch
from torch import Tensor, nn

from ..data import tensors
from ..diagnosis import census
from ..errors import AliveError, require
from ..nn import Rectangular, Standardise
from ..penalties import Jumpstart
from ..train import Result, Settings, train

with require("alive.integrations.sklearn", "alive[sklearn]"):
    from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin
    from sklearn.utils import check_random_state
    from sklearn.utils.multiclass import check_classification_targets
    from sklearn.utils.validation import check_is_fitted, validate_data


class _Network(BaseEstimator):  # type: ignore[misc]
    """What the two share: their settings, and how they are fitted.

    depth, width   hidden layers, and units in each
    epochs, lr, batch_size   as `alive.train.Settings` has them; without a batch size all points make one step
    weight, mode   of the penalty, see `alive.Jumpstart`; mode=None: no penalty
    init           how the weights start, see `alive.nn.initialise_`
    checkpoint     a file that the fit is saved to; if it is there, the fit goes on from it, to the bit
    """

    def __init__(
        self,
        *,
        depth: int = 4,
        width: int = 16,
        epochs: int = 100,
        lr: float = 0.02,
        batch_size: int | None = None,
        weight: Any = None,
        mode: str | None = "UP",
        init: str = "glorot",
        checkpoint: str | PathLike[str] | None = None,
        random_state: Any = None,
    ) -> None:
        self.depth, self.width, self.epochs, self.lr, self.batch_size = depth, width, epochs, lr, batch_size
        self.weight, self.mode, self.init = weight, mode, init
        self.checkpoint, self.random_state = checkpoint, random_state

    def _fit(self, X: np.ndarray, y: np.ndarray, **kind: Any) -> Result:
        """Train a fresh network; it answers in double precision, so that no answer depends on its neighbours.

        The points are standardised in double precision too: a date in seconds varies below what single precision holds.
        """
        points = torch.from_numpy(np.array(X))
        scale = Standardise(points)
        data = tensors(scale(points).float(), y, **kind)
        seed = int(check_random_state(self.random_state).randint(2**31))
        chance = torch.Generator().manual_seed(seed)
        told = {name: _plain(value) for name, value in self.get_params().items()}
        shape = {name: told[name] for name in ("depth", "width", "init")}
        inner = Rectangular(data.inputs, data.outputs, **shape, generator=chance)
        size = None if told["batch_size"] is None else min(told["batch_size"], len(points))
        settings = Settings(epochs=told["epochs"], lr=told["lr"], batch_size=size, shuffle=size is not None, seed=seed)
        keep = None if self.mode is None else Jumpstart(inner, told["weight"], mode=self.mode)
        resume = self.checkpoint is not None and Path(self.checkpoint).exists()
        try:
            result = train(inner, data, settings, keep=keep, checkpoint=self.checkpoint, resume=resume)
        finally:
            if keep is not None:
                keep.detach()
        if result.stopped:
            raise AliveError(result.stopped.rstrip("."))
        self.network_ = nn.Sequential(scale, inner.double()).eval()
        self.census_ = census(self.network_, points)
        return result

    @torch.no_grad()
    def _answers(self, X: Any) -> Tensor:
        check_is_fitted(self)
        points = validate_data(self, X, reset=False, dtype=np.float64)
        answers: Tensor = self.network_(torch.from_numpy(np.array(points)))
        return answers


def _plain(value: Any) -> Any:
    """A number of numpy, as a search over np.arange gives, as one of Python."""
    return value.item() if isinstance(value, np.generic) else value


class AliveClassifier(ClassifierMixin, _Network):  # type: ignore[misc]
    """A plain ReLU network as a classifier of scikit-learn, trained with the penalty.

    >>> from sklearn.datasets import make_moons
    >>> X, y = make_moons(200, noise=0.1, random_state=0)
    >>> model = AliveClassifier(depth=6, width=8, epochs=200, random_state=0).fit(X, y)
    >>> model.score(X, y) > 0.9, model.census_.points.dead
    (True, 0)
    """

    def fit(self, X: Any, y: Any) -> Self:
        """Train on points X [N, features] with labels y [N]."""
        X, y = validate_data(self, X, y, dtype=np.float64, ensure_min_samples=2)
        check_classification_targets(y)
        self.classes_, numbered = np.unique(y, return_inverse=True)
        if len(self.classes_) < 2:
            raise AliveError("the labels hold one class, and a classifier needs two or more", "Give points of another")
        self.result_ = self._fit(X, numbered.astype(np.int64), classes=len(self.classes_))
        return self

    def predict_proba(self, X: Any) -> np.ndarray:
        """How likely each class is, [N, classes]."""
        answers = self._answers(X)
        if answers.shape[1] == 1:
            second = torch.sigmoid(answers)
            return torch.cat([1 - second, second], 1).numpy()
        return torch.softmax(answers, 1).numpy()

    def predict(self, X: Any) -> np.ndarray:
        """The likeliest class of each point, [N]."""
        likely = self.predict_proba(X).argmax(1)
        return np.asarray(self.classes_[likely])


class AliveRegressor(RegressorMixin, _Network):  # type: ignore[misc]
    """A plain ReLU network as a regressor of scikit-learn, trained with the penalty.

    >>> from sklearn.datasets import make_friedman1
    >>> X, y = make_friedman1(200, random_state=0)
    >>> AliveRegressor(epochs=200, random_state=0).fit(X, y).score(X, y) > 0.8
    True
    """

    def fit(self, X: Any, y: Any) -> Self:
        """Train on points X [N, features] with targets y [N] or [N, outputs]."""
        X, y = validate_data(self, X, y, dtype=np.float64, ensure_min_samples=2, multi_output=True, y_numeric=True)
        y = np.asarray(y, dtype=np.float64)
        spread = y.std(0)
        self.mean_, self.spread_ = y.mean(0), np.where(spread > 0, spread, 1.0)
        self.result_ = self._fit(X, ((y - self.mean_) / self.spread_).astype(np.float32), real=True)
        return self

    def predict(self, X: Any) -> np.ndarray:
        """The expected target of each point, as y was."""
        answers = self._answers(X).numpy()
        answers = answers[:, 0] if np.ndim(self.mean_) == 0 else answers
        return np.asarray(answers * self.spread_ + self.mean_)

    def __sklearn_tags__(self) -> Any:
        """What it can do: several targets at once."""
        tags = super().__sklearn_tags__()
        tags.target_tags.multi_output = True
        return tags
