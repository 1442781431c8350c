"""Models and data as people have them: the command line and the API both count what plain forward hooks count.

The brute force shares no code with alive: it runs the model by hand on what was drawn here, keeps what enters each
ReLU, and counts with numpy.
"""

from __future__ import annotations

import importlib.util
import json
import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import save_file
from torch import Tensor, nn
from torch.utils.data import DataLoader, IterableDataset, TensorDataset

from alive.diagnosis import census

SEED = 10  # of the command line

MODELS = """
import torch
from torch import nn

class Net(nn.Module):
    def __init__(self, width=6, features=3, out=1, dtype=torch.float32):
        super().__init__()
        self.a, self.b, self.out = nn.Linear(features, width), nn.Linear(width, width), nn.Linear(width, out)
        self.first, self.second = nn.ReLU(), nn.ReLU()
        with torch.no_grad():
            self.a.bias[0], self.a.bias[1], self.b.bias[0] = -99, 99, -99  # one dead, one linear, one dead
            self.b.bias[1:] -= 0.4
        self.to(dtype)

    def forward(self, x):
        return self.out(self.second(self.b(self.first(self.a(x)))))

class Auto(Net):
    def __init__(self):
        super().__init__(out=3)

class Wide(Net):
    def __init__(self):
        super().__init__(dtype=torch.float64)

class Conv(nn.Module):
    def __init__(self):
        super().__init__()
        self.a, self.b, self.first, self.second = nn.Conv2d(1, 4, 3), nn.Conv2d(4, 3, 3), nn.ReLU(), nn.ReLU()
        with torch.no_grad():
            self.a.bias[0], self.b.bias[0] = -99, 99

    def forward(self, x):
        return self.second(self.b(self.first(self.a(x)))).mean((2, 3))

class Words(nn.Module):
    def __init__(self):
        super().__init__()
        self.table, self.attention = nn.Embedding(50, 8), nn.MultiheadAttention(8, 2, batch_first=True)
        self.a, self.relu, self.out = nn.Linear(8, 6), nn.ReLU(), nn.Linear(6, 50)
        with torch.no_grad():
            self.a.bias[0], self.a.bias[2] = -99, 99

    def forward(self, ids):
        x = self.table(ids)
        x = x + self.attention(x, x, x, need_weights=False)[0]
        return self.out(self.relu(self.a(x)))

class Masked(Words):
    def forward(self, ids, mask):
        return self.out(self.relu(self.a(self.table(ids) * mask.unsqueeze(-1))))

class Two(nn.Module):
    def __init__(self):
        super().__init__()
        self.left, self.right, self.relu, self.out = nn.Linear(3, 5), nn.Linear(4, 5), nn.ReLU(), nn.Linear(5, 1)
        with torch.no_grad():
            self.left.bias[0], self.left.bias[1] = -99, 99

    def forward(self, left, right):
        return self.out(self.relu(self.left(left) + self.right(right)))

class Steps(nn.Module):
    def __init__(self):
        super().__init__()
        self.lstm, self.a, self.relu = nn.LSTM(3, 5), nn.Linear(5, 4), nn.ReLU()
        with torch.no_grad():
            self.a.bias[0], self.a.bias[1] = -99, 99

    def forward(self, x):  # [T, N, C]
        return self.relu(self.a(self.lstm(x)[0]))

class Graph(nn.Module):
    def __init__(self):
        super().__init__()
        self.a, self.relu, self.out = nn.Linear(3, 6), nn.ReLU(), nn.Linear(6, 2)
        with torch.no_grad():
            self.a.bias[0] = -99

    def forward(self, graph):
        x, (start, end) = graph["x"], graph["edges"]
        h = self.relu(self.a(x))
        return self.out(h + torch.zeros_like(h).index_add(0, end, h[start]))

def make_model(): return Net()
def run(model, batch): return model(batch)
"""


