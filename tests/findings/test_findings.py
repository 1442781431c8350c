"""Findings: the right finding for networks broken on purpose, cures that apply, and no comfort that is not due."""

from __future__ import annotations

import html
import re

import pytest
import torch
from torch import Tensor, nn
from torch.nn.utils.parametrizations import weight_norm

from alive import cures, findings
from alive.cures import ORDER, advise, find
from alive.cures.treatment import Treatment
from alive.diagnosis import Census, census
from alive.diagnosis.build import build
from alive.findings import Finding, see_all
from alive.findings.drowned import DROWNS
from alive.findings.finding import BY_HAND
from alive.findings.scale import FAR, LARGE, SMALL, UNEVEN, scale
from alive.render import text
from alive.render.sheet import census_sheet
from alive.taps import Declared, Selects


def dense(depth: int, width: int = 16, inputs: int = 4, activation: type[nn.Module] = nn.ReLU) -> nn.Sequential:
    layers = [nn.Linear(width if level else inputs, width) for level in range(depth)]
    return nn.Sequential(*(part for layer in layers for part in (layer, activation())), nn.Linear(width, 1))


def changed(model: nn.Module, change: object) -> nn.Module:
    for layer in model.modules():
        if isinstance(layer, nn.Linear):
            change(layer)
    return model


class Skips(nn.Module):
    """Blocks x + back(relu(wide(x))), each on a line of its own."""

    def __init__(self, blocks: int, gain: float) -> None:
        super().__init__()
        self.stem, self.head = nn.Linear(4, 16), nn.Linear(16, 1)
        self.wide = nn.ModuleList(nn.Linear(16, 16) for _ in range(blocks))
        self.back = nn.ModuleList(nn.Linear(16, 16) for _ in range(blocks))
        for layer in (*self.wide, *self.back):
            nn.init.normal_(layer.weight, std=gain)

    def forward(self, x: Tensor) -> Tensor:
        x = torch.relu(self.stem(x))
        for wide, back in zip(self.wide, self.back, strict=True):
            x = x + back(torch.relu(wide(x)))
        return self.head(x)


X = torch.randn(64, 4, generator=torch.Generator().manual_seed(0))


def found(model: nn.Module, x: Tensor = X, **more: object) -> Census:
    return census(model, x, gradient=True, **more)


def trained(model: nn.Module) -> nn.Module:
    """The same, as if it had been trained: its biases are those of no start."""
    with torch.no_grad():
        model[-1].bias.fill_(0.0)
        model[-3].bias.add_(torch.randn_like(model[-3].bias))
    return model


BROKEN = {
    "infinite at the start": lambda: changed(dense(60, 64), lambda a: nn.init.normal_(a.weight)),
    "infinite after training": lambda: trained(changed(dense(3), lambda a: nn.init.constant_(a.weight, torch.nan))),
    "dead at the start": lambda: changed(dense(3), lambda a: nn.init.constant_(a.bias, -99.0)),
    "dead after training": lambda: trained(changed(dense(3), lambda a: nn.init.constant_(a.bias, -99.0))),
    "the signal is gone": lambda: dense(30),
    "explodes": lambda: changed(dense(15, 64), lambda a: nn.init.normal_(a.weight)),
    "explodes along skips": lambda: Skips(40, 0.6),
    "units alike": lambda: changed(dense(3), lambda a: (nn.init.ones_(a.weight), nn.init.zeros_(a.bias))),
}


@pytest.mark.parametrize("finding", BROKEN)
def test_each_kind_of_broken_network_gets_its_finding_and_the_best_cure(finding: str) -> None:
    first, *others = found(BROKEN[finding]()).findings
    assert first.measured_as == finding
    assert first.grave
    anew = "anew, " if "after training" in finding and not ORDER[finding][0].startswith("anew, ") else ""
    assert first.cures[0] == anew + ORDER[finding][0]  # what was trained and broke starts anew
    assert cures.code(first.cures[0])[0] in first.advice
    assert all(advice.advice.startswith(f"it may follow from {first.rule}") for advice in others if not advice.grave)
    assert first.advice.endswith("alive cure")


@pytest.mark.parametrize("finding", BROKEN)
def test_nothing_is_called_harmless_where_a_finding_is_grave(finding: str) -> None:
    assert not any("harmless" in advice.advice for advice in found(BROKEN[finding]()).findings)


