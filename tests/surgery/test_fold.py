"""Folding: the plain network says to the bit what the gated one said, with fewer parameters."""

from __future__ import annotations

import pytest
import torch
from residual_models import Net, Written, by_value, gates, lived, opened
from torch import Tensor, nn

from alive.errors import AliveError
from alive.nn.dirac import DiracConv2d, DiracLinear
from alive.nn.van import Gate, VANBlock
from alive.penalties import Jumpstart
from alive.surgery.fold import Nothing, fold
from alive.surgery.phase_out import phase_out
from alive_papers.benchmarks.folding import peak_bytes
from alive_papers.networks.skips import COMPARED


def count(model: nn.Module) -> int:
    return sum(p.numel() for p in model.parameters())


@pytest.mark.twin
@pytest.mark.parametrize("kind", ["van", "convex"])
@pytest.mark.parametrize("form", ["dense", "conv"])
def test_folding_is_exact_to_the_bit(kind, form):
    x = torch.randn(6, 8) if form == "dense" else torch.randn(6, 2, 8, 8)
    make = {
        "dense": lambda kind: COMPARED[kind].dense(8, 3, depth=12, width=9),
        "conv": lambda kind: COMPARED[kind].conv(2, 3, n=2, base=3),
    }[form]
    net = lived(opened(make(kind)), x)
    folded = fold(net, example=x)
    assert torch.equal(net(x), folded.model(x))
    assert (folded.difference, folded.residual) == (0.0, 0.0)
    plain = make("plain")
    assert count(folded.model) == count(plain)
    assert folded.dropped == count(net) - count(plain) > 0
    plain.eval().load_state_dict(
        {name.replace(".branch.", "."): value for name, value in folded.model.state_dict().items()}
    )
    assert torch.equal(plain(x), net(x))
    assert len(gates(net)) == len(folded.blocks)
    assert not gates(folded.model)


@pytest.mark.twin
def test_a_gated_model_of_someone_else_loses_its_shortcuts():
    x = torch.randn(5, 1, 8, 8)
    net = lived(opened(phase_out(Net(base=4), x)), x)
    folded = fold(net, example=x)
    assert torch.equal(net(x), folded.model(x))
    assert folded.difference == 0
    assert not any("downsample" in name or "gate" in name for name in folded.model.state_dict())
    assert folded.dropped == (4 + 4 + 8 + 8) + (4 * 8 + 2 * 8)  # all α, and one projection with its batch norm
    assert folded.blocks == ("layer1.0.gate", "layer1.1.gate", "layer2.0.gate", "layer2.1.gate")
    assert gates(net)


def test_the_model_itself_stays_as_it_is():
    net = opened(phase_out(Net())).train()
    before = {name: value.clone() for name, value in net.state_dict().items()}
    plain = fold(net, example=torch.randn(2, 1, 8, 8)).model
    assert net.training
    assert plain.training
    assert all(torch.equal(value, before[name]) for name, value in net.state_dict().items())


def test_folding_too_early_names_the_blocks_and_their_residuals():
    net = opened(phase_out(Net()))
    nn.init.constant_(gates(net)["layer2.0.gate"].alpha, 0.5)
    with pytest.raises(
        AliveError, match=r"1 of 4 skips are still in use: layer2.0.gate \(mean \(1-α\)² 0.25\)"
    ) as error:
        fold(net)
    assert "VANController.done" in str(error.value)
    with pytest.raises(AliveError, match=r"12 of 12 .* and 7 more"):
        fold(COMPARED["van"].dense(3, 2, depth=12, width=4))


def test_within_a_tolerance_the_difference_is_measured():
    x = torch.randn(4, 8)
    net = lived(COMPARED["van"].dense(8, 3, depth=2, width=5), x)
    opened(net, 0.999)
    folded = fold(net, tol=0.01, example=x)
    expected = (net(x) - folded.model(x)).abs().max().item()
    assert folded.difference == pytest.approx(expected)
    assert 0 < expected < 0.1
    assert folded.residual == pytest.approx(0.001, rel=1e-3)
    with pytest.raises(AliveError, match="2 of 2 skips"):
        fold(net, tol=0.0005)
    assert fold(net, tol=0.01).difference is None


def test_one_alpha_below_one_is_enough_to_refuse():
    net = opened(COMPARED["van"].dense(8, 3, depth=2, width=5))
    with torch.no_grad():
        net.blocks[1].gate.alpha[3] = torch.nextafter(torch.tensor(1.0), torch.tensor(0.0))
    with pytest.raises(AliveError, match=r"1 of 2 skips are still in use: blocks.1.gate"):
        fold(net)
    with torch.no_grad():
        net.blocks[1].gate.alpha[3] = float("nan")
    with pytest.raises(AliveError, match=r"1 of 2 skips"):
        fold(net)


