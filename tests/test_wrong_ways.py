"""The ways to get it wrong: exit code 2, one line on stderr that names cause and cure, nothing on stdout."""

from __future__ import annotations

import json
import pickle
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest
import torch
from safetensors.torch import save_file
from torch import nn

MINE = """
import torch
from torch import nn

class Net(nn.Module):
    def __init__(self, width, depth=1, bias=True):
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(3, width, bias=bias), nn.ReLU())
    def forward(self, x): return self.layers(x)

class Two(nn.Module):
    def forward(self, left, right): return (left + right).relu()

class Masked(nn.Module):
    def forward(self, x, mask=None, scale=None): return x.relu()

class Words(nn.Module):
    def __init__(self):
        super().__init__()
        self.table = nn.Embedding(5, 3)
    def forward(self, ids): return self.table(ids).relu()

def make_model(): return Net(4)
def fails():
    raise KeyError("width")
def fails_deep(): return Net("four")
def no_model(): return {"a": 1}
def x(): return torch.ones(5, 3)
def empty(): return torch.ones(0, 3)
def none(): return None
def broken_stream():
    yield torch.ones(2, 3)
    raise OSError("the disk is gone")
def bad_items(): return [(torch.ones(3), 0), (torch.ones(4), 1)]
def needs_path(path): return path
def two_x(): return torch.ones(5, 3), torch.ones(4)
def three(): return [(torch.ones(5, 3), torch.ones(5, 3), torch.ones(5))]
def masks(): return torch.ones(5, 3), torch.ones(5, 3)
def names(): return {"left": torch.ones(5, 3), "rihgt": torch.ones(5, 3)}
def ragged(): return {"left": torch.ones(5, 3), "right": torch.ones(4, 3)}
def nested(): return {"train_data": {"x": torch.ones(5, 3)}}
def texts(): return [["a", "b"], ["c", "d"]]
def whole(): return torch.ones(5, 3, dtype=torch.long)
def doubles(): return torch.ones(5, 3, dtype=torch.double)
def halves(): return torch.ones(5, 2) / 2
def too_large():
    import numpy as np
    return np.full((5, 3), 1e300)
def run_badly(model, batch): return model(batch.nodes)
def bad_loss(output, targets): return output.mean() * (1 / 0)
number = 3
"""

SCRIPT = "import argparse\nparser = argparse.ArgumentParser()\nraise SystemExit(3)\n"


class Way(NamedTuple):
    """What is typed, what is said (cause and cure), and what must lie in the folder."""

    typed: list[str]
    said: list[str]
    write: Callable[[Path], Any] = lambda folder: None


def text(name: str, content: str) -> Callable[[Path], Any]:
    return lambda folder: (folder / name).write_text(content)


def parquet(**columns: Any) -> Callable[[Path], Any]:
    def write(folder: Path) -> None:
        import pyarrow
        import pyarrow.parquet

        pyarrow.parquet.write_table(pyarrow.table(columns), folder / "d.parquet")

    return write


def configured(name: str, content: str) -> Callable[[Path], Any]:
    """A folder of transformers with this configuration."""

    def write(folder: Path) -> None:
        (folder / name).mkdir()
        (folder / name / "config.json").write_text(content)

    return write


def weights(state: Any) -> Callable[[Path], Any]:
    return lambda folder: torch.save(state, folder / "w.pt")


NET = ["MINE:make_model", "--data"]
STATE = {"layers.0.weight": torch.ones(4, 3), "layers.0.bias": torch.ones(4)}

