"""The phase-out of skips: closed forms, the updates by hand, and what a training loop asks of a keeper."""

from __future__ import annotations

import math
from itertools import pairwise

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import nn

from alive.data import moons
from alive.errors import AliveError
from alive.nn.van import Gate, VANBlock
from alive.penalties.schedule import Schedule
from alive.penalties.van import FIGURE2_STEPS, TRACE, VANController, phase_out_time, step_size
from alive.train import Settings, train
from alive_papers.networks.skips import COMPARED


class Bare(nn.Module):
    """Gates and nothing else; `slopes` are the gradients that a task would give."""

    def __init__(self, *shapes: tuple[int, ...]) -> None:
        super().__init__()
        self.gates = nn.ModuleList(Gate(shape) for shape in shapes)
        self.weight = nn.Parameter(torch.zeros(2))

    def slope(self, value: float) -> None:
        for gate in self.gates:
            gate.alpha.grad = torch.full_like(gate.alpha, value)


def simulated(eta: float, ratio: float, lambda0: float = -1.0) -> int:
    """Steps until α = 1 by plain numbers."""
    alpha, multiplier, steps = 0.0, lambda0, 0
    while alpha < 1:
        alpha = min(max(alpha - eta * multiplier, 0.0), 1.0)
        multiplier += ratio * eta * (alpha - 1)
        steps += 1
    return steps


def run(control: VANController, most: int = 100_000) -> int:
    steps = 0
    while not control.done and steps < most:
        control.step()
        steps += 1
    return steps


@pytest.mark.law
@pytest.mark.parametrize(("eta", "ratio", "published"), [(0.001, 0.5, 870), (0.1, 0.1, 10)])
def test_the_papers_settings_take_870_and_10_steps(eta, ratio, published):
    """MNIST, whose skips go in two epochs, and CIFAR, whose skips would go in ten steps."""
    assert round(phase_out_time(eta, ratio)) == published
    assert abs(simulated(eta, ratio) - published) <= 1
    assert abs(run(VANController(Bare((3,)), eta, ratio=ratio)) - published) <= 1


def test_momentum_halves_the_ten_steps():
    assert abs(run(VANController(Bare((3,)), 0.1, ratio=0.1, momentum=0.9)) - 5) <= 1


def test_a_real_26_layer_network_loses_its_skips_in_about_ten_steps():
    """The paper's CIFAR settings with the task's gradient in play, which delays the last few entries."""
    net = COMPARED["van"].conv(3, 10, n=3, base=8, generator=torch.Generator().manual_seed(0))
    control = VANController(net, 0.1, ratio=0.1)
    sgd = torch.optim.SGD(control.weights(), lr=0.1, momentum=0.9)
    x, y = torch.randn(32, 3, 8, 8), torch.arange(32) % 10
    residuals = []
    while not control.done and len(residuals) < 20:
        sgd.zero_grad()
        nn.functional.cross_entropy(net(x), y).backward()
        sgd.step()
        control.step()
        residuals.append(control.residual())
    assert control.done
    assert residuals[4] > 0.2
    assert residuals[9] < 0.01


@pytest.mark.law
@given(st.integers(10, 2000), st.floats(0.01, 3), st.floats(-4, -0.2))
def test_the_closed_form_is_the_simulation_within_a_step(steps, ratio, lambda0):
    eta = step_size(steps, ratio, lambda0)
    assert phase_out_time(eta, ratio, lambda0) == pytest.approx(steps)
    assert abs(simulated(eta, ratio, lambda0) - steps) <= 1


@pytest.mark.parametrize("steps", [1, 7, 300])
def test_phase_out_steps_is_what_it_says(steps):
    assert abs(run(VANController(Bare((3,), ()), phase_out_steps=steps)) - steps) <= 1


def test_figure_2_takes_120_epochs_of_batches():
    control = VANController(Bare((3,)), preset="figure2", ratio=0.1)
    assert control.phase_out_steps == FIGURE2_STEPS == 46_900
    assert math.isclose(FIGURE2_STEPS / math.ceil(50_000 / 128), 120, abs_tol=0.1)
    assert abs(simulated(control.eta, 0.1) - FIGURE2_STEPS) <= 1


@pytest.mark.twin
def test_one_step_is_equations_7_and_8_with_the_new_alpha():
    model = Bare((2,))
    control = VANController(model, 0.1, ratio=0.5, lambda0=-2.0)
    gate = model.gates[0]
    with torch.no_grad():
        gate.alpha.copy_(torch.tensor([0.2, 0.9]))
    gate.alpha.grad = torch.tensor([3.0, -1.0])
    control.step()
    expected = [0.2 - 0.1 * (3 - 2), 1.0]  # the second would be 1.2
    torch.testing.assert_close(gate.alpha.detach(), torch.tensor(expected))
    torch.testing.assert_close(gate.multiplier, torch.tensor([-2 + 0.05 * (0.1 - 1), -2.0]))
    assert gate.alpha.grad is None


