"""The engine of the page against torch, in a real browser: starts, gradients, steps and census."""

from __future__ import annotations

import json
from typing import Any

import pytest
import torch
from torch_twin import ACTIVATIONS, DEFAULTS, METHODS, STARTS, Twin, build, flat, points

pytestmark = pytest.mark.twin

STEPS = 50
# Rounding differs and grows from step to step; what a mistake would change is many orders larger.
CLOSE = 1e-7


@pytest.fixture(scope="module")
def engine(browser, page):
    browser.open(f"{page}#epoch=0")
    return browser


def begun(settings: dict[str, Any]) -> str:
    return f"const s = {json.dumps(settings)}; const r = new lab.Run(s, lab.load(s));"


@pytest.mark.parametrize("start", STARTS)
@pytest.mark.parametrize("width", [2, 4, 5, 12])
def test_a_seed_starts_the_network_that_it_starts_in_torch(engine, start, width):
    for seed in (10, 4294967295):
        settings = {**DEFAULTS, "start": start, "width": width, "depth": 3, "seed": seed}
        ours = engine.ask(f"(() => {{ {begun(settings)} return [...r.network.parameters] }})()")
        assert torch.tensor(ours, dtype=torch.float64).sub(flat(build(settings, points()[0]))).abs().max() < 1e-14


def test_the_points_are_those_of_alive(engine):
    x, y = points()
    found = engine.ask(
        "(() => { const d = lab.load({data: 'moons', seed: 0}); return [[...d.train.x], [...d.train.y]] })()"
    )
    assert torch.tensor(found[0], dtype=torch.float64).view(2, -1).t().sub(x).abs().max() < 1e-15
    assert found[1] == y.tolist()


WALK = """
const norms = () => r.network.hidden.flatMap(({norm}) => norm ? [[...norm.mean], [...norm.variance]] : []);
const row = () => ({weights: [...r.network.parameters], loss: r.loss, penalty: r.penalised, units: [...r.census.units],
  points: [...r.census.points], running: norms()});
const rows = []; for (let k = 0; k < %d; k++) { rows.push(row()); r.step(); }
return {rows, diedAt: [...r.census.diedAt], units: r.census.unitTally, points: r.census.pointTally};
"""


def walked(engine, settings, weights, steps):
    return engine.ask(f"(() => {{ {begun(settings)} r.set({json.dumps(weights)}); {WALK % steps} }})()")


def compare(engine, settings, steps=STEPS, close=CLOSE):
    """Both walk by themselves from the same weights: weights, losses and census after every step."""
    twin = Twin(settings)
    found = walked(engine, settings, flat(twin.model).tolist(), steps)
    for number, ours in enumerate(found["rows"]):
        theirs = twin.step()
        assert abs(ours["loss"] - theirs.loss) <= close * max(1, abs(theirs.loss)), number
        assert abs(ours["penalty"] - theirs.penalty) <= close * max(1, theirs.penalty), number
        weights = torch.tensor(ours["weights"], dtype=torch.float64)
        assert torch.allclose(weights, theirs.weights, rtol=close, atol=close), number
        running = (torch.tensor(each, dtype=torch.float64) for each in (ours["running"], theirs.running))
        assert torch.allclose(*running, rtol=close, atol=close), number
        assert ours["units"] == theirs.units, number
        assert ours["points"] == theirs.points, number
    census = twin.census()
    states = ("dead", "linear", "nonlinear", "broken")
    assert found["units"] == {name: getattr(census.units, name) for name in states}
    assert found["points"] == {name: getattr(census.points, name) for name in states}
    assert found["diedAt"] == census.died_at.tolist()


# Where top and bottom pull a bias of 0 with equal force, rounding alone decides whether the unit is on: there, torch's
# numbers are given to the engine before every step.
UNDECIDED = {("sep-u", "glorot"), ("sep-u", "kaiming"), ("sep-up", "kaiming")}


@pytest.mark.parametrize("start", STARTS)
@pytest.mark.parametrize("method", METHODS)
def test_fifty_steps_are_those_of_torch(engine, method, start):
    check = beside if (method, start) in UNDECIDED else compare
    check(engine, {**DEFAULTS, "method": method, "start": start}, STEPS)


@pytest.mark.parametrize("optimiser", ["sgd", "momentum"])
@pytest.mark.parametrize("method", ["none", "batch-norm", "skip", "sep-up", "farkas"])
def test_every_optimiser_steps_as_torch_does(engine, method, optimiser):
    compare(engine, {**DEFAULTS, "method": method, "optimiser": optimiser, "depth": 5, "width": 7, "rate": 0.05}, 20)


@pytest.mark.parametrize("activation", [name for name in ACTIVATIONS if name != "relu"])
@pytest.mark.parametrize("method", ["batch-norm", "skip", "sep-up", "farkas"])
def test_every_activation_is_that_of_torch(engine, method, activation):
    compare(engine, {**DEFAULTS, "method": method, "activation": activation, "depth": 5, "width": 5}, 10)


@pytest.mark.parametrize("method", ["none", "sep-up"])
def test_one_unit_wide_there_is_no_axis_of_points(engine, method):
    compare(engine, {**DEFAULTS, "method": method, "depth": 3, "width": 1, "start": "torch"}, 10)


def beside(engine, settings, steps):
    """At every step of torch the engine is given torch's numbers: loss, penalty, gradient and census must be the same.

    Fifty layers of batch norm amplify rounding so much that two walks part; one step cannot.
    """
    twin = Twin(settings)
    rows = [twin.step() for _ in range(steps)]
    given = json.dumps([(row.weights.tolist(), row.running) for row in rows])
    found = engine.ask(
        f"(() => {{ {begun(settings)} return {given}.map(([weights, running]) => {{ r.set(weights, running); "
        "return [r.loss, r.penalised, [...r.gradient()], [...r.census.units], [...r.census.points]] }) })()"
    )
    for number, (row, (loss, extra, gradient, units, by_point)) in enumerate(zip(rows, found, strict=True)):
        assert loss == pytest.approx(row.loss, rel=1e-7), number
        assert extra == pytest.approx(row.penalty, rel=1e-9), number
        off = torch.tensor(gradient, dtype=torch.float64).sub(row.gradient).abs().max()
        assert off <= 1e-6 * row.gradient.abs().max(), number
        assert (units, by_point) == (row.units, row.points), number


@pytest.mark.parametrize("method", ["batch-norm", "sep-up"])
def test_fifty_by_four_is_right_at_every_step(engine, method):
    beside(engine, {**DEFAULTS, "method": method, "depth": 50}, 10)


@pytest.mark.slow
@pytest.mark.parametrize("start", STARTS)
@pytest.mark.parametrize("method", METHODS)
def test_fifty_by_four_is_right_at_every_step_of_fifty(engine, method, start):
    beside(engine, {**DEFAULTS, "method": method, "start": start, "depth": 50}, STEPS)
