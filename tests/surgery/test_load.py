"""Networks read back from .pt2 and .onnx: their census against brute force in torch and in onnxruntime."""

from __future__ import annotations

import json

import numpy as np
import onnx
import onnxruntime
import pytest
import torch
from onnx import TensorProto, helper, numpy_helper
from torch import nn

import alive as library
from alive import AliveError
from alive.load import from_exported, from_onnx
from alive.surgery import to_exported, to_onnx

ONE_SIDED = ("Relu", "LeakyRelu", "Elu", "Gelu", "Clip", "HardSwish", "PRelu", "Softplus", "ThresholdedRelu")


class Skip(nn.Module):
    def __init__(self):
        super().__init__()
        self.stem, self.a, self.b = nn.Conv2d(1, 4, 3, padding=1), nn.Conv2d(4, 4, 3, padding=1), nn.Linear(4, 3)
        self.norm = nn.BatchNorm2d(4)
        self.stem.bias.data[1] = -50.0
        self.a.bias.data[2] = 50.0

    def forward(self, x):
        x = torch.relu(self.norm(self.stem(x)))
        x = torch.relu(x + self.a(x))
        return self.b(nn.functional.max_pool2d(x, 2).mean((2, 3)))


def dense(activation) -> nn.Module:
    net = nn.Sequential(nn.Linear(3, 6), activation, nn.Linear(6, 5), nn.ReLU(), nn.Linear(5, 2))
    net[0].bias.data[0], net[2].bias.data[:2] = -50.0, torch.tensor([-50.0, 50.0])
    return net


class Tokens(nn.Module):
    """Positions behind the units, and an attention beside them."""

    def __init__(self):
        super().__init__()
        self.layer = nn.TransformerEncoderLayer(8, 2, 16, batch_first=True, dropout=0.0)
        self.layer.linear1.bias.data[3] = -50.0

    def forward(self, x):
        return self.layer(x).mean(1)


MODELS = {
    "relu": (lambda: dense(nn.ReLU()), (3,)),
    "leaky": (lambda: dense(nn.LeakyReLU(0.1)), (3,)),
    "elu": (lambda: dense(nn.ELU()), (3,)),
    "gelu": (lambda: dense(nn.GELU()), (3,)),
    "silu": (lambda: dense(nn.SiLU()), (3,)),
    "hardswish": (lambda: dense(nn.Hardswish()), (3,)),
    "relu6": (lambda: dense(nn.ReLU6()), (3,)),
    "softplus": (lambda: dense(nn.Softplus()), (3,)),
    "prelu": (lambda: dense(nn.PReLU()), (3,)),
    "mish": (lambda: dense(nn.Mish()), (3,)),
    "selu": (lambda: dense(nn.SELU()), (3,)),
    "skip": (Skip, (1, 6, 6)),
    "tokens": (Tokens, (5, 8)),
}


def made(name):
    make, shape = MODELS[name]
    torch.manual_seed(0)
    return make().eval(), torch.randn(40, *shape)


def counts(census):
    return [(layer.units, layer.points) for layer in census.layers]


@pytest.mark.parametrize("name", MODELS)
def test_a_program_counts_as_its_model_does(name, tmp_path):
    """The model itself, whose census is held to brute force elsewhere, is the truth here."""
    model, x = made(name)
    again = from_exported(to_exported(model, tmp_path / "net.pt2", x[:4]).path)
    found, true = library.census(again, x, gradient=True), library.census(model, x, gradient=True)
    assert counts(found) == counts(true)
    assert found.points == true.points
    assert not found.unseen
    assert all(a.signal.gradient == pytest.approx(b.signal.gradient, rel=1e-4)
               for a, b in zip(found.layers, true.layers, strict=True))  # fmt: skip
    assert all(layer.where == "" for layer in found.layers)


@pytest.mark.parametrize("name", MODELS)
def test_a_graph_of_onnx_counts_as_its_model_does(name, tmp_path):
    model, x = made(name)
    again = from_onnx(to_onnx(model, tmp_path / "net.onnx", x[:4]).path)
    assert again.check([x]) < 1e-4
    found, true = library.census(again, x), library.census(model, x)
    assert counts(found) == counts(true)
    assert found.points == true.points


