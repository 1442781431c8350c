"""Jumpstart: the penalty and its gradients equal a slow reference, and the model is never changed."""

from __future__ import annotations

import copy
import io
import pickle
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.overrides import _len_torch_function_stack
from torch.utils.checkpoint import checkpoint, set_checkpoint_early_stop

from alive.errors import AliveError
from alive.functional import Activation, Separation, aggregate, separation
from alive.penalties import Jumpstart, Schedule

Grads = dict[str, Tensor]


class Kept(nn.Module):
    """A model that can keep, by hand, a copy of what it feeds to each activation."""

    def __init__(self) -> None:
        super().__init__()
        self.kept: list[Tensor] | None = None

    def keep(self, z: Tensor) -> Tensor:
        if self.kept is not None:
            self.kept.append(z.clone())
        return z


class Dense(Kept):
    def __init__(self, inplace: bool = False) -> None:
        super().__init__()
        self.a, self.b, self.c = nn.Linear(3, 6), nn.Linear(6, 5), nn.Linear(5, 2)
        self.inplace = inplace

    def forward(self, x: Tensor) -> Tensor:
        x = F.relu(self.keep(self.a(x)), inplace=self.inplace)
        x = F.relu(self.keep(self.b(x)), inplace=self.inplace)
        return self.c(x)


class Conv(Kept):
    def __init__(self) -> None:
        super().__init__()
        self.a, self.norm, self.b, self.c = nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4), nn.Conv2d(4, 5, 2), nn.Linear(5, 2)
        self.relu = nn.ReLU(inplace=True)

    def forward(self, x: Tensor) -> Tensor:
        x = self.relu(self.keep(self.norm(self.a(x))))
        return self.c(self.relu(self.keep(self.b(x))).mean((2, 3)))


class Block(Kept):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.a, self.b = nn.Conv2d(width, width, 3, padding=1), nn.Conv2d(width, width, 3, padding=1)
        self.na, self.nb, self.relu = nn.BatchNorm2d(width), nn.BatchNorm2d(width), nn.ReLU(inplace=True)

    def forward(self, x: Tensor) -> Tensor:
        y = self.nb(self.b(self.relu(self.keep(self.na(self.a(x))))))
        y += x
        return self.relu(self.keep(y))


class ResNet(Kept):
    """In-place ReLUs, one module for several uses, skips: as torchvision writes it."""

    def __init__(self) -> None:
        super().__init__()
        self.stem, self.norm, self.relu = nn.Conv2d(3, 4, 3, padding=1), nn.BatchNorm2d(4), nn.ReLU(inplace=True)
        self.blocks, self.head = nn.Sequential(Block(4), Block(4)), nn.Linear(4, 2)

    def forward(self, x: Tensor) -> Tensor:
        x = self.relu(self.keep(self.norm(self.stem(x))))
        return self.head(self.blocks(x).mean((2, 3)))


class Sequence(Kept):
    def __init__(self) -> None:
        super().__init__()
        self.a, self.b = nn.Linear(3, 4), nn.Linear(4, 2)

    def forward(self, x: Tensor) -> Tensor:
        return self.b(F.relu(self.keep(self.a(x)))).mean(1)


MODELS: dict[str, tuple[Callable[[], Kept], tuple[int, ...], int]] = {
    "dense": (Dense, (7, 3), 1),
    "dense in place": (lambda: Dense(inplace=True), (7, 3), 1),
    "conv": (Conv, (5, 3, 6, 6), 1),
    "resnet": (ResNet, (5, 3, 6, 6), 1),
    "sequence": (Sequence, (5, 6, 3), -1),
}
RULES = [
    {},
    {"mode": "U", "aggregate": "mean"},
    {"mode": "P", "against": "death", "aggregate": "sum"},
    {"mode": "L", "balance": 0.3},
    {"conv": "position", "aggregate": "norm", "pos_margin": 2.0},
    {"aggregate": "balanced", "ties": "single", "neg_margin": 0.5},
]


