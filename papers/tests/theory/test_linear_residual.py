"""Theorems 2.1 and 2.2 of 003: products that equal R, norms below the bound, gradients that equal autograd's."""

from __future__ import annotations

import math
import re

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from alive.errors import AliveError
from alive_papers.theorems import factor_near_identity, landscape
from alive_papers.theorems.linear_residual import STARTS, study


def positive(d: int, seed: int) -> torch.Tensor:
    """A random map of positive determinant; its orthogonal factors are improper as often as not."""
    whole = torch.randn(d, d, dtype=torch.float64, generator=torch.Generator().manual_seed(seed))
    if torch.linalg.det(whole) < 0:
        whole[0] *= -1
    return whole


def relative(found, R):
    return float(torch.linalg.matrix_norm(found.product() - R, 2) / torch.linalg.matrix_norm(R, 2))


def expect_factors(R, depth, **options):
    R = R.double()
    found = factor_near_identity(R, depth, **options)
    assert relative(found, R) < 1e-10
    layers = found.layers
    if found.extra == "reflection":
        assert torch.linalg.matrix_norm(layers[-1], 2) == pytest.approx(2)
        layers = layers[:-1]
    if found.extra == "projection":
        assert torch.linalg.matrix_norm(layers[0], 2) == pytest.approx(1)
        layers = layers[1:]
    assert len(layers) == depth
    norms = torch.linalg.matrix_norm(layers, 2)
    assert float(norms.max()) == pytest.approx(found.norm, rel=1e-9, abs=1e-11)
    if depth >= 3 * found.gamma:
        assert found.norm <= found.bound
    return found


@pytest.mark.law
@pytest.mark.parametrize("d", range(1, 65))
def test_the_product_is_the_map_and_the_norm_is_below_the_papers_bound(d):
    found = expect_factors(positive(d, seed=d), depth=10 + 3 * (d % 7))
    assert found.stretches + found.rotations == 10 + 3 * (d % 7)
    expect_factors(positive(d, seed=d), depth=200)


@pytest.mark.parametrize("depth", [1, 2, 3, 7, 100])
@pytest.mark.parametrize(
    "R",
    [
        torch.eye(5),
        -torch.eye(2),
        -torch.eye(6),
        torch.diag(torch.tensor([-1.0, -2.0, 1.0])),
        torch.diag(torch.tensor([-1.0, -1.0, -1.0, -1.0, 1.0])),
        torch.tensor([[3.0]]),
        torch.tensor([[0.0, -1.0], [1.0, 0.0]]),
        torch.tensor([[0.0, 1.0, 0.0], [0.0, 0.0, 1.0], [1.0, 0.0, 0.0]]),
        torch.tensor([[1.0, 1.0], [0.0, 1.0]]),
        torch.block_diag(torch.eye(3), -torch.eye(4)),
    ],
)
def test_special_maps(R, depth):
    expect_factors(R, depth)


@pytest.mark.parametrize("d", [2, 3, 4, 5, 8, 9])
def test_pairs_of_reflections_are_rotations(d):
    """Two improper factors make a proper one, whichever way the eigenvalues -1 fall."""
    generator = torch.Generator().manual_seed(d)
    u, v = (torch.linalg.qr(torch.randn(d, d, dtype=torch.float64, generator=generator))[0] for _ in range(2))
    mirror = torch.diag(torch.tensor([-1.0] + [1.0] * (d - 1), dtype=torch.float64))
    for R in (u @ mirror @ u.T @ v @ mirror @ v.T, torch.diag(torch.tensor([-1.0, -1.0] + [1.0] * (d - 2)))):
        found = expect_factors(R, 12)
        assert found.stretches == 0
        assert found.norm <= 2 * math.sin(math.pi / 24) + 1e-12


