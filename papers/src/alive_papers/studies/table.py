"""What a user would take for a table instead of a deep network: two models of scikit-learn, as they come."""

from __future__ import annotations

from alive.data import Data

from .record import Run, RunResult, Tell

LINEAR, TREES = "logistic regression", "boosted trees"


def fit_table(run: Run, data: Data, tell: Tell) -> RunResult:
    """Fit one of them; the score is its accuracy on the points to test on."""
    from sklearn.ensemble import HistGradientBoostingClassifier
    from sklearn.linear_model import LogisticRegression

    makes = {
        LINEAR: lambda: LogisticRegression(max_iter=2000),
        TREES: lambda: HistGradientBoostingClassifier(random_state=run.seed),
    }
    assert data.test_x is not None
    assert data.test_y is not None
    model = makes[run.method]().fit(data.train_x.numpy(), data.train_y.numpy())
    score = float(model.score(data.test_x.numpy(), data.test_y.numpy()))
    tell(run.steps)
    return RunResult({"epoch": [1.0], "accuracy": [score]}, score, 0)