@pytest.fixture
def built() -> Iterator[Callable[[str], tuple[Kept, Tensor, int]]]:
    def build(name: str) -> tuple[Kept, Tensor, int]:
        torch.manual_seed(3)
        make, shape, axis = MODELS[name]
        model = make()
        for module in model.modules():
            if isinstance(module, nn.BatchNorm2d):
                nn.init.constant_(module.weight, 0.2)  # so that some slack is left
        return model, 0.3 * torch.randn(shape), axis

    return build


def grads(model: nn.Module) -> Grads:
    found = {name: p.grad.clone() for name, p in model.named_parameters() if p.grad is not None}
    model.zero_grad(set_to_none=True)
    return found


def close(a: Grads, b: Grads, **tolerance: float) -> None:
    assert a.keys() == b.keys()
    for name in a:
        torch.testing.assert_close(a[name], b[name], msg=lambda text, name=name: f"{name}: {text}", **tolerance)


def by_hand(model: Kept, x: Tensor, unit_axis: int, rule: dict[str, Any]) -> tuple[Tensor, Tensor]:
    """Output and penalty from pre-activations kept by hand and plain autograd."""
    kept: list[Tensor] = []
    for module in model.modules():
        if isinstance(module, Kept):
            module.kept = kept
    y = model(x)
    for module in model.modules():
        if isinstance(module, Kept):
            module.kept = None
    options = {key: value for key, value in rule.items() if key != "aggregate"}
    slacks = [separation.slacks(z, Separation(**options), unit_axis=unit_axis) for z in kept]
    return y, aggregate(slacks, rule.get("aggregate", "sumsq"))


@pytest.mark.twin
@pytest.mark.parametrize("rule", RULES, ids=str)
@pytest.mark.parametrize("name", MODELS)
def test_value_and_gradients_equal_those_collected_by_hand(built, name: str, rule: dict[str, Any]) -> None:
    model, x, axis = built(name)
    y, expected = by_hand(model, x, axis, rule)
    (y.square().mean() + 0.1 * expected).backward()
    wanted = grads(model)
    with Jumpstart(model, 0.1, **rule) as keep:
        found = model(x)
        penalty = keep.penalty()
        (found.square().mean() + penalty).backward()
    torch.testing.assert_close(found, y)
    torch.testing.assert_close(penalty, 0.1 * expected)
    assert expected > 0
    close(grads(model), wanted, rtol=1e-4, atol=1e-6)


# When it records.


def test_nothing_is_recorded_in_eval_or_under_no_grad(built) -> None:
    model, x, _ = built("dense")
    with Jumpstart(model) as keep:
        with torch.no_grad():
            model(x)
        assert keep.penalty().item() == 0.0
        model.eval()
        model(x)
        assert keep.penalty().item() == 0.0
        model.train()
        model(x)
        assert keep.penalty().item() > 0.0


def test_a_penalty_without_a_pass_is_refused_also_the_second_time(built) -> None:
    model, x, _ = built("dense")
    with Jumpstart(model) as keep:
        with pytest.raises(AliveError, match="no forward pass since the last call"):
            keep.penalty()
        model(x)
        keep.penalty()
        with pytest.raises(AliveError, match="Call the attached model first"):
            keep.penalty()


@pytest.mark.law
def test_two_passes_are_one_sum(built) -> None:
    model, x, _ = built("dense")
    with Jumpstart(model, 1.0) as keep:
        separate = []
        for part in x.split(4):
            model(part)
            separate.append(keep.penalty())
        for part in x.split(4):
            model(part)
        torch.testing.assert_close(keep.penalty(), sum(separate))


@pytest.mark.law
def test_accumulated_gradients_equal_those_of_the_sum(built) -> None:
    model, x, _ = built("conv")
    model.norm.eval()
    with Jumpstart(model, 1.0) as keep:
        for part in x.split(3):
            (model(part).sum() + keep.penalty()).backward()
        accumulated = grads(model)
        (sum(model(part).sum() for part in x.split(3)) + keep.penalty()).backward()
    close(grads(model), accumulated, rtol=1e-4, atol=1e-5)


