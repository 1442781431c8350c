"""`shrink(nearly=...)`: what bends for a small share of the data bends no more, exactly as by hand; and how far."""

from __future__ import annotations

import json
from itertools import pairwise

import jsonschema
import pytest
import torch
from torch import Tensor, nn

from alive import shrink
from alive.errors import AliveError
from alive.render.schemas import schema
from alive.render.sheet import shrink_sheet

SHARES = (1e-3, 1e-2, 0.1)


def dense(slope: float = 0.0) -> tuple[nn.Sequential, Tensor]:
    torch.manual_seed(0)
    net = nn.Sequential(nn.Linear(5, 40), nn.LeakyReLU(slope) if slope else nn.ReLU(), nn.Linear(40, 3))
    net[0].bias.data += torch.linspace(-2, 2, 40)
    return net, torch.randn(3000, 5)


def maps() -> tuple[nn.Sequential, Tensor]:
    torch.manual_seed(1)
    net = nn.Sequential(nn.Conv2d(2, 24, 3), nn.ReLU(), nn.Conv2d(24, 3, 3), nn.Flatten(), nn.Linear(12, 2))
    net[0].bias.data += torch.linspace(-2, 2, 24)
    return net, torch.randn(400, 2, 6, 6)


def by_hand(net: nn.Sequential, x: Tensor, share: float) -> Tensor:
    """The same network, in which units that are hardly ever on are zero, and those hardly ever off are their input."""
    z = net[0](x)
    others = [d for d in range(z.ndim) if d != 1]
    on = (z > 0).double().mean(others)
    below = net[1].negative_slope if isinstance(net[1], nn.LeakyReLU) else 0.0
    shape = [-1 if d == 1 else 1 for d in range(z.ndim)]
    rarely, mostly = ((on < share) & (below == 0)).view(shape), ((1 - on) < share).view(shape)
    h = torch.where(mostly, z, torch.where(rarely, 0.0, net[1](z)))
    return net[2:](h)


@pytest.mark.twin
@pytest.mark.parametrize("share", SHARES)
@pytest.mark.parametrize("made", [dense, maps, lambda: dense(0.1)], ids=["dense", "maps", "leaky"])
def test_outputs_are_those_of_the_network_straightened_by_hand(made, share):
    net, x = made()
    small = shrink(net, x, nearly=share)
    assert torch.allclose(small.model(x), by_hand(net, x, share), atol=2e-5)
    apart = (small.model(x) - net(x)).abs().max().item()
    assert small.report.on_data.largest == pytest.approx(apart, abs=1e-5)
    assert small.report.nearly.dead + small.report.nearly.linear > 0 or share == SHARES[0]


def test_size_falls_and_the_change_grows_with_the_share():
    net, x = dense()
    reports = [shrink(net, x, nearly=share).report for share in (0.0, *SHARES)]
    assert all(a.parameters_left >= b.parameters_left for a, b in pairwise(reports))
    assert reports[0].nearly is None
    assert reports[-1].parameters_left < reports[0].parameters_left
    assert reports[0].on_data.relative < 1e-6 < reports[-1].on_data.relative


def test_a_layer_of_low_entropy_becomes_one_map_with_the_next():
    torch.manual_seed(2)
    net = nn.Sequential(nn.Linear(4, 12), nn.ReLU(), nn.Linear(12, 12), nn.ReLU(), nn.Linear(12, 2))
    x = torch.randn(2000, 4)
    with torch.no_grad():
        h = net[1](net[0](x))
        signs = torch.tensor([1.0, -1.0] * 6)
        z = net[2](h)
        edge = torch.stack([z[:, k].sort().values[2 if signs[k] > 0 else -3] for k in range(12)])
        net[2].bias -= edge  # every unit of the second layer bends at two points
    report = shrink(net, x, nearly=2e-3).report
    (_, _, entropy, changed) = next(layer for layer in report.nearly.layers if layer[0] == "2")
    assert (changed, entropy < 0.02) == (12, True)
    assert "fused" in {gone.why for gone in report.gone if gone.layer == "2"} | set(report.reasons)
    assert report.units_left < shrink(net, x).report.units_left


def test_what_is_padded_or_has_no_straight_end_is_not_lifted():
    torch.manual_seed(3)
    net = nn.Sequential(nn.Conv2d(2, 8, 3), nn.ReLU(), nn.Conv2d(8, 4, 3, padding=1), nn.ReLU6(), nn.Conv2d(4, 2, 1))
    net[0].bias.data += torch.linspace(-1, 2, 8)
    x = torch.randn(200, 2, 6, 6)
    found = shrink(net, x, nearly=0.2).report.nearly
    assert found.linear == 0
    assert [layer[0] for layer in found.layers] == ["0"]


def test_the_report_says_so_in_words_and_in_json():
    net, x = dense()
    done = shrink(net, x, nearly=0.05)
    assert "outputs differ on the data too" in str(done)
    told = json.loads(shrink_sheet(done.report, model="m").text("json"))
    jsonschema.validate(told, json.loads(schema("shrink")))
    assert told["nearly"]["share"] == 0.05


@pytest.mark.parametrize(("options", "said"), [({"nearly": 0.7}, "share"), ({"nearly": 0.1, "box": (-1, 1)}, "proved")])
def test_wrong_shares_are_refused(options, said):
    net, x = dense()
    with pytest.raises(AliveError, match=said):
        shrink(net, x, **options)
