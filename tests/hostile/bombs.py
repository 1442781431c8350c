"""Small files that say, or open to, far more than they are: each must be refused in one line, or take little."""

from __future__ import annotations

import gzip
import io
import json
import lzma
import struct
import tarfile
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import torch
from samples import CONFIG, FILE, HERE, Sample
from torch import nn

from alive_papers.sets.catalogue import MNIST

ZEROS = 12 * 10**7  # bytes that are packed into little
MANY = 10**9


def bombs(folder: Path) -> dict[str, Sample]:
    """All of them; they are made without ever holding what they open to."""
    data = ("census", "3x4", "--data", FILE)
    found = {
        **{f"npy: {name}": Sample(".npy", held, data) for name, held in _npy().items()},
        **{f"npz: {name}": Sample(".npz", held, data) for name, held in _npz().items()},
        **{f"pt: {name}": Sample(".pt", held, data) for name, held in _pt().items()},
        "safetensors: without numbers": Sample(".safetensors", _safetensors(), data),
        **{f"parquet: {name}": Sample(".parquet", held, data) for name, held in _parquet().items()},
        "csv: one long label": Sample(".csv", b"a,y\n1," + b"z" * 100_000 + b"\n" + b"1,b\n" * 100_000, data),
        **{f"history: {name}": Sample(".json", held, ("watch", FILE)) for name, held in _histories().items()},
        **_packages(),
        **_onnx(),
        **_programs(folder),
        **_weights(),
        **{
            f"config: {name}": Sample(
                ".json",
                json.dumps(CONFIG | said).encode(),
                ("census", f"hf:{HERE}/hf", "--data", f"{HERE}/../ids.npz"),
            )
            for name, said in LARGE.items()
        },
        "history: without an end": Sample(".json", b"", ("watch", "/dev/zero")),
    }
    return {name: sample._replace(says=SAYS.get(name, "opens to")) for name, sample in found.items()}


# What is said of those that are refused for another reason than their size, or opened.
SAYS = {
    "npy: negative": "negative size",
    "npz: said to be small": "cannot read",
    "parquet: one long text": "note: column y",
    "csv: one long label": "note: column label|note: column y",
    "history: deep": "recursion",
    "history: a long number": "digits",
    "deb: a size below zero": "negative size",
    "shrunk: a large layer": "not of the size",
    "config: a large vocabulary": "takes 320",
    "config: many layers": "at most 10,000",
}


LARGE = {"a large vocabulary": {"vocab_size": 10**10}, "many layers": {"num_hidden_layers": MANY}}


def _header(shape: tuple[int, ...]) -> bytes:
    made = io.BytesIO()
    np.lib.format.write_array_header_1_0(made, {"shape": shape, "fortran_order": False, "descr": "<f8"})
    return made.getvalue()


def _npy() -> dict[str, bytes]:
    shapes = {"without numbers": (MANY, 0), "large": (MANY, 10), "negative": (-1, 3), "product": (2**33, 2**33)}
    return {name: _header(shape) for name, shape in shapes.items()}