def test_a_failed_pass_is_forgotten(built) -> None:
    model, x, _ = built("dense")
    with Jumpstart(model, 1.0) as keep:
        model(x)
        expected = keep.penalty()
        layer, model.c = model.c, nn.Linear(1, 1)
        with pytest.raises(RuntimeError):
            model(x)
        with pytest.raises(AliveError, match="no forward pass"):
            keep.penalty()
        model.c = layer
        model(x)
        torch.testing.assert_close(keep.penalty(), expected)


def test_an_interrupted_pass_is_forgotten(built) -> None:
    model, x, _ = built("dense")

    def interrupt(*_: Any) -> None:
        raise KeyboardInterrupt

    with Jumpstart(model, 1.0) as keep:
        model(x)
        expected = keep.penalty()
        handle = model.c.register_forward_pre_hook(interrupt)
        with pytest.raises(KeyboardInterrupt):
            model(x)
        handle.remove()
        model(x)
        torch.testing.assert_close(keep.penalty(), expected)
    assert _len_torch_function_stack() == 0


def test_a_hundred_unread_passes_are_told_once(built) -> None:
    model, x, _ = built("dense")
    with Jumpstart(model) as keep:
        for _ in range(99):
            model(x)
        with pytest.warns(UserWarning, match="100 forward passes and no penalty"):
            model(x)
        keep.penalty()
        for _ in range(150):
            model(x)


# Attaching and letting go.


def hooks_of(model: nn.Module) -> list[dict[str, Any]]:
    return [
        {key: dict(value) for key, value in vars(m).items() if "hook" in key and isinstance(value, dict)}
        for m in model.modules()
    ]


@pytest.mark.parametrize("name", MODELS)
def test_detach_restores_hooks_state_and_output(built, name: str) -> None:
    model, x, _ = built(name)
    model.eval()
    before, state, expected = hooks_of(model), copy.deepcopy(model.state_dict()), model(x)
    with Jumpstart(model) as keep:
        model(x)
        assert model.state_dict().keys() == state.keys()
    keep.detach()
    assert hooks_of(model) == before
    assert all(torch.equal(state[key], value) for key, value in model.state_dict().items())
    assert torch.equal(model(x), expected)


def test_training_output_is_bitwise_that_of_the_bare_model(built) -> None:
    for name in MODELS:
        model, x, _ = built(name)
        expected = copy.deepcopy(model)(x)
        with Jumpstart(model):
            assert torch.equal(model(x), expected)


def test_a_second_attachment_is_refused_anywhere_in_the_model(built) -> None:
    model, x, _ = built("resnet")
    with Jumpstart(model):
        for part in (model, model.blocks, model.blocks[0], nn.Sequential(model)):
            with pytest.raises(AliveError, match="attached to this model, or a part of it, already"):
                Jumpstart(part)
    with Jumpstart(model.blocks[1]), pytest.raises(AliveError, match=r"detach\(\) first"):
        Jumpstart(model)
    with Jumpstart(model) as keep:
        model(x)
        keep.penalty()


def repickled(model: nn.Module) -> nn.Module:
    return pickle.loads(pickle.dumps(model))


def reloaded(model: nn.Module) -> nn.Module:
    file = io.BytesIO()
    torch.save(model, file)
    file.seek(0)
    return torch.load(file, weights_only=False)


