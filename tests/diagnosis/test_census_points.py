"""Which points a layer saw: layers that some batches reach, rows folded together, points on other axes."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F
from planted import same
from torch import Tensor, nn

from alive.diagnosis import Tally, census
from alive.diagnosis.census import ALIVE
from alive.errors import AliveError


def test_rows_folded_into_the_batch_are_told_apart() -> None:
    class Folded(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layer = nn.Linear(1, 2)
            nn.init.constant_(self.layer.weight, 1.0)
            nn.init.zeros_(self.layer.bias)

        def forward(self, x: Tensor) -> Tensor:
            return F.relu(self.layer(x.flatten().unsqueeze(1)))

    x = torch.tensor([[-1.0, -2.0, -3.0], [-1.0, 2.0, -3.0]])  # the first point is dead, the second is not
    found = census(Folded(), x, keep_points=True)
    assert found.points == Tally(dead=1, nonlinear=1)
    assert found.died_at.tolist() == [0, ALIVE]


def test_points_that_cannot_be_told_apart_are_unknown() -> None:
    class Pooled(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layer = nn.Linear(3, 4)

        def forward(self, x: Tensor) -> Tensor:
            return F.relu(self.layer(x.sum(0, keepdim=True)))

    found = census(Pooled(), torch.randn(5, 3), keep_points=True)
    assert found["relu"].points == Tally(unknown=5)
    assert found["relu"].units.total == 4
    assert found.points == Tally(unknown=5)
    assert found.to_dict()["layers"][0]["points"]["unknown"] == 5
    assert found["relu"].unknown == ("points: its values belong to several points at once",)
    assert "unknown" in str(found)


def test_points_may_lie_on_the_second_axis() -> None:
    model = nn.Sequential(nn.Linear(3, 4), nn.ReLU(), nn.Linear(4, 4), nn.ReLU())
    x = torch.randn(6, 5, 3)  # [T, N, C]
    found = census(model, x, point_axis=1, keep_points=True)
    same(found, census(model, x.transpose(0, 1), keep_points=True))
    assert found.points.total == 5


def test_a_model_of_time_first_may_end_in_rows_of_points() -> None:
    class Mean(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            return x.mean(0)

    model = nn.Sequential(nn.Linear(3, 4), nn.ReLU(), Mean(), nn.Linear(4, 4), nn.ReLU())
    found = census(model, torch.randn(6, 5, 3), point_axis=1)
    assert [layer.points.total for layer in found.layers] == [5, 5]


class Routed(nn.Module):
    """The sign of the first number of a batch chooses the branch."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.last = nn.Linear(1, 2), nn.Linear(2, 2)
        self.left, self.right = nn.Linear(2, 3), nn.Linear(2, 2)
        for layer in (self.first, self.last, self.left, self.right):
            nn.init.constant_(layer.weight, 1.0)
            nn.init.constant_(layer.bias, 30.0)
        nn.init.constant_(self.right.bias, -900.0)

    def forward(self, x: Tensor) -> Tensor:
        h = F.relu(self.first(x))
        h = F.elu(self.left(h))[:, :2] if x[0, 0] > 0 else F.silu(self.right(h))
        return F.gelu(self.last(h))


@pytest.mark.parametrize("flip", [1.0, -1.0])
def test_a_layer_that_some_batches_reach_is_counted_over_those(flip: float) -> None:
    batches = [torch.full((3, 1), flip), torch.full((2, 1), -flip), torch.full((1, 1), flip)]
    found = census(Routed(), batches, keep_points=True)
    assert {layer.name for layer in found.layers} == {"relu", "elu", "silu", "gelu"}
    left, right = (4, 2) if flip > 0 else (2, 4)
    assert (found["elu"].points.total, found["silu"].points.total) == (left, right)
    assert found["relu"].points.total == 6
    assert found.points.total == 6
    assert found["silu"].first_deaths == right
    names = [layer.name for layer in found.layers]
    assert names.index("relu") < min(names.index("elu"), names.index("silu"))
    assert names[-1] == "gelu"
    died = [names[n] if n != ALIVE else "" for n in found.died_at.tolist()]
    expected = ["" if flip > 0 else "silu"] * 3 + ["silu" if flip > 0 else ""] * 2 + ["" if flip > 0 else "silu"]
    assert died == expected


def test_parts_that_reach_different_layers_add_up_like_one_run() -> None:
    model, one, two = Routed(), torch.ones(3, 1), -torch.ones(2, 1)
    added = census(model, one, keep_points=True) + census(model, two, keep_points=True)
    same(added, census(model, [one, two], keep_points=True))


def test_censuses_of_different_models_do_not_add() -> None:
    x = torch.randn(4, 3)
    a = census(nn.Sequential(nn.Linear(3, 4), nn.ReLU()), x)
    with pytest.raises(AliveError, match=r"no layer in common: 1 and 2"):
        a + census(nn.Sequential(nn.Linear(3, 4), nn.Identity(), nn.ReLU()), x)
    with pytest.raises(AliveError, match=r"layer 1 has 4 units of relu in one census and 5 of relu"):
        a + census(nn.Sequential(nn.Linear(3, 5), nn.ReLU()), x)
    with pytest.raises(AliveError, match=r"4 of elu in the other"):
        a + census(nn.Sequential(nn.Linear(3, 4), nn.ELU()), x)


def test_an_expert_that_no_point_was_sent_to_is_not_counted() -> None:
    class Experts(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.a, self.b = (nn.Sequential(nn.Linear(1, 2), nn.ReLU()) for _ in range(2))

        def forward(self, x: Tensor) -> None:
            positive = x[:, 0] > 0
            self.a(x[positive]), self.b(x[~positive])

    found = census(Experts(), torch.ones(3, 1))
    assert [layer.name for layer in found.layers] == ["a.1"]