def _packed(name: str, head: bytes, tail: bytes = b"", times: int = ZEROS) -> bytes:
    made = io.BytesIO()
    with zipfile.ZipFile(made, "w", zipfile.ZIP_DEFLATED, compresslevel=9) as archive, archive.open(name, "w") as entry:
        entry.write(head)
        for _ in range(times // 2**20 + 1):
            entry.write(bytes(2**20))
        entry.write(tail)
    return made.getvalue()


def _npz() -> dict[str, bytes]:
    packed = _packed("x.npy", _header((ZEROS // 8 // 3, 3)))
    size = struct.pack("<I", 2**20 * (ZEROS // 2**20 + 1) + len(_header((ZEROS // 8 // 3, 3))))
    said_to_be_small = _packed("x.npy", _header((100, 3)))
    return {"packed": packed, "said to be small": said_to_be_small.replace(size, struct.pack("<I", 2528))}


def _pt() -> dict[str, bytes]:
    one = torch.zeros(1)
    laughs: Any = [1] * 10
    for _ in range(12):
        laughs = [laughs] * 10
    held = {
        "an expanded view": {"x": one.expand(MANY, 3), "y": one.expand(MANY)},
        "many views": [one.expand(10**7) for _ in range(99)],
        "sparse": torch.sparse_coo_tensor(torch.zeros(2, 1).long(), one, (MANY, MANY), check_invariants=True),
        "without numbers": {"x": torch.zeros(MANY, 0)},
        "lists in lists": laughs,
    }
    found = {}
    for name, value in held.items():
        made = io.BytesIO()
        torch.save(value, made)
        found[name] = made.getvalue()
    made = io.BytesIO()
    torch.save({"x": torch.zeros(ZEROS // 4 // 3, 3)}, made)
    with zipfile.ZipFile(made) as old, zipfile.ZipFile(packed := io.BytesIO(), "w", zipfile.ZIP_DEFLATED) as new:
        for entry in old.namelist():
            new.writestr(entry, old.read(entry))
    return found | {"packed": packed.getvalue()}


def _safetensors() -> bytes:
    header = json.dumps({"x": {"dtype": "F32", "shape": [MANY, 0], "data_offsets": [0, 0]}}).encode()
    return struct.pack("<Q", len(header)) + header


def _parquet() -> dict[str, bytes]:
    import pyarrow as pa
    import pyarrow.parquet as pq

    rows, equal, lists = 2 * 10**6, io.BytesIO(), io.BytesIO()
    table = pa.table({name: pa.array(np.zeros(rows)) for name in "abc"})
    with pq.ParquetWriter(equal, table.schema) as writer:
        for _ in range(10):
            writer.write_table(table)
    pq.write_table(pa.table({"x": [np.zeros(10**7, dtype=np.float32)]}), lists)
    words = pa.DictionaryArray.from_arrays(pa.array(np.zeros(3000, dtype=np.int32)), pa.array(["x" * 10**6]))
    pq.write_table(pa.table({"a": np.zeros(3000), "y": words}), text := io.BytesIO(), store_schema=False)
    return {"equal rows": equal.getvalue(), "one long list": lists.getvalue(), "one long text": text.getvalue()}


def _histories() -> dict[str, bytes]:
    def moment(units: str) -> dict[str, Any]:
        return {"step": 1, "points": [0] * 5, "layers": {"a": [units, 0, None, None]}, "numbers": {}}

    said = {"format": "alive watch 1", "version": "0", "layers": [{"name": "a", "label": "a", "where": ""}]}
    one = json.dumps(said | {"moments": [moment("9999999999d")]})
    many = json.dumps(said | {"moments": [moment("9999999d" * 3) for _ in range(30)]})
    packed = gzip.compress(b'{"format":"alive watch 1","layers":[' + b"[]," * (ZEROS // 3) + b"1]}")
    return {
        "a long run": one.encode(),
        "many runs": many.encode(),
        "packed": packed,
        "deep": b"[" * 10**6,
        "a long number": json.dumps(said).encode()[:-1] + b',"moments":[' + b"9" * 10**6 + b"]}",
    }


def _packages() -> dict[str, Sample]:
    opens = ("data", "get", "mnist", "--from", FILE, "--into", f"{HERE}/sets")
    name = "package/train-images-idx3-ubyte"
    plain, sparse = tarfile.TarInfo(name), tarfile.TarInfo(name)
    plain.size = ZEROS
    sparse.type, sparse.size = tarfile.GNUTYPE_SPARSE, 512
    block = bytearray(sparse.tobuf(tarfile.GNU_FORMAT))
    block[386:410] = b"%011o\0%011o\0" % (0, 512)
    block[483:495] = b"%011o\0" % (8 * 10**9)
    block[148:156] = b"%06o\0 " % (sum(block[:148]) + sum(block[156:512]) + 8 * 32)
    whole = plain.tobuf() + bytes(ZEROS) + bytes(1024)
    inner, small = gzip.compress(bytes(ZEROS)), b""
    for file in MNIST.train + MNIST.test:
        packed = tarfile.TarInfo(f"package/{file.name}.gz")
        packed.size = len(inner)
        small += packed.tobuf() + inner + bytes(-len(inner) % 512)
    negative = b"!<arch>\n" + f"{'x':<16}{0:<12}{0:<6}{0:<6}{100644:<8}{-60:<10}`\n".encode()
    return {
        "tgz: one large entry": Sample(".tgz", gzip.compress(whole), opens),
        "tar.xz: one large entry": Sample(".tar.xz", lzma.compress(whole, preset=0), opens),
        "tgz: gz inside": Sample(".tgz", gzip.compress(small + bytes(1024)), opens),
        "tar: a hole of 8 GB": Sample(".tar", bytes(block) + bytes(512 + 1024), opens),
        "deb: a size below zero": Sample(".deb", negative, opens),
    }


def _onnx() -> dict[str, Sample]:
    from onnx import TensorProto, helper, numpy_helper

    opens = ("census", FILE, "--data", f"{HERE}/points.npy")
    numbers = {"none": 0, "one": 1, "many": MANY, "shape": [MANY], "flat": [1, MANY], "column": [10**5, 1]}
    last = [("ReduceMax", ["big"], ["top"], {"keepdims": 0}), ("Add", ["x", "top"], ["y"], {})]
    ways: dict[str, list[Any]] = {
        "Range": [("Range", ["none", "many", "one"], ["r"], {}), ("Cast", ["r"], ["big"], {"to": 1})],
        "ConstantOfShape": [("ConstantOfShape", ["shape"], ["big"], {})],
        "Expand": [("ReduceMax", ["x"], ["t"], {"keepdims": 0}), ("Expand", ["t", "shape"], ["e"], {}),
                   ("Relu", ["e"], ["big"], {})],
        "Pad": [("Pad", ["x", "pads"], ["big"], {})],
        "an outer product": [("ConstantOfShape", ["column"], ["c"], {}), ("Transpose", ["c"], ["t"], {}),
                             ("Add", ["c", "t"], ["big"], {})],
        "many of 50 MB": [("ConstantOfShape", ["some"], [f"c{k}"], {}) for k in range(40)]
        + [("Sum", [f"c{k}" for k in range(40)], ["big"], {})],
    }  # fmt: skip
    found = {}
    for name, nodes in ways.items():
        held = numbers | {"pads": [0, 0, 0, MANY], "some": [12_500_000]}
        used = {word for _, given, _, _ in nodes for word in given} & held.keys()
        graph = helper.make_graph(
            [helper.make_node(kind, given, made, **options) for kind, given, made, options in nodes + last],
            "net",
            [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["n", 3])],
            [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["n", 3])],
            [numpy_helper.from_array(np.array(held[word], dtype=np.int64), word) for word in sorted(used)],
        )
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)])
        model.ir_version = 9
        found[f"onnx: {name}"] = Sample(".onnx", model.SerializeToString(), opens)
    return found


class Zeros(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return (x + torch.zeros(MANY).max()).relu()


class Outer(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        long = torch.zeros(10**5)
        return (x + (long[:, None] + long).max()).relu()


def _programs(folder: Path) -> dict[str, Sample]:
    opens = ("census", FILE, "--data", f"{HERE}/points.npy")
    found = {}
    for kind in (Zeros, Outer):
        file = folder / f"{kind.__name__}.pt2"
        torch.export.save(torch.export.export(kind().eval(), (torch.ones(12, 3),)), file)
        found[f"pt2: {kind.__name__}"] = Sample(".pt2", file.read_bytes(), opens)
    return found


def _weights() -> dict[str, Sample]:
    layers = {"hidden.0.linear": ["Linear", {"in_features": 3, "out_features": MANY, "bias": True}]}
    header = json.dumps({"__metadata__": {"shrunk": json.dumps(layers)}}).encode()
    opens = ("census", "3x4", "--data", f"{HERE}/points.npy", "--weights", FILE)
    return {"shrunk: a large layer": Sample(".safetensors", struct.pack("<Q", len(header)) + header, opens)}