@dataclass(frozen=True)
class Pair:
    """A model and its data: as typed, as passed, and as run by hand."""

    model: str  # the class in MODELS
    typed: list[str]  # what follows `alive census`
    data: Callable[[Path], Any]  # for the API
    runs: Callable[[], list[Any]]  # the arguments of each call by hand
    write: Callable[[Path], None] = lambda folder: None
    source: str = ""  # what the user's module holds beside the models
    options: dict[str, Any] = field(default_factory=dict)
    unit_axis: int = -1
    point_axis: int = 0


def draw(*shape: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).normal(size=shape)


X, REAL, LABELS = draw(60, 3), draw(60, 3, seed=1), np.arange(60) % 3
A, B = draw(60, 3, seed=2), draw(60, 4, seed=3)
IDS = np.random.default_rng(4).integers(0, 50, size=(60, 7))
MASK = (np.arange(7) < 4 + np.arange(60)[:, None] % 4).astype(np.int64)
IMAGES = draw(60, 1, 8, 8, seed=5)
TIMES = draw(5, 60, 3, seed=6)
EDGES = np.random.default_rng(7).integers(0, 30, size=(2, 80))

f32 = torch.float32


def t(x: np.ndarray, dtype: torch.dtype = f32) -> Tensor:
    return torch.from_numpy(x).to(dtype)


def once(*args: Any) -> Callable[[], list[Any]]:
    """One call by hand on all of it."""
    return lambda: [args]


def csv(folder: Path, x: np.ndarray, header: str = "", y: Any = None, name: str = "data.csv") -> None:
    rows = [",".join(map(repr, row.tolist())) + ("" if y is None else f",{y[k]}") for k, row in enumerate(x)]
    (folder / name).write_text("\n".join([header, *rows] if header else rows) + "\n")


def parquet(folder: Path, **columns: Any) -> None:
    import pyarrow
    import pyarrow.parquet

    pyarrow.parquet.write_table(pyarrow.table(columns), folder / "data.parquet")


def hf(folder: Path, *, weights: bool) -> None:
    """A folder of a small BERT with ReLU, as save_pretrained leaves it."""
    from transformers import BertConfig, BertForSequenceClassification

    sizes: dict[str, Any] = {"hidden_size": 8, "intermediate_size": 12, "num_attention_heads": 2}
    config = BertConfig(vocab_size=50, num_hidden_layers=2, hidden_act="relu", max_position_embeddings=16, **sizes)
    config.architectures = ["BertForSequenceClassification"]
    if not weights:
        config.save_pretrained(folder / "bert")
        return
    torch.manual_seed(1)
    model = BertForSequenceClassification(config)
    with torch.no_grad():
        for layer in model.bert.encoder.layer:
            layer.intermediate.dense.bias[:2] = torch.tensor([-99.0, 99.0])
    model.save_pretrained(folder / "bert")


class Rows(IterableDataset):
    """Examples, one by one."""

    def __iter__(self) -> Any:
        return iter(zip(X.astype(np.float32), LABELS.tolist(), strict=True))


class Records:
    """A data set whose items are mappings of arrays of doubles."""

    def __len__(self) -> int:
        return len(X)

    def __getitem__(self, number: int) -> dict[str, Any]:
        if number >= len(X):
            raise IndexError
        return {"features": X[number], "label": int(LABELS[number])}


IN_PYTHON = "import numpy as np, torch\nfrom torch.utils.data import *\nx = np.load('x.npy'); y = np.arange(60) % 3\n"
SAVED: Callable[[Path], None] = lambda folder: np.save(folder / "x.npy", X)  # noqa: E731
MINE = ["MINE:make_model"]

