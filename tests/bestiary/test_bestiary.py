"""The bestiary: every beast is counted and penalised right, or said to be unknown; never wrong without a word."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import judge as brute
import pytest
import table
import torch
from case import Case, Layer, along, laid_out
from judge import judge
from notebook import Made
from torch import nn

REWRITE = "python tests/bestiary/table.py writes it anew"


@pytest.mark.parametrize("case", table.entered(), ids=lambda case: case.name)
def test_no_beast_is_wrong_without_a_word(case):
    if not table.can_run(case):
        pytest.skip(f"{case.needs} is not installed")
    verdict = judge(case)
    assert verdict.census in ("right", "told"), verdict.why
    assert verdict.penalty in ("right", "told"), verdict.why
    assert verdict.untouched, verdict.why
    if case.kind != "transformers":  # whose sums are so long that another machine's rounding may turn right into told
        assert table.parsed(table.DOCUMENT.read_text())[case.name] == (verdict.census, verdict.penalty), REWRITE


def test_nearly_every_beast_has_something_to_find():
    """Where all units and points are nonlinear, many a wrong layout looks right."""
    cases = [case for case in table.entered() if table.can_run(case)]
    idle = []
    for case in cases:
        layers = brute.true_layers(case)
        states = {state for layer in layers for state in layer.states(layer.units).values()}
        if not (states | set(brute.overall(layers).values())) - {"nonlinear"}:
            idle.append(case.name)
    assert len(idle) <= len(cases) / 20, idle


def test_the_document_is_what_the_verdicts_make():
    text = table.DOCUMENT.read_text()
    assert text == table.document(table.parsed(text), table.before()), REWRITE


def test_every_beast_has_a_name_of_its_own_and_was_tried_before():
    names = [case.name for case in table.entered()]
    assert [name for name, times in Counter(names).items() if times > 1] == []
    assert len(names) >= 120
    assert sorted(set(names) ^ set(table.before())) == []


# The judge can say no


def plain(truth, *, make=None, **more):
    """A dense layer, its ReLU, and what is claimed to be the truth of it."""

    def usual():
        model = nn.Sequential(nn.Linear(3, 4), nn.ReLU())
        model[0].bias.data[1] = -20.0
        return model, torch.randn(6, 3) + torch.linspace(-2, 2, 6)[:, None]

    return Case("plain", "of the judge", make or usual, truth, **more)


def true(model, batch):
    return [laid_out(model[0](batch), points=0, units=1)]


def test_the_truth_is_right():
    assert judge(plain(true)) == brute.Verdict("plain", "of the judge", "right", "right", True, "")


def shifted(model, batch):
    return [laid_out(model[0](batch) + 0.25, points=0, units=1)]


def swapped(model, batch):
    return [laid_out(model[0](batch), points=1, units=0)]


def one_more(model, batch):
    return [*true(model, batch), laid_out(model[0](batch) * 2, points=0, units=1)]


def none(model, batch):
    return []


@pytest.mark.parametrize("wrong", [shifted, swapped, one_more, none])
def test_a_wrong_truth_is_silent(wrong):
    verdict = judge(plain(wrong))
    assert (verdict.census, verdict.penalty) == ("silent", "right" if wrong is swapped else "silent"), verdict.why


def folded_wrong(model, batch):
    z = model[0](batch)
    return [Layer(z, along(z, 0) // 2, along(z, 1))]


def test_wrong_points_are_silent():
    verdict = judge(plain(folded_wrong))
    assert (verdict.census, verdict.penalty) == ("silent", "silent")


def test_another_gradient_is_silent():
    def detached(model, batch):
        z = model[0](batch)
        return [laid_out(z.detach() + (z - z.detach()) * 2, points=0, units=1)]

    verdict = judge(plain(detached))
    assert (verdict.census, verdict.penalty) == ("right", "silent")
    assert "another gradient" in verdict.why


def test_another_reading_may_be_the_right_one():
    assert judge(plain(swapped, others=(shifted, true))).census == "right"


def test_a_cutoff_and_a_ceiling_matter():
    def low(model, batch):
        return [laid_out(model[0](batch), points=0, units=1, cutoff=-30.0)]

    def capped(model, batch):
        return [laid_out(model[0](batch), points=0, units=1, ceiling=-40.0)]

    assert judge(plain(low)).penalty == "silent"
    assert judge(plain(capped)).census == "silent"


def test_a_model_that_is_changed_is_found(monkeypatch):
    def meddling(model, data, **options):
        model[0].bias.data += 1
        return counted(model, data, **options)

    counted = brute.alive.census
    monkeypatch.setattr(brute.alive, "census", meddling)
    verdict = judge(plain(true))
    assert not verdict.untouched
    assert "census changed value of 0.bias" in verdict.why


@pytest.mark.parametrize(
    ("error", "verdict"), [(RuntimeError("broken"), "crash"), (brute.AliveError("no", "yes"), "told")]
)
def test_a_crash_is_no_answer(monkeypatch, error, verdict):
    def failing(*_, **__):
        raise error

    monkeypatch.setattr(brute.alive, "census", failing)
    monkeypatch.setattr(brute.alive, "Jumpstart", failing)
    found = judge(plain(true))
    assert (found.census, found.penalty) == (verdict, verdict)


def test_what_alive_does_to_a_model_that_runs_is_a_crash():
    """An AliveError that only hands on another error is no answer."""

    def failing(model, x):
        if any(len(module._forward_hooks) for module in model.modules()):
            raise RuntimeError("hooked")
        return model.a(x).relu()

    case = plain(
        lambda m, x: [laid_out(m.a(x), points=0, units=1)],
        make=lambda: (Made(failing, a=nn.Linear(3, 4)), torch.randn(6, 3)),
    )
    assert judge(case).census == "crash"


def test_unknown_counts_as_told_only_where_the_rest_is_true():
    class Tally(tuple):
        dead, linear, nonlinear, broken, unknown = 1, 0, 2, 0, 3

    assert brute._tally_fits(Tally(), Counter(dead=2, nonlinear=4)) == "told"
    assert brute._tally_fits(Tally(), Counter(dead=0, nonlinear=6)) == ""
    assert brute._tally_fits(Tally(), Counter(dead=2, nonlinear=5)) == ""


def test_states_by_hand():
    states = [brute.state(*pair, 0.0, 6.0) for pair in [(0, -1), (7, 6), (6, 1), (7, 1), (1, -1), (float("nan"), 0)]]
    assert states == ["dead", "dead", "linear", "nonlinear", "nonlinear", "broken"]


def test_a_penalty_that_leaves_out_a_term_is_told_if_it_says_so():
    whole = [brute.Term(f"{i}", float(i), torch.randn(5)) for i in range(20)]
    part = brute.Term("measured", sum(t.value for t in whole[3:]), sum(t.gradient for t in whole[3:]))
    assert brute._explained(part, whole, []).verdict == "silent"
    assert brute._explained(part, whole[:12], ["some are left out"]).verdict == "silent"
    part = brute.Term("measured", sum(t.value for t in whole[3:12]), sum(t.gradient for t in whole[3:12]))
    assert brute._explained(part, whole[:12], ["some are left out"]).verdict == "told"
    assert brute._explained(part, whole[:12], []).verdict == "silent"


def test_a_wrong_first_death_is_silent(monkeypatch):
    def deathless(*args, **options):
        found = counted(*args, **options)
        return replace(found, died_at=torch.full_like(found.died_at, -1))

    counted = brute.alive.census
    assert counted(*plain(true).make()).points.dead
    monkeypatch.setattr(brute.alive, "census", deathless)
    verdict = judge(plain(true))
    assert verdict.census == "silent"
    assert "died_at" in verdict.why


def test_a_wrong_rate_is_silent(monkeypatch):
    def one_too_many(*args, **options):
        found = counted(*args, **options)
        (layer,) = found.layers
        return replace(found, layers=(replace(layer, rates=replace(layer.rates, on=layer.rates.on + 1)),))

    counted = brute.alive.census
    monkeypatch.setattr(brute.alive, "census", one_too_many)
    assert judge(plain(true)).census == "silent"


def test_layers_of_one_name_are_one():
    a = Layer(torch.tensor([[1.0, -1.0]]), torch.tensor([[0]]), torch.tensor([[0, 1]]), name="same")
    b = replace(a, z=torch.tensor([[-2.0, -3.0]]), point=torch.tensor([[1]]))
    (layer,) = brute.truths([[a, b]])
    assert layer.units == {0: (1.0, -2.0), 1: (-1.0, -3.0)}
    assert brute.overall([layer]) == {(0, 0): "nonlinear", (0, 1): "dead"}
    found = brute.terms(nn.Linear(1, 1), [a, b])
    assert [(term.what, term.value) for term in found] == [("units of layer 0", 1.0), ("points of layer 0", 2.25)]
