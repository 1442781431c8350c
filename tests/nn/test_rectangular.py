import pytest
import torch
from torch import nn

from alive.errors import AliveError
from alive.nn import INITIALISERS, AnnealedDropout, Rectangular, RectangularConv, parse_rectangle


def count(model: nn.Module) -> int:
    return sum(p.numel() for p in model.parameters())


@pytest.mark.parametrize(("depth", "width", "parameters"), [(20, 32, 177258), (10, 64, 335434)])
def test_published_parameter_counts(depth: int, width: int, parameters: int) -> None:
    assert count(RectangularConv(3, 10, depth=depth, width=width)) == parameters


def test_dense_parameter_count_by_hand() -> None:
    assert count(Rectangular(2, 1, depth=3, width=4)) == (2 * 4 + 4) + 2 * (4 * 4 + 4) + (4 + 1)


@pytest.mark.twin
def test_forward_equals_the_formula() -> None:
    net = Rectangular(6, 3, depth=2, width=5, init="torch", generator=torch.Generator().manual_seed(1))
    x = torch.randn(4, 2, 3)
    z = x.reshape(4, 6)
    for layer in net.hidden:
        z = (z @ layer.linear.weight.T + layer.linear.bias).clamp(min=0)
    torch.testing.assert_close(net(x), z @ net.output.weight.T + net.output.bias)


@pytest.mark.twin
def test_pool_head_is_the_papers_concatenation_permuted() -> None:
    net = RectangularConv(3, 4, depth=2, width=5)
    x = torch.randn(2, 3, 6, 7)
    z = net.hidden(x)
    concatenated = torch.cat([z.mean((2, 3)), z.amax((2, 3))], dim=1)
    weight = torch.cat([net.output.weight[:, 0::2], net.output.weight[:, 1::2]], dim=1)
    torch.testing.assert_close(net(x), concatenated @ weight.T + net.output.bias)


def test_flatten_head_and_paths() -> None:
    net = RectangularConv(
        1, 10, depth=4, width=3, head="flatten", size=(8, 8), batch_norm=True, dropout=AnnealedDropout
    )
    assert net.output.in_features == 3 * 64
    assert net(torch.randn(2, 1, 8, 8)).shape == (2, 10)
    paths = dict(net.named_modules())
    assert isinstance(paths["hidden.3.relu"], nn.ReLU)
    assert [name for name, _ in net.hidden[0].named_children()] == ["dropout", "linear", "norm", "relu"]
    assert (paths["hidden.0.norm"].momentum, paths["hidden.0.norm"].eps) == (0.01, 1e-3)


def test_dropout_touches_the_raw_data() -> None:
    net = Rectangular(3, 1, depth=1, width=2, dropout=lambda: AnnealedDropout(0.999999))
    assert torch.equal(net(torch.ones(5, 3)), net.output.bias.expand(5, 1))


@pytest.mark.contract
@pytest.mark.parametrize("name", INITIALISERS)
def test_same_generator_same_network_and_global_state_untouched(name: str) -> None:
    before = torch.get_rng_state()
    nets = [
        make(generator=torch.Generator().manual_seed(5))
        for make in (
            lambda generator: Rectangular(3, 2, depth=3, width=4, init=name, generator=generator, batch_norm=True),
        )
        * 2
    ]
    assert torch.equal(before, torch.get_rng_state())
    for a, b in zip(*(net.state_dict().values() for net in nets), strict=True):
        assert torch.equal(a, b)


@pytest.mark.parametrize(
    ("net", "shape", "says"),
    [
        (Rectangular(4, 1, depth=1, width=2), (3, 5), r"4 features, got \[3, 5\]"),
        (Rectangular(4, 1, depth=1, width=2), (4,), r"got \[4\]"),
        (RectangularConv(3, 2, depth=1, width=2), (3, 1, 8, 8), r"\[N, 3, H, W\], got \[3, 1, 8, 8\]"),
        (RectangularConv(1, 2, depth=1, width=2), (1, 8, 8), r"got \[1, 8, 8\]"),
        (RectangularConv(1, 2, depth=1, width=2, head="flatten", size=(8, 9)), (2, 1, 9, 8), r"\[N, 1, 8, 9\]"),
    ],
)
def test_wrong_shapes_say_expected_and_got(net: nn.Module, shape: tuple[int, ...], says: str) -> None:
    with pytest.raises(AliveError, match=says):
        net(torch.zeros(shape))


def test_all_faults_together() -> None:
    with pytest.raises(AliveError) as caught:
        Rectangular(0, 1, depth=-2, width=1.5, init="glorrot")  # type: ignore[arg-type]
    for said in ("inputs", "depth", "width", "got 1.5", "did you mean 'glorot'"):
        assert said in str(caught.value)
    with pytest.raises(AliveError) as caught:
        RectangularConv(1, 2, depth=0, width=1, head="flaten")  # type: ignore[arg-type]
    assert "depth" in str(caught.value)
    assert "did you mean 'flatten'" in str(caught.value)
    with pytest.raises(AliveError, match="needs size"):
        RectangularConv(1, 2, depth=1, width=1, head="flatten")


@pytest.mark.parametrize("text", ["50x4", " 50 x 4 ", "50×4", "050x4"])
def test_rectangles_are_read(text: str) -> None:
    assert parse_rectangle(text) == (50, 4)


@pytest.mark.parametrize("text", ["", "50", "x4", "50x", "0x4", "4x0", "-1x4", "5.0x4", "50x4x2", "axb", "50x4\n1"])
def test_other_rectangles_are_refused(text: str) -> None:
    with pytest.raises(AliveError, match="depth x width"):
        parse_rectangle(text)


@pytest.mark.parametrize("text", ["999999999999x4", "50x100000"])
def test_a_rectangle_that_no_memory_holds_is_refused_before_it_is_built(text: str) -> None:
    with pytest.raises(AliveError, match=f"{text} has more than 1,000,000,000 weights"):
        parse_rectangle(text)