PAIRS = {
    "mlp, npz x and y": Pair(
        "Net",
        [*MINE, "--data", "data.npz"],
        lambda _: (X, LABELS),
        once(t(X)),
        lambda f: np.savez(f / "data.npz", x=X, y=LABELS),
    ),
    "mlp, npz x alone": Pair(
        "Net", [*MINE, "--data", "data.npz"], lambda _: X, once(t(X)), lambda f: np.savez(f / "data.npz", x=X)
    ),
    "mlp, npz of real targets": Pair(
        "Net",
        [*MINE, "--data", "data.npz"],
        lambda _: (t(X), t(REAL)),
        once(t(X)),
        lambda f: np.savez(f / "data.npz", x=X, y=REAL),
    ),
    "mlp, npz as keras names it, test set": Pair(
        "Net",
        [*MINE, "--data", "data.npz", "--split", "test"],
        lambda _: t(X[40:]),
        once(t(X[40:])),
        lambda f: np.savez(f / "data.npz", x_train=X[:40], y_train=LABELS[:40], x_test=X[40:], y_test=LABELS[40:]),
    ),
    "mlp, npz without names": Pair(
        "Net",
        [*MINE, "--data", "data.npz"],
        lambda _: (X, LABELS),
        once(t(X)),
        lambda f: np.savez(f / "data.npz", X, LABELS),
    ),
    "mlp, npy": Pair("Net", [*MINE, "--data", "x.npy"], lambda f: str(f / "x.npy"), once(t(X)), SAVED),
    "mlp, csv with names and a column of classes": Pair(
        "Net",
        [*MINE, "--data", "data.csv", "--target", "species"],
        lambda _: X.tolist(),
        once(t(X)),
        lambda f: csv(f, X, "a,b,c,species", ["cat", "dog", "owl"] * 20),
    ),
    "mlp, csv with a column y": Pair(
        "Net",
        [*MINE, "--data", "data.csv"],
        lambda f: f / "data.csv",
        once(t(X)),
        lambda f: csv(f, X, "a,b,c,y", LABELS),
    ),
    "mlp, csv without names": Pair("Net", [*MINE, "--data", "data.csv"], lambda _: X, once(t(X)), lambda f: csv(f, X)),
    "tokens, csv": Pair(
        "Words",
        ["MINE:Words", "--data", "ids.csv"],
        lambda f: str(f / "ids.csv"),
        once(t(IDS, torch.long)),
        lambda f: csv(f, IDS, name="ids.csv"),
    ),
    "mlp, parquet": Pair(
        "Net",
        [*MINE, "--data", "data.parquet"],
        lambda f: str(f / "data.parquet"),
        once(t(X)),
        lambda f: parquet(f, a=X[:, 0], b=X[:, 1], c=X[:, 2], target=LABELS),
    ),
    "two inputs, parquet of lists": Pair(
        "Masked",
        ["MINE:Masked", "--data", "data.parquet"],
        lambda _: {"ids": IDS, "mask": MASK},
        once(t(IDS, torch.long), t(MASK, torch.long)),
        lambda f: parquet(f, ids=IDS.tolist(), mask=MASK.tolist(), label=LABELS),
    ),
    "mlp, pt pair": Pair(
        "Net",
        [*MINE, "--data", "data.pt"],
        lambda _: (t(X), t(LABELS)),
        once(t(X)),
        lambda f: torch.save((t(X), t(LABELS)), f / "data.pt"),
    ),
    "autoencoder, pt tensor": Pair(
        "Auto",
        ["MINE:Auto", "--data", "x.pt"],
        lambda f: str(f / "x.pt"),
        once(t(X)),
        lambda f: torch.save(torch.from_numpy(X), f / "x.pt"),
    ),
    "autoencoder, targets like the inputs": Pair(
        "Auto",
        ["MINE:Auto", "--data", "MINE:pairs"],
        lambda _: (t(X), t(X) + 1),
        once(t(X)),
        SAVED,
        IN_PYTHON + "pairs = [(torch.tensor(x).float(), torch.tensor(x).float() + 1)]\n",
    ),
    "mlp, safetensors": Pair(
        "Net",
        [*MINE, "--data", "data.safetensors"],
        lambda f: str(f / "data.safetensors"),
        once(t(X)),
        lambda f: save_file({"x": t(X), "y": t(LABELS, torch.long)}, f / "data.safetensors"),
    ),
    "doubles, npy": Pair("Wide", ["MINE:Wide", "--data", "x.npy"], lambda _: X, once(t(X, torch.float64)), SAVED),
    "convolution, DataLoader": Pair(
        "Conv",
        ["MINE:Conv", "--data", "MINE:make_loader"],
        lambda _: DataLoader(TensorDataset(t(IMAGES), t(LABELS)), batch_size=16, shuffle=True),
        once(t(IMAGES)),
        lambda f: np.save(f / "x.npy", IMAGES),
        IN_PYTHON + "x, y = torch.tensor(x).float(), torch.tensor(y)\n"
        "def make_loader(): return DataLoader(TensorDataset(x, y), 16)\n",
        unit_axis=1,
    ),
    "mlp, TensorDataset of real targets": Pair(
        "Net",
        [*MINE, "--data", "MINE:dataset"],
        lambda _: TensorDataset(t(X), t(REAL)),
        once(t(X)),
        SAVED,
        IN_PYTHON + "dataset = TensorDataset(torch.tensor(x).float(), torch.randn(60, 3))\n",
    ),
    "mlp, IterableDataset": Pair(
        "Net",
        [*MINE, "--data", "MINE:Rows"],
        lambda _: Rows(),
        once(t(X)),
        SAVED,
        IN_PYTHON + "class Rows(IterableDataset):\n    def __iter__(self): return iter(zip(x, y.tolist()))\n",
    ),
    "mlp, data set of mappings": Pair(
        "Net",
        [*MINE, "--data", "MINE:Records"],
        lambda _: Records(),
        once(t(X)),
        SAVED,
        IN_PYTHON
        + "class Records(Dataset):\n    def __len__(self): return 60\n"
        + "    def __getitem__(self, k): return {'features': x[k], 'label': int(y[k])}\n",
    ),
    "mlp, arrays": Pair(
        "Net",
        [*MINE, "--data", "MINE:make_data"],
        lambda _: (X, LABELS),
        once(t(X)),
        SAVED,
        IN_PYTHON + "def make_data(): return x, y\n",
    ),
    "mlp, make_data beside it": Pair(
        "Net", [*MINE], lambda _: X, once(t(X)), SAVED, IN_PYTHON + "def make_data(): return x\n"
    ),
    "mlp, list of tensors": Pair(
        "Net",
        [*MINE, "--data", "MINE:parts"],
        lambda _: [t(X[:25]), t(X[25:])],
        once(t(X)),
        SAVED,
        IN_PYTHON + "parts = list(torch.tensor(x).float().split(25))\n",
    ),
    "mlp, list of examples": Pair(
        "Net",
        [*MINE, "--data", "MINE:rows"],
        lambda _: list(zip(X, LABELS.tolist(), strict=True)),
        once(t(X)),
        SAVED,
        IN_PYTHON + "rows = list(zip(x, y.tolist()))\n",
    ),
    "mlp, generator of batches": Pair(
        "Net",
        [*MINE, "--data", "MINE:stream"],
        lambda _: (X[k : k + 7] for k in range(0, 60, 7)),
        once(t(X)),
        SAVED,
        IN_PYTHON + "def stream():\n    for k in range(0, 60, 7): yield x[k:k + 7], y[k:k + 7]\n",
    ),
    "tokens, npy of two bytes": Pair(
        "Words",
        ["MINE:Words", "--data", "ids.npy"],
        lambda _: t(IDS, torch.long),
        once(t(IDS, torch.long)),
        lambda f: np.save(f / "ids.npy", IDS.astype(np.uint16)),
    ),
    "two inputs, npz by name": Pair(
        "Two",
        ["MINE:Two", "--data", "data.npz"],
        lambda _: {"left": t(A), "right": t(B)},
        once(t(A), t(B)),
        lambda f: np.savez(f / "data.npz", right=B, left=A),
    ),
    "two inputs, nested": Pair(
        "Two",
        ["MINE:Two", "--data", "MINE:make_data"],
        lambda _: ((A, B), LABELS),
        once(t(A), t(B)),
        lambda f: np.savez(f / "both.npz", a=A, b=B),
        "import numpy as np\ndef make_data():\n    both = np.load('both.npz')\n"
        "    return (both['a'], both['b']), np.zeros(60)\n",
    ),
    "two inputs and targets, DataLoader": Pair(
        "Two",
        ["MINE:Two", "--data", "MINE:make_data"],
        lambda _: DataLoader(TensorDataset(t(A), t(B), t(LABELS)), batch_size=11),
        once(t(A), t(B)),
        lambda f: np.savez(f / "both.npz", a=A, b=B),
        "import numpy as np, torch\nfrom torch.utils.data import *\ndef make_data():\n    both = np.load('both.npz')\n"
        "    a, b = (torch.tensor(both[k]).float() for k in 'ab')\n"
        "    return DataLoader(TensorDataset(a, b, torch.zeros(60)), 11)\n",
    ),
    "recurrent, time first": Pair(
        "Steps",
        ["MINE:Steps", "--data", "x.npy", "--point-axis", "1", "--batch-size", "13"],
        lambda _: TIMES,
        once(t(TIMES)),
        lambda f: np.save(f / "x.npy", TIMES),
        options={"point_axis": 1},
        point_axis=1,
    ),
    "graph, its own call": Pair(
        "Graph",
        ["MINE:Graph", "--data", "MINE:graphs", "--forward", "MINE:run"],
        lambda _: [{"x": t(X[:30]), "edges": torch.from_numpy(EDGES)}],
        lambda: [({"x": t(X[:30]), "edges": torch.from_numpy(EDGES)},)],
        lambda f: np.savez(f / "graph.npz", x=X[:30], edges=EDGES),
        "import numpy as np, torch\ndef graphs():\n    g = np.load('graph.npz')\n"
        "    yield {'x': torch.tensor(g['x']).float(), 'edges': torch.tensor(g['edges'])}\n",
        options={"forward": lambda model, batch: model(batch)},
    ),
    "class with arguments": Pair(
        "Net(width=9, out=2)",
        ["MINE:Net", "--arg", "width=9", "--arg", "out=2", "--data", "x.npy"],
        lambda _: X,
        once(t(X)),
        SAVED,
    ),
    "an instance": Pair(
        "ready",
        ["MINE:ready", "--data", "x.npy"],
        lambda _: X,
        once(t(X)),
        SAVED,
        "torch.manual_seed(3)\nready = Net()\n",
    ),
}