def test_a_layer_that_bends_nothing_is_never_called_harmless() -> None:
    model = dense(2)
    nn.init.constant_(model[0].bias, 99.0)
    nn.init.zeros_(model[2].weight)
    model[2].weight.data[:, 0] = torch.linspace(-1, 1, 16)  # the second layer bends: 99 + z, less 99
    nn.init.zeros_(model[2].bias)
    model[2].bias.data -= 99 * model[2].weight.data[:, 0]
    said = census(model, X).findings
    assert any("nothing, because every unit there is dead or linear; the first: 0 → relu" in a.found for a in said)
    assert not any("harmless" in advice.advice for advice in said)


def test_linear_units_in_a_layer_that_bends_are_harmless() -> None:
    model = dense(2)
    with torch.no_grad():
        model[0].bias[:3] = 99.0
        model[2].weight[:, :3] = 0.0
    said = [advice for advice in census(model, X).findings if "never off" in advice.found]
    assert len(said) == 1
    assert "harmless to gradients" in said[0].advice


CURVED = (nn.ELU, nn.CELU, nn.SELU, nn.Softplus, nn.GELU, nn.SiLU, nn.Mish, nn.Hardswish)


@pytest.mark.parametrize("kind", CURVED)
def test_units_that_are_on_where_the_activation_curves_bend(kind: type[nn.Module]) -> None:
    model = nn.Sequential(nn.Linear(1, 3), kind(), nn.Linear(3, 1)).double()
    nn.init.ones_(model[0].weight)
    x = torch.linspace(-0.4, 0.4, 9).double()[:, None]
    for shift in (0.5, -0.2, 20.0):
        nn.init.constant_(model[0].bias, shift)
        low, middle, high = model[1](model[0](x))[[0, 4, 8], 0]
        bends = bool((low - 2 * middle + high).abs() > 1e-3)
        found = census(model, x)
        if bends:
            assert found.layers[0].bends
            assert not {"ALV003", "ALV004"} & {advice.rule for advice in found.findings}
        elif kind not in (nn.Softplus, nn.GELU, nn.SiLU, nn.Mish):  # which never become quite straight
            assert found.layers[0].bends is False


