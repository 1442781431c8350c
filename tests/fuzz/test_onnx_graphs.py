"""Random ONNX graphs as other exporters write them: units counted as onnxruntime's own pre-activations say."""

from __future__ import annotations

import numpy as np
import pytest
import torch

import alive

onnx = pytest.importorskip("onnx")
onnxruntime = pytest.importorskip("onnxruntime")
from onnx import TensorProto, helper, numpy_helper  # noqa: E402

from alive.load import from_onnx  # noqa: E402

OPSETS = (9, 10, 11, 13, 14, 17, 18, 20, 21)
POINTS = 24


class Graph:
    """A row of layers; weights are initialisers or nodes, by chance, and `before` lists what enters each activation."""

    def __init__(self, seed: int) -> None:
        self.chance = np.random.default_rng(seed)
        self.opset = int(self.chance.choice(OPSETS))
        self.nodes, self.held, self.before, self.made = [], [], [], 0
        self.images = self.chance.random() < 0.5
        self.shape = (2, 8, 8) if self.images else (int(self.chance.integers(2, 5)),)
        self.x = self.chance.normal(size=(POINTS, *self.shape)).astype("f")
        value, shape = "x", self.shape
        if self.images:
            for _ in range(int(self.chance.integers(1, 3))):
                value, shape = self.convolution(value, shape)
            value, shape = self.flat(value, shape)
        for _ in range(int(self.chance.integers(1, 4))):
            value, shape = self.dense(value, shape)
        self.out = self.node("MatMul", value, self.weight(self.normal(shape[0], 2)))

    def likely(self, share: float) -> bool:
        return bool(self.chance.random() < share)

    def normal(self, *shape: int) -> np.ndarray:
        return (self.chance.normal(size=shape) * 0.5).astype("f")

    def node(self, kind: str, *inputs: str, **attributes: object) -> str:
        self.made += 1
        self.nodes.append(helper.make_node(kind, list(inputs), [f"v{self.made}"], **attributes))
        return f"v{self.made}"

    def weight(self, value: np.ndarray) -> str:
        if self.likely(0.3):
            return self.node("Constant", value=numpy_helper.from_array(value))
        self.held.append(numpy_helper.from_array(value, f"w{len(self.held)}"))
        return self.held[-1].name

    def bias(self, units: int) -> np.ndarray:
        """Some units are dead by it, some linear."""
        return self.normal(units) + self.chance.choice([0, 0, 0, -40, 40], size=units).astype("f")

    def convolution(self, value: str, shape: tuple[int, ...]) -> tuple[str, tuple[int, ...]]:
        units, groups = int(self.chance.choice([2, 4])), 2 if self.likely(0.3) else 1
        padding = {"pads": [1, 1, 1, 1]} if self.likely(0.5) else {"auto_pad": str(self.chance.choice(SAME))}
        kernel = self.weight(self.normal(units, shape[0] // groups, 3, 3))
        bias = self.bias(units)
        if self.likely(0.5):
            z = self.node("Conv", value, kernel, self.weight(bias), group=groups, **padding)
        else:
            z = self.node("Conv", value, kernel, group=groups, **padding)
            z = self.node("Add", z, self.weight(bias.reshape(-1, 1, 1)))
        h = self.active(z, (units, 1, 1))
        if units == shape[0] and value != "x" and self.likely(0.6):
            h = self.node("Add", value, h)
        return h, (units, *shape[1:])

    def flat(self, value: str, shape: tuple[int, ...]) -> tuple[str, tuple[int]]:
        if self.likely(0.4):
            return self.node("Flatten", self.node("GlobalAveragePool", value)), (shape[0],)
        if self.likely(0.5):
            return self.node("Flatten", value), (int(np.prod(shape)),)
        return self.node("Reshape", value, self.weight(np.array([0, -1]))), (int(np.prod(shape)),)

    def dense(self, value: str, shape: tuple[int, ...]) -> tuple[str, tuple[int]]:
        units = int(self.chance.choice([3, 5, min(shape[0], 6)]))
        w, b = self.normal(shape[0], units), self.bias(units)
        way = self.chance.integers(4)
        if way == 0:
            z = self.node("Gemm", value, self.weight(w.T.copy()), self.weight(b), transB=1)
        elif way == 1:
            z = self.node("Gemm", value, self.weight(w), self.weight(b[None]), alpha=0.5, beta=2.0)
        else:
            terms = self.node("MatMul", value, self.weight(w)), self.weight(b)
            z = self.node("Add", *(terms if way == 2 else terms[::-1]))
        h = self.active(z, (units,))
        return self.node("Add", h, value) if shape == (units,) and value != "x" and self.likely(0.6) else h, (units,)

    def active(self, z: str, shape: tuple[int, ...]) -> str:
        self.before.append(z)
        kind = str(self.chance.choice(["Relu", "Clip", "LeakyRelu", "PRelu", "Max", "Where"]))
        if kind == "Clip":
            return (
                self.node("Clip", z, min=0.0) if self.opset < 11 else self.node("Clip", z, self.weight(np.float32(0)))
            )
        if kind == "PRelu":
            return self.node("PRelu", z, self.weight(np.full(shape, 0.2, "f")))
        if kind == "Max":
            return self.node("Max", self.weight(np.zeros(1, "f")), z)
        if kind == "Where":
            zero = self.weight(np.float32(0))
            return self.node("Where", self.node("Greater", z, zero), z, zero)
        return self.node(kind, z)

    def model(self, *outputs: str):
        x = helper.make_tensor_value_info("x", TensorProto.FLOAT, ["n", *self.shape])
        y = helper.make_tensor_value_info(self.out, TensorProto.FLOAT, ["n", 2])
        more = [helper.make_empty_tensor_value_info(name) for name in outputs]
        graph = helper.make_graph(self.nodes, "g", [x], [y, *more], self.held)
        return helper.make_model(graph, opset_imports=[helper.make_opsetid("", self.opset)], ir_version=8)


SAME = ("SAME_UPPER", "SAME_LOWER")


@pytest.mark.parametrize("seed", range(30))
def test_units_are_those_of_onnxruntime(seed, tmp_path):
    made = Graph(seed)
    onnx.save(made.model(), str(tmp_path / "net.onnx"))
    session = onnxruntime.InferenceSession(made.model(*made.before).SerializeToString())
    before = session.run(made.before, {"x": made.x})
    network, x = from_onnx(tmp_path / "net.onnx"), torch.from_numpy(made.x)
    assert network.check([x]) < 1e-3
    found = alive.census(network, x)
    assert found.unseen == ()
    on = [np.moveaxis(z, 1, -1).reshape(-1, z.shape[1]) > 0 for z in before]
    wanted = [((~each.any(0)).nonzero()[0].tolist(), each.all(0).nonzero()[0].tolist()) for each in on]
    assert [(t["dead_units"], t["linear_units"]) for t in (layer.to_dict() for layer in found.layers)] == wanted
    dead = np.any([~(z > 0).reshape(POINTS, -1).any(1) for z in before], 0)
    assert found.points.dead == dead.sum()