def loaded(file: Path) -> Any:
    """The user's module, loaded by us without alive."""
    spec = importlib.util.spec_from_file_location(f"by_hand_{file.stem}", file)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def brute(model: nn.Module, runs: list[Any], unit_axis: int, point_axis: int) -> dict[str, Any]:
    """Units and points by state, from what enters each ReLU; numpy alone counts."""
    seen: dict[str, list[np.ndarray]] = {}
    relus = [(name, module) for name, module in model.named_modules() if isinstance(module, nn.ReLU)]

    def keep(name: str) -> Callable[..., None]:
        def hook(_: nn.Module, args: Any) -> None:
            z = np.moveaxis(args[0].numpy(), unit_axis, -1)
            z = np.moveaxis(z, point_axis if unit_axis != 1 else 0, 0)
            seen.setdefault(name, []).append(z.reshape(len(z), -1, z.shape[-1]).copy())  # [N, positions, C]

        return hook

    handles = [module.register_forward_pre_hook(keep(name)) for name, module in relus]
    model.eval()
    with torch.no_grad():
        for args in runs:
            keywords = args[-1] if isinstance(args[-1], dict) and "input_ids" in args[-1] else {}
            model(*(args[:-1] if keywords else args), **keywords)
    for handle in handles:
        handle.remove()
    layers = {name: np.concatenate(parts) for name, parts in seen.items()}
    dead = np.any([(z <= 0).all((1, 2)) for z in layers.values()], 0)
    linear = np.all([(z > 0).all((1, 2)) for z in layers.values()], 0)
    return {
        "dead_units": [np.nonzero((z <= 0).all((0, 1)))[0].tolist() for z in layers.values()],
        "linear_units": [np.nonzero((z > 0).all((0, 1)))[0].tolist() for z in layers.values()],
        "units": sum(z.shape[-1] for z in layers.values()),
        "points": (int(dead.sum()), int((linear & ~dead).sum()), int((~linear & ~dead).sum())),
        "points_by_layer": [(int((z <= 0).all((1, 2)).sum()), len(z)) for z in layers.values()],
    }