@pytest.mark.parametrize("again", [copy.deepcopy, repickled, reloaded])
def test_a_copy_of_an_attached_model_is_a_free_model(built, again) -> None:
    model, x, _ = built("resnet")
    model.eval()
    with Jumpstart(model) as keep:
        twin = again(model)
        assert torch.equal(twin(x), model(x))
        keep.penalty()
        twin(x)
        with pytest.raises(AliveError, match="no forward pass"):
            keep.penalty()
        twin.train()
        with Jumpstart(twin) as other:
            twin(x)
            assert other.penalty() > 0
        assert all(not any(hooks.values()) for hooks in hooks_of(twin))


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
    with Jumpstart(model, 1.0) as keep:
        y = model(x)
        hidden = keep.penalty()
    with Jumpstart(model, 1.0, include_output=True) as keep:
        model(x)
        torch.testing.assert_close(keep.penalty(), hidden + aggregate([separation.slacks(y, Separation())]))


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
        with Jumpstart(model, 1.0, activations={Late: Activation(name, cutoff=0.5)}) as keep:
            model(x)
            expected = aggregate([separation.slacks(model[0](x), Separation(), cutoff=0.5)])
            torch.testing.assert_close(keep.penalty(), expected)


def test_soft_activations_use_their_cutoff() -> None:
    model, x = nn.Sequential(nn.Linear(3, 4), nn.ELU(inplace=True)), torch.randn(6, 3)
    with Jumpstart(model, 1.0) as keep:
        model(x)
        expected = aggregate([separation.slacks(model[0](x), Separation(), cutoff=-2.302585092994046)])
        torch.testing.assert_close(keep.penalty(), expected)


# Odd ways of writing a model.


class Statement(Kept):
    """In place as a statement: the value returned is ignored."""

    def __init__(self) -> None:
        super().__init__()
        self.a, self.b, self.relu = nn.Linear(3, 6), nn.Linear(6, 2), nn.ReLU(inplace=True)

    def forward(self, x: Tensor) -> Tensor:
        z = self.a(x)
        self.keep(z)
        self.relu(z)
        return self.b(z)


class OnAView(Statement):
    """In place on a view of what the next layer reads."""

    def forward(self, x: Tensor) -> Tensor:
        z = self.a(x)
        half = z[:, :3]
        self.keep(half)
        self.relu(half)
        return self.b(z)


class TwiceRead(Statement):
    """What the activation reads is read by others too."""

    def forward(self, x: Tensor) -> Tensor:
        z = self.a(x)
        self.keep(z)
        return self.b(F.relu(z) + 0.5 * z)


class Frozen(Statement):
    """The first layer does not learn."""

    def __init__(self) -> None:
        super().__init__()
        self.a.requires_grad_(False)
        self.c = nn.Linear(2, 2)

    def forward(self, x: Tensor) -> Tensor:
        z = self.b(self.relu(self.keep(self.a(x))))
        return self.c(self.relu(self.keep(z)))


@pytest.mark.twin
@pytest.mark.parametrize("kind", [Statement, OnAView, TwiceRead, Frozen])
def test_odd_ways_of_writing_give_the_right_gradients(kind: Callable[[], Kept]) -> None:
    model, x = kind(), torch.randn(7, 3)
    y, expected = by_hand(model, x, 1, {})
    (y.square().mean() + expected).backward()
    wanted = grads(model)
    with Jumpstart(model, 1.0) as keep:
        (model(x).square().mean() + keep.penalty()).backward()
    close(grads(model), wanted)


def test_full_backward_hooks_see_the_gradients_of_loss_and_penalty() -> None:
    model = nn.Sequential(nn.Linear(3, 4), nn.ReLU(), nn.Linear(4, 2))
    seen: list[Tensor] = []
    handle = model[1].register_full_backward_hook(lambda module, into, out: seen.extend([into[0], out[0]]))
    x = torch.randn(6, 3)
    with Jumpstart(model, 1.0) as keep:
        y = model(x)
        (y.square().sum() + keep.penalty()).backward()
    handle.remove()
    z = model[0](x).detach().requires_grad_()
    h = F.relu(z)
    h.retain_grad()
    (model[2](h).square().sum() + aggregate([separation.slacks(z, Separation())])).backward()
    torch.testing.assert_close(seen[0], z.grad)
    torch.testing.assert_close(seen[1], h.grad)


def test_a_layer_without_rows_costs_nothing() -> None:
    model = nn.Sequential(nn.Linear(3, 4), nn.ReLU())
    with Jumpstart(model, 1.0) as keep:
        model(x := torch.randn(5, 3))
        expected = keep.penalty()
        model(x)
        with pytest.warns(UserWarning, match="axis U"):
            model(x[:0])
        torch.testing.assert_close(keep.penalty(), expected)


