"""Certificates against brute force: every vertex of a small system, solved in fractions, with no linear programme."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from fractions import Fraction
from math import inf

import pytest
import torch
from brute import can_be_dead
from torch import nn

from alive.errors import AliveError
from alive.theory import certify, verify
from alive.theory.exact import decide, fractions


def random_layer(generator):
    """Small whole numbers, so that ties, zero rows and dependent rows are common."""
    units, inputs = (int(torch.randint(1, top, (), generator=generator)) for top in (7, 4))
    weight = torch.randint(-2, 3, (units, inputs), generator=generator).float()
    bias = torch.randint(-2, 3, (units,), generator=generator).float()
    return weight, bias


@pytest.mark.law
@pytest.mark.parametrize("box", [None, (-1, 1), (0, 2), (1, 1)])
def test_agrees_with_brute_force_on_layers_of_whole_numbers(box):
    generator, seen = torch.Generator().manual_seed(1), Counter()
    for _ in range(150):
        layer = random_layer(generator)
        found = certify(layer, box=box or (-inf, inf))
        assert found.verdict == ("dead" if can_be_dead(*layer, box) else "alive"), layer
        assert verify(layer, found), layer
        seen[found.verdict] += 1
    assert min(seen["dead"], seen["alive"]) >= 20


@pytest.mark.law
def test_agrees_with_brute_force_on_layers_of_floats():
    generator, seen = torch.Generator().manual_seed(2), Counter()
    for number in range(200):
        units, inputs = 2 + number % 7, 1 + number % 3
        layer = torch.randn(units, inputs, generator=generator), torch.randn(units, generator=generator)
        found = certify(layer, reach=inf if number % 2 else 1e4)
        assert found.verdict == ("dead" if can_be_dead(*layer) else "alive")
        assert verify(layer, found)
        seen[found.verdict, number % 2] += 1
    assert min(seen.values()) >= 15
    assert len(seen) == 4


@pytest.mark.law
def test_a_proof_bounds_every_input_and_a_dead_input_kills():
    generator = torch.Generator().manual_seed(3)
    for _ in range(60):
        weight = torch.randn(9, 3, generator=generator, dtype=torch.float64)
        bias = torch.randn(9, generator=generator, dtype=torch.float64)
        found = certify((weight, bias), cutoff=0.25)
        if found.verdict == "alive":
            x = 10 * torch.randn(2000, 3, generator=generator, dtype=torch.float64)
            top = (x @ weight.T + bias).amax(1)
            assert bool((top >= 0.25 + found.margin * (1 - 1e-9)).all())
        else:
            assert float((weight @ found.dead_input + bias).max()) <= 0.25 + 1e-9


def farkas(free, inputs, *, margin, dtype, generator):
    """A row more, minus the sum of the others, and biases that sum to units times the margin (spec 1.1)."""
    weight = torch.randn(free, inputs, generator=generator, dtype=dtype)
    bias = torch.randn(free, generator=generator, dtype=dtype)
    return torch.cat([weight, -weight.sum(0, keepdim=True)]), torch.cat([bias, margin * (free + 1) - bias.sum()[None]])


@pytest.mark.parametrize(("free", "inputs"), [(2, 2), (4, 16), (32, 64), (64, 10)])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_farkas_layers_are_certified_with_at_least_their_margin(free, inputs, dtype):
    layer = farkas(free, inputs, margin=1e-2, dtype=dtype, generator=torch.Generator().manual_seed(4))
    found = certify(layer)
    assert verify(layer, found)
    assert found.verdict == "alive"
    assert found.margin >= 1e-2 * (1 - 1e-3)
    assert found.valid_for_norm_up_to >= 1e4


def test_boxes_far_from_zero_and_half_bounded():
    layer = torch.tensor([[1.0, 0.0], [0.0, -1.0]]), torch.tensor([-2e6, 1.0])
    for box, verdict in [((1e6, 1.5e6), "dead"), ((3e6, 4e6), "alive"), ((-inf, -1e6), "alive"), ((1e6, inf), "dead")]:
        found = certify(layer, box=box)
        assert found.verdict == verdict, box
        assert verify(layer, found)
    sides = torch.tensor([0.0, -1.0]), torch.tensor([inf, 0.0])
    found = certify(layer, box=sides)
    assert (found.verdict, found.valid_for_norm_up_to) == ("alive", inf)
    assert found.margin == pytest.approx(1)


def test_equality_mode_can_be_dead_and_the_radius_says_how_far_a_rounded_row_holds():
    exact = torch.tensor([[1.0, 2.0, 1.0], [3.0, -1.0, 2.0], [-4.0, -1.0, -3.0]])
    bias = torch.tensor([1.0, 2.0, -3.0])
    found = certify((exact, bias))
    assert found.verdict == "dead"
    assert all(z == 0 for z in (exact.double() @ found.dead_input + bias).round(decimals=12).tolist())
    zero = certify((exact, torch.zeros(3)))
    assert (zero.verdict, zero.dead_input.tolist()) == ("dead", [0.0, 0.0, 0.0])
    assert certify((exact, bias + 0.5)).valid_for_norm_up_to == inf
    rounded = exact / 10  # -0.4 is not the sum of 0.1 and 0.3 in floats
    near, far = (certify((rounded, bias + 0.5), reach=reach) for reach in (1e4, inf))
    assert near.verdict == "alive"
    assert far.verdict == "dead"
    assert 1e4 < near.valid_for_norm_up_to <= float(far.dead_input.norm())
    assert verify((rounded, bias + 0.5), near)
    assert verify((rounded, bias + 0.5), far)


@pytest.mark.parametrize(
    "tamper",
    [
        lambda case: replace(case, multipliers=(*case.multipliers[:-1], -case.multipliers[-1])),
        lambda case: replace(case, multipliers=(case.multipliers[0] * 2, *case.multipliers[1:])),
        lambda case: replace(case, multipliers=tuple(Fraction() for _ in case.multipliers)),
        lambda case: replace(case, multipliers=case.multipliers[1:]),
        lambda case: replace(case, margin=case.margin * 1.01),
        lambda case: replace(case, margin=0.0),
        lambda case: replace(case, verdict="dead"),
        lambda case: replace(case, verdict="dead", dead_input=(Fraction(1), Fraction(1))),
        lambda case: replace(case, verdict="alife"),
        lambda case: replace(case, positions=2),
    ],
)
def test_tampering_is_detected(tamper):
    layer = torch.tensor([[1.0, 0.0], [0.0, 1.0], [-1.0, -1.0]]), torch.tensor([0.0, 0.0, 1.0])
    found = certify(layer)
    assert found.verdict == "alive"
    assert not verify(layer, replace(found, cases=(tamper(found.cases[0]),)))


def test_claims_of_radius_padding_box_and_other_layers_are_checked():
    layer = farkas(4, 16, margin=1e-2, dtype=torch.float32, generator=torch.Generator().manual_seed(5))
    found = certify(layer)
    case = found.cases[0]
    for radius in (inf, case.valid_for_norm_up_to * 1.001, 0.0):
        assert not verify(layer, replace(found, cases=(replace(case, valid_for_norm_up_to=radius),)))
    assert not verify((layer[0] + 0.01 * torch.rand(5, 16), layer[1]), found)
    assert not verify((layer[0][:, :3], layer[1]), found)
    boxed = certify(layer, box=(-1, 1))
    assert not verify(layer, replace(boxed, lo=(-1e9,) * 16, hi=(1e9,) * 16))
    conv = nn.Conv1d(1, 1, 3, padding=1)
    dead = certify(conv, size=[4])
    border = replace(dead.cases[0], dead_input=(Fraction(1), *dead.cases[0].dead_input[1:]))
    assert "padding" in verify(conv, replace(dead, cases=(border, *dead.cases[1:]))).faults[0]
    assert not verify(conv, replace(dead, cases=dead.cases[1:]))


@pytest.mark.parametrize(("weight", "bias", "verdict"), [([[0.0]], [0.0], "dead"), ([[0.0]], [1.0], "alive")])
def test_units_without_weights(weight, bias, verdict):
    layer = torch.tensor(weight), torch.tensor(bias)
    found = certify(layer)
    assert found.verdict == verdict
    assert verify(layer, found)
    assert certify((torch.cat([torch.ones(1, 1), layer[0]]), torch.tensor([5.0, *bias]))).verdict == verdict


@pytest.mark.parametrize(("units", "inputs", "verdict"), [(1, 40, "dead"), (50, 300, "dead"), (500, 50, "alive")])
def test_large_layers(units, inputs, verdict):
    torch.manual_seed(6)
    layer = nn.Linear(inputs, units)
    found = certify(layer)
    assert found.verdict == verdict
    assert verify(layer, found)
    if verdict == "dead":
        assert float(layer.double()(found.dead_input).detach().max()) <= 1e-12
        assert found.dead_input.abs().max() < 100, "an input that someone may believe"


SMALLEST = 2.0**-1070


@pytest.mark.parametrize(
    ("weight", "bias", "verdict"),
    [
        ([[SMALLEST]], [1.0], "dead"),
        ([[SMALLEST], [-SMALLEST]], [1.0, 1.0], "alive"),
        ([[SMALLEST], [-2 * SMALLEST], [1.0]], [-1.0, -1.0, 0.0], "dead"),
        ([[1.0, 2.0**-600], [-1.0, 0.0]], [1.0, 1.0], "alive"),
        ([[2.0**900], [-(2.0**900)]], [2.0**900, -(2.0**899)], "alive"),
        ([[2.0**900], [-(2.0**900)]], [2.0**899, -(2.0**900)], "dead"),
    ],
)
def test_numbers_at_the_ends_of_what_floats_hold(weight, bias, verdict):
    layer = torch.tensor(weight, dtype=torch.float64), torch.tensor(bias, dtype=torch.float64)
    found = certify(layer)
    assert found.verdict == verdict
    assert verify(layer, found)
    assert found.dead_input is None or found.dead_input.isfinite().all()


def test_a_large_layer_on_the_boundary_is_undecided_and_not_guessed():
    generator = torch.Generator().manual_seed(7)
    weight = torch.randn(60, 40, generator=generator, dtype=torch.float64)
    shift = torch.randn(40, generator=generator, dtype=torch.float64)
    weight = torch.cat([weight, -weight.sum(0, keepdim=True)])
    bias = -(weight @ shift)
    found = certify((weight, bias))
    assert found.verdict in ("undecided", "alive")  # rounding of b decides; a proof is a proof all the same
    assert verify((weight, bias), found)
    assert found.margin < 1e-9


class Doubled(nn.Module):
    """A layer of someone's own that can be written out."""

    def __init__(self) -> None:
        super().__init__()
        self.free = nn.Linear(3, 1)

    def to_plain(self) -> nn.Linear:
        plain = nn.Linear(3, 2)
        plain.weight = nn.Parameter(torch.cat([self.free.weight, -self.free.weight]).detach())
        plain.bias = nn.Parameter(torch.ones(2))
        return plain