WAYS = {
    # models
    "no data": Way(["OTHER:make_model"], ["OTHER:make_model needs data", "Add --data"]),
    "no such module": Way(["mien:make_model"], ["cannot import 'mien'", "Run from the folder that holds it"]),
    "near module": Way(["MINEE:make_model"], ["cannot import", "did you mean 'MINE'"]),
    "no such name": Way(["MINE:make_modle"], ["unknown name in MINE", "did you mean 'make_model'"]),
    "no such file": Way(["MINEE.py:make_model"], ["there is no file MINEE.py", "did you mean 'MINE.py'"]),
    "a module alone": Way(["MINE"], ["MINE is a module, not a model", "Write MINE:make_model"]),
    "a name alone": Way(
        ["make_modest"],
        ["is a name in modest.py", "did you mean 'modest:make_modest'?"],
        text("modest.py", "def make_modest(): ...\n"),
    ),
    "weights alone": Way(["sd.pt"], ["sd.pt holds weights", "mine:make_model --weights sd.pt"]),
    "a file alone": Way(["MINE.py"], ["MINE.py is a module, not a model", "Write MINE.py:make_model"]),
    "a notebook": Way(["a.ipynb:make_model"], ["is a notebook", "jupyter nbconvert --to script a.ipynb"]),
    "a syntax error": Way(
        ["bad.py:make_model"], ["SyntaxError", "bad.py, line 2", "Correct that"], text("bad.py", "x = 1\ndef (:\n")
    ),
    "an import that fails": Way(
        ["bad:make_model"],
        ["importing 'bad' failed with ModuleNotFoundError", "no_such_thing", "bad.py, line 2"],
        text("bad.py", "x = 1\nimport no_such_thing\n"),
    ),
    "a script that ends": Way(
        ["script:make_model"], ["importing 'script' ended the program", "__main__"], text("script.py", SCRIPT)
    ),
    "a function that fails": Way([*NET[:0], "MINE:fails", "--data", "MINE:x"], ["KeyError: 'width'", "MINE.py, line"]),
    "a class that fails": Way(
        ["MINE:fails_deep", "--data", "MINE:x"], ["TypeError", "MINE.py, line 8", "Correct that"]
    ),
    "no model": Way(["MINE:no_model", "--data", "MINE:x"], ["gave a dict, not a torch.nn.Module", "return the model"]),
    "no function": Way(["MINE:number", "--data", "MINE:x"], ["is a int, not a torch.nn.Module", "Name a model"]),
    "lacking arguments": Way(["MINE:Net", "--data", "MINE:x"], ["it needs width", "Add --arg width=..."]),
    "wrong argument": Way(
        ["MINE:Net", "--arg", "width=3", "--arg", "dept=2", "--data", "MINE:x"],
        ["no argument 'dept'", "did you mean 'depth'"],
    ),
    "half an argument": Way(
        ["MINE:Net", "--arg", "width", "--data", "MINE:x"], ["cannot read --arg", "--arg width=64"]
    ),
    "an argument twice": Way(["MINE:Net", "--arg", "width=3", "--arg", "width=4"], ["given twice", "Give it once"]),
    "an argument that is no bool": Way(
        ["MINE:Net", "--arg", "width=3", "--arg", "bias=false"], ["would be text", "Write bias=False"]
    ),
    "arguments of a plain network": Way(["5x4", "--arg", "width=3"], ["--arg is for models of your own", "--init"]),
    "a model by the name of a hub": Way(["hf:bert-base-uncased"], ["there is no folder", "nothing is downloaded"]),
    "a folder without configuration": Way(
        ["hf:empty"], ["holds no config.json", "save_pretrained"], lambda f: (f / "empty").mkdir()
    ),
    "a folder of code": Way(
        ["hf:code", "--data", "MINE:x"],
        ["has no model Evil", "is not run"],
        configured("code", '{"model_type": "bert", "architectures": ["Evil"]}'),
    ),
    "weights of another framework": Way(
        ["hf:tf", "--data", "MINE:x"],
        ["tf holds tf_model.h5", "Save it from a model of torch"],
        lambda f: (configured("tf", '{"model_type": "bert"}')(f), (f / "tf" / "tf_model.h5").touch()),
    ),
    "a damaged folder": Way(
        ["hf:bad", "--data", "MINE:x"],
        ["transformers cannot load bad", "save_pretrained"],
        configured("bad", "{"),
    ),
    # weights
    "no weights": Way([*NET, "MINE:x", "--weights", "w.pt"], ["there is no file", "Correct the path"]),
    "a pickled model": Way(
        [*NET, "MINE:x", "--weights", "w.pt"], ["can run code", "Save model.state_dict()"], weights(nn.Linear(2, 2))
    ),
    "weights of another": Way(
        [*NET, "MINE:x", "--weights", "w.pt"],
        ["1 missing: layers.0.bias", "1 unexpected: strange", "Build the network as it was"],
        weights({"layers.0.weight": torch.ones(4, 3), "strange": torch.ones(1)}),
    ),
    "weights of another size": Way(
        [*NET, "MINE:x", "--weights", "w.pt"],
        ["1 different: layers.0.weight (float32[5, 3], model float32[4, 3])"],
        weights(STATE | {"layers.0.weight": torch.ones(5, 3)}),
    ),
    "weights that are none": Way(
        [*NET, "MINE:x", "--weights", "w.pt"], ["holds epoch, and no weights"], weights({"epoch": 3})
    ),
    # data of the user's own
    "data that fail": Way([*NET, "MINE:fails"], ["calling MINE:fails failed with KeyError", "MINE.py, line"]),
    "no data at all": Way([*NET, "MINE:none"], ["gave a NoneType, not data", "Let it return"]),
    "a number": Way([*NET, "MINE:number"], ["gave a int, not data", "Let it return"]),
    "data that need arguments": Way([*NET, "MINE:needs_path"], ["it needs path", "Wrap it in a function"]),
    "no points": Way([*NET, "MINE:empty"], ["the data has no batch", "at least one point"]),
    "a stream that breaks": Way(
        [*NET, "MINE:broken_stream"], ["reading batch 1 of the data failed with OSError", "MINE.py, line"]
    ),
    "items of many shapes": Way([*NET, "MINE:bad_items"], ["cannot be put together", "collate_fn"]),
    "too few targets": Way([*NET, "MINE:two_x"], ["5 inputs [5, 3] and targets [4]", "Give as many of each"]),
    "one input for two": Way(
        ["MINE:Two", "--data", "MINE:x"], ["forward", "missing 1 required positional argument: 'right'"]
    ),
    "three parts": Way(["MINE:Masked", "--data", "MINE:three"], ["not clear which of the 3 parts", "Give mappings"]),
    "targets that may be a mask": Way(
        ["MINE:Masked", "--data", "MINE:masks"], ["not clear which of the 2 parts", "--forward"]
    ),
    "a wrong name": Way(["MINE:Two", "--data", "MINE:names"], ["needs right", "did you mean 'right'"]),
    "parts of different lengths": Way(["MINE:Two", "--data", "MINE:ragged"], ["left 5, right 4", "one row a point"]),
    "a mapping of mappings": Way([*NET, "MINE:nested"], ["'train_data' is a dict", "choose a part"]),
    "texts": Way([*NET, "MINE:texts"], ["holds no tensor", "--forward mine:run"]),
    "whole numbers": Way([*NET, "MINE:whole"], ["could not run on batch 0", "The inputs are int64", "x.float()"]),
    "doubles": Way([*NET, "MINE:doubles"], ["could not run on batch 0", "float64", "x.to(torch.float32)"]),
    "floats as token ids": Way(["MINE:Words", "--data", "MINE:halves"], ["could not run", "whole numbers, x.long()"]),
    "too large": Way([*NET, "MINE:too_large"], ["too large for float32", "Scale them"]),
    "wrong shape": Way([*NET, "MINE:halves"], ["inputs [5, 2]", "Check the shapes"]),
    "a call that fails": Way(
        [*NET, "MINE:x", "--forward", "MINE:run_badly"], ["no attribute 'nodes'", "MINE.py, line"]
    ),
    "a call that is none": Way([*NET, "MINE:x", "--forward", "MINE:number"], ["is a int, not a function", "mine:run"]),
    "an axis": Way([*NET, "MINE:x", "--point-axis", "first"], ["whole number or none", "--point-axis 1"]),
    "no test points": Way([*NET, "MINE:x", "--split", "test"], ["has no test points", "--split train"]),
    "batches of batches": Way(
        [*NET, "MINE:three", "--batch-size", "3"], ["come in batches already", "Leave the batch size out"]
    ),
    "a loss of no name": Way([*NET, "MINE:x", "--loss", "mes"], ["unknown loss 'mes'", "did you mean 'mse'"]),
    "a loss that fails": Way(
        [*NET, "MINE:x", "--loss", "MINE:bad_loss"], ["calling the loss failed with ZeroDivisionError", "MINE.py, line"]
    ),
    "no targets for a loss": Way([*NET, "MINE:x", "--loss", "ce"], ["no targets for the loss", "(inputs, targets)"]),
    "a loss that needs arguments": Way([*NET, "MINE:x", "--loss", "MINE:Net"], ["it needs width", "Wrap it"]),
    # files
    "no file": Way([*NET, "d.npy"], ["there is no file d.npy"]),
    "an unknown ending": Way([*NET, "d.txt"], ["cannot read data from 'd.txt'", "ending in .npz"], text("d.txt", "1")),
    "an unknown name": Way([*NET, "mnits"], ["unknown data 'mnits'", "did you mean 'mnist'"]),
    "a damaged archive": Way([*NET, "d.npz"], ["cannot read d.npz", "Write it again"], text("d.npz", "noise")),
    "an empty file": Way([*NET, "d.npy"], ["cannot read d.npy", "Write it again"], text("d.npy", "")),
    "a pickled array": Way(
        [*NET, "d.npy"],
        ["pickled objects", "Write it again"],
        lambda f: np.save(f / "d.npy", np.array([{}, {}]), allow_pickle=True),
    ),
    "a pickle": Way(
        [*NET, "d.pt"],
        ["was not written by torch.save", "Save tensors alone"],
        lambda f: (f / "d.pt").write_bytes(pickle.dumps(Path("x"))),
    ),
    "a pickled data set": Way(
        [*NET, "d.pt"],
        ["holds a pickled", "can run code", "torch.save({'x': x, 'y': y}, path)"],
        lambda f: torch.save(torch.utils.data.TensorDataset(torch.ones(3)), f / "d.pt"),
    ),
    "an array of texts": Way(
        [*NET, "d.npz"], ["which are not numbers"], lambda f: np.savez(f / "d.npz", x=np.array(["a"]))
    ),
    "a wrong array": Way(
        [*NET, "d.npz"],
        ["holds train_x, train_yy", "did you mean 'train_y'"],
        lambda f: np.savez(f / "d.npz", train_x=[[1.0] * 3], train_yy=[0]),
    ),
    "arrays of different lengths": Way(
        ["MINE:Two", "--data", "d.safetensors"],
        ["left 2, right 3"],
        lambda f: save_file({"left": torch.ones(2, 3), "right": torch.ones(3, 3)}, f / "d.safetensors"),
    ),
    "an empty table": Way([*NET, "d.csv"], ["d.csv is empty", "at least one point"], text("d.csv", "")),
    "names alone": Way([*NET, "d.csv"], ["holds no row of numbers"], text("d.csv", "a,b,c\n")),
    "a column of text": Way(
        [*NET, "d.csv"],
        ["column b", "holds 'two'", "line 3", "leave the column out"],
        text("d.csv", "a,b,c\n1,2,3\n1,two,3\n"),
    ),
    "an empty cell": Way([*NET, "d.csv"], ["column b", "empty cell in line 2"], text("d.csv", "a,b,c\n1,,3\n")),
    "a ragged table": Way(
        [*NET, "d.csv"], ["different numbers of columns at line 3"], text("d.csv", "a,b,c\n1,2,3\n1,2\n")
    ),
    "no such column": Way(
        [*NET, "d.csv", "--target", "lable"],
        ["no column 'lable'", "did you mean 'label'"],
        text("d.csv", "a,label\n1,2\n"),
    ),
    "two targets": Way([*NET, "d.csv"], ["columns y, label", "--target NAME"], text("d.csv", "a,y,label\n1,2,3\n")),
    "no table": Way(
        [*NET, "d.npy", "--target", "y"], ["names a column of a table"], lambda f: np.save(f / "d.npy", np.ones((2, 3)))
    ),
    "bytes as text": Way(
        [*NET, "d.csv"], ["cannot read d.csv"], lambda f: (f / "d.csv").write_bytes(b"\xff\xfe\x00" * 9)
    ),
    "a damaged parquet": Way(
        [*NET, "d.parquet"], ["cannot read d.parquet", "Write it again"], text("d.parquet", "noise")
    ),
    "text in parquet": Way([*NET, "d.parquet"], ["column a", "holds string"], parquet(a=["x", "y"])),
    "lists of different lengths": Way([*NET, "d.parquet"], ["different lengths", "Pad them"], parquet(a=[[1], [1, 2]])),
    "nothing in a cell": Way([*NET, "d.parquet"], ["1 empty cell", "Fill them"], parquet(a=[1.0, None])),
    "NaN": Way([*NET, "d.csv"], ["1 NaN or infinite value", "Clean the data"], text("d.csv", "a,b,c\n1,nan,3\n")),
}


