"""What is left out, from how much on, what fails, and what cannot be ruled out."""

from __future__ import annotations

import json

import pytest
import torch
from torch import nn

import alive as library
from alive.findings.conditions import condition, is_open
from alive.findings.policy import Policy, of_project, policy
from alive.findings.rules import RULES, rules_of


def rules(out: str) -> set[str]:
    return {a["rule"] for a in json.loads(out)["findings"]}


def test_ignoring_by_rule_and_by_layer(alive, mine):
    assert {"ALV001", "ALV003"} <= rules(alive("census", "mine:make_model", "--json")[1])
    assert "ALV003" not in rules(alive("census", "mine:make_model", "--json", "--ignore", "ALV003")[1])
    out = alive("census", "mine:make_model", "--json", "--ignore", "ALV003,ALV001:a*")[1]
    assert all(a["rule"] != "ALV003" and not a["label"].startswith("a") for a in json.loads(out)["findings"])
    out = alive("census", "mine:drowned", "--json", "--ignore", "ALV001:a*")[1]
    assert [a["label"] for a in json.loads(out)["findings"] if a["rule"] == "ALV001"] == ["b → relu"]


@pytest.mark.parametrize(("text", "stays"), [("0", True), ("1", False), ("16%", True), ("17%", False)])
def test_a_threshold_is_a_number_or_a_share_of_the_layer(alive, mine, text, stays):
    """One of six units of the first layer is dead: 16.7%."""
    out = alive("census", "mine:make_model", "--json", "--ignore", "ALV001:b*", "--threshold", f"ALV001={text}")[1]
    assert ("ALV001" in rules(out)) == stays


@pytest.mark.filterwarnings("ignore:rnn has its ReLU inside")
@pytest.mark.parametrize(
    ("model", "on", "code"),
    [
        ("healthy", "note", 0),
        ("make_model", "ALV001", 1),
        ("make_model", "error", 0),
        ("make_model", "warning", 1),
        ("drowned", "error", 1),
        ("make_model", "dead_units>0", 1),
        ("healthy", "ALV007", 0),
        ("vanished", "ALV007", 1),
        ("sorted_", "ALV001", 1),
        ("mixed", "ALV002", 1),
        ("mixed", "ALV012", 1),
        ("normed", "ALV007", 1),
        ("recurrent", "ALV001", 1),
    ],
)
def test_exit_codes(alive, mine, model, on, code):
    got, _, err = alive("census", f"mine:{model}", "--fail-on", on)
    assert got == code, err
    if code and model in ("mixed", "sorted_", "normed", "recurrent") and on != "ALV012":
        assert "cannot be ruled out" in err


def test_what_is_ignored_or_below_its_threshold_does_not_fail(alive, mine):
    assert alive("census", "mine:make_model", "--fail-on", "ALV001", "--ignore", "ALV001")[0] == 0
    assert alive("census", "mine:make_model", "--fail-on", "ALV001", "--threshold", "ALV001=50%")[0] == 0
    assert alive("census", "mine:sorted_", "--fail-on", "ALV001", "--ignore", "ALV001:relu")[0] == 0


def test_a_project_says_it_for_good(alive, mine):
    (mine / "pyproject.toml").write_text(
        '[tool.alive]\nignore = ["ALV003"]\nthreshold = { ALV001 = "50%" }\nfail-on = ["ALV001"]\n'
    )
    code, out, _ = alive("census", "mine:make_model", "--json")
    assert (code, rules(out) & {"ALV001", "ALV003"}) == (0, set())
    code, out, _ = alive("census", "mine:make_model", "--json", "--threshold", "ALV001=0")
    assert (code, "ALV001" in rules(out)) == (1, True)
    assert alive("shrink", "mine:make_model")[0] == 0  # a rule of the census is none of shrink's
    inner = mine / "inner"
    inner.mkdir()
    assert of_project(inner).dropped == ("ALV003",)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ('ignore = ["ALV999"]', "unknown rule id 'ALV999'"),
        ('ignor = ["ALV001"]', "did you mean 'ignore'"),
        ('ignore = "ALV001"', "not a list"),
        ("ignore = [", "cannot read"),
        ("threshold = 3", "no table"),
    ],
)
def test_a_project_file_that_is_wrong_is_named(alive, mine, text, said):
    (mine / "pyproject.toml").write_text(f"[tool.alive]\n{text}\n")
    code, _, err = alive("census", "mine:make_model")
    assert code == 2
    assert said in err
    assert "pyproject.toml" in err
    assert err.count("\n") == 1


def test_a_table_of_another_tool_is_not_read(tmp_path):
    (tmp_path / "pyproject.toml").write_text("[tool.other]\nignore = 3\n")
    assert of_project(tmp_path) == Policy()


class Sums(nn.Module):
    """A layer over the points, whose points are nobody's."""

    def __init__(self):
        super().__init__()
        self.a, self.b = nn.Linear(3, 4), nn.Linear(6, 5)

    def forward(self, x):
        return torch.relu(self.b(self.a(x).transpose(0, 1)))


@pytest.mark.contract
@pytest.mark.parametrize("rule", rules_of("census"), ids=lambda rule: rule.id)
def test_every_rule_knows_when_it_is_open(rule):
    """Nothing is open where all was measured, and what says that something is unknown is never open itself."""
    known = library.census(nn.Sequential(nn.Linear(2, 8), nn.ReLU()), torch.randn(40, 2), gradient=True)
    assert not is_open(rule, known, Policy())
    hidden = library.census(Sums(), torch.randn(6, 3))
    assert is_open(rule, hidden, Policy()) == (rule.id in ("ALV002", "ALV006", "ALV007", "ALV008", "ALV011", "ALV017"))


def test_conditions_of_a_level_leave_out_what_is_ignored():
    asked = condition("warning", "census", policy(ignore=["ALV001"]))
    assert "ALV001" not in asked.rules
    assert all(RULES[name].level in ("error", "warning") for name in asked.rules)
    assert asked.wants_gradient
    assert not condition("ALV001", "census", Policy()).wants_gradient
