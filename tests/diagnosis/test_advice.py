"""Advice: the right finding for networks broken on purpose, cures that apply, and no comfort that is not due."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn
from torch.nn.utils.parametrizations import weight_norm

from alive.diagnosis import Census, census
from alive.diagnosis.advice.findings import DROWNS, FIRST, advise, first_choice
from alive.diagnosis.advice.remedies import ORDER, REMEDIES, cures, spoken
from alive.diagnosis.advice.scale import FAR, LARGE, SMALL, UNEVEN, scale
from alive.diagnosis.build import build


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
    first, *others = advise(found(BROKEN[finding]()))
    assert first.finding == finding
    assert first.grave
    assert first.cures[0] == ORDER[finding][0]
    assert REMEDIES[first.cures[0]].code[0] in first.do
    assert all(advice.do == FIRST for advice in others if not advice.grave)
    assert first.do.endswith("alive cure")


@pytest.mark.parametrize("finding", BROKEN)
def test_nothing_is_called_harmless_where_a_finding_is_grave(finding: str) -> None:
    assert not any("harmless" in advice.do for advice in advise(found(BROKEN[finding]())))


def test_a_layer_that_bends_nothing_is_never_called_harmless() -> None:
    model = dense(2)
    nn.init.constant_(model[0].bias, 99.0)
    nn.init.zeros_(model[2].weight)
    model[2].weight.data[:, 0] = torch.linspace(-1, 1, 16)  # the second layer bends: 99 + z, less 99
    nn.init.zeros_(model[2].bias)
    model[2].bias.data -= 99 * model[2].weight.data[:, 0]
    said = advise(census(model, X))
    assert any("nothing, because every unit there is dead or linear; the first: 0 → relu" in a.found for a in said)
    assert not any("harmless" in advice.do for advice in said)


def test_linear_units_in_a_layer_that_bends_are_harmless() -> None:
    model = dense(2)
    with torch.no_grad():
        model[0].bias[:3] = 99.0
        model[2].weight[:, :3] = 0.0
    said = [advice for advice in advise(census(model, X)) if "never off" in advice.found]
    assert len(said) == 1
    assert "harmless to gradients" in said[0].do


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
            assert not {"ALV003", "ALV004"} & {advice.rule for advice in advise(found)}
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

    (said,) = [advice.found for advice in advise(census(Recurrent(), X)) if advice.rule == "ALV004"]
    assert "a linear map on these points, if nothing else in it bends" in said


def test_a_healthy_network_gets_no_advice_of_weight() -> None:
    model = dense(2, 32)
    nn.init.normal_(model[0].weight)
    nn.init.normal_(model[2].weight, std=0.3)
    assert not any(advice.grave for advice in advise(found(model)))
    assert first_choice([]) == ("", "")


# Which cures apply.


def test_cures_that_do_not_apply_are_not_named() -> None:
    def named(model: nn.Module, finding: str) -> tuple[str, ...]:
        return cures(finding, Census((), census(dense(1), X).points, input=None, build=build(model)))

    plain = dense(3)
    thin = nn.Sequential(nn.Linear(4, 1), nn.ReLU(), nn.Linear(1, 1))
    normed = nn.Sequential(nn.Linear(4, 8), nn.BatchNorm1d(8), nn.ReLU(), nn.Linear(8, 1))
    computed = nn.Sequential(weight_norm(nn.Linear(4, 8)), nn.ReLU(), nn.Linear(8, 1))
    assert "mirrored" in named(plain, "the signal is gone")
    assert not any("mirrored" in name for name in named(thin, "the signal is gone"))
    assert "batch norm" in named(plain, "explodes along skips")
    assert "batch norm" not in named(normed, "explodes along skips")
    assert not {"mirrored", "kaiming", "glorot", "batch norm"} & set(named(computed, "the signal is gone"))
    assert named(plain, "inputs badly scaled") == ()  # nothing is known of the inputs: token ids, say
    assert spoken((), "by hand") == "by hand"


@pytest.mark.parametrize("finding", ORDER)
def test_every_cure_that_is_named_for_a_plain_model_runs_on_it(finding: str) -> None:
    """Whatever advice prints, for a dense and a convolutional model, in the order of the print."""
    import alive

    conv = nn.Sequential(nn.Conv2d(1, 4, 3), nn.ReLU(), nn.Flatten(), nn.Linear(144, 8), nn.ReLU(), nn.Linear(8, 1))
    for model, x in ((dense(2), X), (conv, torch.rand(9, 1, 8, 8))):
        for name in cures(finding, census(model, x)):
            names = {"alive": alive, "torch": torch, "model": model, "x": x, "loss": torch.zeros(())}
            names["optimiser"] = torch.optim.SGD(model.parameters(), lr=0.1)
            if name == "no penalty":
                names["keep"] = alive.Jumpstart(model)
            for line in REMEDIES[name].code:
                names["model"].train()(x)  # each step begins with a pass
                exec(line, names)
            assert names["model"](x).isfinite().all()
            if "keep" in names:
                names["keep"].detach()


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
    said = advise(found(Skips(40, 0.6)))[0].found
    assert "stem → relu at " in said
    assert "test_advice.py:" in said
    said = advise(found(dense(30)))[0].found
    assert " → relu on" in said
    assert "test_advice.py" not in said  # one line calls them all


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
    said = advise(found(dense(2), X * 1e4))
    assert said[0].finding == "inputs badly scaled"
    assert said[0].cures[0] == "standardise"
    assert "alive.nn.Standardise(x)" in said[0].do


# The penalty's own weight.


@pytest.mark.parametrize("pull", [None, 0.0, DROWNS, float("inf"), float("nan")])
def test_a_penalty_that_does_not_drown_the_task_is_not_blamed(pull: float | None) -> None:
    assert not any("penalty" in advice.found for advice in advise(found(dense(2, 32)), pull=pull))


def test_a_penalty_that_drowns_the_task_is_blamed() -> None:
    (said,) = (advice for advice in advise(found(dense(2, 32)), pull=250.0) if advice.grave)
    assert "the penalty pulls 250 times as hard" in said.found
    assert "keep.detach()" in said.do
