"""Copy as PyTorch: the code runs, and does what the page does, number for number."""

from __future__ import annotations

import json
from contextlib import redirect_stdout
from io import StringIO

import pytest
import torch
from torch_twin import flat

pytestmark = pytest.mark.twin

FIRST = "depth=4&width=5&seed=3&start=torch&epoch=12"
LINKS = [
    *(f"{FIRST}&data={data}" for data in ("circles", "spirals", "checkerboard")),
    f"{FIRST}&data=own&points=0.5,0.25,1;-0.5,0.125,0;0.3,-0.7,1",
    *(f"{FIRST}&method={method}" for method in ("batch-norm", "skip", "sep-u", "sep-p", "sep-up", "farkas")),
    *(f"depth=4&width=5&seed=3&epoch=12&start={start}" for start in ("glorot", "kaiming", "zeros", "mirrored")),
    *(f"{FIRST}&method=skip&activation={each}" for each in ("leaky-relu", "elu", "gelu", "silu", "softplus")),
    f"{FIRST}&optimiser=sgd&rate=0.5",
    f"{FIRST}&optimiser=momentum",
    f"{FIRST}&cure=5:mirrored",
    f"{FIRST}&cure=5:sep-up",
    f"{FIRST}&method=skip&cure=3:mirrored&cure=5:sep-up",
    f"{FIRST}&method=batch-norm&cure=3:mirrored",
]


@pytest.fixture(scope="module")
def engine(browser, page):
    browser.open(f"{page}#epoch=0")
    return browser


def ran(code):
    """The names that the code leaves, and what it prints."""
    names: dict[str, object] = {"__name__": "__main__"}
    before = torch.get_default_dtype()
    try:
        with redirect_stdout(StringIO()) as said:
            exec(compile(code, "copied", "exec"), names)
    finally:
        torch.set_default_dtype(before)
    return names, said.getvalue()


RUN = """(() => {
  const { state, faults } = lab.readLink(LINK);
  const r = new lab.Run(state.nets[0], lab.load(state.nets[0], state.own));
  const doses = [...state.doses];
  const dose = () => { while (doses.length && doses[0].epoch <= r.epoch) r.cure(doses.shift().how); };
  dose(); while (r.epoch < state.epoch) { r.step(); dose(); }
  return {faults, code: lab.pytorch(state, 0), weights: [...r.network.parameters], accuracy: r.history.accuracy.at(-1),
    x: [...r.data.train.x], dead: r.census.unitTally.dead};
})()"""


@pytest.mark.parametrize("link", LINKS)
def test_the_code_runs_and_trains_the_same_network(engine, link):
    ours = engine.ask(RUN.replace("LINK", json.dumps(link)))
    assert ours["faults"] == []
    names, said = ran(ours["code"])
    x = torch.tensor(ours["x"], dtype=torch.float64).view(2, -1).t()
    assert torch.allclose(names["x"], x, rtol=0, atol=1e-14)
    weights = torch.tensor(ours["weights"], dtype=torch.float64)
    assert torch.allclose(flat(names["model"]), weights, rtol=1e-7, atol=1e-7)
    assert f"training accuracy {ours['accuracy']:.3f}" in said
    assert "dead" in said or not ours["dead"]


def test_code_of_the_second_network_is_its_own(engine):
    link = json.dumps(f"{FIRST}&compare=1&b.method=skip")
    first, second = (engine.ask(f"lab.pytorch(lab.readLink({link}).state, {net})") for net in (0, 1))
    assert "Residual" in second
    assert "Residual" not in first
