import math

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from alive.data import digits
from alive.errors import AliveError
from alive_papers.networks.identity import AllConvResNet, IdentityBlock, all_conv_34


def seeded(seed: int) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def small(**options: object) -> AllConvResNet:
    return AllConvResNet(1, 10, **{"width": 8, "depth": 2, "stem": 4, "generator": seeded(0)} | options)  # type: ignore[arg-type]


def learned(net: nn.Module) -> int:
    return sum(p.numel() for p in net.parameters() if p.requires_grad)


@pytest.fixture(scope="module")
def paper() -> AllConvResNet:
    return AllConvResNet(3, 10, generator=seeded(1))


def test_weights_of_table_1(paper: AllConvResNet) -> None:
    assert paper.convolutions == 55
    assert learned(paper) == 13_538_736
    assert paper.head.shape == (10, 256)
    for classes in (10, 100):  # the classes are the head's alone, which does not learn
        assert learned(AllConvResNet(3, classes)) == 13_538_736
    assert learned(AllConvResNet(3, 100, train_head=True)) == 13_538_736 + 25_600


def test_shapes_of_table_1(paper: AllConvResNet) -> None:
    z, sizes = torch.zeros(1, 3, 32, 32), []
    for part in (paper.stem, *paper.stages):
        z = part(z)
        sizes.append(tuple(z.shape[1:]))
    assert sizes == [(16, 32, 32), (64, 32, 32), (128, 16, 16), (256, 8, 8)]


def test_imagenet_variant_is_the_34_layer_list() -> None:
    net = all_conv_34(generator=seeded(0))
    # By hand: 7x7 stem, then 2·count 3x3 convolutions a stage, the first of each reading the stage before.
    stages = [(3, 64, 64), (4, 64, 128), (6, 128, 256), (3, 256, 512)]
    by_hand = 7 * 7 * 3 * 64 + sum(9 * c * w + (2 * count - 1) * 9 * w * w for count, c, w in stages)
    assert learned(net) == by_hand == 21_095_616
    assert net.convolutions == 33
    assert net(torch.zeros(1, 3, 64, 64)).shape == (1, 1000)


@pytest.mark.law
@pytest.mark.parametrize(("size", "stride"), [((6, 8), 1), ((6, 8), 2), ((7, 5), 2)])
def test_a_block_without_weights_is_the_identity(size: tuple[int, int], stride: int) -> None:
    x = torch.randn(3, 4, *size, generator=seeded(0))
    block = IdentityBlock(4, 4 if stride == 1 else 9, stride=stride)
    nn.init.zeros_(block.conv1.weight)
    nn.init.zeros_(block.conv2.weight)
    if stride == 1:
        assert torch.equal(block(x), x)
    else:
        torch.testing.assert_close(block(x)[:, 2:6], pooled(x))
        assert not block(x)[:, :2].any()
        assert not block(x)[:, 6:].any()


def pooled(x: Tensor) -> Tensor:
    """Means over 2x2 windows, written out; the windows at an odd edge hold what is there."""
    rows = [x[:, :, i : i + 2] for i in range(0, x.shape[2], 2)]
    return torch.stack(
        [torch.stack([row[..., j : j + 2].mean((2, 3)) for j in range(0, x.shape[3], 2)], -1) for row in rows], -2
    )


@pytest.mark.law
def test_a_network_without_residual_weights_only_pools_and_pads_its_stem() -> None:
    net = small()
    for block in net.modules():
        if isinstance(block, IdentityBlock):
            nn.init.zeros_(block.conv2.weight)
    x = torch.randn(5, 1, 8, 8, generator=seeded(3))
    # Pads 2 + 2 of 8, 4 + 4 of 16, 8 + 8 of 32: the stem's four units are the middle ones of 32.
    means = net.stem(x).mean((2, 3))
    torch.testing.assert_close(net(x), means @ net.head[:, 14:18].T)


@pytest.mark.twin
def test_forward_equals_the_formula() -> None:
    net = small(final_relu=True)
    x = torch.randn(2, 1, 12, 8, generator=seeded(4))
    z = F.conv2d(x, net.stem.conv.weight, padding=1)
    for level, stage in enumerate(net.stages):
        for number, block in enumerate(stage):
            stride = 2 if level and not number else 1
            inner = F.conv2d(z, block.conv1.weight, stride=stride, padding=1).clamp(min=0)
            skip = F.avg_pool2d(z, stride)
            pad = (block.conv1.out_channels - z.shape[1]) // 2
            skip = torch.cat(
                [skip.new_zeros(2, pad, *skip.shape[2:]), skip, skip.new_zeros(2, pad, *skip.shape[2:])], 1
            )
            z = skip + F.conv2d(inner, block.conv2.weight, padding=1)
    torch.testing.assert_close(net(x), z.clamp(min=0).mean((2, 3)) @ net.head.T)


def test_variances_at_the_start(paper: AllConvResNet) -> None:
    def close(weight: Tensor, deviation: float) -> None:
        # The deviation of a sample of n normal numbers is off by a share of about 1/√(2n); six of those are allowed.
        assert weight.std().item() == pytest.approx(deviation, rel=6 / math.sqrt(2 * weight.numel()))
        assert abs(weight.mean().item()) < 6 * deviation / math.sqrt(weight.numel())

    close(paper.stem.conv.weight, 1 / (3 * math.sqrt(16)))
    for units, stage in zip((64, 128, 256), paper.stages, strict=True):
        for block in stage:
            close(block.conv1.weight, 1 / (9 * units))
            close(block.conv2.weight, 1 / (9 * units))
    assert paper.head.abs().max() <= math.sqrt(3 / 256)
    close(paper.head, 1 / math.sqrt(256))
    large = all_conv_34(classes=2, generator=seeded(2))
    close(large.stem.conv.weight, 1 / (7 * math.sqrt(64)))


