"""Bounds substituted backwards and branch and bound, against fine grids and points of the box."""

from __future__ import annotations

from collections import Counter
from fractions import Fraction
from time import monotonic

import pytest
import torch
from shrink_models import seeded
from torch import nn

from alive.surgery import shrink
from alive.surgery.shrink.bounds import Lines, Range, Variables
from alive.surgery.shrink.branches import side


def two_layers(seed: int, units: int = 6) -> tuple[Variables, torch.Tensor, torch.Tensor, torch.Tensor]:
    """Variables of a random network of two inputs, forms, their constants, and what they are on a grid."""
    chance = torch.Generator().manual_seed(seed)
    lo, hi = torch.tensor([-1.0, -1.0]).double(), torch.tensor([1.0, 0.5]).double()
    variables = Variables(lo, hi)
    values = torch.cartesian_prod(
        *(torch.linspace(float(a), float(b), 301).double() for a, b in zip(lo, hi, strict=True))
    )
    for _ in range(2):
        rows = torch.randn(units, len(variables), generator=chance).double()
        shifts = torch.randn(units, generator=chance).double() / 4
        z = variables.range(rows.T, shifts)
        bent = (z.lo < 0) & (z.hi > 0)
        rows, shifts, z = rows[bent], shifts[bent], Range(z.lo[bent], z.hi[bent])
        variables.add(torch.zeros_like(z.hi), z.hi, rows, shifts, z)
        values = torch.cat([values, (values @ rows.T + shifts).relu()], 1)
    factors = torch.randn(len(variables), 5, generator=chance).double()
    constant = torch.randn(5, generator=chance).double()
    return variables, factors, constant, values @ factors + constant


@pytest.mark.law
@pytest.mark.parametrize("seed", range(6))
def test_any_lines_bound_the_part_they_are_for_and_are_never_looser_than_intervals(seed):
    variables, factors, constant, found = two_layers(seed)
    chance = torch.Generator().manual_seed(seed)
    for _ in range(10):
        lines = []
        for group in variables.groups:
            plain, size = group.lines(), (group.stop - group.start, 5)
            assert plain is not None
            below = torch.rand(size, generator=chance).double()
            lines.append(Lines(plain.steep, plain.rise, below, torch.zeros(size).double()))
        assert bool((variables.above(factors, constant, lines)[0] >= found.amax(0)).all())
    both, plain = variables.range(factors, constant), variables._plain(factors, constant)
    assert bool(((both.hi <= plain.hi) & (both.lo >= plain.lo)).all())
    assert bool(((both.hi >= found.amax(0)) & (both.lo <= found.amin(0))).all())
    assert bool((both.hi < plain.hi - 0.1).any())


@pytest.mark.law
@pytest.mark.parametrize("seed", range(6))
def test_branches_decide_what_a_fine_grid_shows(seed):
    variables, factors, constant, found = two_layers(seed)
    said = Counter()
    for form, (most, least) in enumerate(zip(found.amax(0), found.amin(0), strict=True)):
        for share in (-0.5, -0.1, -1e-3, 0.05, 0.2):
            asked = variables, factors[:, [form]], constant[[form]], float(most + share * (most - least))
            answer = side(*asked, monotonic() + 60)
            assert answer in ("below" if share > 0 else "above", None)
            said[answer, share > 0, float(variables.range(*asked[1:3]).hi) > asked[3]] += 1
            assert side(*asked, monotonic()) is None  # there is no time
    assert said["below", True, True] >= 1  # splitting was needed
    assert said["above", False, True] >= 5
    assert said[None, True, True] <= 2


@pytest.mark.law
def test_a_wide_network_is_proved_by_branches_and_the_proofs_hold():
    net = seeded(
        nn.Sequential(nn.Linear(98, 64), nn.ReLU(), nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 4)), 0, torch.float64
    )
    middle = torch.rand(98, generator=torch.Generator().manual_seed(0)).double()
    began = monotonic()
    done = shrink(net, box=(middle - 0.03, middle + 0.03), time_limit=60)
    proofs = done.report.proofs
    assert proofs is not None
    assert proofs.branches > 0
    assert proofs.undecided == 0
    assert monotonic() - began < 60
    chance = torch.Generator().manual_seed(1)
    x = torch.rand(2000, 98, generator=chance).double()
    x = middle + 0.06 * (torch.cat([x, x.round()]) - 0.5)
    assert torch.allclose(net(x), done.model(x), rtol=1e-9, atol=1e-9)


@pytest.mark.law
@pytest.mark.parametrize("seed", range(8))
def test_bounds_hold_where_large_numbers_cancel(seed):
    """Units that are on in all of the box, so that fractions give the exact largest value."""
    chance = torch.Generator().manual_seed(seed)
    rows = torch.rand(60, 1, generator=chance).double() + 0.1
    variables, hi = Variables(torch.tensor([0.1]).double(), torch.tensor([0.11]).double()), 0.12 * rows[:, 0]
    none = torch.zeros(60).double()
    variables.add(none, hi, rows, none, Range(-1e-30 * hi, hi))
    each = 1e8 * torch.randn(60, generator=chance).double()
    each[-1] -= each @ rows[:, 0] / rows[-1, 0]
    found = variables.range(torch.cat([none[:1], each])[:, None], none[:1])
    slope = sum(Fraction(float(a)) * Fraction(float(b)) for a, b in zip(each, rows[:, 0], strict=True))
    assert Fraction(float(found.hi[0])) >= max(slope * Fraction(float(x)) for x in (variables.lo[0], variables.hi[0]))
