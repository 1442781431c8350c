"""What Jumpstart is asked to measure: layers, axes, cutoffs, the output; and what it refuses."""

from __future__ import annotations

from typing import Any

import pytest
import torch
import torch.nn.functional as F
from hooks import hooks_of
from torch import Tensor, nn

from alive.errors import AliveError
from alive.functional import Activation, Separation, aggregate, separation
from alive.penalties import Jumpstart, Schedule
from alive.taps import Declared


def test_a_model_without_one_sided_activations_is_told_so() -> None:
    model = nn.Sequential(nn.Linear(3, 3), nn.Tanh())
    with Jumpstart(model) as keep:
        model(torch.randn(4, 3))
        with pytest.raises(
            AliveError, match=r"no one-sided activation ran in Sequential \(it is made of Linear, Tanh\)"
        ):
            keep.penalty()


def test_patterns_that_match_nothing_are_told_with_the_names_there_are(built) -> None:
    model, x, _ = built("dense")
    with Jumpstart(model, layers=["features.*"]) as keep:
        model(x)
        with pytest.raises(AliveError, match=r"no tap matches the patterns in layers; there are relu, relu#2"):
            keep.penalty()


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"mod": "U"}, "unknown option 'mod'.*did you mean 'mode'"),
        ({"point_axs": 1}, "did you mean 'point_axis'"),
        ({"mode": "PU"}, "unknown mode 'PU'"),
        ({"aggregate": "summsq"}, "did you mean 'sumsq'"),
        ({"conv": "positon"}, "did you mean 'position'"),
        ({"weight": -1.0}, "not negative"),
        ({"balance": 1.5}, "balance must lie"),
        ({"pos_margin": float("inf"), "neg_margin": -1.0}, "pos_margin must be finite.*neg_margin must be finite"),
    ],
)
def test_wrong_options_name_the_nearest_and_attach_nothing(built, options: dict[str, Any], said: str) -> None:
    model, _, _ = built("dense")
    before = hooks_of(model)
    with pytest.raises(AliveError, match=said):
        Jumpstart(model, **options)
    assert hooks_of(model) == before


def test_axes_over_one_value_are_skipped_and_told_once() -> None:
    model = nn.Sequential(nn.Linear(3, 1), nn.ReLU(), nn.Linear(1, 4), nn.ReLU())
    x = torch.randn(5, 3)
    first, second = model[0](x), model[2](model[1](model[0](x)))
    expected = [separation.slacks(z, Separation()) for z in (first, second)]
    with Jumpstart(model, 1.0) as keep:
        with pytest.warns(UserWarning, match=r"1 has one unit: axis P cannot be satisfied"):
            model(x)
        assert list(expected[0]) == ["U"]
        torch.testing.assert_close(keep.penalty(), aggregate(expected))
        model(x)  # told already
        keep.penalty()
        with pytest.warns(UserWarning, match=r"has one sample: axis U"):
            model(x[:1])


def test_a_batch_that_can_satisfy_nothing_costs_nothing() -> None:
    model = nn.Sequential(nn.Linear(3, 4), nn.ReLU())
    with Jumpstart(model, mode="U") as keep:
        with pytest.warns(UserWarning, match="one sample"):
            model(torch.randn(1, 3))
        assert keep.penalty().item() == 0.0


def test_the_output_is_asked_too_if_wanted(built) -> None:
    model, x, _ = built("dense")
    with Jumpstart(model, 1.0, aggregate="sumsq") as keep:
        y = model(x)
        hidden = keep.penalty()
    with Jumpstart(model, 1.0, aggregate="sumsq", include_output=True) as keep:
        model(x)
        torch.testing.assert_close(keep.penalty(), hidden + aggregate([separation.slacks(y, Separation())], "sumsq"))


def test_an_output_that_is_no_tensor_is_refused_if_it_is_asked() -> None:
    class Two(nn.Module):
        def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
            return F.relu(x), x

    model = Two()
    with Jumpstart(model, include_output=True), pytest.raises(AliveError, match="returns one tensor, got tuple"):
        model(torch.randn(4, 3))
    with Jumpstart(model) as keep:
        model(torch.randn(4, 3))
        assert keep.penalty() > 0