@pytest.mark.law
@settings(max_examples=60, deadline=None)
@given(st.integers(1, 7), st.integers(1, 40), st.integers(0, 10**6))
def test_the_split_is_the_best_of_all(d, depth, seed):
    """Against the formula tried at every split, with angles from complex eigenvalues instead of the Schur form."""
    R = positive(d, seed)
    found = expect_factors(R, depth)
    u, k, vt = torch.linalg.svd(R)
    angle = float(torch.linalg.eigvals(u @ vt).angle().abs().max())
    if depth == 1 and d > 1:
        assert found.norm == pytest.approx(float(torch.linalg.matrix_norm(R - torch.eye(d), 2)), abs=1e-9)
        return
    angle = 0.0 if d == 1 else angle
    norms = []
    for p in range(1, depth + 1):
        if depth > p or angle < 1e-9:
            turned = 2 * math.sin(angle / 2 / (depth - p)) if depth > p else 0.0
            norms.append(max(turned, *((k ** (1 / p) - 1).abs().tolist())))
    assert found.norm == pytest.approx(min(norms), rel=1e-6, abs=1e-9)


def test_norms_fall_like_one_over_depth():
    R = positive(6, seed=3)
    products = [depth * factor_near_identity(R, depth).norm for depth in (100, 1000, 10000)]
    assert products[1] == pytest.approx(products[2], rel=0.02)
    gamma = factor_near_identity(R, 100).gamma
    assert products[2] <= math.pi + 3 * gamma


@pytest.mark.parametrize("d", [1, 2, 3, 6, 17])
def test_negative_determinants_are_refused_or_reflected(d):
    R = positive(d, seed=d)
    R[0] *= -1
    with pytest.raises(AliveError, match="det R < 0"):
        factor_near_identity(R, 50)
    assert expect_factors(R, 50, reflect=True).extra == "reflection"
    assert expect_factors(positive(d, seed=d), 50, reflect=True).extra is None


@pytest.mark.parametrize("d", [1, 2, 5])
@pytest.mark.parametrize("sign", [1, -1])
def test_singular_maps_are_refused_or_projected(d, sign):
    R = positive(d, seed=d)
    R[:, 0] = 0
    R[0] *= sign
    with pytest.raises(AliveError, match="singular"):
        factor_near_identity(R, 50)
    if d > 1:
        assert expect_factors(R, 50, reflect=True).extra == "projection"


def test_faults_are_named_together():
    with pytest.raises(AliveError, match=r"square, got \[2, 3\]; depth must be"):
        factor_near_identity(torch.ones(2, 3), 0)
    with pytest.raises(AliveError, match=r"A must be .* got \[2, 2\]; R must be"):
        landscape(torch.ones(2, 2), torch.ones(3, 3), torch.eye(2))
    with pytest.raises(AliveError, match="Sigma must be symmetric"):
        landscape(torch.zeros(1, 2, 2), torch.eye(2), torch.tensor([[1.0, 1.0], [0.0, 1.0]]))
    with pytest.raises(AliveError, match="R must be real and finite"):
        factor_near_identity(torch.eye(2, dtype=torch.complex64), 3)


@pytest.mark.parametrize("scale", [1e-12, 1e-50, 1e-150, 1e-310])
def test_maps_lost_in_rounding_are_refused_with_a_depth_that_holds_them(scale):
    R = scale * positive(3, 0)
    with pytest.raises(AliveError, match=r"differs from R by .* Give more depth, such as \d+") as refused:
        factor_near_identity(R, 1)
    depth = int(re.findall(r"\d+", refused.value.cure)[0])
    product = factor_near_identity(R, depth).product()
    assert (product - R).abs().max() <= 1e-9 * R.abs().max()


def draw(count, depth, d, generator):
    """Layers of random size up to norm 1, a random target, a random covariance."""
    options = {"dtype": torch.float64, "generator": generator}
    A = torch.randn(count, depth, d, d, **options)
    size = torch.rand(count, 1, 1, 1, **options) * 0.999
    A = A / torch.linalg.matrix_norm(A, 2)[..., None, None] * size * torch.rand(count, depth, 1, 1, **options)
    root = torch.randn(count, d, d, **options)
    return A, torch.randn(count, d, d, **options), root @ root.mT / d