def test_whatever_has_to_plain_is_read():
    layer = Doubled()
    found = certify(layer)
    assert (found.verdict, found.margin, found.valid_for_norm_up_to) == ("alive", 1.0, inf)
    assert verify(layer, found)


@pytest.mark.parametrize(
    ("make", "options", "said"),
    [
        (lambda: nn.ReLU(), {}, "cannot certify a ReLU"),
        (lambda: nn.Conv2d(1, 2, 3, padding=1), {}, "Give size"),
        (lambda: nn.Conv2d(1, 2, 3, padding=1), {"size": [4]}, "expected 2 positive lengths"),
        (lambda: nn.Conv1d(1, 2, 3), {"size": [2]}, "does not fit"),
        (lambda: nn.Conv1d(1, 2, 3, padding=1, padding_mode="circular"), {"size": [4]}, "repeats inputs"),
        (lambda: nn.Linear(2, 2), {"box": (1, 0)}, "box is empty"),
        (lambda: nn.Linear(2, 2), {"box": (torch.zeros(3), 1)}, "as many bounds"),
        (lambda: nn.Linear(2, 2), {"cutoff": inf}, "cutoff must be finite"),
        (lambda: (torch.full((1, 1), inf), torch.zeros(1)), {}, "must be finite"),
        (lambda: (torch.ones(2, 1), torch.zeros(1)), {}, "as many biases"),
    ],
)
def test_refusals_name_the_cause(make, options, said):
    with pytest.raises(AliveError, match=said):
        certify(make(), **options)


@pytest.mark.law
def test_the_rational_simplex_gives_a_point_or_a_refutation():
    generator = torch.Generator().manual_seed(9)
    for _ in range(150):
        weight, bias = random_layer(generator)
        rows, limits = [fractions(row) for row in weight.tolist()], fractions((-bias).tolist())
        x, y = decide(rows, limits)
        if y is None:
            assert all(sum(a * b for a, b in zip(row, x)) <= limit for row, limit in zip(rows, limits))  # noqa: B905
        else:
            assert min(y) >= 0
            assert sum(a * b for a, b in zip(y, limits)) < 0  # noqa: B905
            assert all(sum(a * row[j] for a, row in zip(y, rows)) == 0 for j in range(weight.shape[1]))  # noqa: B905
