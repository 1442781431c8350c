"""The verdict before training: what it says of networks whose fate is known, and what it advises."""

from __future__ import annotations

import json
import sys
from dataclasses import replace
from importlib import import_module
from io import StringIO

import pytest
import torch
import typer
from rich.console import Console
from torch import nn
from typer.testing import CliRunner

from alive.cli.preflight import preflight as command
from alive.data import Data, digits, moons
from alive.diagnosis import census
from alive.errors import AliveError
from alive.forecast import RISK, by_size, preflight
from alive.nn import Rectangular
from alive.theory import birth, point_dead

app = typer.Typer()
app.command()(command)


@pytest.fixture
def own(tmp_path, monkeypatch):
    """A module of the user's own: a network that is dead, functions that make dead and lively ones."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / "mine_preflight.py").write_text(
        "import torch\n"
        "from torch import nn\n"
        "made = 0\n"
        "def deep():\n"
        "    global made\n"
        "    made += 1\n"
        "    layers = [nn.Linear(2, 3), nn.ReLU()] + [m for _ in range(19) for m in (nn.Linear(3, 3), nn.ReLU())]\n"
        "    return nn.Sequential(*layers, nn.Linear(3, 1))\n"
        "def flat(): return nn.Sequential(nn.Linear(2, 64), nn.ReLU(), nn.Linear(64, 1))\n"
        "dead = flat()\n"
        "nn.init.constant_(dead[0].bias, -99.0)\n"
        "live = flat()\n"
    )
    sys.modules.pop("mine_preflight", None)
    yield "mine_preflight"
    sys.modules.pop("mine_preflight", None)


def run(*args: object) -> str:
    done = CliRunner().invoke(app, list(map(str, args)), catch_exceptions=False)
    assert done.exit_code == 0, done.output
    return done.stdout


def test_fifty_by_four_is_born_dead_and_the_advice_holds():
    found = json.loads(run("--depth", 50, "--width", 4, "--draws", 300, "--json"))
    assert found["model"] == "50x4"
    assert found["born_dead"]["value"] > 0.9
    expected = point_dead("glorot", [4] * 50)
    assert found["closed_form_dead_point"] == pytest.approx(expected)
    assert abs(found["dead_points"]["value"] - expected) < 4 * found["dead_points"]["error"]
    changes = {remedy["change"].split(":")[0].split(" (")[0]: remedy for remedy in found["remedies"]}
    # At this depth no width helps Glorot's start: whatever the width, the gradient is lost on its way back.
    assert set(changes) == {
        "start mirrored",
        "make it shallower",
        "add batch norm",
        "start kaiming",
        "train with the penalty, which revives dead units and points",
    } - ({"start kaiming"} - set(changes))  # which helps no more than chance may show
    for name in ("start mirrored", "make it shallower"):
        assert changes[name]["lost"]["value"] < RISK
    assert changes["train with the penalty, which revives dead units and points"]["lost"] is None


def test_a_width_is_advised_that_is_wide_enough():
    found = by_size(20, 3, moons(), draws=400)
    wider = next(remedy for remedy in found.remedies if remedy.change.startswith("make it wider"))
    depth, width = map(int, wider.change.split(": ")[1].split("x"))
    assert depth == 20
    assert wider.lost.value < RISK + 0.02
    again = birth(moons().train_x, depth=20, width=width, draws=800, generator=torch.Generator().manual_seed(1))
    assert again.born_dead.value < RISK + 0.03
    thinner = birth(moons().train_x, depth=20, width=width - 2, draws=800, generator=torch.Generator().manual_seed(1))
    assert thinner.born_dead.value > RISK


def test_a_wide_network_is_fit_to_train_and_needs_nothing():
    found = by_size(3, 10, moons(), draws=300)
    assert found.verdict.startswith("a signal passes at the start")
    assert found.remedies == ()
    out = run("3x10", "--draws", 300)
    assert "a signal passes at the start" in out
    assert "What to do" not in out


def test_the_table_names_the_numbers_and_the_cures():
    out = run("20x3", "--draws", 200)
    for words in (
        "200 fresh networks, 85 points",
        "closed form",
        "±",
        "born dead more often than not",
        "make it wider",
    ):
        assert words in out


def test_it_agrees_with_the_census_of_fresh_models():
    found = by_size(12, 3, moons(), draws=500)
    dead = torch.tensor(
        [
            census(
                Rectangular(2, 1, depth=12, width=3, generator=torch.Generator().manual_seed(seed)), moons().train_x
            ).points.dead
            / 85
            for seed in range(60)
        ]
    )
    error = (float(dead.var()) / 60 + found.dead_points.error**2) ** 0.5
    assert abs(float(dead.mean()) - found.dead_points.value) < 4 * error


def test_images_are_judged_by_convolutions():
    found = by_size(10, 2, digits(), init="torch", draws=10, points=30)
    assert (found.points, found.draws, found.closed_form, found.data) == (30, 10, None, "digits, 30 of 1437 points")
    assert found.born_dead.value > 0


def test_batch_norm_and_other_starts():
    assert by_size(30, 4, moons(), init="mirrored", draws=100).born_dead.value == 0
    assert by_size(5, 4, moons(), init="zeros", draws=5).born_dead.value == 1
    assert by_size(30, 4, moons(), batch_norm=True, draws=100).closed_form is None


def test_a_function_of_ones_own_is_drawn_again_and_again(own):
    found = preflight(import_module(own).deep, moons(), draws=15)
    assert sys.modules[own].made >= 15
    assert (found.draws, found.fixed) == (15, False)
    assert found.born_dead.value > 0.5
    assert found.born_dead.error > 0
    assert found.remedies[0].lost.value < 0.2, "mirrored, measured on the model itself"


def test_a_network_that_is_there_is_counted_once(own):
    dead = json.loads(run(f"{own}:dead", "--data", "moons", "--json"))
    assert (dead["draws"], dead["fixed"], dead["born_dead"]) == (1, True, {"value": 1.0, "error": 0.0})
    assert dead["remedies"]
    live = preflight(import_module(own).live, moons())
    assert live.verdict.startswith("a signal passes at the start; whether it learns")
    assert live.dead_units.value == pytest.approx(census(sys.modules[own].live, moons().train_x).units.dead / 64)


def test_same_seed_same_verdict_and_global_state_untouched(own):
    import_module(own)  # draws what it makes
    before = torch.get_rng_state()
    a, b = (preflight(import_module(own).deep, moons(), draws=3, seed=4) for _ in range(2))
    assert a == b
    assert torch.equal(before, torch.get_rng_state())
    assert run("8x3", "--draws", 50, "--seed", 1) == run("8x3", "--draws", 50, "--seed", 1)


def test_points_are_limited_evenly_over_classes():
    x = torch.randn(300, 2)
    many = Data("many", x, torch.arange(300) % 2, None, None, 2)
    assert by_size(2, 4, many, draws=5, points=50).points == 50
    assert by_size(2, 4, many, draws=5).points == 300


@pytest.mark.parametrize(("split", "points"), [("train", 85), ("test", 15), ("all", 100)])
def test_the_test_points_may_be_looked_at(split, points):
    assert json.loads(run("3x8", "--split", split, "--draws", 2, "--json"))["points"] == points


@pytest.mark.parametrize(
    "args", [[], ["5x4", "--depth", "3", "--width", "4"], ["--depth", "3"], ["5x4", "--width", "2"]]
)
def test_which_network_must_be_clear(args):
    with pytest.raises(AliveError, match="say which network"):
        CliRunner().invoke(app, args, catch_exceptions=False, standalone_mode=False)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"init": "gloro"}, "did you mean 'glorot'"),
        ({"draws": -1}, "at least 1"),
        ({"draws": 0}, "at least 1, got 0"),
        ({"draws": 2, "points": 0}, "at least 1, got 2 and 0"),
    ],
)
def test_bad_input_is_refused(options, said):
    with pytest.raises(AliveError, match=said):
        by_size(5, 4, moons(), **options)


@pytest.mark.parametrize(
    ("model", "said"), [("50y4", "expected depth x width"), ("no_such_module:make", "cannot import")]
)
def test_a_model_that_is_none_is_refused(model, said):
    with pytest.raises(AliveError, match=said):
        CliRunner().invoke(app, [model, "--data", "moons"], catch_exceptions=False, standalone_mode=False)


def test_a_name_is_no_model():
    with pytest.raises(AliveError, match="expected a model, or a function that makes it, got str"):
        preflight("mine:make_model", moons())


@pytest.mark.parametrize(("depth", "init"), [(30, "torch"), (50, "glorot")])
def test_without_a_signal_no_network_is_fit_to_train(depth, init):
    """Hardly a unit is born dead: points become one, or the gradient is lost; and the closed forms say so too."""
    found = by_size(depth, 16, moons(), init=init, draws=15)
    assert found.born_dead.value < RISK
    assert found.lost.value > 0.9
    assert "passes" not in found.verdict
    assert "more often than not" in found.verdict
    assert found.closed_gradient < 1e-7
    assert found.closed_gradient / 1e3 < found.gradient < 3 * found.closed_gradient  # a median, and a root mean square
    best = found.remedies[0]
    assert best.change.startswith("start mirrored")
    assert best.lost.value == 0


def lost_by_hand(make, x, draws):
    """Without any of our own measures: the spread of the output, and the gradient of the first weight."""
    lost = 0
    for seed in range(draws):
        torch.manual_seed(seed)
        model = make()
        out = model(x)
        first = next(model.parameters())
        gradient = torch.autograd.grad(out.sum(), first)[0].norm()
        spread = out.double().std(0).mean() / out.double().square().mean().sqrt()
        lost += bool(spread < 1e-4) or bool(gradient < 1e-8 * len(x))
    return lost / draws


def stack(depth, width, norm):
    layers = []
    for number in range(depth):
        layers += [nn.Linear(width if number else 8, width), *([nn.BatchNorm1d(width)] if norm else []), nn.ReLU()]
    return nn.Sequential(*layers, nn.Linear(width, 2))


@pytest.mark.twin
@pytest.mark.parametrize(("depth", "norm", "lost"), [(30, False, 1.0), (30, True, 0.0), (4, False, 0.0)])
def test_a_model_of_ones_own_agrees_with_autograd_by_hand(depth, norm, lost):
    """Batch norms count as they are in training: fresh ones would do nothing in eval mode."""
    x = torch.randn(100, 8, generator=torch.Generator().manual_seed(0))
    found = preflight(lambda: stack(depth, 16, norm), x, draws=4)
    assert found.lost.value == lost == lost_by_hand(lambda: stack(depth, 16, norm), x, 4)
    assert found.shares.merged.value == found.shares.vanished.value == lost, "both are true of the deep one"


def test_a_function_that_seeds_itself_is_noticed():
    def seeded():
        torch.manual_seed(0)
        return stack(2, 8, False)

    found = preflight(seeded, torch.randn(20, 8))
    assert (found.alike, found.fixed, found.draws) == (True, True, 1)
    console = Console(width=100, file=StringIO())
    console.print(found)
    assert "the same weights each time" in console.file.getvalue()
    assert not preflight(lambda: stack(2, 8, False), torch.randn(20, 8), draws=2).alike


def test_a_finished_network_keeps_its_fresh_norms():
    model = stack(3, 8, True)
    preflight(model, torch.randn(20, 8))
    assert all(int(m.num_batches_tracked) == 0 for m in model.modules() if isinstance(m, nn.BatchNorm1d))


def test_a_census_gives_no_verdict_on_norms_that_have_seen_nothing():
    found = census(stack(30, 16, True), torch.randn(100, 8), gradient=True)
    assert found.gone == ""
    assert len(found.unsettled) == 30
    assert "vanished" in found.words(found.layers[0])


def test_the_advice_on_norms_that_have_seen_nothing_is_to_let_them_see():
    first, *others = census(stack(30, 16, True), torch.randn(100, 8), gradient=True).findings
    assert first.found.startswith("30 batch norms (1 first) have seen no data yet")
    assert not any(advice.grave or advice.cures for advice in (first, *others))


def test_a_network_from_which_no_gradient_comes_back_is_not_fit_to_train():
    class NoGradient(nn.Module):
        def __init__(self):
            super().__init__()
            self.a, self.b = nn.Linear(4, 16), nn.Linear(16, 2)

        @torch.no_grad()
        def forward(self, x):
            return self.b(self.a(x).relu())

    found = preflight(NoGradient, torch.randn(100, 4), draws=5)
    assert found.shares.vanished.value == 1.0
    assert "passes" not in found.verdict
    assert [remedy.change.split(":")[0] for remedy in found.remedies] == ["look for what cuts the gradient off"]


def test_names_are_no_markup():
    """`mine:x` beside a colon is no emoji, and brackets are no style."""
    found = by_size(3, 8, moons(), draws=5)
    for name in ("x", "data[0]", "[red]"):
        console = Console(file=StringIO(), width=120)
        console.print(replace(found, model="mine:make_model", data=f"mine:{name}"))
        assert f"mine:make_model on mine:{name}: 5 fresh networks" in console.file.getvalue()


def test_lazy_layers_are_drawn_like_others():
    x = torch.randn(60, 5)

    def lazy():
        return nn.Sequential(nn.LazyLinear(8), nn.LazyBatchNorm1d(), nn.ReLU(), nn.LazyLinear(2))

    found = preflight(lazy, x, draws=4)
    assert (found.draws, found.alike, found.points) == (4, False, 60)
    assert found.verdict.startswith("a signal passes at the start")