@pytest.mark.law
@given(st.lists(st.floats(-5, 5), min_size=5, max_size=60))
def test_multipliers_only_fall_and_rest_while_the_constraint_holds(slopes):
    model = Bare((3,))
    control = VANController(model, 0.3, ratio=0.5)
    gate = model.gates[0]
    for slope in slopes:
        before = gate.multiplier.clone()
        model.slope(slope)
        control.step()
        assert bool((gate.multiplier <= before).all())
        held = gate.alpha == 1
        assert torch.equal(gate.multiplier[held], before[held])
        assert bool(((gate.alpha >= 0) & (gate.alpha <= 1)).all())


def test_multipliers_are_frozen_once_all_skips_are_gone():
    model = Bare((3,))
    control = VANController(model, phase_out_steps=20)
    run(control)
    rest = control.multiplier()
    for _ in range(10):
        control.step()
    assert control.multiplier() == rest < -1
    assert control.done
    assert control.residual() == 0


def test_lambda_zero_learns_alpha_and_forces_nothing():
    model = Bare((2,))
    control = VANController(model, 0.1, lambda0=0.0)
    for _ in range(50):
        control.step()
    assert control.residual() == 1
    model.slope(-2.0)
    control.step()
    torch.testing.assert_close(model.gates[0].alpha.detach(), torch.tensor([0.2, 0.2]))
    assert not model.gates[0].multiplier.any()


@pytest.mark.twin
def test_momentum_is_torch_sgd_between_the_bounds():
    model = Bare((1,))
    control = VANController(model, 0.001, ratio=0.5, momentum=0.9)
    alpha = nn.Parameter(torch.zeros(1))
    sgd, multiplier = torch.optim.SGD([alpha], lr=0.001, momentum=0.9), torch.tensor([-1.0])
    for _ in range(40):
        control.step()
        alpha.grad = multiplier.clone()
        sgd.step()
        multiplier += 0.0005 * (alpha.detach() - 1)
        torch.testing.assert_close(model.gates[0].alpha.detach(), alpha.detach())
    assert 0 < alpha.item() < 1


def test_momentum_rests_at_a_bound():
    model = Bare((1,))
    control = VANController(model, 0.1, momentum=0.9)
    for slope in (5.0, 5.0, 5.0):
        model.slope(slope)
        control.step()
    assert not model.gates[0].velocity.any()
    model.slope(-5.0)
    control.step()
    assert model.gates[0].alpha.item() > 0


def test_gates_can_begin_one_after_the_other():
    model = Bare((2,), (2,), (2,))
    control = VANController(model, phase_out_steps=20, starts={"gates.1": 30, "gates.2": 60})
    ends = {}
    for step in range(1, 100):
        control.step()
        for name, gate in control.gates.items():
            if bool((gate.alpha == 1).all()):
                ends.setdefault(name, step)
    assert [abs(ends[f"gates.{k}"] - (20 + 30 * k)) <= 1 for k in range(3)] == [True] * 3


def test_ranks_share_the_steps_among_the_gates():
    model = Bare((2,), (2,), (2,))
    for rank, gate in enumerate(model.gates):
        gate.rank = rank
    control = VANController(model, phase_out_steps=60)
    assert list(control.starts.values()) == pytest.approx([0, 20, 40], abs=1)
    assert abs(run(control) - 60) <= 1


def test_a_schedule_moves_eta():
    control = VANController(Bare((2,)), Schedule(0.1, 0.0, "linear"))
    control.set_progress(0.75)
    assert control.eta == pytest.approx(0.025)
    assert "Schedule(start=0.1" in repr(control)


def test_owned_and_weights_split_the_parameters():
    net = COMPARED["van"].dense(4, 2, depth=3, width=5)
    control = VANController(net, 0.1)
    assert len(control.owned()) == 3
    assert {id(p) for p in (*control.owned(), *control.weights())} == {id(p) for p in net.parameters()}
    assert not {id(p) for p in control.owned()} & {id(p) for p in control.weights()}
    assert control.penalty().shape == ()
    assert control.penalty().item() == 0


def test_state_lies_in_the_model_alone():
    """A phase-out that was broken off goes on from the state dict, whoever controls it then."""
    whole, part = Bare((3,), ()), Bare((3,), ())
    control, first = (VANController(model, phase_out_steps=50, momentum=0.5) for model in (whole, part))
    for _ in range(20):
        control.step()
    for _ in range(9):
        first.step()
    fresh = Bare((3,), ())
    second = VANController(fresh, phase_out_steps=50, momentum=0.5)
    fresh.load_state_dict(part.state_dict())
    for _ in range(11):
        second.after_step()
    assert repr(second) == repr(control)
    for a, b in zip(fresh.state_dict().values(), whole.state_dict().values(), strict=True):
        assert torch.equal(a, b)


def test_a_new_controller_does_not_undo_a_phase_out_under_way():
    model = Bare((3,))
    VANController(model, 0.1).step()
    under_way = model.gates[0].multiplier.clone()
    VANController(model, 0.1)
    assert torch.equal(model.gates[0].multiplier, under_way)


