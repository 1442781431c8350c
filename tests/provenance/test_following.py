"""A pass that is followed: every rule is an operation of torch's, none fails, and later passes are checked."""

from __future__ import annotations

from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.utils._python_dispatch import _len_torch_dispatch_stack

from alive import census
from alive.errors import AliveError
from alive.penalties import Jumpstart
from alive.provenance import Tracker, enter, read
from alive.provenance.rules import RULES
from alive.provenance.tracker import REDUCES
from alive.taps import Declared, Output


@pytest.mark.contract
def test_every_rule_is_of_an_operation_that_torch_has() -> None:
    assert [name for name in RULES if not any(hasattr(torch.ops.aten, n) for n in (name, f"{name}_"))] == []


@pytest.mark.contract
def test_every_reduction_that_torch_names_so_is_known() -> None:
    tag = getattr(torch.Tag, "reduction", None)
    if tag is None:
        pytest.skip(f"torch {torch.__version__} does not say which operations reduce")
    packets = {name: getattr(torch.ops.aten, name) for name in dir(torch.ops.aten) if not name.startswith("_")}
    tagged = {name for name, op in packets.items() if any(tag in getattr(op, each).tags for each in overloads(op))}
    assert tagged <= REDUCES


def overloads(op: Any) -> list[str]:
    return op.overloads() if hasattr(op, "overloads") else []


class Widely(nn.Module):
    """Many operations in one forward."""

    def __init__(self) -> None:
        super().__init__()
        self.conv, self.norm, self.gru = (
            nn.Conv2d(3, 4, 3, padding=1),
            nn.BatchNorm2d(4),
            nn.GRU(4, 4, batch_first=True),
        )
        self.attend, self.bag = nn.MultiheadAttention(4, 2, batch_first=True), nn.EmbeddingBag(9, 4)
        self.bilinear, self.out = nn.Bilinear(4, 4, 4), nn.Linear(8, 2)

    def forward(self, x: Tensor) -> Tensor:
        h = F.max_pool2d(F.glu(self.norm(self.conv(x)).repeat(1, 2, 1, 1), 1), 2)
        h = F.interpolate(F.pad(h, (1, 1, 1, 1)), scale_factor=2).flatten(2).transpose(1, 2)
        h = self.attend(h, h, h)[0] + self.gru(h)[0].cumsum(1)
        h = h.gather(1, h.argsort(1)).topk(3, 1)[0].amax(1)
        bags = self.bag(torch.arange(2 * len(x)).remainder(9).view(len(x), 2))
        return self.out(torch.cat([self.bilinear(h, bags), F.normalize(h)], 1))


def test_no_rule_fails() -> None:
    model, x = Widely(), torch.randn(5, 3, 6, 6)
    tracker = Tracker(model)
    enter(tracker, x, 5, 0)
    with tracker:
        y = model(x)
    assert tracker.faults == []
    layout = read(tracker.owners(y), y, 5)
    assert layout.known
    assert (layout.place.points, layout.place.units, layout.place.width) == ((0,), (1,), 2)


def test_copied_weights_may_be_expanded_over_the_points() -> None:
    class Expanded(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.weight = nn.Parameter(torch.randn(4, 5))

        def forward(self, x: Tensor) -> Tensor:
            copied = self.weight.repeat(1, 1).expand(len(x), 4, 5)
            return F.relu(torch.bmm(x, copied) - 2)

    torch.manual_seed(0)
    model, x = Expanded(), torch.randn(7, 3, 4)
    (layer,) = census(model, x).layers
    torch.testing.assert_close(layer.top, (x @ model.weight - 2).amax((0, 1)).detach())
    assert layer.points.total == 7


def test_a_pass_that_fails_leaves_no_mode_behind() -> None:
    class Fails(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layer = nn.Linear(3, 4)

        def forward(self, x: Tensor) -> Tensor:
            return F.relu(self.layer(x)).view(7)

    model = Fails()
    with Jumpstart(model, 1.0), pytest.raises(RuntimeError, match="shape"):
        model(torch.randn(5, 3))
    with pytest.raises(AliveError, match="could not run"):
        census(model, torch.randn(5, 3))
    assert _len_torch_dispatch_stack() == 0


class Turns(nn.Module):
    """Lays its units last, or first in each example, as it is told."""

    def __init__(self) -> None:
        super().__init__()
        self.layer, self.turned = nn.Linear(3, 3), False

    def forward(self, x: Tensor) -> Tensor:
        z = self.layer(x)
        return F.relu(z.transpose(1, 2) if self.turned else z)


def test_a_layout_that_no_longer_holds_is_looked_for_again() -> None:
    """A census runs such a batch once more; [5, 3, 3] and [5, 3, 7] have one rank, and other units."""
    model = Turns()
    batches = [torch.randn(5, 3, 3), torch.randn(5, 7, 3), torch.randn(2, 7, 3)]

    def run(model: nn.Module, batch: Tensor) -> Any:
        model.turned = batch.shape[1] == 7
        return model(batch)

    found = census(model, batches, forward=run)
    z = torch.cat([model.layer(batch).flatten(0, 1) for batch in batches])
    torch.testing.assert_close(found["relu"].top, z.amax(0).detach())
    assert found.points.total == 12


class Opaque(nn.Module):
    """Goes through numpy, where nobody can follow it."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(3, 4)

    def forward(self, x: Tensor) -> Tensor:
        return torch.from_numpy(self.layer(x).detach().numpy().copy())


def test_what_cannot_be_followed_is_unknown_until_it_is_declared() -> None:
    model, x = nn.Sequential(Opaque(), nn.ReLU()), torch.randn(6, 3)
    found = census(model, x)
    assert found.units.unknown > 0
    assert found.points.unknown == 6
    told = census(model, x, declared=Declared(outputs={Opaque: Output(unit_axis=-1)}))
    assert (told.units.total, told.units.unknown, told.points.unknown) == (4, 0, 0)
    torch.testing.assert_close(told["1"].top, model[0].layer(x).amax(0).detach())
    with pytest.raises(
        AliveError, match=r"declared to have 6 points on axis 1 and units on axis 0, and returned \[6, 4\]"
    ):
        census(model, x, declared=Declared(outputs={Opaque: Output(unit_axis=0, point_axis=1)}))
    with pytest.raises(AliveError, match="outputs maps classes of modules"):
        census(model, x, declared=Declared(outputs={Opaque: 1}))


def test_declared_axes_may_be_patterns() -> None:
    model = nn.Sequential(nn.Linear(3, 3), nn.Sequential(nn.Linear(3, 3), nn.ReLU()))
    with pytest.warns(
        UserWarning, match=r"unit_axes says axis 1 for 1.1; its units of 1.0 lie on \[2\]: yours is taken"
    ):
        found = census(model, torch.randn(5, 7, 3), declared=Declared(unit_axes={"1.*": 1}))
    assert found["1.1"].units.total == 7