@pytest.mark.twin
@pytest.mark.parametrize(("depth", "d"), [(1, 3), (2, 2), (5, 4), (9, 1)])
def test_the_gradient_equals_autograd(depth, d):
    A, R, S = draw(4, depth, d, torch.Generator().manual_seed(depth))
    leaf = A.clone().requires_grad_()
    values, vectors = torch.linalg.eigh(S)
    root = vectors @ torch.diag_embed(values.clamp(min=0).sqrt()) @ vectors.mT
    whole = torch.eye(d, dtype=torch.float64).expand(4, d, d)
    for layer in range(depth):
        whole = (torch.eye(d) + leaf[:, layer]) @ whole
    risk = ((whole - R) @ root).square().sum((-2, -1))
    risk.sum().backward()
    found = landscape(A, R, S)
    torch.testing.assert_close(found.excess, risk.detach())
    torch.testing.assert_close(found.gradient, leaf.grad)


@pytest.mark.law
def test_the_corrected_bound_holds_on_ten_thousand_draws():
    generator, violations = torch.Generator().manual_seed(0), 0
    for depth, d in [(1, 3), (2, 2), (3, 5), (6, 3), (10, 1), (4, 8), (20, 2), (2, 1), (5, 4), (8, 6)]:
        found = landscape(*draw(1000, depth, d, generator))
        assert bool((found.squared_gradient >= found.bound * (1 - 1e-9)).all())
        violations += int((found.squared_gradient < found.printed).sum())
    assert violations > 100, "the printed bound is false, and not rarely"


def test_the_printed_bound_is_violated_by_layers_that_all_shrink():
    """A_i = -I/2, R = 0, S = I: the squared gradient is exactly the corrected bound, and 8 times below the printed."""
    eye = torch.eye(2, dtype=torch.float64)
    found = landscape(-0.5 * eye.expand(4, 2, 2), 0 * eye, eye)
    assert float(found.squared_gradient) == pytest.approx(float(found.bound))
    assert float(found.printed) == pytest.approx(8 * float(found.squared_gradient))
    assert found.squared_gradient < found.printed


def test_the_printed_order_of_the_gradient_is_wrong():
    A, R, S = (x[0] for x in draw(1, 3, 3, torch.Generator().manual_seed(1)))
    m = torch.eye(3) + A
    error = m[2] @ m[1] @ m[0] - R
    right, printed = m[1].T @ m[2].T @ error @ S, m[2].T @ m[1].T @ error @ S
    torch.testing.assert_close(landscape(A, R, S).gradient[0], 2 * right)
    assert not torch.allclose(2 * printed, 2 * right, rtol=1e-2)


def test_outside_the_ball_nothing_is_promised():
    found = landscape(torch.stack([-torch.eye(2), -torch.eye(2)]), torch.eye(2), torch.eye(2))
    assert (float(found.bound), float(found.squared_gradient), float(found.excess)) == (0, 0, 2)


def test_deep_residual_starts_learn_where_standard_starts_do_not():
    rows = {(row.start, row.depth): row for row in study([2, 16], d=3, targets=4, steps=300, generator=seeded())}
    assert len(rows) == 2 * len(STARTS)
    for start in STARTS[:2]:
        assert rows[start, 16].reached >= 0.75
        assert rows[start, 16].excess < 1e-6
    assert rows["standard, zero", 16].excess == pytest.approx(1), "zero is a critical point there"
    assert rows["standard, random", 16].reached == 0
    assert rows["standard, random", 2].reached >= 0.5
    assert rows["residual, zero", 16].norm < rows["residual, zero", 2].norm / 4


def seeded():
    return torch.Generator().manual_seed(0)
