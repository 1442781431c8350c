"""The compared architectures: what they share, and what sets them apart."""

from __future__ import annotations

import copy
import io
import pickle

import pytest
import torch
from torch import nn

from alive.errors import AliveError
from alive.nn.dirac import DiracConv2d
from alive.nn.van import Gate
from alive_papers.networks.skips import COMPARED, SkipConv, SkipDense


def dense(kind: str, seed: int = 0, **more: int) -> nn.Module:
    return COMPARED[kind].dense(6, 3, **{"depth": 4, "width": 8, **more}, generator=torch.Generator().manual_seed(seed))


def conv(kind: str, seed: int = 0, **more: int) -> nn.Module:
    return COMPARED[kind].conv(2, 3, **{"n": 2, "base": 3, **more}, generator=torch.Generator().manual_seed(seed))


MAKERS = {"dense": (dense, (5, 6)), "conv": (conv, (5, 2, 8, 8))}
every = pytest.mark.parametrize(
    ("make", "shape", "kind"),
    [pytest.param(*MAKERS[form], kind, id=f"{kind}-{form}") for form in MAKERS for kind in COMPARED],
)


@pytest.mark.contract
@every
def test_logits_and_gradients_reach_every_parameter(make, shape, kind):
    net = make(kind)
    out = net(torch.randn(shape))
    assert out.shape == (5, 3)
    assert out.isfinite().all()
    out.square().sum().backward()
    without = [name for name, p in net.named_parameters() if p.grad is None]
    assert not without
    weights = [p for name, p in net.named_parameters() if name.endswith("weight") and p.dim() > 1]
    moved = sum(bool(p.grad.any()) for p in weights)
    assert moved == len(weights) if kind != "convex" else moved < len(weights)  # eq 9 starts as the identity


@pytest.mark.contract
@every
def test_the_generator_decides_and_the_callers_random_state_stays(make, shape, kind):
    before = torch.get_rng_state()
    one, same, other = make(kind), make(kind), make(kind, seed=1)
    assert torch.equal(before, torch.get_rng_state())
    assert all(torch.equal(a, b) for a, b in zip(one.state_dict().values(), same.state_dict().values(), strict=True))
    assert any(not torch.equal(a, b) for a, b in zip(one.parameters(), other.parameters(), strict=True))


@pytest.mark.contract
@every
def test_copies_pickles_and_state_dicts(make, shape, kind):
    net = make(kind).eval()
    x = torch.randn(shape)
    loaded = make(kind, seed=2).eval()
    file = io.BytesIO()
    torch.save(net.state_dict(), file)
    file.seek(0)
    loaded.load_state_dict(torch.load(file))
    for twin in (copy.deepcopy(net), pickle.loads(pickle.dumps(net)), loaded):
        assert torch.equal(twin(x), net(x))


@pytest.mark.parametrize("n", [1, 3])
@pytest.mark.parametrize("kind", ["plain", "resnet", "van", "dirac"])
def test_a_convolutional_network_has_8n_plus_2_layers(kind, n):
    net = conv(kind, n=n)
    layers = [m for m in net.modules() if isinstance(m, nn.Conv2d) and m.kernel_size == (3, 3)]
    assert len(layers) + 1 == 8 * n + 2
    assert net.head.in_features == 3 * 8


def test_parameters_by_hand():
    """Width 50 on 784 features: stem, l blocks of batch norm and linear, head; a gate adds 50 a block."""
    blocks = 4 * (2 * 50 + 50 * 50 + 50)
    plain = COMPARED["plain"].dense(784, 10, depth=4)
    assert sum(p.numel() for p in plain.parameters()) == 784 * 50 + 50 + blocks + 50 * 10 + 10
    counts = {kind: sum(p.numel() for p in COMPARED[kind].dense(784, 10, depth=4).parameters()) for kind in COMPARED}
    extra = {kind: count - counts["plain"] for kind, count in counts.items()}
    assert extra == {
        "plain": 0, "resnet": 0, "half": 0, "van": 200, "convex": 200, "dirac": 400, "highway": 4 * (2500 + 50)
    }  # fmt: skip


def test_table_1_of_the_paper():
    """Maps of 32, 16, 8 and 4 positions a side with 64 to 512 channels."""
    net = COMPARED["van"].conv(3, 10, n=1)
    x = net.stem(torch.zeros(1, 3, 32, 32))
    sizes = [tuple((x := block(x)).shape[1:]) for block in net.blocks]
    assert sizes == [(64, 32, 32), (128, 16, 16), (256, 8, 8), (512, 4, 4)]
    assert [block.gate.alpha.numel() for block in net.blocks] == [64, 128, 256, 512]


@pytest.mark.twin
@every
def test_all_kinds_draw_alike(make, shape, kind):
    """With the same seed, stem and plain branches hold the same weights as far as the kinds share them."""
    assert torch.equal(make(kind).stem.weight, make("plain").stem.weight)


def test_a_van_starts_as_the_resnet_of_the_same_weights():
    van, resnet = conv("van").eval(), conv("resnet").eval()
    kept = {name: value for name, value in van.state_dict().items() if ".gate." not in name}
    resnet.load_state_dict(kept)
    x = torch.randn(4, 2, 8, 8)
    assert torch.equal(van(x), resnet(x))


def test_dirac_pools_where_others_stride():
    net = conv("dirac", n=1)
    assert [sum(isinstance(m, nn.MaxPool2d) for m in block) for block in net.blocks] == [0, 1, 1, 1]
    assert all(m.stride == (1, 1) for m in net.modules() if isinstance(m, DiracConv2d))


def test_only_van_and_convex_have_gates():
    gated = {kind for kind in COMPARED if any(isinstance(m, Gate) for m in dense(kind).modules())}
    assert gated == {"van", "convex"}


def test_literal_order_runs_without_the_last_norm():
    net = SkipConv("van", 1, 2, n=1, base=2, order="literal")
    assert len(net.norm) == 0
    assert isinstance(net.blocks[0].branch[0], nn.Conv2d)
    assert net(torch.randn(2, 1, 8, 8)).shape == (2, 2)


@pytest.mark.parametrize(
    ("make", "says"),
    [
        (lambda: SkipDense("vann", 2, 2, depth=1), "did you mean 'van'"),
        (lambda: SkipDense("van", 2, 2, depth=0, width=0), "depth must be .* got 0; width must be .* got 0"),
        (lambda: SkipConv("van", 2, 2, n=0), "n must be a whole number of at least 1"),
        (lambda: SkipConv("van", 2, 2, n=1, order="post"), "unknown order 'post'"),
        (lambda: dense("van")(torch.zeros(2, 5)), r"6 features, got \[2, 5\]"),
        (lambda: conv("van")(torch.zeros(2, 3, 8, 8)), r"images \[N, 2, H, W\], got \[2, 3, 8, 8\]"),
    ],
)
def test_wrong_sizes_are_named(make, says):
    with pytest.raises(AliveError, match=says):
        make()
