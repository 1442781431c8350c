"""A small sound file of every format that alive opens, and the command that opens it."""

from __future__ import annotations

import csv
import gzip
import io
import json
import lzma
import sys
import tarfile
from collections.abc import Callable
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import asdict
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from safetensors.torch import save_file
from torch import nn

from alive.errors import AliveError
from alive.history import watch
from alive.nn import Rectangular
from alive.race.laps import Lap, Laps, Mark
from alive_papers.clinic import Trial

FILE, HERE = "FILE", "HERE"


class Sample(NamedTuple):
    """A file of one format: its ending, its bytes, and what opens it: a command, or a function where none does."""

    ending: str
    data: bytes
    opens: tuple[str, ...] | Callable[[Path], object]
    says: str = ""  # what a bomb must be answered with, as a pattern

    @property
    def is_bomb(self) -> bool:
        return bool(self.says)


def samples(folder: Path) -> dict[str, Sample]:
    """All of them, made anew in a folder; points.npy and rows.npz in it are what the commands read beside the file."""
    torch.manual_seed(0)
    x, y = torch.randn(12, 3), torch.arange(12) % 2
    np.save(folder / "points.npy", x.numpy())
    np.savez(folder / "rows.npz", x=x.numpy(), y=y.numpy())
    np.savez(folder / "ids.npz", input_ids=np.arange(12).reshape(3, 4) % 9)
    return {
        **_data(folder, x, y),
        **_weights(folder, x),
        **_programs(folder, x),
        **_records(folder, x),
        **_packages(),
    }


def _read(file: Path) -> bytes:
    return file.read_bytes()


def _data(folder: Path, x: torch.Tensor, y: torch.Tensor) -> dict[str, Sample]:
    import pyarrow as pa
    import pyarrow.parquet as pq

    opens = ("census", "3x4", "--data", FILE, "--json")
    both = {"x": x, "y": y}
    torch.save(both, folder / "new.pt")
    torch.save(both, folder / "old.pt", _use_new_zipfile_serialization=False)
    save_file(both, folder / "x.safetensors")
    with (folder / "x.csv").open("w", newline="") as file:
        csv.writer(file).writerows(
            [["a", "b", "c", "label"], *([*map(float, row), "uv"[k % 2]] for k, row in enumerate(x))]
        )
    columns = {name: x[:, k].numpy() for k, name in enumerate("abc")}
    pq.write_table(pa.table({**columns, "y": y.numpy()}), folder / "x.parquet")
    pq.write_table(pa.table({"x": list(x.numpy()), "y": pa.array(["u", "v"] * 6)}), folder / "lists.parquet")
    np.savez_compressed(folder / "packed.npz", x=x.numpy(), y=y.numpy())
    return {
        "npy": Sample(".npy", _read(folder / "points.npy"), opens),
        "npz": Sample(".npz", _read(folder / "rows.npz"), opens),
        "npz, packed": Sample(".npz", _read(folder / "packed.npz"), opens),
        "pt": Sample(".pt", _read(folder / "new.pt"), opens),
        "pt, old": Sample(".pt", _read(folder / "old.pt"), opens),
        "safetensors": Sample(".safetensors", _read(folder / "x.safetensors"), opens),
        "csv": Sample(".csv", _read(folder / "x.csv"), opens),
        "parquet": Sample(".parquet", _read(folder / "x.parquet"), opens),
        "parquet, lists": Sample(".parquet", _read(folder / "lists.parquet"), opens),
    }


def _weights(folder: Path, x: torch.Tensor) -> dict[str, Sample]:
    opens = ("census", "3x4", "--data", f"{HERE}/points.npy", "--weights", FILE)
    network = Rectangular(3, 1, depth=3, width=4)
    torch.save(network.state_dict(), folder / "state.pt")
    trains = ("train", "2x3", "--data", f"{HERE}/rows.npz", "--epochs", "2", "--checkpoint")
    file = folder / "run.safetensors"
    _command([*(word.replace(HERE, str(folder)) for word in trains), str(file)])
    _command(["shrink", "3x4", "--data", str(folder / "points.npy"), "--out", str(folder / "small.safetensors")])
    again = ("train", "2x3", "--data", f"{HERE}/rows.npz", "--epochs", "3", "--checkpoint", FILE, "--resume")
    return {
        "state dict": Sample(".pt", _read(folder / "state.pt"), opens),
        "checkpoint": Sample(".safetensors", _read(file), again),
        "checkpoint as weights": Sample(
            ".safetensors", _read(file), ("census", "2x3", "--data", f"{HERE}/rows.npz", "--weights", FILE)
        ),
        "shrunk weights": Sample(".safetensors", _read(folder / "small.safetensors"), opens),
    }


class Small(nn.Module):
    """Sizes, a buffer and a reshape, so that a program has something of every kind."""

    def __init__(self) -> None:
        super().__init__()
        self.line, self.last = nn.Linear(3, 4), nn.Linear(4, 2)
        self.register_buffer("scale", torch.ones(4))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.last(torch.relu(self.line(x) * self.scale).reshape(x.shape[0], 4))


