"""What is typed for models and data: found where Python finds it, and collected for training."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

from alive.cli import sources
from alive.cli.own import Typed
from alive.cli.sources import imports
from alive.data import Data, moons, read
from alive.data.calls import tensors
from alive.data.memory import labelled
from alive.errors import AliveError

X, Y, REAL = torch.randn(30, 3), torch.arange(30) % 3, torch.randn(30, 2)
IDS, MASK = torch.randint(9, (30, 4)), torch.ones(30, 4, dtype=torch.long)


@pytest.fixture
def here(tmp_path, monkeypatch):
    """An empty folder one works in; modules loaded from it are forgotten."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    before = dict(sys.modules)
    yield tmp_path
    for name in set(sys.modules) - set(before):
        if str(getattr(sys.modules[name], "__file__", None) or "").startswith(str(tmp_path)):
            del sys.modules[name]


def put(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


@pytest.mark.parametrize(
    ("files", "typed"),
    [
        ({"where_a.py": "it = 1"}, "where_a:it"),
        ({"where_b/__init__.py": "it = 1"}, "where_b:it"),
        ({"where_c/__init__.py": "", "where_c/deep.py": "it = 1"}, "where_c.deep:it"),
        ({"where_d/deep.py": "it = 1"}, "where_d.deep:it"),
        ({"where_e/deep.py": "class It:\n    it = 1"}, "where_e/deep.py:It.it"),
        ({"test/deep.py": "it = 1"}, "test.deep:it"),
        ({"json/__init__.py": "", "json/deep.py": "from .near import it", "json/near.py": "it = 1"}, "json.deep:it"),
        ({"json.py": "it = 1"}, "json:it"),
        ({"alive.py": "it = 1"}, "alive:it"),
        ({"a b/c.d/2 e.py": "import near_by\nit = near_by.it", "a b/c.d/near_by.py": "it = 1"}, "a b/c.d/2 e.py:it"),
        ({"a:b.py": "it = 1"}, "a:b.py:it"),
        ({"itself.py": "import sys\nit = len(sys.argv)"}, "itself:it"),
    ],
)
def test_the_module_that_lies_here_is_found(here, files, typed, monkeypatch):
    monkeypatch.setattr(sys, "argv", ["alive", "census", "mine:make_model"])
    for name, text in files.items():
        put(here / name, text)
    assert sources.find(typed) == 1
    assert sources.find(typed) == 1, "and again"


def test_what_is_installed_is_found_too(here):
    assert sources.find("torch.nn:Linear") is nn.Linear


def test_a_maker_makes_anew_or_says_that_it_cannot(here):
    put(here / "made_here.py", "from torch import nn\ndef make(width=2): return nn.Linear(1, width)\nready = make()\n")
    make = sources.maker("made_here:make", ["width=3"])
    assert not make.fixed
    assert make() is not make()
    assert make().out_features == 3
    ready = sources.maker("made_here:ready")
    assert ready.fixed
    assert ready() is ready()


def test_the_module_is_looked_for_once(here):
    text = (
        "import torch\ndef make(width=2): return torch.nn.Linear(3, width)\ndef make_data(): return torch.ones(5, 3)\n"
    )
    put(here / "looked_for.py", text)
    imports._module.cache_clear()
    for typed in (Typed("looked_for:make"), Typed("looked_for:make", "looked_for:make_data", arg=["width=4"])):
        opened = sources.opened(typed)
        assert [len(batch) for batch in opened.batches(opened.model())] == [5]
        assert opened.make.line == "looked_for.py:2"
    assert imports._module.cache_info().misses == 1


def test_points_are_drawn_alike_for_every_model(here):
    text = "import torch\nfrom torch.nn import *\ndef wide(): return Sequential(Linear(3, 9), Linear(9, 1))\n"
    more = "def thin(): return Linear(3, 1)\ndef make_data():\n    for _ in range(3): yield torch.randn(4, 3)\n"
    put(here / "drawn_late.py", text + more)
    seen = []
    for name in ("wide", "thin"):
        opened = sources.opened(Typed(f"drawn_late:{name}"))
        seen.append(torch.cat(list(opened.batches(opened.model()))))
    assert torch.equal(*seen)


class Two(nn.Module):
    def forward(self, left: Any, right: Any) -> Any:
        return left


class Words(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.table = nn.Embedding(9, 2)

    def forward(self, input_ids: Any, attention_mask: Any = None, labels: Any = None) -> Any:
        return self.table(input_ids)


@pytest.mark.parametrize(
    ("given", "model", "inputs", "targets"),
    [
        ((X, Y), None, [X], Y),
        ((X.double().numpy(), Y.numpy()), None, [X], Y),
        ((X, REAL), None, [X], REAL),
        (DataLoader(TensorDataset(X, REAL), batch_size=7), None, [X], REAL),
        (TensorDataset(X, Y), None, [X], Y),
        ([(X[:9], Y[:9]), (X[9:], Y[9:])], None, [X], Y),
        ([(X[k], int(Y[k])) for k in range(30)], None, [X], Y),
        ({"pixels": X, "label": Y}, None, [X], Y),
        ((X, X + 1, Y), Two(), [X, X + 1], Y),
        ({"left": X, "right": X + 1, "y": REAL}, Two(), [X, X + 1], REAL),
        ({"input_ids": IDS, "attention_mask": MASK, "labels": Y}, Words(), [IDS, MASK], Y),
        ((IDS, Y), Words(), [IDS], Y),
    ],
)
def test_any_labelled_source_becomes_a_record(given, model, inputs, targets):
    found = labelled(given, model=model)
    assert isinstance(found, Data)
    for ours, theirs in zip((found.train_x, *found.train_more), inputs, strict=True):
        assert torch.equal(ours, theirs)
    assert torch.equal(found.train_y, targets)
    assert found.is_real is targets.is_floating_point()


def test_files_and_names_become_records(here):
    np.savez(here / "d.npz", x_train=X, y_train=Y, x_test=X[:3], y_test=Y[:3])
    found = labelled("d.npz")
    assert torch.equal(found.train_y, Y)
    assert torch.equal(found.test_x, X[:3])
    assert labelled("moons").name == "moons"
    np.save(here / "x.npy", X)
    with pytest.raises(AliveError, match="x has no targets to train on"):
        labelled("x.npy")


def test_whole_targets_are_real_where_that_is_asked_for():
    assert labelled((X, Y), real=True).is_real


def test_a_plain_network_needs_no_targets(here):
    np.save(here / "x.npy", X)
    opened = sources.opened(Typed("3x4", "x.npy"))
    assert opened.model()(X).shape == (30, 1)
    np.save(here / "bytes.npy", np.ones((5, 3), np.uint8))
    opened = sources.opened(Typed("3x4", "bytes.npy"))
    x, _ = next(iter(opened.batches(opened.model())))
    assert x.is_floating_point()


@pytest.mark.parametrize(
    ("text", "points"),
    [
        ("x.split(25)", 100),
        ("(x[:50], torch.zeros(50), x[50:], torch.zeros(50))", 50),
        ("(x[:50].numpy(), np.zeros(50), x[50:].numpy(), np.zeros(50))", 50),
        ("(x[:60], x[60:], x[:1], x[1:3])", 103),
    ],
)
def test_four_parts_are_batches_or_a_test_set(here, text, points):
    name = f"four_{abs(hash(text))}"
    put(here / f"{name}.py", f"import numpy as np, torch\nx = torch.randn(100, 3)\ndef make(): return {text}\n")
    found = sources.part(sources.data(f"{name}:make"))
    seen = [next(tensors(batch)) for batch in read(found, nn.Linear(3, 1))]
    assert sum(map(len, seen)) == points


def test_a_part_of_the_data():
    data = moons()
    for split, points in (("train", 85), ("test", 15), ("all", 100)):
        opened = sources.opened(Typed("2x4", "moons", split=split))
        found = opened.batches(opened.model())
        assert found.length == points
    seen = torch.cat([batch[0] for batch in found])
    assert torch.equal(seen, torch.cat([data.train_x, data.test_x]))