@pytest.mark.twin
@pytest.mark.parametrize("kind", ["van", "dirac"])
@pytest.mark.parametrize("form", ["dense", "conv"])
def test_batch_norms_merge_into_the_layers_before_them(kind, form):
    x = torch.randn(6, 8) if form == "dense" else torch.randn(6, 2, 8, 8)
    net = COMPARED[kind].dense(8, 3, depth=4, width=9) if form == "dense" else COMPARED[kind].conv(2, 3, n=1, base=3)
    net = lived(opened(net), x)
    plain = fold(net, example=x, merge_batch_norm=True).model
    left = sum(isinstance(m, nn.BatchNorm1d | nn.BatchNorm2d) for m in plain.modules())
    assert left == (3 if kind == "dirac" and form == "conv" else 0)  # where max-pooling stands between
    torch.testing.assert_close(plain(x), net(x), rtol=1e-5, atol=1e-5)
    assert not plain.training


@pytest.mark.twin
def test_batch_norms_merge_in_a_gated_model_of_someone_else():
    x = torch.randn(5, 1, 8, 8)
    net = lived(opened(phase_out(Net(), x)), x)
    plain = fold(net, example=x, merge_batch_norm=True).model
    assert not any(isinstance(m, nn.BatchNorm2d) for m in plain.modules())
    torch.testing.assert_close(plain(x), net(x), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize(
    "forward",
    [
        lambda self, x: self.norm(self.norm(self.layer(x))),
        lambda self, x: self.norm(self.layer(self.layer(x))),
        lambda self, x: self.norm(self.layer(x).relu_()),
        lambda self, x: (y := self.layer(x), self.norm(y))[1] + y,
    ],
)
def test_a_norm_that_cannot_be_merged_stays(forward):
    model = nn.Sequential(
        VANBlock(nn.Linear(3, 3), channels=3), Written(forward, layer=nn.Linear(3, 3), norm=nn.BatchNorm1d(3))
    )
    x = torch.randn(5, 3)
    model = lived(opened(model), x)
    plain = fold(model, example=x, merge_batch_norm=True).model
    assert isinstance(plain[1].norm, nn.BatchNorm1d)
    assert torch.equal(plain(x), model(x))


def test_a_layer_with_two_readers_keeps_its_norm():
    model = Written(
        lambda self, x: self.van(self.norm(y := self.layer(x)) * y),
        layer=nn.Linear(3, 3),
        norm=nn.BatchNorm1d(3),
        van=VANBlock(nn.Linear(3, 3), channels=3),
    )
    x = torch.randn(5, 3)
    model = lived(opened(model), x)
    plain = fold(model, example=x, merge_batch_norm=True).model
    assert isinstance(plain.norm, nn.BatchNorm1d)
    assert torch.equal(plain(x), model(x))


@pytest.mark.twin
@pytest.mark.parametrize("form", ["dense", "conv"])
def test_dirac_networks_fold_to_plain_layers(form):
    x = torch.randn(6, 8) if form == "dense" else torch.randn(6, 2, 8, 8)
    net = (
        COMPARED["dirac"].dense(8, 3, depth=6, width=9)
        if form == "dense"
        else COMPARED["dirac"].conv(2, 3, n=1, base=3)
    )
    net = lived(net, x)
    folded = fold(net, example=x)
    assert folded.difference < 1e-5
    assert folded.dropped == 2 * sum(len(m.a) for m in net.modules() if isinstance(m, DiracLinear | DiracConv2d))
    assert not any(isinstance(m, DiracLinear | DiracConv2d) for m in folded.model.modules())


def test_a_skip_gated_by_its_module_leaves_nothing_behind():
    model = nn.Sequential(Written(by_value, f=nn.Linear(3, 3), shortcut=nn.Linear(3, 3)))
    x = torch.randn(4, 3)
    gated = opened(phase_out(model, x, blocks=[("0", "shortcut")]))
    folded = fold(gated, example=x)
    assert isinstance(folded.model[0].shortcut, Nothing)
    assert torch.equal(folded.model(x), gated(x))
    assert folded.dropped == 12 + 3


class Own(nn.Module):
    """A block of one's own with a gate in its forward."""

    def __init__(self) -> None:
        super().__init__()
        self.f, self.project, self.gate = nn.Linear(3, 5), nn.Linear(3, 5), Gate((5,))

    def forward(self, x: Tensor) -> Tensor:
        return torch.relu(self.gate(self.f(x), self.project(x)))


def test_a_gate_in_ones_own_forward_folds_too():
    model = nn.Sequential(Own(), nn.Linear(5, 2))
    x = torch.randn(4, 3)
    folded = fold(opened(model), example=x)
    assert torch.equal(model(x), folded.model(x))
    assert set(folded.model.state_dict()) == {"0.f.weight", "0.f.bias", "1.weight", "1.bias"}


def test_a_skip_whose_way_others_use_keeps_it():
    model = Written(lambda self, x: self.f(x) + (s := self.p(x)) * self.q(s).mean(), f=nn.Conv2d(2, 2, 3, padding=1),
                    p=nn.Conv2d(2, 2, 1), q=nn.Identity())  # fmt: skip
    x = torch.randn(3, 2, 4, 4)
    gated = opened(phase_out(model, x))
    folded = fold(gated, example=x)
    assert folded.difference == 0
    assert [name for name, _ in folded.model.named_children()] == ["f"]


@pytest.mark.parametrize(
    "forward",
    [
        lambda self, x: torch.relu_((h := self.f(x)) + x) + h,
        lambda self, x: (v := self.drop(h := self.f(x)), torch.relu_(v + x) + h)[1],
        lambda self, x: torch.relu_((h := self.f(x)).view(-1, 4) + x) + h,
    ],
)
def test_what_is_changed_in_place_behind_the_sum_leaves_the_branch_alone(forward):
    """The sum was a value of its own; without the skip the branch itself stands there, and others read it too."""
    x = torch.randn(3, 4)
    gated = opened(phase_out(Written(forward, f=nn.Linear(4, 4), drop=nn.Dropout(0.5)), x)).eval()
    assert torch.equal(fold(gated).model(x), gated(x))


@pytest.mark.parametrize("wrap", [nn.DataParallel, lambda m: torch.compile(m, backend="eager")])
def test_a_wrapped_model_is_gated_and_folded_inside(wrap):
    x = torch.randn(3, 1, 8, 8)
    gated = opened(phase_out(wrap(Net()), x))
    assert type(gated) is Net
    folded = fold(wrap(gated), example=x)
    assert type(folded.model) is Net
    assert folded.difference == 0
    assert folded.blocks == tuple(gates(gated))


def test_arguments_may_be_several_or_named():
    class Two(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.f, self.g = nn.Sequential(nn.Linear(4, 4), nn.BatchNorm1d(4)), nn.Linear(3, 4)

        def forward(self, x: Tensor, c: Tensor) -> Tensor:
            return (x + self.f(x)) * self.g(c)

    x, c = torch.randn(5, 4), torch.randn(5, 3)
    for example in ((x, c), {"x": x, "c": c}):
        folded = fold(opened(phase_out(Two(), example)), example=example, merge_batch_norm=True)
        assert folded.difference < 1e-6
        assert isinstance(folded.model.f[1], nn.Identity)


@pytest.mark.parametrize("kind", ["plain", "resnet", "half", "highway"])
def test_a_model_without_gates_is_refused(kind):
    with pytest.raises(AliveError, match=r"no gate and no Dirac layer.*phase_out"):
        fold(COMPARED[kind].dense(2, 2, depth=2, width=3))


def test_other_faults_are_named():
    net = opened(COMPARED["van"].dense(2, 2, depth=2, width=3))
    with pytest.raises(AliveError, match="tol must be at least 0"):
        fold(net, tol=-1)
    with Jumpstart(net), pytest.raises(AliveError, match="attached"):
        fold(net)
    with pytest.raises(AliveError, match="merge_batch_norm needs an example"):
        fold(net, merge_batch_norm=True)


def test_folding_frees_the_map_that_waited_for_the_sum():
    """In the exported graph a residual block holds three maps at once, its plain twin two."""
    x = torch.randn(2, 3, 16, 16)
    net = opened(
        nn.Sequential(nn.Conv2d(3, 4, 3, padding=1), *COMPARED["van"].conv(3, 2, n=2, base=4).blocks[:2])
    ).eval()
    one = 2 * 4 * 16 * 16 * 4
    held = [peak_bytes(torch.export.export(m, (x,)).module(), x) for m in (net, fold(net).model.eval())]
    assert [size / one for size in held] == pytest.approx([3, 2], abs=0.05)
