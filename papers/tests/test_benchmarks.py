"""Benchmarks: what they measure is what they say. Times are never asserted; bytes are."""

from __future__ import annotations

from importlib.util import find_spec

import pytest
import torch

from alive.penalties import Jumpstart
from alive_papers.benchmarks import Figure, device, penalty
from alive_papers.benchmarks.figure import interleaved


def test_a_figure_knows_its_target():
    assert Figure("a", 1.05, 1.05).reached
    assert not Figure("a", 1.06, 1.05).reached
    assert Figure("a", 99.0).reached
    assert "MISSED" in str(Figure("a", 1.06, 1.05))


def test_interleaved_runs_all_rivals_in_turn_after_a_warm_up():
    calls: list[str] = []
    taken = interleaved({"a": lambda: calls.append("a"), "b": lambda: calls.append("b")}, 3)
    assert calls == ["a", "b"] * 4
    assert set(taken) == {"a", "b"}


NETS = {
    "conv": penalty.conv(3, 4, 4),
    "dense": penalty.dense(5, 6, 9),
    "transformer": penalty.transformer(2, 8, 3, 5),
}


@pytest.mark.twin
@pytest.mark.parametrize("name", NETS)
def test_the_straightforward_rival_computes_the_same_penalty_and_gradient(name: str):
    net, found = NETS[name], []
    x = torch.randn(net.inputs)
    for attach in (
        lambda model: Jumpstart(model, weight=penalty.WEIGHT),
        lambda model: penalty.Straightforward(model, net.before_relu(model)),
    ):
        model = net.make()
        keep = attach(model)
        for _ in range(3):  # the first pass is followed, others may be quick
            model.zero_grad()
            model(x)
            value = keep.penalty()
            value.backward()
        keep.detach()
        found.append([value.detach(), *(p.grad for p in model.parameters() if p.grad is not None)])
    torch.testing.assert_close(*found)


def test_the_penalty_saves_nothing_of_the_size_of_the_activations():
    _, saved = penalty.rivals(penalty.conv(4, 16, 16))
    plain = saved["plain"]()
    assert saved["alive"]() <= penalty.SAVED * plain
    assert saved["straightforward"]() > 1.5 * plain, "the measure must see what a straightforward version saves"


def test_the_halved_network_keeps_half_of_its_hidden_units():
    from alive.nn import Rectangular
    from alive.surgery import shrink
    from alive_papers.benchmarks.shrink import halved

    net = halved(Rectangular(8, 3, depth=2, width=10, generator=torch.Generator().manual_seed(0)).eval())
    x = torch.rand(200, 8)
    done = shrink(net, x)
    assert [layer.units_left for layer in done.report.layers[:-1]] <= [5, 5]
    torch.testing.assert_close(done.model(x), net(x))


def test_waits_and_launches_of_a_device_are_counted_one_by_one() -> None:
    x = torch.randn(4, 3)
    with device.Ledger() as ledger:
        x.max(0)  # one launch, one reading
        x.t()  # none
        x[x > 0]  # a comparison, and a wait: as many results as there are positive values
        x.sum().item()  # a sum, and a wait
    assert ledger.work == (2, 5, 12 + 12 + 12 + 12 + 1)  # what is picked from counts by its places


def test_no_device_waits_and_the_kernels_reach_all_their_goals() -> None:
    figures = list(device.figures(1))
    assert all(figure.reached for figure in figures), [str(figure) for figure in figures if not figure.reached]
    assert sum(figure.name.startswith("waits") and figure.target == 0 for figure in figures) >= 3
    if find_spec("triton"):
        assert sum(figure.target is not None and figure.name.endswith("by Triton") for figure in figures) == 15
