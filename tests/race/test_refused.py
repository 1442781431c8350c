"""What a race refuses, each in one clear sentence, before it trains for long."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn

from alive.errors import AliveError
from alive.race import cure

X = torch.randn(40, 2, generator=torch.Generator().manual_seed(0))
Y = (X[:, 0] > 0).long()
REAL = X.sum(1)


def make_model() -> nn.Sequential:
    return nn.Sequential(nn.Linear(2, 4), nn.ReLU(), nn.Linear(4, 1))


ONE = make_model()
LAYER = nn.Linear(2, 4)


class Third:
    """A factory that fails when it is called for the third time."""

    __name__ = "make_model"

    def __init__(self) -> None:
        self.calls = 0

    def __call__(self) -> nn.Module:
        self.calls += 1
        if self.calls > 2:
            raise RuntimeError("no more of them")
        return make_model()


def infinite() -> nn.Sequential:
    model = make_model()
    nn.init.constant_(model[2].weight, float("inf"))
    return model


def frozen() -> nn.Module:
    return make_model().requires_grad_(False)


CASES = {
    "not finite": (make_model, (X, REAL), {"loss": lambda o, y: o.sum() * float("nan")}, "nan from the start"),
    "log of nothing": (make_model, (X, REAL), {"loss": lambda o, y: (y * 0).log().sum() - o.sum()}, "from the start"),
    "same model": (lambda: ONE, (X, Y), {}, "returns the same model each time"),
    "same layers": (lambda: nn.Sequential(LAYER, nn.ReLU(), nn.Linear(4, 1)), (X, Y), {}, "the same model each time"),
    "a model": (ONE, (X, Y), {}, "a function that makes the model anew"),
    "one point": (make_model, (X[:1], REAL[:1]), {}, "holds one point"),
    "no activation": (lambda: nn.Sequential(nn.Linear(2, 4), nn.Tanh(), nn.Linear(4, 1)), (X, Y), {}, "no one-sided"),
    "blind": (make_model, (X, REAL), {"loss": lambda o, y: y.mean()}, "does not depend on the output"),
    "blinded": (make_model, (X, REAL), {"loss": lambda o, y: o.sum() * 0 + y.mean()}, "does not depend on the output"),
    "detached": (make_model, (X, REAL), {"loss": lambda o, y: o.detach().sum()}, "does not depend on the output"),
    "other shape": (make_model, (X, X.repeat(1, 2) + 0.5), {}, r"gave \[40, 1\] for targets \[40, 4\]|gave \[32, 1\]"),
    "stretched": (make_model, (X, REAL), {"loss": nn.MSELoss()}, "stretches targets to another shape"),
    "third call": (Third(), (X, Y), {}, "make_model under seed 0 failed with RuntimeError: no more of them"),
    "all fail": (infinite, (X, Y), {"cures": ["rate/10", "jumpstart"]}, "no network could be trained, under any cure"),
    "no model": (lambda: 3, (X, Y), {}, "gave a int, not a torch.nn.Module"),
    "frozen": (frozen, (X, Y), {}, "no parameter to train"),
    "lazy": (lambda: nn.Sequential(nn.LazyLinear(4), nn.ReLU(), nn.Linear(4, 1)), (X, Y), {}, "lazy layers"),
    "same targets": (make_model, (X, torch.zeros(40)), {}, "targets of data are the same|at least two classes"),
    "no targets": (make_model, X, {}, "no targets"),
    "unknown cure": (make_model, (X, Y), {"cures": ["mirored"]}, "did you mean 'mirrored'"),
    "no steps": (make_model, (X, Y), {"steps": 0}, "steps must be"),
    "no seeds": (make_model, (X, Y), {"seeds": 0}, "seeds must be"),
    "no jobs": (make_model, (X, Y), {"jobs": 0}, "jobs must be"),
    "no rate": (make_model, (X, Y), {"lr": -1.0}, "lr must be"),
    "nowhere": (make_model, (X, Y), {"store": "nowhere/runs.jsonl"}, "nowhere"),
    "too wide": (lambda: nn.Sequential(nn.Linear(3, 4), nn.ReLU(), nn.Linear(4, 1)), (X, Y), {}, "could not run"),
}


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("jobs", [1, 2])
def test_it_is_refused_in_one_sentence(case: str, jobs: int) -> None:
    make, data, more, said = CASES[case]
    with pytest.raises(AliveError, match=said) as refused:
        cure(make, data, **{"steps": 8, "seeds": 1, "jobs": jobs} | more)
    assert "\n" not in str(refused.value)
    assert refused.value.__class__ is AliveError


def test_infinite_outputs_are_cured_where_a_start_can() -> None:
    found = cure(infinite, (X, Y), steps=60, seeds=1, lr=0.05, cures=["mirrored"])
    assert found.winner == "mirrored"
    assert "diverged" in str(found)


def test_a_cure_that_fails_on_a_model_is_left_out_with_its_reason() -> None:
    class Peeks(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.first, self.second, self.last = nn.Linear(2, 4), nn.Linear(4, 4), nn.Linear(4, 1)

        def forward(self, x: Tensor) -> Tensor:
            hidden = torch.relu(self.first(x))
            return self.last(torch.relu(nn.functional.linear(hidden, self.second.weight, self.second.bias)))

    found = cure(Peeks, (X, Y), steps=8, seeds=1, cures=["skips", "mirrored"])
    assert "weight" in found["skips"].refused
    assert found["mirrored"].scores
