"""Written networks run without their Python code and say the same; the whole way from a ResNet to a file."""

from __future__ import annotations

import sys

import pytest
import torch
from residual_models import Net, gates
from torch import Tensor, nn

from alive.data import digits
from alive.errors import AliveError
from alive.penalties.van import VANController
from alive.surgery.export import to_exported, to_onnx
from alive.surgery.fold import Folded, fold
from alive.surgery.phase_out import phase_out
from alive_papers.networks.skips import COMPARED

onnxruntime = pytest.importorskip("onnxruntime")


def run_onnx(path, x: Tensor) -> Tensor:
    session = onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
    return torch.from_numpy(session.run(None, {"input": x.numpy()})[0])


def test_from_a_resnet_through_a_phase_out_to_an_onnx_file(tmp_path):
    """Gate, train on digits until every α is 1, fold, write, run: the same predictions, and good ones."""
    data = digits()
    x, y = data.train_x[:480], data.train_y[:480]
    gated = phase_out(Net(base=8), x[:4])
    control = VANController(gated, phase_out_steps=30)
    sgd = torch.optim.SGD(control.weights(), lr=0.05, momentum=0.9, weight_decay=1e-4)
    for epoch in range(6):
        order = torch.randperm(len(y), generator=torch.Generator().manual_seed(epoch))
        for points in order.split(60):
            sgd.zero_grad()
            nn.functional.cross_entropy(gated(x[points]), y[points]).backward()
            sgd.step()
            control.step()
    assert control.done
    folded = fold(gated, example=data.test_x, refresh=x)  # the phase-out ended late: old statistics are stale
    assert not gates(folded.model)
    plain = folded.model.eval()
    with torch.no_grad():
        assert folded.difference == float((gated.eval()(data.test_x) - plain(data.test_x)).abs().max()) > 0
    written = to_onnx(plain, tmp_path / "plain.onnx", data.test_x[:8])
    assert written.difference < 1e-4
    with torch.no_grad():
        ours = plain(data.test_x).argmax(1)
    theirs = run_onnx(tmp_path / "plain.onnx", data.test_x).argmax(1)
    assert torch.equal(ours, theirs)
    assert float((theirs == data.test_y).float().mean()) > 0.85


class Heads(nn.Module):
    """Two heads on one body; `how` says what it returns."""

    def __init__(self, how):
        super().__init__()
        self.body, self.how = nn.Linear(3, 4), how

    def forward(self, x):
        h = self.body(x).relu()
        return self.how(h, h.sum(1))


@pytest.mark.parametrize(
    ("how", "names"),
    [
        (lambda h, s: (h, s), ["output_0", "output_1"]),
        (lambda h, s: {"values": h, "a": s}, ["values", "a"]),
        (lambda h, s: [h], ["output"]),
    ],
)
def test_models_of_several_outputs_are_written(tmp_path, how, names):
    model, x = Heads(how).eval(), torch.randn(5, 3)
    assert to_onnx(model, tmp_path / "heads.onnx", x).difference < 1e-5
    assert to_exported(model, tmp_path / "heads.pt2", x).difference == 0
    session = onnxruntime.InferenceSession(str(tmp_path / "heads.onnx"), providers=["CPUExecutionProvider"])
    assert [output.name for output in session.get_outputs()] == names
    said = [torch.from_numpy(y) for y in session.run(None, {"input": x.numpy()})]
    h = model.body(x).relu()
    for theirs, ours in zip(said, (h, h.sum(1)), strict=False):
        torch.testing.assert_close(theirs, ours.detach())


def test_forward_of_any_number_of_inputs_is_written(tmp_path):
    class Open(Heads):
        def forward(self, *inputs):
            return self.body(inputs[0])

    assert to_onnx(Open(None), tmp_path / "open.onnx", torch.randn(5, 3)).difference < 1e-5