def test_a_schedule_moves_the_weight(built) -> None:
    model, x, _ = built("dense")
    with Jumpstart(model, Schedule(1.0, 0.0, "linear")) as keep:
        model(x)
        full = keep.penalty()
        keep.set_progress(0.75)
        model(x)
        torch.testing.assert_close(keep.penalty(), 0.25 * full)


def test_patterns_keep_to_some_layers(built) -> None:
    model, x, _ = built("dense")
    z = model.b(F.relu(model.a(x)))
    with Jumpstart(model, 1.0, layers="relu#2") as keep:
        model(x)
        torch.testing.assert_close(keep.penalty(), aggregate([separation.slacks(z, Separation())]))


def test_points_may_lie_on_the_second_axis() -> None:
    model, x = nn.Sequential(nn.Linear(3, 4), nn.ReLU()), torch.randn(6, 5, 3)  # [T, N, C]
    with Jumpstart(model, 1.0, point_axis=1) as keep:
        model(x)
        expected = separation.slacks(model[0](x).transpose(0, 1), Separation(), unit_axis=-1)
        assert len(expected["P"]) == 5
        torch.testing.assert_close(keep.penalty(), aggregate([expected]))


def test_a_declared_activation_keeps_its_cutoff_whatever_its_name() -> None:
    class Late(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            return F.relu(x - 0.5)

    model, x = nn.Sequential(nn.Linear(3, 4), Late()), torch.randn(6, 3)
    for name in ("late", "relu"):
        with Jumpstart(model, 1.0, declared=Declared(activations={Late: Activation(name, cutoff=0.5)})) as keep:
            model(x)
            expected = aggregate([separation.slacks(model[0](x), Separation(), cutoff=0.5)])
            torch.testing.assert_close(keep.penalty(), expected)


def test_soft_activations_use_their_cutoff() -> None:
    model, x = nn.Sequential(nn.Linear(3, 4), nn.ELU(inplace=True)), torch.randn(6, 3)
    with Jumpstart(model, 1.0) as keep:
        model(x)
        expected = aggregate([separation.slacks(model[0](x), Separation(), cutoff=-2.302585092994046)])
        torch.testing.assert_close(keep.penalty(), expected)


@pytest.mark.parametrize("scale", [2.0**-10, 2.0**10])
def test_a_weight_times_the_scale_of_the_loss_trains_the_same_network(scale: float) -> None:
    """Under gradient descent with the rate divided by it: to the bit, for a power of two."""

    def trained(c: float) -> list[Tensor]:
        torch.manual_seed(0)
        model = nn.Sequential(nn.Linear(3, 6), nn.ReLU(), nn.Linear(6, 6), nn.ReLU(), nn.Linear(6, 1))
        x, optimiser = torch.randn(20, 3), torch.optim.SGD(model.parameters(), lr=0.05 / c)
        with Jumpstart(model, weight=0.3125 * c) as keep:
            for _ in range(5):
                optimiser.zero_grad()
                (c * (model(x) - x[:, :1]).square().mean() + keep.penalty()).backward()
                optimiser.step()
        return [p.detach() for p in model.parameters()]

    assert all(torch.equal(a, b) for a, b in zip(trained(scale), trained(1.0), strict=True))


def test_units_and_points_have_weights_of_their_own():
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(3, 6), nn.ReLU(), nn.Linear(6, 5), nn.ReLU(), nn.Linear(5, 1))
    x = torch.randn(9, 3)

    def told(**options):
        with Jumpstart(model, **options) as keep:
            model(x)
            return keep.penalty()

    both = told(weight={"U": 0.7, "P": 0.02})
    torch.testing.assert_close(both, told(weight=0.7, mode="U") + told(weight=0.02, mode="P"))
    assert torch.equal(told(weight={"L": 0.5}, mode="L"), told(weight=0.5, mode="L"))
    both.backward()
    assert model[0].weight.grad.any()
    for options, says in (
        ({"weight": {"U": 1.0}}, "mode 'UP' has weights for U and P, got"),
        ({"weight": {"U": 1.0, "P": 0.1}, "aggregate": "sumsq"}, "not the aggregate 'sumsq'"),
        ({"weight": {"U": -1.0, "P": 0.1}}, "not negative"),
    ):
        with pytest.raises(AliveError, match=says):
            Jumpstart(model, **options)