# Precision.


@pytest.mark.parametrize("name", ["dense", "conv", "resnet"])
def test_autocast_measures_in_float32_with_finite_gradients(built, name: str) -> None:
    model, x, _ = built(name)
    with Jumpstart(model, 1.0) as keep:
        with torch.autocast("cpu", torch.bfloat16):
            y = model(x)
        assert all(s.dtype == torch.float32 for layer in keep._slacks for s in layer.values())
        low = keep.penalty()
        (y.float().square().mean() + low).backward()
        assert all(g.isfinite().all() for g in grads(model).values())
        model(x)
        torch.testing.assert_close(low, keep.penalty(), rtol=0.1, atol=0.1)


# Activation checkpointing.


class Checkpointed(Kept):
    def __init__(self, how: str) -> None:
        super().__init__()
        self.a = nn.Sequential(nn.Linear(3, 6), nn.ReLU(inplace=True), nn.Dropout(0.3), nn.Linear(6, 6))
        self.b, self.c, self.how = nn.Linear(6, 6), nn.Linear(6, 2), how

    def part(self, z: Tensor) -> Tensor:
        return F.relu(self.b(F.relu(z)))

    def forward(self, x: Tensor) -> Tensor:
        if self.how == "none":
            return self.c(self.part(self.a(x)))
        again = {"use_reentrant": self.how == "reentrant"}
        return self.c(checkpoint(self.part, checkpoint(self.a, x, **again), **again))


def step(model: nn.Module, x: Tensor, **rule: Any) -> tuple[Tensor, Grads]:
    torch.manual_seed(5)
    with Jumpstart(model, 1.0, **rule) as keep:
        y = model(x)
        penalty = keep.penalty()
        (y.square().mean() + penalty).backward()
        with pytest.raises(AliveError, match="no forward pass"):
            keep.penalty()  # what backward ran again is no pass of its own
    return penalty.detach(), grads(model)


@pytest.mark.twin
@pytest.mark.parametrize(
    "rule", [{}, {"mode": "L"}, {"layers": ["relu*"]}, {"ties": "single", "conv": "position"}], ids=str
)
def test_checkpointing_changes_neither_value_nor_gradients(rule: dict[str, Any]) -> None:
    model, x = Checkpointed("none"), torch.randn(7, 3)
    value, wanted = step(model, x, **rule)
    model.how = "not reentrant"
    again, found = step(model, x, **rule)
    torch.testing.assert_close(again, value)
    close(found, wanted)


@pytest.mark.parametrize("early_stop", [True, False])
def test_what_backward_runs_again_does_not_count_in_the_next_step(early_stop: bool) -> None:
    model, x = Checkpointed("not reentrant"), torch.randn(7, 3)
    model.a[2].p = 0.0
    with Jumpstart(model, 1.0) as keep, set_checkpoint_early_stop(early_stop):
        penalties = []
        for _ in range(3):
            y = model(x)
            penalties.append(keep.penalty())
            (y.sum() + penalties[-1]).backward()
    torch.testing.assert_close(penalties[1:], penalties[:2])