def test_traces_stay_small_and_fall():
    control = VANController(Bare((2,)), phase_out_steps=3000)
    for _ in range(3000):
        control.step()
    steps = [point.step for point in control.traces]
    assert TRACE // 3 < len(steps) <= TRACE
    assert len({b - a for a, b in pairwise(steps)}) == 1
    residuals = [point.residual for point in control.traces]
    assert residuals == sorted(residuals, reverse=True)
    multipliers = [point.multiplier for point in control.traces]
    assert multipliers == sorted(multipliers, reverse=True)


def test_with_a_loop_of_ones_own():
    """Skips go while the task is learned; the residual is the mean over layers of the mean over entries."""
    net = COMPARED["van"].dense(4, 2, depth=3, width=8, generator=torch.Generator().manual_seed(0))
    control = VANController(net, phase_out_steps=60)
    sgd = torch.optim.SGD(control.weights(), lr=0.05, momentum=0.9)
    x = torch.randn(64, 4)
    y = (x[:, 0] > 0).long()
    for _ in range(120):
        sgd.zero_grad()
        loss = nn.functional.cross_entropy(net(x), y)
        loss.backward()
        sgd.step()
        control.step()
        by_hand = torch.stack([(1 - a.detach()).square().mean() for a in control.owned()]).mean()
        assert control.residual() == pytest.approx(float(by_hand), abs=1e-6)
    assert control.done
    assert loss < 0.1


@pytest.mark.parametrize(
    ("settings", "says"),
    [
        ({}, "either eta or phase_out_steps"),
        ({"eta": 0.1, "phase_out_steps": 5}, "either eta or phase_out_steps"),
        ({"eta": 0.1, "preset": "figure2"}, "either eta or phase_out_steps"),
        ({"eta": -1.0, "ratio": 0.0}, "eta must be .* got -1.0; ratio must be .* got 0.0"),
        ({"eta": 0.1, "lambda0": 1.0}, "lambda0 must be finite and at most 0"),
        ({"phase_out_steps": 5, "lambda0": 0.0}, "never forces a skip out"),
        ({"phase_out_steps": 0}, "phase_out_steps must be at least 1"),
        ({"eta": 0.1, "momentum": 1.0}, "momentum must be"),
        ({"eta": 0.1, "preset": "figure3"}, "did you mean 'figure2'"),
        ({"eta": 0.1, "starts": {"gate.0": 5}}, "no gate of the model.*did you mean 'gates.0'"),
    ],
)
def test_wrong_settings_are_named(settings, says):
    with pytest.raises(AliveError, match=says):
        VANController(Bare((2,)), **settings)


def test_a_model_without_gates_is_refused():
    half = VANBlock(nn.Linear(2, 2), channels=2, formulation="half")
    with pytest.raises(AliveError, match=r"VANBlock has no gate.*phase_out"):
        VANController(half, 0.1)


class Stopped(Exception):
    pass


def test_the_training_loop_moves_the_gates_and_resumes_them_to_the_bit(tmp_path):
    """Broken off in the middle of the phase-out, a run goes on from its checkpoint under a new controller."""

    def begin():
        net = COMPARED["van"].dense(2, 1, depth=3, width=6, generator=torch.Generator().manual_seed(0))
        return net, VANController(net, phase_out_steps=14, momentum=0.5)

    def stop(epoch: int, _: nn.Module) -> None:
        if epoch == 2:
            raise Stopped

    settings = Settings(epochs=9, batch_size=43, lr=0.01, weight_decay=0.1)
    whole, control = begin()
    train(whole, moons(), settings, keep=control)
    assert control.done
    part, first = begin()
    path = tmp_path / "run"
    with pytest.raises(Stopped):
        train(part, moons(), settings, keep=first, checkpoint=path, checkpoint_every=0, on_epoch=stop)
    resumed, second = begin()
    train(resumed, moons(), settings, keep=second, checkpoint=path, checkpoint_every=0, resume=True)
    for name, value in resumed.state_dict().items():
        assert torch.equal(value, whole.state_dict()[name]), name


@pytest.mark.parametrize("preset", ["latched", "literal", "figure2"])
def test_a_late_gradient_opens_a_skip_in_the_literal_preset_alone(preset):
    model = Bare((2,))
    options = {"phase_out_steps": 20} if preset != "figure2" else {"phase_out_steps": 20, "ratio": 0.5}
    control = VANController(model, preset=preset, **options)
    while not control.done:
        model.slope(0.0)
        control.step()
    for _ in range(5):
        model.slope(50.0)  # the task asks for the skip again
        control.step()
    assert control.done == (preset != "literal")
    free = VANController(Bare((2,)), 0.1, lambda0=0.0)
    torch.nn.init.ones_(free.gates["gates.0"].alpha)
    free._model.slope(1.0)
    free.step()
    assert not free.done  # nothing forces it, so nothing holds it