@pytest.mark.parametrize("name", ["relu", "leaky", "elu", "hardswish", "skip", "tokens"])
def test_units_of_onnx_against_extra_outputs_of_onnxruntime(name, tmp_path):
    """Brute force that shares no code: what enters each activation, as onnxruntime computes it."""
    model, x = made(name)
    path = to_onnx(model, tmp_path / "net.onnx", x[:4]).path
    graph = onnx.load(str(path))
    fed = [node.input[0] for node in graph.graph.node if node.op_type in ONE_SIDED]
    for each in fed:
        graph.graph.output.append(helper.make_empty_tensor_value_info(each))
    session = onnxruntime.InferenceSession(graph.SerializeToString(), providers=["CPUExecutionProvider"])
    before = session.run(fed, {"input": x.numpy()})
    found = library.census(from_onnx(path), x)
    assert len(found.layers) == len(before)
    for layer, z in zip(found.layers, before, strict=True):
        last = name == "tokens" or z.ndim == 2
        rows = np.moveaxis(z, -1 if last else 1, -1).reshape(-1, z.shape[-1 if last else 1])
        cutoff, ceiling = layer.activation.cutoff, layer.activation.ceiling
        dead = ((rows.max(0) <= cutoff) | (rows.min(0) >= ceiling)).nonzero()[0].tolist()
        assert layer.to_dict()["dead_units"] == dead
        assert (
            layer.to_dict()["linear_units"] == ((rows.min(0) > cutoff) & (rows.max(0) <= ceiling)).nonzero()[0].tolist()
        )
    assert found.units.dead > 0


def test_the_command_line_takes_both(alive, tmp_path):
    model, x = made("skip")
    to_onnx(model, tmp_path / "net.onnx", x[:4])
    to_exported(model, tmp_path / "net.pt2", x[:4])
    np.save(tmp_path / "x.npy", x.numpy())
    true = library.census(model, x)
    for file in ("net.onnx", "net.pt2"):
        code, out, err = alive("census", file, "--data", "x.npy", "--json")
        assert code == 0, err
        told = json.loads(out)
        assert told["units"] == true.units._asdict()
        assert [a["rule"] for a in told["findings"]] == [
            a["rule"] for a in json.loads(alive("census", file, "--data", "x.npy", "--json")[1])["findings"]
        ]
        assert ("onnxruntime" in err) == (file == "net.onnx")
    code, _, err = alive("census", "net.onnx")
    assert code == 2
    assert "needs data" in err
    code, _, err = alive("census", "none.onnx", "--data", "x.npy")
    assert (code, err) == (2, "alive: there is no file none.onnx. Correct the path.\n")


def written(folder, nodes, shape, *, weights=(), out=("n", "k"), batch="n"):
    graph = helper.make_graph(
        nodes, "g", [helper.make_tensor_value_info("x", TensorProto.FLOAT, [batch, *shape])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, list(out))], list(weights),
    )  # fmt: skip
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9)
    onnx.save(model, str(folder / "net.onnx"))
    return folder / "net.onnx"


def test_a_file_of_another_exporter(tmp_path):
    """MatMul with a weight on the right, a bias by Add, asymmetric padding: nothing that our exporter writes."""
    chance = np.random.default_rng(0)
    w, b = chance.normal(size=(2, 1, 3, 3)).astype("f"), np.array([0.0, -50], "f")
    v, c = chance.normal(size=(32, 4)).astype("f"), np.array([0, 0, -99, 99], "f")
    named = [numpy_helper.from_array(a, n) for n, a in (("conv.weight", w), ("conv.bias", b), ("v", v), ("c", c))]
    named.append(numpy_helper.from_array(np.array([0, -1]), "shape"))
    nodes = [
        helper.make_node("Conv", ["x", "conv.weight", "conv.bias"], ["a"], auto_pad="SAME_LOWER"),
        helper.make_node("Relu", ["a"], ["h"]),
        helper.make_node("Reshape", ["h", "shape"], ["flat"]),
        helper.make_node("MatMul", ["flat", "v"], ["m"]),
        helper.make_node("Add", ["m", "c"], ["z"]),
        helper.make_node("Relu", ["z"], ["y"]),
    ]
    path = written(tmp_path, nodes, (1, 4, 4), weights=named)
    x = torch.from_numpy(chance.normal(size=(50, 1, 4, 4)).astype("f"))
    network = from_onnx(path)
    assert network.check([x]) < 1e-5
    found = library.census(network, x)
    assert [layer.to_dict()["dead_units"] for layer in found.layers] == [[1], [2]]
    assert found.layers[1].to_dict()["linear_units"] == [3]
    assert found.layers[0].label.startswith("conv")


