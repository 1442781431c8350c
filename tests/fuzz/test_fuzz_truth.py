"""The hand-tracked truth of random programs, against what values do when they are moved, or inputs altered."""

from __future__ import annotations

import copy
from collections.abc import Iterator

import numpy as np
import pytest
import torch
from moves import MOVES
from owners import MANY, MIXED, NONE, RAW, one, settled, units_of_both
from program import Program, random_program
from steps import Draw, Known, Step
from torch import Tensor, nn
from weighted import WEIGHTED, tokens

SHAPES = [(4,), (3, 4), (2, 3, 2), (2, 4, 2, 3), (1, 3), (2, 1, 1)]
KEEP_UNITS = ("LayerNorm", "BatchNorm", "GroupNorm", "scale")
WITH_STATISTICS = {"LayerNorm", "GroupNorm", "softmax", "minus a mean", "times a statistic", "squeeze and excite"}
WITH_STATISTICS |= {"attention", "MultiheadAttention", "GRU, LSTM"}
BY_DATA = {"sort", "top-k", "rows by rank", "rows by mask", "masked_select", "branch by data", "experts"}


def known(value: Tensor) -> Known:
    """Every entry its own point."""
    labels = np.arange(value.numel()).reshape(tuple(value.shape))
    return Known(value, labels, labels)


def made(kind: str, table: dict, shape: tuple[int, ...]) -> Iterator[tuple[Step, Known, list[Known]]]:
    for seed in range(12):
        draw = Draw.after([], seed)
        h, other = (known(torch.randn(shape, generator=draw.torch)) for _ in range(2))
        other = Known(other.value, h.point + h.value.numel(), h.unit + h.value.numel())
        step = table[kind][0](draw, h, [other])
        if step is not None:
            yield step, h, [other]


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("kind", sorted(MOVES))
def test_owners_go_where_the_values_go(kind: str, shape: tuple[int, ...]) -> None:
    for step, h, before in made(kind, MOVES, shape):
        values = torch.cat([h.value.flatten(), *(k.value.flatten() for k in before)])
        point, unit = step.who(step, h, before)
        moved = step(h.value, [k.value for k in before])
        assert np.array_equal(point, unit)
        owned = torch.from_numpy(point >= 0)
        expected = values[torch.from_numpy(point.copy())]
        if step.text.endswith("= 0") or "constant" in step.text:
            expected = torch.where(moved == 0, 0.0, expected)
        assert torch.equal(moved[owned], expected[owned]), step.text
        foreign = getattr(step, "token", torch.zeros(())).expand_as(moved[:, :1] if kind == "token" else moved)
        assert torch.equal(moved[~owned], foreign.flatten()[: int((~owned).sum())]), step.text


def features(step: Step) -> Tensor | None:
    """The parameter of which each output feature has one entry."""
    holder = next(iter(step.children()), step)
    bias = getattr(holder, "bias", None)
    return bias if isinstance(bias, nn.Parameter) else None


@pytest.mark.parametrize("kind", sorted(set(WEIGHTED) - set(KEEP_UNITS)))
def test_a_unit_is_what_one_bias_alters(kind: str) -> None:
    for shape in SHAPES:
        for step, h, before in made(kind, WEIGHTED, shape):
            bias = features(step)
            if bias is None:
                continue
            _, unit = step.who(step, h, before)
            values = [k.value for k in before]
            plain = step(h.value, values)
            for number in range(bias.numel()):
                old = bias.detach().clone()
                with torch.no_grad():
                    bias.view(-1)[number] += 1.0
                    altered = (step(h.value, values) != plain).numpy()
                    bias.copy_(old)
                assert len(np.unique(unit[altered])) == 1, step.text
                assert altered[unit == unit[altered][0]].all(), step.text


def owners_by_trial(program: Program) -> list[np.ndarray]:
    """For every activation, which points alter which entries: [points, *shape], found by altering one at a time."""
    x = program.batches[0]
    plain = [layer.z for layer in program.track(x)[1]]
    changed: list[list[np.ndarray]] = [[] for _ in plain]
    for point in range(x.shape[program.point_axis]):
        other = x.clone()
        part = other.select(program.point_axis, point)
        part.copy_((part + 3) % 8 if program.layout == "tokens" else -part + 0.7)
        for number, layer in enumerate(program.track(other)[1]):
            changed[number].append((layer.z != plain[number]).numpy())
    return [np.stack(one) for one in changed]


@pytest.fixture(scope="module")
def programs() -> list[Program]:
    made = (random_program(seed) for seed in range(5000, 5250))
    return [copy.deepcopy(p).eval().double() for p in made if not BY_DATA & set(dict(p.choices))]


def as_doubles(program: Program) -> Program:
    if program.layout != "tokens":
        program.batches = [x.double() for x in program.batches]
    return program


def test_an_entry_of_a_point_changes_with_that_point_alone(programs: list[Program]) -> None:
    checked = 0
    for program in map(as_doubles, programs):
        tensors, layers = program.track(program.batches[0])
        exact = not WITH_STATISTICS & set(dict(program.choices))
        exact = exact and not any((h.point <= MIXED).any() for h in tensors)
        for layer, changed in zip(layers, owners_by_trial(program) if exact else (), strict=False):
            for point, altered in enumerate(changed):
                assert set(np.unique(layer.point.numpy()[altered])) <= {point}, str(program)
            checked += 1
    assert checked > 100


def test_what_is_nobodys_changes_with_several_points(programs: list[Program]) -> None:
    """Save where an earlier ReLU, or a largest entry, hides it."""
    shares = []
    for program in map(as_doubles, programs):
        layers = program.track(program.batches[0])[1]
        for layer, changed in zip(layers, owners_by_trial(program), strict=True):
            if (layer.point < 0).all():
                shares.append((changed.sum(0) > 1).any())
    assert len(shares) > 20
    assert np.mean(shares) > 0.6


def test_rules() -> None:
    labels = np.array(
        [[0, 0, NONE], [0, 1, 1], [2, MIXED, 2], [MIXED, NONE, MIXED], [NONE, NONE, NONE], [RAW, RAW, NONE]]
    )
    assert one(labels, 1).tolist() == [0, MANY, 2, MIXED, NONE, RAW]
    assert settled(np.array([[0, NONE], [1, 1]])).tolist() == [[0, 0], [1, 1]]
    assert settled(np.array([[0, 1], [NONE, NONE]])).tolist() == [[0, 1], [0, 1]]
    assert settled(np.array([[0, 1], [1, NONE]])).tolist() == [[0, 1], [1, NONE]]


def test_rules_for_the_units_of_a_sum() -> None:
    residual = units_of_both(np.array([1, 2]), np.array([11, 12]))
    assert len(set(residual)) == 2
    assert min(residual) > 12
    assert units_of_both(np.array([1, 2]), np.array([7])).tolist() == [1, 2]
    assert units_of_both(np.array([1, 2, 3]), np.array([8, 8, 9])).tolist() == [1, 2, 3]
    assert units_of_both(np.array([1, 2]), np.array([MIXED])).tolist() == [1, 2]
    assert (units_of_both(np.array([[1], [2]]), np.array([[11, 12]])) == MIXED).all()


def test_tokens_are_points_and_embedded_features_units() -> None:
    draw = Draw.after([], 3)
    step = tokens(draw, known(torch.randint(8, (2, 3))), [])
    point, unit = step.who(step, known(torch.randint(8, (2, 3))), [])
    assert (point == np.arange(6).reshape(2, 3, 1)).all()
    assert (unit == draw.first_unit + np.arange(unit.shape[2])).all()