@pytest.mark.parametrize("write", [to_onnx, to_exported])
def test_what_cannot_be_written_says_why_in_one_line(tmp_path, write):
    with pytest.raises(AliveError, match="returns str, and only tensors can be written") as error:
        write(Heads(lambda h, s: (h, "done")), tmp_path / "file", torch.randn(5, 3))
    assert "\n" not in str(error.value)

    class Branching(Heads):
        def forward(self, x):
            return self.body(x) if x.sum() > 0 else -self.body(x)

    with pytest.raises(AliveError, match="cannot be exported: Could not guard on data-dependent") as error:
        write(Branching(None), tmp_path / "file", torch.randn(5, 3))
    assert "\n" not in str(error.value)
    assert "\x1b" not in str(error.value)
    assert not (tmp_path / "file").exists()


def test_a_file_of_torch_export_takes_any_batch(tmp_path):
    net = COMPARED["van"].dense(5, 3, depth=3, width=6).eval()
    for gate in gates(net).values():
        nn.init.ones_(gate.alpha)
    plain = fold(net).model.train()
    written = to_exported(plain, tmp_path / "plain.pt2", torch.randn(1, 5))
    assert plain.training
    assert written.path.stat().st_size == written.size
    module = torch.export.load(written.path).module()
    for count in (1, 2, 17):
        x = torch.randn(count, 5)
        torch.testing.assert_close(module(x), net(x))


class Drawing(nn.Module):
    """Never says the same twice."""

    def forward(self, x: Tensor) -> Tensor:
        return x + torch.rand_like(x)


class Asking(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return x if x.sum() > 0 else -x


def test_a_file_that_differs_is_not_written(tmp_path):
    with pytest.raises(AliveError, match="written network differs from the model by"):
        to_exported(Drawing(), tmp_path / "net.pt2", torch.randn(4, 3))
    assert not list(tmp_path.iterdir())


def test_what_cannot_be_exported_is_named(tmp_path):
    with pytest.raises(AliveError, match="Asking cannot be exported"):
        to_exported(Asking(), tmp_path / "net.pt2", torch.randn(4, 3))
    with pytest.raises(AliveError, match="Choose a folder that exists"):
        to_exported(nn.Linear(3, 2), tmp_path / "no" / "net.pt2", torch.randn(4, 3))
    with pytest.raises(AliveError, match=r"wants as its example a batch .* got a tensor \[0, 3\]"):
        to_exported(nn.Linear(3, 2), tmp_path / "net.pt2", torch.randn(0, 3))
    assert not list(tmp_path.iterdir())


def test_a_missing_package_says_the_install_line(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "onnxruntime", None)
    with pytest.raises(AliveError, match=r'needs onnxruntime, which is not installed.*pip install "alive\[export\]"'):
        to_onnx(nn.Linear(3, 2), tmp_path / "net.onnx", torch.randn(4, 3))


def test_a_file_that_the_runtime_cannot_run_is_not_written(tmp_path):
    """onnxruntime has no convolution in double precision."""
    with pytest.raises(AliveError, match=r"cannot be run \(torch.float64\).*float32"):
        to_onnx(nn.Conv2d(1, 2, 3).double(), tmp_path / "net.onnx", torch.randn(2, 1, 5, 5, dtype=torch.float64))
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("Folded", "net", "x"), r"wants an nn.Module as its model, got Folded; give its model, to_\w+\(folded.model"),
        (("model", "x", "x"), "wants a file name as its path, got Tensor"),
        (("model", "net", "net"), "wants as its example a batch .* got str"),
        (("model", "net", "tuple"), "wants as its example a batch .* got tuple"),
        (("model", None, "x"), "wants a file name as its path, got NoneType"),
        (("model", "net", None), "wants as its example a batch .* got NoneType"),
    ],
)
@pytest.mark.parametrize("export", [to_exported, to_onnx])
def test_arguments_of_the_wrong_kind_are_named(export, arguments, said, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    x, model = torch.randn(5, 3), nn.Linear(3, 2)
    kinds = {"x": x, "tuple": (x,), "model": model, "Folded": Folded(model, (), 0.0, None, 0)}
    with pytest.raises(AliveError, match=said):
        export(*(kinds.get(each, each) for each in arguments))
    assert not list(tmp_path.iterdir())