def test_a_linear_map_is_called_so_only_if_nothing_else_bends() -> None:
    class Recurrent(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.cell, self.head = nn.LSTM(X.shape[1], 4, batch_first=True), nn.Linear(4, 3)
            nn.init.constant_(self.head.bias, 9.0)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.head(self.cell(x[:, None])[0][:, -1]).relu()

    (said,) = [advice.found for advice in census(Recurrent(), X).findings if advice.rule == "ALV004"]
    assert "a linear map on these points, if nothing else in it bends" in said


def test_a_healthy_network_gets_no_advice_of_weight() -> None:
    model = dense(2, 32)
    nn.init.normal_(model[0].weight)
    nn.init.normal_(model[2].weight, std=0.3)
    assert not any(advice.grave for advice in found(model).findings)


# Which cures apply.


def test_cures_that_do_not_apply_are_not_named() -> None:
    def these(model: nn.Module, finding: str) -> tuple[str, ...]:
        return advise(finding, Census((), census(dense(1), X).points, input=None, build=build(model)))

    plain = dense(3)
    thin = nn.Sequential(nn.Linear(4, 1), nn.ReLU(), nn.Linear(1, 1))
    normed = nn.Sequential(nn.Linear(4, 8), nn.BatchNorm1d(8), nn.ReLU(), nn.Linear(8, 1))
    computed = nn.Sequential(weight_norm(nn.Linear(4, 8)), nn.ReLU(), nn.Linear(8, 1))
    assert "mirrored" in these(plain, "the signal is gone")
    assert not any("mirrored" in name for name in these(thin, "the signal is gone"))
    assert "batch norm" in these(plain, "explodes along skips")
    assert "batch norm" not in these(normed, "explodes along skips")
    assert not {"mirrored", "kaiming", "glorot", "batch norm"} & set(these(computed, "the signal is gone"))
    assert these(plain, "inputs badly scaled") == ()  # nothing is known of the inputs: token ids, say
    assert Finding("", measured_as="dead at the start").advice == BY_HAND


@pytest.mark.parametrize("finding", ORDER)
def test_every_cure_that_is_named_for_a_plain_model_runs_on_it(finding: str) -> None:
    """For a dense and a convolutional model."""
    conv = nn.Sequential(nn.Conv2d(1, 4, 3), nn.ReLU(), nn.Flatten(), nn.Linear(144, 8), nn.ReLU(), nn.Linear(8, 1))
    for model, x in ((dense(2), X), (conv, torch.rand(9, 1, 8, 8))):
        for name in advise(finding, census(model, x)):
            owned = find("jumpstart") if name == "no penalty" else ()
            with Treatment((*owned, *find(name)), model, lambda it: torch.optim.SGD(it.parameters(), lr=0.1), x) as on:
                on.step(on.model.train()(x).square().mean())
                assert on.model(x).isfinite().all()


def test_a_model_that_has_left_its_start_is_known_by_its_biases() -> None:
    for start in (dense(3), changed(dense(3), lambda a: nn.init.constant_(a.bias, -3.0)), nn.Linear(3, 2, bias=False)):
        assert not build(start).moved
    model = dense(3)
    optimiser = torch.optim.SGD(model.parameters(), lr=10.0)
    (model(X) - 5).square().mean().backward()
    optimiser.step()
    assert build(model).moved
    normed = nn.Sequential(nn.Linear(4, 8), nn.BatchNorm1d(8))
    assert not build(normed).moved
    normed(X)
    assert build(normed).moved


def test_parts_that_hold_no_numbers_yet_are_left_alone() -> None:
    assert build(nn.LazyLinear(3)).starts == ()
    with torch.device("meta"):
        assert not build(nn.Linear(3, 2)).moved


# Where.


def test_layers_are_named_by_what_made_them_and_by_their_line_where_lines_differ() -> None:
    said = found(Skips(40, 0.6)).findings[0].found
    assert "stem → relu at " in said
    assert "test_findings.py:" in said
    said = found(dense(30)).findings[0].found
    assert " → relu on" in said
    assert "test_findings.py" not in said  # one line calls them all


# The scale of the inputs.


@pytest.mark.parametrize(
    ("change", "said", "grave"),
    [
        (lambda x: x, "", False),
        (lambda x: x * 0.5 * LARGE.odd, "", False),
        (lambda x: x * 1.5 * LARGE.odd, "a size of", False),
        (lambda x: x * 1.5 * LARGE.grave, "a size of", True),
        (lambda x: x / (0.5 * SMALL.odd), "", False),
        (lambda x: x / (2 * SMALL.odd), "a size of", False),
        (lambda x: x / (1.5 * SMALL.grave), "a size of", True),
        (lambda x: x + 0.25 * FAR.odd, "", False),
        (lambda x: x * 0.1 + 1, "as far from zero as from one another", False),
        (lambda x: x + 3 * FAR.grave, "as far from zero as from one another", True),
        (lambda x: x * torch.tensor([1.0, 1.0, 1.0, 0.3 * UNEVEN.odd]), "", False),
        (lambda x: x * torch.tensor([0.1, 0.1, 0.1, 0.2 * UNEVEN.odd]), "one column varies", False),
        (lambda x: x * torch.tensor([0.01, 0.01, 0.01, 0.03 * UNEVEN.grave]), "one column varies", True),
        (lambda x: x * torch.tensor([1.0, 1.0, 1.0, 0.0]), "", False),  # a column that never varies
        (lambda x: x * torch.tensor([1.0, 1.0, 1.0, 1e-5]), "", False),  # a rare feature is no fault of scale
    ],
)
def test_the_scale_of_inputs_is_judged_by_size_centre_and_columns(change: object, said: str, grave: bool) -> None:
    x = change(X)
    text, is_grave = scale(census(dense(1), x).input)
    assert said in text
    assert bool(text) == bool(said)
    assert is_grave is grave


def test_bad_scale_comes_first_and_names_standardise() -> None:
    said = found(dense(2), X * 1e4).findings
    assert said[0].measured_as == "inputs badly scaled"
    assert said[0].cures[0] == "standardise"
    assert "alive.nn.Standardise(x)" in said[0].advice


# The penalty's own weight.


@pytest.mark.parametrize("pull", [None, 0.0, DROWNS, float("inf"), float("nan")])
def test_a_penalty_that_does_not_drown_the_task_is_not_blamed(pull: float | None) -> None:
    assert not any("penalty" in advice.found for advice in see_all(found(dense(2, 32)), pull=pull))


def test_a_penalty_that_drowns_the_task_is_blamed() -> None:
    (said,) = (advice for advice in see_all(found(dense(2, 32)), pull=250.0) if advice.grave)
    assert "the penalty pulls 250 times as hard" in said.found
    assert "keep.detach()" in said.advice


# One output for all points.


class Fades(nn.Module):
    """Blocks that pass on a hundredth of x + back(relu(wide(x))): paths lead around all layers, and biases remain."""

    def __init__(self, depth: int) -> None:
        super().__init__()
        self.stem, self.head = nn.Embedding(9, 16), nn.Linear(16, 3)
        self.wide = nn.ModuleList(nn.Linear(16, 16) for _ in range(depth))
        self.back = nn.ModuleList(nn.Linear(16, 16) for _ in range(depth))

    def forward(self, x: Tensor) -> Tensor:
        h = self.stem(x).mean(1)
        for wide, back in zip(self.wide, self.back, strict=True):
            h = 0.01 * (h + back(torch.relu(wide(h))))
        return self.head(h)


def ends_alike(model: nn.Module, x: Tensor) -> bool:
    with torch.no_grad():
        y = model(x)
    return bool(((y - y.mean(0)).abs().max() <= 1e-6 * y.abs().max()).all())


IDS = torch.randint(0, 9, (64, 5), generator=torch.Generator().manual_seed(0))


@pytest.mark.parametrize("depth", [1, 6])
def test_one_output_for_all_points_is_grave_whatever_leads_around_the_layers(depth: int) -> None:
    torch.manual_seed(0)
    model = Fades(depth)
    census_of = found(model, IDS)
    said = [finding for finding in census_of.findings if finding.rule == "ALV017"]
    assert bool(said) == ends_alike(model, IDS) == (depth == 6)
    assert all(finding.grave and finding.level == "error" for finding in said)
    assert not census_of.gone, "nothing else tells it"


def test_the_first_cure_of_a_trained_network_with_one_output_is_a_fresh_start_at_a_lower_rate() -> None:
    torch.manual_seed(0)
    model = Fades(6)
    nn.init.constant_(model.head.bias, 0.3)
    nn.init.normal_(model.wide[0].bias)
    first = found(model, IDS).findings[0]
    assert first.rule == "ALV017"
    assert first.cures[0] == f"anew, {ORDER['collapsed'][0]}"
    assert "model = make_model()" in first.advice


@pytest.mark.parametrize("change", ["a head of zeros", "a large bias", "inputs that are all the same"])
def test_one_output_is_no_fault_where_only_the_head_or_the_data_make_it(change: str) -> None:
    torch.manual_seed(0)
    model, x = dense(2), X
    if change == "a head of zeros":
        nn.init.zeros_(model[-1].weight)
    elif change == "a large bias":
        nn.init.constant_(model[-1].bias, 1e9)
    else:
        x = X[:1].expand(64, 4)
    assert ends_alike(model, x)
    assert "ALV017" not in {finding.rule for finding in found(model, x).findings}


# Candidates that nothing chooses.


class Book(nn.Module):
    """The nearest of nine rows of a table: by distances that can be seen, or by indices alone."""

    def __init__(self) -> None:
        super().__init__()
        self.rows = nn.Parameter(torch.linspace(-1, 1, 9)[:, None] * torch.ones(4))
        self.rows.data[5:] += 99

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        index = torch.cdist(x, self.rows).argmin(-1)
        return self.rows[index], index


@pytest.mark.parametrize("scored", [True, False])
def test_what_shows_no_scores_is_not_to_be_lifted(scored: bool) -> None:
    model = nn.Sequential(nn.Linear(4, 4), nn.ReLU(), Book(), Head())
    told = census(model, X, declared=Declared() if scored else Declared(selects={Book: Selects("code", count=9)}))
    (said,) = [finding for finding in told.findings if finding.rule == "ALV016"]
    assert "of 9 codes are never chosen" in said.found
    assert any("Jumpstart" in line for _, code in said.options for line in code) is scored
    assert ("show no scores" in said.advice) is not scored


class Head(nn.Module):
    def forward(self, q: tuple[Tensor, Tensor]) -> Tensor:
        return q[0].sum(-1, keepdim=True)


# As they are shown.


@pytest.mark.parametrize("finding", BROKEN)
def test_code_to_copy_stands_on_lines_of_its_own(finding: str) -> None:
    told = found(BROKEN[finding]())
    lines = [line.strip() for line in str(told).splitlines()]
    blocks = [line for block in re.findall(r"<pre>(.*?)</pre>", told._repr_html_(), re.S) for line in block.split("\n")]
    for first in told.findings[:3]:
        for words, code in first.options:
            assert "alive." not in words
            assert all(line in lines and line in map(html.unescape, blocks) for line in code)


def test_the_verdict_comes_first_and_no_more_than_three_findings() -> None:
    told = found(BROKEN["the signal is gone"]())
    assert len(told.findings) > 3
    said = str(told)
    assert said.startswith("As it is, this network can hardly learn.")
    assert said.count("▸") == 3
    assert f"({len(told.findings) - 3} more: " in said
    assert text(told, everything=True).count("▸") == len(told.findings)


def test_findings_are_seen_once(monkeypatch: pytest.MonkeyPatch) -> None:
    told, seen = found(BROKEN["dead at the start"]()), []
    monkeypatch.setattr(findings, "see_all", lambda census: seen.append(census) or see_all(census))
    _ = str(told), told._repr_html_(), census_sheet(told, model="m").text("sarif")
    assert seen == [told]
