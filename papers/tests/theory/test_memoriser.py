"""Theorem 3.2 of 003: networks that know their sample by heart, built and then simply asked."""

from __future__ import annotations

import math
from copy import deepcopy

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

from alive.errors import AliveError
from alive_papers.theorems import memorise
from alive_papers.theorems.memoriser import Block


def seeded(seed=0):
    return torch.Generator().manual_seed(seed)


def accuracy(network, x, y):
    with torch.no_grad():
        return float((network(x).argmax(1) == y).double().mean())


def expect_learnt(x, y, **options):
    network = memorise(x, y, generator=seeded(), **options)
    record = network.record
    assert accuracy(network, x.double(), y) == 1
    with torch.no_grad():
        error = (network(x.double()) - nn.functional.one_hot(y, int(y.max()) + 1)).abs().max()
    assert float(error) == pytest.approx(record.float64_error)
    assert record.float64_error <= 1e-6
    single = deepcopy(network).float()
    assert accuracy(single, x.float(), y) == record.float32_accuracy
    spread = float((x - x.mean(0)).norm(dim=1).mean()) or 1.0
    rounding = 300 * torch.finfo(torch.float32).eps / record.smallest_gap * (1 + float(x.abs().max()) / spread)
    if rounding < 0.5:
        assert record.float32_accuracy == 1
        assert record.float32_error <= rounding
    return network


def test_five_thousand_random_points_with_random_labels():
    x = torch.randn(5000, 32, generator=seeded(1))
    y = torch.randint(0, 10, (5000,), generator=seeded(2))
    record = expect_learnt(x, y).record
    assert (record.k, record.layers, record.float32_accuracy) == (33, math.ceil(5000 / 33), 1)
    assert record.float64_error < 1e-12
    assert record.float32_error < 1e-4


def test_the_whole_digits_set():
    from sklearn.datasets import load_digits

    x, y = (torch.from_numpy(part) for part in load_digits(return_X_y=True))
    record = expect_learnt(x.reshape(-1, 8, 8), y.long()).record
    assert (record.points, record.classes, record.float32_accuracy) == (1797, 10, 1)
    assert record.layers == math.ceil(1797 / record.k)
    assert record.parameters < 10 * record.theorem


@pytest.mark.law
@settings(max_examples=20, deadline=None)
@given(st.integers(1, 60), st.integers(1, 6), st.integers(1, 5), st.integers(0, 10**6))
def test_any_labelling_of_any_distinct_points(n, d, r, seed):
    x = torch.randn(n, d, generator=seeded(seed), dtype=torch.float64) * 10 ** (seed % 7 - 3) + seed % 5
    expect_learnt(x, torch.randint(0, r, (n,), generator=seeded(seed)))


@pytest.mark.parametrize("k", [2, 3, 5, 11, 40])
def test_a_width_of_ones_own(k):
    x, y = torch.randn(50, 10, generator=seeded(3), dtype=torch.float64), torch.arange(50) % 4
    network = expect_learnt(x, y, k=k)
    blocks = [module for module in network.modules() if isinstance(module, Block)]
    assert len(blocks) == network.record.layers == math.ceil(50 / k)
    assert all(sum(isinstance(part, nn.ReLU) for part in block.modules()) == 1 for block in blocks)
    by_hand = (k - 1) * 10 + len(blocks) * (2 * k * k + k) + 4 * k + 4 + 4 * 4
    assert network.record.parameters == by_hand == sum(p.numel() for p in network.parameters())
    assert network.record.theorem == pytest.approx(50 * math.log(50) + 16)


def test_parameters_grow_like_n_log_n():
    counts = []
    for n in (200, 800, 3200):
        x = torch.randn(n, 64, generator=seeded(n), dtype=torch.float64)
        record = memorise(x, torch.arange(n) % 2, generator=seeded(n)).record
        counts.append(record.parameters / record.theorem)
    assert max(counts) < 12
    assert counts[2] < 1.1 * counts[0]


def test_points_on_a_line_and_points_that_are_multiples():
    expect_learnt(torch.arange(30.0)[:, None], torch.arange(30) % 2)
    expect_learnt(torch.arange(1.0, 31.0)[:, None] * torch.ones(4), torch.arange(30) % 3)


def test_equal_points_with_different_labels_are_named():
    x, y = torch.randn(30, 3, generator=seeded(4)), torch.zeros(30, dtype=torch.long)
    x[20], x[25] = x[4], x[4]
    y[25] = 1
    with pytest.raises(AliveError, match=r"different labels: 4 and 25\."):
        memorise(x, y)
    y[20] = 1
    with pytest.raises(AliveError, match="4 and 20, 4 and 25"):
        memorise(x, y)
    y[20], y[25] = 0, 0
    assert expect_learnt(x, y, k=4).record.layers == 7, "28 distinct points"


def near(distance):
    x = torch.randn(60, 40, generator=seeded(5), dtype=torch.float64)
    x[7] = x[3]
    x[7, 0] += distance
    return x, torch.arange(60) // 4 % 2


@pytest.mark.parametrize("distance", [1e-1, 1e-3, 1e-5])
def test_near_duplicates_are_told_apart(distance):
    x, y = near(distance)
    assert y[3] != y[7]
    expect_learnt(x, y)


def test_points_too_near_are_named():
    with pytest.raises(AliveError, match=r"nearest points are 3 and 7.*Remove one"):
        memorise(*near(1e-12), generator=seeded())
    with pytest.raises(AliveError, match="larger k, up to 41"):
        memorise(*near(1e-12), k=5, generator=seeded())


def test_an_automatic_width_redraws_and_grows_where_points_are_near():
    drawn = [memorise(*near(1.3e-7), generator=seeded(seed)).record for seed in range(8)]
    assert max(record.draws for record in drawn) > 1
    assert all(record.float64_error <= 1e-6 for record in drawn)


def test_same_generator_same_network_and_global_state_untouched():
    x, y = torch.randn(40, 30, generator=seeded(6)), torch.arange(40) % 2
    before = torch.get_rng_state()
    a, b = (memorise(x, y, k=9, generator=seeded(7)) for _ in range(2))
    assert torch.equal(before, torch.get_rng_state())
    assert all(torch.equal(p, q) for p, q in zip(a.parameters(), b.parameters(), strict=True))


def test_faults_are_named_together():
    with pytest.raises(
        AliveError, match=r"points must be real and finite; 2 points need labels \[2\], got \[3\]; k must be"
    ):
        memorise(torch.full((2, 2), math.nan), torch.zeros(3, dtype=torch.long), k=1)


@pytest.mark.parametrize("scale", [1e-200, 1e-30, 1e30, 1e200])
def test_points_of_any_size_whose_squares_are_lost(scale):
    x = scale * torch.randn(30, 4, dtype=torch.float64, generator=seeded())
    y = torch.arange(30) % 3
    assert accuracy(memorise(x, y, generator=seeded()), x, y) == 1