def told(found: dict[str, Any]) -> dict[str, Any]:
    """The same of a census in JSON; nothing may be unknown or broken."""
    points = found["points"]
    assert points["unknown"] == points["broken"] == found["units"]["unknown"] == found["units"]["broken"] == 0
    return {
        "dead_units": [layer["dead_units"] for layer in found["layers"]],
        "linear_units": [layer["linear_units"] for layer in found["layers"]],
        "units": sum(found["units"].values()),
        "points": (points["dead"], points["linear"], points["nonlinear"]),
        "points_by_layer": [(layer["points"]["dead"], sum(layer["points"].values())) for layer in found["layers"]],
    }


def unique(request: pytest.FixtureRequest) -> str:
    return f"pair_{abs(hash(request.node.nodeid))}"


@pytest.mark.twin
@pytest.mark.parametrize("pair", PAIRS.values(), ids=PAIRS.keys())
def test_command_line_and_api_count_what_hooks_count(pair, alive, tmp_path, request):
    mine = unique(request)
    (tmp_path / f"{mine}.py").write_text(MODELS + pair.source)
    pair.write(tmp_path)
    module = loaded(tmp_path / f"{mine}.py")
    torch.manual_seed(SEED)
    model = eval(pair.model if "(" in pair.model or pair.model == "ready" else f"{pair.model}()", vars(module))
    truth = brute(model, pair.runs(), pair.unit_axis, pair.point_axis)
    assert any(truth["dead_units"]), "a pair must have something to find"
    assert told(census(model, pair.data(tmp_path), **pair.options).to_dict()) == truth
    code, out, err = alive("census", *[word.replace("MINE", mine) for word in pair.typed], "--json")
    assert (code, err.replace("note:", "").startswith("alive:")) == (0, False), err
    assert told(json.loads(out)) == truth