@pytest.mark.parametrize("way", WAYS.values(), ids=WAYS.keys())
def test_one_line_names_cause_and_cure(way, alive, tmp_path, request):
    mine = f"mine{abs(hash(request.node.nodeid))}"
    other = f"other{abs(hash(request.node.nodeid))}"
    (tmp_path / f"{mine}.py").write_text(MINE)
    (tmp_path / f"{other}.py").write_text("from torch import nn\ndef make_model(): return nn.Linear(3, 2)\n")
    way.write(tmp_path)
    for name in ("bad", "script"):
        sys.modules.pop(name, None)

    def here(text: str) -> str:
        return text.replace("MINE", mine).replace("OTHER", other)

    code, out, err = alive("census", *map(here, way.typed))
    assert (code, out) == (2, ""), err
    assert len(err.strip().splitlines()) == 1, err
    for words in way.said:
        assert here(words) in err
    assert "Traceback" not in err


def test_the_whole_way_to_an_error_is_shown_on_request(alive, tmp_path):
    (tmp_path / "traced_mine.py").write_text(MINE)
    code, out, err = alive("census", "traced_mine:fails", "--data", "traced_mine:x", "--traceback")
    assert (code, out) == (2, "")
    assert "Traceback" in err
    assert 'raise KeyError("width")' in err
    assert err.strip().splitlines()[-1].startswith("alive: calling traced_mine:fails failed with KeyError")