@pytest.mark.twin
def test_checkpointing_a_part_that_begins_with_an_activation_keeps_the_unit_axis() -> None:
    class Mixed(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.a, self.b, self.again = nn.Conv1d(3, 4, 1), nn.Sequential(nn.ReLU(), nn.Conv1d(4, 2, 1)), False

        def forward(self, x: Tensor) -> Tensor:
            z = self.a(x)
            return checkpoint(self.b, z, use_reentrant=False) if self.again else self.b(z)

    model, x = Mixed(), torch.randn(5, 3, 6)
    value, wanted = step(model, x)
    model.again = True
    again, found = step(model, x)
    torch.testing.assert_close(again, value)
    close(found, wanted)


def test_reentrant_checkpointing_is_told() -> None:
    model, x = Checkpointed("reentrant"), torch.randn(7, 3, requires_grad=True)
    with Jumpstart(model) as keep:
        with pytest.warns(UserWarning, match=r"use_reentrant=False"):
            y = model(x)
        with pytest.raises(AliveError):
            keep.penalty()
        y.sum().backward()


# Compiled models.


@pytest.fixture
def fresh_compiler() -> Iterator[None]:
    torch._dynamo.reset()
    yield
    torch._dynamo.reset()


@pytest.mark.twin
@pytest.mark.usefixtures("fresh_compiler")
@pytest.mark.parametrize("name", MODELS)
def test_a_compiled_model_gives_the_eager_penalty_and_gradients(built, name: str) -> None:
    model, x, _ = built(name)
    eager = step(copy.deepcopy(model), x)
    compiled = torch.compile(model, backend="aot_eager")
    value, found = step(compiled, x)
    torch.testing.assert_close(value, eager[0])
    close({key.removeprefix("_orig_mod."): g for key, g in found.items()}, eager[1], rtol=1e-4, atol=1e-5)


@pytest.mark.twin
@pytest.mark.usefixtures("fresh_compiler")
@pytest.mark.filterwarnings("ignore")  # inductor's own
def test_inductor_gives_the_eager_penalty_and_gradients(built) -> None:
    model, x, _ = built("conv")
    eager = step(copy.deepcopy(model), x)
    value, found = step(torch.compile(model), x)
    torch.testing.assert_close(value, eager[0])
    close({key.removeprefix("_orig_mod."): g for key, g in found.items()}, eager[1], rtol=1e-4, atol=1e-5)


@pytest.mark.usefixtures("fresh_compiler")
def test_a_model_compiled_in_place_is_penalised_pass_after_pass(built) -> None:
    model, x, _ = built("dense")
    expected = step(copy.deepcopy(model), x)[0]
    model.compile(backend="aot_eager")
    with Jumpstart(model, 1.0) as keep:
        for _ in range(3):
            model(x)
            torch.testing.assert_close(keep.penalty(), expected)


@pytest.mark.usefixtures("fresh_compiler")
@pytest.mark.parametrize("name", ["dense", "conv"])
def test_attaching_after_the_first_compiled_call_compiles_anew(built, name: str) -> None:
    model, x, _ = built(name)
    eager = step(copy.deepcopy(model), x)
    compiled = torch.compile(copy.deepcopy(model), backend="aot_eager")
    compiled(x)
    value, found = step(compiled, x)
    torch.testing.assert_close(value, eager[0])
    close({key.removeprefix("_orig_mod."): g for key, g in found.items()}, eager[1], rtol=1e-4, atol=1e-5)


@pytest.mark.usefixtures("fresh_compiler")
def test_attaching_late_to_a_model_compiled_in_place_is_right_or_told(built) -> None:
    model, x, _ = built("dense")
    expected = step(copy.deepcopy(model), x)[0]
    model.compile(backend="aot_eager")
    model(x)
    with Jumpstart(model, 1.0) as keep:
        model(x)
        try:
            torch.testing.assert_close(keep.penalty(), expected)
        except AliveError as error:
            assert "a compiled model must be attached before its first call" in str(error)  # noqa: PT017


# Training, in the end.


def test_the_penalty_revives_a_dead_layer() -> None:
    model = nn.Sequential(nn.Linear(2, 4), nn.ReLU(), nn.Linear(4, 1))
    nn.init.constant_(model[0].bias, -3.0)
    x = torch.rand(20, 2) - 0.5
    assert (model[0](x) <= 0).all()
    optimiser = torch.optim.Adam(model.parameters(), 0.05)
    with Jumpstart(model, 1.0) as keep, warnings.catch_warnings():
        for _ in range(200):
            optimiser.zero_grad()
            model(x)
            keep.penalty().backward()
            optimiser.step()
    z = model[0](x)
    assert (z.amax(0) > 0.5).all()
    assert (z.amin(0) < 0.5).all()