def _programs(folder: Path, x: torch.Tensor) -> dict[str, Sample]:
    import onnx
    from onnx import TensorProto, helper, numpy_helper

    sizes = ({0: torch.export.Dim("n", min=2, max=99)},)
    torch.export.save(torch.export.export(Small().eval(), (x,), dynamic_shapes=sizes), folder / "net.pt2")
    held = {
        "w": x[:4].T.numpy(),
        "shape": np.array([-1, 4]),
        "far": np.array(5),
        "none": np.array(0),
        "one": np.array(1),
    }
    nodes = [
        helper.make_node("MatMul", ["x", "w"], ["a"]),
        helper.make_node("Relu", ["a"], ["b"]),
        helper.make_node("Reshape", ["b", "shape"], ["c"]),
        helper.make_node("Range", ["none", "far", "one"], ["d"]),
        helper.make_node("Cast", ["d"], ["e"], to=TensorProto.FLOAT),
        helper.make_node("ReduceSum", ["e"], ["f"], keepdims=0),
        helper.make_node("Add", ["c", "f"], ["y"]),
    ]
    ends = [helper.make_tensor_value_info(name, TensorProto.FLOAT, ["n", size]) for name, size in (("x", 3), ("y", 4))]
    weights = [numpy_helper.from_array(value, name) for name, value in held.items()]
    model = helper.make_model(
        helper.make_graph(nodes, "net", ends[:1], ends[1:], weights), opset_imports=[helper.make_opsetid("", 17)]
    )
    model.ir_version = 9
    onnx.save(model, folder / "net.onnx")
    opens = ("census", FILE, "--data", f"{HERE}/points.npy", "--json")
    return {
        "pt2": Sample(".pt2", _read(folder / "net.pt2"), opens),
        "onnx": Sample(".onnx", _read(folder / "net.onnx"), opens),
        "config of transformers": Sample(
            ".json", json.dumps(CONFIG).encode(), ("census", f"hf:{HERE}/hf", "--data", f"{HERE}/../ids.npz")
        ),
    }


CONFIG = {
    "model_type": "bert",
    "architectures": ["BertModel"],
    "vocab_size": 9,
    "hidden_size": 8,
    "num_hidden_layers": 1,
    "num_attention_heads": 2,
    "intermediate_size": 8,
    "max_position_embeddings": 8,
    "hidden_act": "relu",
}


def _records(folder: Path, x: torch.Tensor) -> dict[str, Sample]:
    network = Rectangular(3, 1, depth=3, width=4)
    for name in ("h.json", "h.json.gz"):
        look = watch(network, x, every=1, path=folder / name)
        for step in range(4):
            look(step, loss=0.5)
    trials = [Trial("zeros", "as it is", seed, 0.5, "a note") for seed in range(4)]
    marks = (Mark(0, None, 0.5, 0.1, 0.2), Mark(9, 0.3, 0.7, 0.1, 0.2))
    laps = [Lap("race", "as it is", seed, 9, marks, {"verdict": "well"}) for seed in range(4)]
    from alive_papers.run.store import Run, Store

    with Store(folder / "store.sqlite") as store:
        store.ask(Run("001-Fig1", "quick", "dense", 1))
        store._db.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    return {
        "history": Sample(".json", _read(folder / "h.json"), ("watch", FILE, "--html", "page.html")),
        "history, packed": Sample(".json.gz", _read(folder / "h.json.gz"), ("watch", FILE, "--json")),
        "trials": Sample(".jsonl", _lines(trials), ("clinic", "--rows", FILE, "--record", f"{HERE}/book.json")),
        "laps": Sample(".jsonl", _lines(laps), _laps),
        "store": Sample(".sqlite", _read(folder / "store.sqlite"), ("reproduce", "--store", FILE)),
    }


def _lines(records: list[Any]) -> bytes:
    return "".join(f"{json.dumps(asdict(record))}\n" for record in records).encode()


def _laps(file: Path) -> object:
    """What a race reads of earlier ones."""
    with Laps(file) as store:
        return store.all()


def _packages() -> dict[str, Sample]:
    opens = ("data", "get", "mnist", "--from", FILE, "--into", f"{HERE}/sets")
    whole, packed = _tar(zipped=False), _tar(zipped=True)
    members = {"debian-binary": b"2.0\n", "control.tar.xz": b"odd", "data.tar.xz": lzma.compress(packed)}
    deb = b"!<arch>\n" + b"".join(
        f"{name:<16}{0:<12}{0:<6}{0:<6}{100644:<8}{len(body):<10}`\n".encode() + body + b"\n" * (len(body) % 2)
        for name, body in members.items()
    )
    return {
        "tar": Sample(".tar", whole, opens),
        "tgz of gz": Sample(".tgz", gzip.compress(packed, mtime=0), opens),
        "deb of xz": Sample(".deb", deb, opens),
    }


def _tar(*, zipped: bool) -> bytes:
    made = io.BytesIO()
    with tarfile.open(fileobj=made, mode="w") as archive:
        for part, count in (("train", 20), ("t10k", 10)):
            for kind, sizes in (("images-idx3", (count, 28, 28)), ("labels-idx1", (count,))):
                header = bytes([0, 0, 8, len(sizes)]) + b"".join(size.to_bytes(4, "big") for size in sizes)
                body = header + bytes(int(np.prod(sizes)))
                body = gzip.compress(body, mtime=0) if zipped else body
                entry = tarfile.TarInfo(f"package/{part}-{kind}-ubyte{'.gz' * zipped}")
                entry.size = len(body)
                archive.addfile(entry, io.BytesIO(body))
    return made.getvalue()


def _command(words: list[str]) -> None:
    from alive import cli

    before, sys.argv = sys.argv, ["alive", *words]
    try:
        with redirect_stdout(io.StringIO()), redirect_stderr(io.StringIO()):
            cli.main()
    except SystemExit as stop:
        if stop.code not in (0, 1):
            raise AliveError(f"alive {' '.join(words)} failed") from None
    finally:
        sys.argv = before