@pytest.mark.parametrize("weights", [True, False], ids=["weights", "configuration alone"])
def test_a_folder_of_transformers_and_a_tokenised_set(alive, tmp_path, weights):
    from transformers import BatchEncoding, BertConfig, BertForSequenceClassification

    hf(tmp_path, weights=weights)
    np.savez(tmp_path / "tokens.npz", input_ids=IDS, attention_mask=MASK, labels=LABELS % 2)
    if weights:
        model = BertForSequenceClassification.from_pretrained(tmp_path / "bert")
    else:
        torch.manual_seed(SEED)
        model = BertForSequenceClassification(BertConfig.from_pretrained(tmp_path / "bert"))
    batch = {"input_ids": t(IDS, torch.long), "attention_mask": t(MASK, torch.long)}
    truth = brute(model, [(batch,)], -1, 0)
    assert told(census(model, BatchEncoding(batch)).to_dict()) == truth
    assert told(census(model, batch | {"labels": t(LABELS % 2, torch.long)}).to_dict()) == truth
    code, out, err = alive("census", f"hf:{tmp_path}/bert", "--data", "tokens.npz", "--json")
    assert code == 0, err
    assert told(json.loads(out)) == truth
    assert ("fresh start" in err) is not weights


def test_a_model_by_its_file_in_a_folder_of_odd_names_finds_its_neighbours(alive, tmp_path):
    folder = tmp_path / "my nets v1.2"
    folder.mkdir()
    (folder / "neighbour_of_nets.py").write_text("width = 7\n")
    (folder / "the-net.py").write_text(MODELS + "from neighbour_of_nets import width\ndef wide(): return Net(width)\n")
    np.save(tmp_path / "x.npy", X)
    code, out, err = alive("census", f"{folder}/the-net.py:wide", "--data", "x.npy", "--json")
    assert code == 0, err
    sys.path.insert(0, str(folder))
    torch.manual_seed(SEED)
    assert told(json.loads(out)) == brute(loaded(folder / "the-net.py").wide(), once(t(X))(), -1, 0)


