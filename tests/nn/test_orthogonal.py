"""Each start against its own definition: isometries, the published construction, unit variance on data."""

import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor, nn

from alive.data import digits, moons
from alive.errors import AliveError
from alive.nn import FITTED, Rectangular, RectangularConv, initialise_, lsuv_
from alive.nn.orthogonal import PERTURBATION
from alive_papers.fleet.tailored import leaky_cosine, leaky_gain, tailored_slope


def seeded(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def expect_near(a: Tensor, b: Tensor) -> None:
    torch.testing.assert_close(a, b, rtol=0, atol=1e-12)


@pytest.mark.law
@settings(max_examples=25, deadline=None)
@given(st.integers(1, 6), st.integers(1, 9), st.integers(0, 2**31))
def test_orthogonal_layers_have_orthonormal_rows_or_columns(inputs: int, width: int, seed: int) -> None:
    net = Rectangular(inputs, 2, depth=3, width=width).double()
    initialise_(net, "orthogonal", generator=seeded(seed))
    for layer, gain in [*((layer.linear, math.sqrt(2)) for layer in net.hidden), (net.output, 1.0)]:
        w = layer.weight / gain
        gram = w @ w.T if len(w) <= w.shape[1] else w.T @ w
        expect_near(gram, torch.eye(min(w.shape), dtype=torch.float64))
        assert layer.bias.abs().max() == 0


@pytest.mark.law
@pytest.mark.parametrize("name", ["delta-orthogonal", "uniform-orthogonal"])
def test_kernels_of_one_tap_are_isometries(name: str) -> None:
    net = nn.Sequential(nn.Conv2d(3, 8, 3, padding=1), nn.Conv1d(4, 4, 5, padding=2), nn.Linear(2, 1)).double()
    initialise_(net, name, generator=seeded())
    x, y = torch.randn(2, 3, 6, 5, dtype=torch.float64), torch.randn(2, 4, 7, dtype=torch.float64)
    gains = (math.sqrt(2),) * 2 if name == "delta-orthogonal" else (math.sqrt(8 / 3), 1.0)
    for layer, gain, points in zip(net, gains, (x, y), strict=False):
        expect_near(layer(points).flatten(1).norm(dim=1), gain * points.flatten(1).norm(dim=1))
    assert (net[0].weight != 0).sum() == 24, "all taps but the centre are zero"


@pytest.mark.law
@settings(max_examples=40, deadline=None)
@given(st.integers(1, 9), st.integers(1, 9), st.integers(0, 2**31))
def test_mean_orthogonal_matrices_have_the_largest_sum_of_all_orthogonal_ones(out: int, into: int, seed: int) -> None:
    model = nn.Sequential(nn.Conv2d(into, out, 3)).double()
    initialise_(model, "mean-orthogonal", generator=seeded(seed))
    kernel = model[0].weight.detach()
    w = kernel[:, :, 1, 1]
    assert (kernel != 0).sum() == (w != 0).sum(), "all taps but the centre are zero"
    expect_near(w @ w.T if out <= into else w.T @ w, torch.eye(min(out, into), dtype=torch.float64))
    expect_near(w.sum(1), torch.full((out,), math.sqrt(into / out), dtype=torch.float64))
    draw = np.random.default_rng(seed)
    u, _, v = np.linalg.svd(draw.normal(size=(out, into)), full_matrices=False)
    assert (u @ v).sum() <= w.sum().item() + 1e-12


def test_deep_networks_from_mean_orthogonal_weights_stay_alive_and_turn() -> None:
    """A point that the first layer leaves alive has a positive mean, and no layer can take that from it."""
    x = torch.rand(50, 6, dtype=torch.float64, generator=seeded(1))
    alike = []
    for seed in (0, 1):
        net = Rectangular(6, 1, depth=300, width=6).double()
        initialise_(net, "mean-orthogonal", generator=seeded(seed))
        h = net.hidden(x)
        assert (h.mean(1) >= x.mean(1) - 1e-9).all(), "a ReLU can only add to the mean"
        assert h.var(1).min() > 1e-3, "and the points do not become one"
        alike.append(net.hidden[5].linear.weight)
    assert not torch.allclose(*alike)


def by_hand(size: int) -> np.ndarray:
    """Gram and Schmidt on the columns of J + εI: shares no code with QR."""
    found: list[np.ndarray] = []
    for column in (np.ones((size, size)) + PERTURBATION * np.eye(size)).T:
        for earlier in found:
            column = column - (earlier @ column) * earlier
        found.append(column / np.linalg.norm(column))
    return np.stack(found, axis=1)


@pytest.mark.parametrize(("out", "into"), [(4, 2), (2, 4), (10, 2), (1, 10), (7, 7)])
def test_the_deterministic_start_is_the_published_product(out: int, into: int) -> None:
    model = nn.Sequential(nn.Linear(into, out)).double()
    initialise_(model, "deterministic")
    w = model[0].weight.detach().numpy()
    np.testing.assert_allclose(w, by_hand(out) @ np.eye(out, into) @ by_hand(into).T, atol=1e-12)
    gram = w @ w.T if out <= into else w.T @ w
    np.testing.assert_allclose(gram, np.eye(min(out, into)), atol=1e-12)
    np.testing.assert_allclose(w.sum(1), math.sqrt(into / out), rtol=0.15, err_msg="rows sum up to nearly the same")
    if out == into:
        np.testing.assert_allclose(w, np.eye(out), atol=1e-12)


def test_of_a_deterministic_start_all_units_from_the_third_on_are_copies() -> None:
    """Two features, one logit: why its networks in the atlas are never wider than three."""
    net = Rectangular(2, 1, depth=4, width=6, init="deterministic").double()
    x, y = moons().train_x.double(), moons().train_y.double()
    steps = torch.optim.Adam(net.parameters(), lr=0.01)
    for _ in range(20):
        steps.zero_grad()
        nn.functional.binary_cross_entropy_with_logits(net(x).flatten(), y).backward()
        steps.step()
    h = net.hidden(x)
    torch.testing.assert_close(h[:, 3:], h[:, 2:3].expand(-1, 3), rtol=1e-9, atol=1e-12)
    assert not torch.allclose(h[:, 1], h[:, 2])


@pytest.mark.law
@settings(max_examples=20, deadline=None)
@given(st.integers(1, 5), st.integers(2, 9), st.integers(1, 40), st.integers(0, 2**31))
def test_looks_linear_networks_are_linear_isometries(inputs: int, width: int, depth: int, seed: int) -> None:
    net = Rectangular(inputs, 3, depth=depth, width=width).double()
    initialise_(net, "looks-linear", generator=seeded(seed))
    x = torch.randn(7, inputs, dtype=torch.float64, generator=seeded(seed))
    half, h, norms = width // 2, x, None
    for layer in net.hidden:
        z = layer.linear(h)
        expect_near(z[:, :half], -z[:, half : 2 * half])
        norms = z[:, :half].norm(dim=1) if norms is None else norms
        expect_near(z[:, :half].norm(dim=1), norms)
        h = z.relu()
    expect_near(net(x), x @ net(torch.eye(inputs, dtype=torch.float64)))
    expect_near(net(-x), -net(x))


def test_looks_linear_turns_where_mirrored_does_not() -> None:
    nets = [Rectangular(2, 1, depth=3, width=4) for _ in range(2)]
    initialise_(nets[0], "looks-linear", generator=seeded())
    initialise_(nets[1], "mirrored", generator=seeded(), noise=0)
    turned, plain = (net.hidden[1].linear.weight[:2, :2] for net in nets)
    assert torch.equal(plain, torch.eye(2))
    assert (turned - plain).abs().max() > 0.1
    torch.testing.assert_close(turned @ turned.T, torch.eye(2))
    with pytest.raises(AliveError, match="'looks-linear' needs width 2"):
        initialise_(Rectangular(2, 1, depth=2, width=1), "looks-linear")


@pytest.mark.parametrize("net", [Rectangular(2, 1, depth=12, width=16), RectangularConv(1, 10, depth=6, width=5)])
def test_lsuv_gives_every_layer_unit_variance_on_the_data(net: nn.Module) -> None:
    x = moons().train_x if isinstance(net, Rectangular) else digits().train_x[:60]
    assert lsuv_(net, x, generator=seeded(), output="output") == ()
    h = x
    for layer in net.hidden:  # type: ignore[union-attr]
        z = layer.linear(h)
        assert z.var().item() == pytest.approx(1, abs=0.1)
        h = z.relu()
    assert net(x).var().item() == pytest.approx(1, abs=0.1)
    assert not any(module._forward_hooks for module in net.modules())
    again = net.output.weight.clone()  # type: ignore[union-attr]
    lsuv_(net, x, generator=seeded(), output="output")
    assert torch.equal(net.output.weight, again)  # type: ignore[union-attr]


def test_lsuv_names_the_layers_that_no_signal_reaches() -> None:
    net = nn.Sequential(nn.Linear(2, 1), nn.ReLU(), nn.Linear(1, 1), nn.ReLU(), nn.Linear(1, 1))
    silent = [lsuv_(net, moons().train_x[:1].expand(4, 2), generator=seeded(seed)) for seed in range(3)]
    assert all(found == ("0", "2", "4") for found in silent), "one point four times has no variance"
    with pytest.raises(AliveError, match="at least two points, got 1"):
        lsuv_(net, moons().train_x[:1])
    assert set(FITTED) == {"lsuv"}


# Slope and gain as the package dks 0.1.2 finds them (method "TAT", c_val_0_target 0.9) for a chain of so many leaky
# ReLUs; for 5 and 10 layers it says that .9 cannot be reached.
DKS = {
    20: (0.1813802719116211, 1.3915092920492702),
    50: (0.43052294850349426, 1.2989477863184222),
    100: (0.5704395323991776, 1.2284042441106242),
    200: (0.6795996427536011, 1.169668377971502),
}


@pytest.mark.parametrize("depth", DKS)
def test_tailored_slopes_are_those_of_dks(depth: int) -> None:
    slope, gain = DKS[depth]
    assert tailored_slope(depth) == pytest.approx(slope, abs=1e-6)
    assert leaky_gain(tailored_slope(depth)) == pytest.approx(gain, abs=1e-6)


def test_shallow_networks_stay_plain_and_wide_ones_do_what_the_slope_promises() -> None:
    assert tailored_slope(5) == tailored_slope(10) == 0
    slope, width = tailored_slope(50), 2000
    draw = seeded(3)
    x = torch.zeros(2, width, dtype=torch.float64)
    x[0, :1000], x[1, 1000:] = math.sqrt(2), math.sqrt(2)
    for _ in range(50):
        w = torch.empty(width, width, dtype=torch.float64).normal_(0, 1 / math.sqrt(width), generator=draw)
        x = leaky_gain(slope) * nn.functional.leaky_relu(x @ w.T, slope)
    assert torch.cosine_similarity(*x, dim=0).item() == pytest.approx(0.9, abs=0.03)
    assert leaky_cosine(1.0, slope) == pytest.approx(1)
    with pytest.raises(AliveError, match="strictly between 0 and 1"):
        tailored_slope(5, cosine=1.0)
