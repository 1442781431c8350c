"""What is unknown is said: in limits, on the command line, in the advice; and the advice is true of gradients."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from alive import census
from alive.diagnosis import Limit


class Mixed(nn.Module):
    """Its second layer sums over the points."""

    def __init__(self) -> None:
        super().__init__()
        self.a, self.b = nn.Linear(3, 4), nn.Linear(6, 5)

    def forward(self, x: Tensor) -> Tensor:
        return F.relu(self.b(self.a(x).transpose(0, 1)))


@pytest.mark.parametrize(
    ("text", "holds", "is_open"),
    [
        ("dead_points>0", False, True),
        ("dead_points>6", False, False),
        ("dead_points>=0", True, False),
        ("dead_points<7", True, False),
        ("dead_points==3", False, True),
        ("dead_points!=9", True, False),
        ("dead_points>=50%", False, True),
        ("unknown_points>0", True, False),
        ("unknown_units>0", False, False),
    ],
)
def test_a_limit_holds_whatever_the_unknown_is_or_is_open(text: str, holds: bool, is_open: bool) -> None:
    found = census(Mixed(), torch.randn(6, 3))
    limit = Limit.parse(text)
    assert (limit.holds(found), limit.is_open(found)) == (holds, is_open)


def test_a_selection_keeps_limits_on_units_open() -> None:
    class Chooses(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.encode, self.decode = nn.Linear(4, 32), nn.Linear(32, 4)

        def forward(self, x: Tensor) -> Tensor:
            z = self.encode(x)
            values, index = z.sort(-1, descending=True)  # of which no call says how many are taken
            return self.decode(torch.zeros_like(z).scatter(-1, index[:, :3], F.relu(values[:, :3])))

    found = census(Chooses(), torch.randn(20, 4))
    assert found["relu"].unknown
    assert [(a.name, a.counts) for a in found.unseen] == [("topk", True), ("sort", True)]
    assert Limit.parse("dead_units>0").is_open(found)
    assert any("not counted: topk" in a.found for a in found.findings)


def test_the_command_line_does_not_pass_what_is_unknown(alive, tmp_path) -> None:
    (tmp_path / "mine.py").write_text(
        "import torch\nfrom torch import nn\n"
        "class Mixed(nn.Module):\n"
        "    def __init__(self):\n        super().__init__()\n"
        "        self.a, self.b = nn.Linear(2, 4), nn.Linear(85, 5)\n"
        "    def forward(self, x):\n        return torch.relu(self.b(self.a(x).transpose(0, 1)))\n"
    )
    code, out, err = alive("census", "mine:Mixed", "--data", "moons", "--fail-on", "dead_points>0")
    assert code == 1
    assert "dead_points>0 cannot be ruled out, because not everything is known" in err
    assert "unknown" in out
    assert alive("census", "mine:Mixed", "--data", "moons", "--fail-on", "dead_points>85")[0] == 0


class Around(nn.Module):
    """x goes around the layer, or not; every unit of the layer is off."""

    def __init__(self, activation: nn.Module, around: bool) -> None:
        super().__init__()
        self.stem, self.a, self.activation, self.around = nn.Linear(3, 4), nn.Linear(4, 4), activation, around
        self.a.bias.data.fill_(-99.0)

    def forward(self, x: Tensor) -> Tensor:
        h = self.stem(x)
        y = self.activation(self.a(h))
        return h + y if self.around else y


@pytest.mark.parametrize(("activation", "around"), [("ReLU", True), ("ReLU", False), ("LeakyReLU", False)])
def test_no_gradient_passes_is_said_where_autograd_says_so(activation: str, around: bool) -> None:
    torch.manual_seed(0)
    model, x = Around(getattr(nn, activation)(), around), torch.randn(9, 3)
    model(x).square().sum().backward()
    passes = bool(model.stem.weight.grad.any())
    found = census(model, x)
    said = next(a for a in found.findings if "point" in a.found)
    assert found.points.dead == 9
    assert ("no gradient passes" in said.found) is not passes
    assert said.grave is not passes
    assert (said.measured_as == "dead at the start") is not passes
    assert found["activation"].bypassed is around


def test_unknown_stands_in_record_table_page_and_json() -> None:
    from alive.render import page

    found = census(Mixed(), torch.randn(6, 3))
    (layer,) = found.layers
    assert layer.made_by == "b"
    assert layer.unknown == ("points: its values belong to several points at once",)
    for text in (str(found), page(found, "Mixed")):
        assert "unknown" in text
        assert "its values belong to several points at once" in text
    record = found.to_dict()
    assert record["points"]["unknown"] == 6
    assert record["layers"][0]["unknown"] == list(layer.unknown)