def test_nothing_in_a_file_is_run(alive, tmp_path):
    class Bomb:
        def __reduce__(self) -> tuple[Any, ...]:
            return Path.touch, (tmp_path / "exploded",)

    (tmp_path / "mine_bomb.py").write_text(MINE)
    torch.save({"x": Bomb()}, tmp_path / "d.pt")
    (tmp_path / "raw.pt").write_bytes(pickle.dumps(Bomb()))
    np.save(tmp_path / "d.npy", np.array([Bomb()], dtype=object), allow_pickle=True)
    for typed in (
        ["--data", "d.pt"],
        ["--data", "raw.pt"],
        ["--data", "d.npy"],
        ["--data", "mine_bomb:x", "--weights", "d.pt"],
    ):
        assert alive("census", "mine_bomb:make_model", *typed)[0] == 2
    assert not (tmp_path / "exploded").exists()


def plain(name: str, width: int) -> str:
    return (
        "import torch\nfrom torch import nn\n"
        f"def make_model(): return nn.Sequential(nn.Linear(3, {width}), nn.ReLU())\n"
        "def make_data(): return torch.ones(5, 3)\n"
    )


@pytest.mark.parametrize("name", ["test", "random", "types", "torch", "numpy", "mine"])
def test_the_module_that_lies_here_is_meant(tmp_path, name):
    """Whatever is installed or loaded under that name."""
    (tmp_path / f"{name}.py").write_text(plain(name, 7))
    start = "import sys; sys.path[:0] = []; from alive.cli import main; main()"
    command = [sys.executable, "-P", "-c", start, "census", f"{name}:make_model", "--json"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert sum(json.loads(done.stdout)["units"].values()) == 7


def test_a_module_of_another_folder_under_the_same_name(alive, tmp_path, monkeypatch):
    for width in (3, 5):
        folder = tmp_path / f"folder{width}"
        folder.mkdir()
        (folder / "same_name.py").write_text(plain("same_name", width))
        monkeypatch.chdir(folder)
        code, out, err = alive("census", "same_name:make_model", "--json")
        assert code == 0, err
        assert sum(json.loads(out)["units"].values()) == width