def test_a_class_in_a_package_with_relative_imports(alive, tmp_path, request):
    package = tmp_path / unique(request)
    (package / "parts").mkdir(parents=True)
    (package / "__init__.py").write_text("")
    (package / "parts" / "__init__.py").write_text("")
    (package / "parts" / "nets.py").write_text(MODELS)
    (package / "parts" / "use.py").write_text(
        "from .nets import Net\nfrom ..size import width\ndef small(): return Net(width)\n"
    )
    (package / "size.py").write_text("width = 5\n")
    np.save(tmp_path / "x.npy", X)
    torch.manual_seed(SEED)
    truth = brute(loaded(package / "parts" / "nets.py").Net(5), once(t(X))(), -1, 0)
    for typed in (f"{package.name}.parts.use:small", f"{package.name}/parts/use.py:small"):
        code, out, err = alive("census", typed, "--data", "x.npy", "--json")
        assert code == 0, err
        assert told(json.loads(out)) == truth


def test_weights_of_a_wrapped_model(alive, tmp_path, request):
    mine = unique(request)
    (tmp_path / f"{mine}.py").write_text(MODELS)
    np.save(tmp_path / "x.npy", X)
    torch.manual_seed(77)
    model = loaded(tmp_path / f"{mine}.py").Net()
    state = {f"module._orig_mod.{name}": value for name, value in model.state_dict().items()}
    torch.save({"state_dict": state, "epoch": 3}, tmp_path / "weights.pt")
    code, out, err = alive("census", f"{mine}:Net", "--data", "x.npy", "--weights", "weights.pt", "--json")
    assert code == 0
    assert "taken out of 'state_dict', prefix 'module.' dropped, prefix '_orig_mod.' dropped" in err
    assert told(json.loads(out)) == brute(model, once(t(X))(), -1, 0)


def test_a_sample_is_drawn_from_the_whole_set_and_said(alive, tmp_path, request):
    mine = unique(request)
    (tmp_path / f"{mine}.py").write_text(
        MODELS + "def stream():\n    import numpy as np\n    yield from np.split(np.load('x.npy'), 6)\n"
    )
    np.save(tmp_path / "x.npy", X)
    typed = ("census", f"{mine}:Net", "--data", "x.npy", "--points", 25, "--json")
    code, out, err = alive(*typed, "--seed", 4)
    assert code == 0
    assert "25 of 60 points, drawn at random with seed 4" in err
    kept = torch.randperm(60, generator=torch.Generator().manual_seed(4))[:25].sort().values
    torch.manual_seed(4)
    truth = brute(loaded(tmp_path / f"{mine}.py").Net(), once(t(X)[kept])(), -1, 0)
    assert told(json.loads(out)) == truth
    assert alive(*typed, "--seed", 4)[1] == out
    code, out, err = alive("census", f"{mine}:Net", "--data", f"{mine}:stream", "--points", 25, "--json", "--seed", 4)
    assert "the first 25 points of the stream" in err
    torch.manual_seed(4)
    assert told(json.loads(out)) == brute(loaded(tmp_path / f"{mine}.py").Net(), once(t(X[:25]))(), -1, 0)
    code, _, err = alive("census", f"{mine}:Net", "--data", "x.npy", "--points", 60, "--json")
    assert (code, err) == (0, ""), "all points are no sample"