def test_weights_may_stand_in_nodes_and_a_file_may_take_one_point_at_a_time(alive, tmp_path):
    """As other exporters write them; onnxruntime says what enters the ReLU."""
    chance = np.random.default_rng(0)
    x = chance.normal(size=(20, 3)).astype("f")
    held = {"w": chance.normal(size=(3, 4)).astype("f"), "b": np.array([-50, 50, 0, 0], "f"), "v": np.ones((4, 1), "f")}
    nodes = [helper.make_node("Constant", [], [n], value=numpy_helper.from_array(a)) for n, a in held.items()]
    nodes += [
        helper.make_node("MatMul", ["x", "w"], ["m"]),
        helper.make_node("Add", ["m", "b"], ["z"]),
        helper.make_node("Relu", ["z"], ["h"]),
        helper.make_node("MatMul", ["h", "v"], ["y"]),
    ]
    path = written(tmp_path, nodes, (3,), batch=1)
    fed = onnx.load(str(path))
    fed.graph.output.append(helper.make_empty_tensor_value_info("z"))
    session = onnxruntime.InferenceSession(fed.SerializeToString(), providers=["CPUExecutionProvider"])
    z = np.concatenate([session.run(["z"], {"x": row[None]})[0] for row in x])
    np.save(tmp_path / "x.npy", x)
    code, out, err = alive("census", "net.onnx", "--data", "x.npy", "--json")
    assert code == 0, err
    told = json.loads(out)["layers"][0]
    assert told["dead_units"] == (z <= 0).all(0).nonzero()[0].tolist() == [0]
    assert told["linear_units"] == (z > 0).all(0).nonzero()[0].tolist() == [1]
    with pytest.raises(AliveError, match="batch_size=1"):
        from_onnx(path).check([torch.from_numpy(x)])


def test_a_program_for_one_point_gets_one_at_a_time(alive, tmp_path):
    model, x = made("relu")
    torch.export.save(torch.export.export(model, (x[:1],)), tmp_path / "net.pt2")
    np.save(tmp_path / "x.npy", x.numpy())
    code, out, err = alive("census", "net.pt2", "--data", "x.npy", "--json")
    assert code == 0, err
    assert json.loads(out)["units"] == library.census(model, x).units._asdict()


def test_what_cannot_be_followed_is_refused_by_name(tmp_path):
    path = written(tmp_path, [helper.make_node("Det", ["x"], ["y"])], (3, 3), out=("n",))
    with pytest.raises(AliveError, match="operations that alive cannot follow: Det"):
        from_onnx(path)
    path.write_bytes(b"nonsense")
    with pytest.raises(AliveError, match="no ONNX model"):
        from_onnx(path)


def test_a_difference_from_onnxruntime_is_noticed(tmp_path):
    model, x = made("relu")
    network = from_onnx(to_onnx(model, tmp_path / "net.onnx", x[:4]).path)
    next(network.parameters()).data.add_(1.0)
    with pytest.raises(AliveError, match="other outputs here than in onnxruntime"):
        network.check([x])


def test_what_is_no_program_is_refused(tmp_path):
    (tmp_path / "no.pt2").write_bytes(b"nonsense")
    with pytest.raises(AliveError, match=r"no program of torch\.export"):
        from_exported(tmp_path / "no.pt2")