@pytest.mark.law
def test_at_the_start_the_paper_network_is_close_to_its_shortcuts(paper: AllConvResNet) -> None:
    z = paper.stem(torch.randn(2, 3, 32, 32, generator=seeded(5)))
    with torch.no_grad():
        for stage in paper.stages:
            for block in stage:
                kept, z = block.shortcut(z), block(z)
                assert (z - kept).norm() < 0.1 * kept.norm()


def test_the_head_receives_no_gradient() -> None:
    net = small()
    net(torch.randn(4, 1, 8, 8)).square().sum().backward()
    assert not net.head.requires_grad
    assert net.head.grad is None
    assert "head" in net.state_dict()
    assert all(p.grad is not None and p.grad.any() for p in net.parameters())
    trained = small(train_head=True)
    trained(torch.randn(4, 1, 8, 8)).square().sum().backward()
    assert trained.head.grad is not None
    assert trained.head.grad.any()
    assert torch.equal(trained.head, net.head)


def test_final_relu_stands_before_the_mean() -> None:
    x = torch.randn(4, 1, 8, 8, generator=seeded(7))
    with_relu, without = small(final_relu=True), small()
    z = without.stages(without.stem(x))
    torch.testing.assert_close(with_relu(x), z.relu().mean((2, 3)) @ without.head.T)
    assert not torch.equal(with_relu(x), without(x))


def test_same_generator_same_network_and_global_state_untouched() -> None:
    before = torch.get_rng_state()
    a, b = small(generator=seeded(9)), small(generator=seeded(9))
    assert torch.equal(before, torch.get_rng_state())
    for ours, theirs in zip(a.state_dict().values(), b.state_dict().values(), strict=True):
        assert torch.equal(ours, theirs)
    b.reset(seeded(10))
    assert not torch.equal(a.head, b.head)
    assert not torch.equal(a.stages[0][0].conv1.weight, b.stages[0][0].conv1.weight)


@pytest.mark.parametrize(("depth", "size"), [(1, 8), (1, 28), (1, 4), (1, 9), ((2, 1), 2), ((1,), 1)])
def test_small_images_run(depth: int | tuple[int, ...], size: int) -> None:
    assert small(depth=depth)(torch.zeros(2, 1, size, size)).shape == (2, 10)


@pytest.mark.parametrize(
    ("net", "shape", "says"),
    [
        (small(), (2, 1, 3, 8), "3x8 are too small: 3 stages need at least 4x4"),
        (small(large=True), (2, 1, 8, 8), "8x8 are too small: 3 stages need at least 16x16.*large=False"),
        (small(), (2, 3, 8, 8), r"\[N, 1, H, W\], got \[2, 3, 8, 8\]"),
        (small(), (1, 8, 8), r"got \[1, 8, 8\]"),
    ],
)
def test_wrong_images_say_expected_and_got(net: nn.Module, shape: tuple[int, ...], says: str) -> None:
    with pytest.raises(AliveError, match=says):
        net(torch.zeros(shape))


def test_all_faults_together() -> None:
    with pytest.raises(AliveError) as caught:
        AllConvResNet(0, 10, width=1.5, depth=(2, 0), stem=-1)  # type: ignore[arg-type]
    for said in ("channels", "width", "got 1.5", "depth", "stem"):
        assert said in str(caught.value)
    with pytest.raises(AliveError, match="16 and width 8"):
        AllConvResNet(1, 2, width=8, stem=16)
    with pytest.raises(AliveError, match="depth"):
        AllConvResNet(1, 2, depth=())
    with pytest.raises(AliveError, match="only widen"):
        IdentityBlock(4, 2)


def standardised(x: Tensor) -> Tensor:
    """Each image for itself, as the paper's data was."""
    return (x - x.mean((1, 2, 3), keepdim=True)) / x.std((1, 2, 3), keepdim=True)


def learn(net: AllConvResNet, *, epochs: int, points: int, lr: float = 0.05) -> tuple[list[float], float]:
    """Mean loss of each epoch and test accuracy after the last, by the paper's optimiser."""
    data = digits()
    x, y = standardised(data.train_x[:points]), data.train_y[:points]
    optimiser = torch.optim.SGD(net.parameters(), lr=lr, momentum=0.9, weight_decay=1e-4)
    losses, order = [], seeded(0)
    for _ in range(epochs):
        total = 0.0
        for batch in torch.randperm(len(y), generator=order).split(32):
            loss = F.cross_entropy(net(x[batch]), y[batch])
            optimiser.zero_grad()
            loss.backward()
            optimiser.step()
            total += loss.item() * len(batch)
        losses.append(total / len(y))
    with torch.no_grad():
        assert data.test_x is not None
        return losses, (net(standardised(data.test_x)).argmax(1) == data.test_y).float().mean().item()


def test_learns_digits_in_a_few_epochs() -> None:
    losses, accuracy = learn(small(), epochs=5, points=1437)
    assert losses[0] > 2.25  # close to the identity, and so to log 10, at first
    assert losses[-1] < 0.6
    assert accuracy > 0.8


@pytest.mark.slow
@pytest.mark.parametrize("seed", [0, 1])
def test_learns_digits_well(seed: int) -> None:
    net = AllConvResNet(1, 10, width=16, depth=3, stem=8, generator=seeded(seed))
    losses, _ = learn(net, epochs=12, points=1437)
    # Ten times less, as the paper's schedule drops it.
    more, accuracy = learn(net, epochs=4, points=1437, lr=0.005)
    assert more[-1] < losses[0] / 20
    assert accuracy > 0.95
