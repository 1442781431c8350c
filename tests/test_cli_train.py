"""`alive train` on every kind of labelled data, against a plain torch loop that starts from the same seed."""

import importlib.util
import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import load_file
from sklearn.metrics import r2_score
from torch.nn import functional as F

MINE = '''
import numpy as np
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

def dense(inputs=5, outputs=1):
    return nn.Sequential(nn.Linear(inputs, 8), nn.ReLU(), nn.Linear(8, outputs))

def three():
    return dense(outputs=3)

fixed = dense()

class Words(nn.Module):
    def __init__(self, outputs=2, pooled=True):
        super().__init__()
        self.embed, self.hidden, self.out = nn.Embedding(13, 6), nn.Linear(6, 9), nn.Linear(9, outputs)
        self.pooled = pooled
    def forward(self, ids):
        z = self.hidden(self.embed(ids)).relu()
        return self.out(z.mean(1) if self.pooled else z)

def language():
    return Words(13, pooled=False)

class Output:
    def __init__(self, logits):
        self.loss, self.logits = None, logits

class Masked(Words):
    """Reads a mapping and answers as transformers do."""
    def forward(self, input_ids, attention_mask=None, labels=None):
        z = self.hidden(self.embed(input_ids)).relu()
        kept = attention_mask[..., None].to(z.dtype)
        return Output(self.out((z * kept).sum(1) / kept.sum(1)))

class Pair(nn.Module):
    def __init__(self):
        super().__init__()
        self.net = dense()
    def forward(self, x):
        return self.net(x), self.net[0](x)

class Two(nn.Module):
    def __init__(self):
        super().__init__()
        self.a, self.b, self.out = nn.Linear(5, 6), nn.Linear(2, 6), nn.Linear(6, 1)
    def forward(self, a, b):
        return self.out((self.a(a) + self.b(b)).relu())

def loss(output, targets):
    return (output[:, 0] - targets).abs().mean()

huber = nn.HuberLoss()

def many(output, targets):
    return output - targets

def broken(output, targets):
    return output.nothing

def numpy_loss(output, targets):
    return float(np.abs(output.detach().numpy()[:, 0] - targets.numpy()).mean())

chance = np.random.default_rng(0)
x = chance.normal(size=(40, 5)).astype("float32")
y = x.sum(1) + chance.normal(size=40).astype("float32") / 9
x2 = chance.normal(size=(40, 2)).astype("float32")
ids = chance.integers(13, size=(40, 7))
mask = np.arange(7) < chance.integers(2, 8, size=(40, 1))

def loader():
    return DataLoader(TensorDataset(torch.tensor(x), torch.tensor(y)), batch_size=16)

def dataset():
    return TensorDataset(torch.tensor(x), torch.tensor(y))

def mapping():
    labels = torch.tensor(ids[:, 0] % 2)
    return {"input_ids": torch.tensor(ids), "attention_mask": torch.tensor(mask).long(), "labels": labels}

def inputs_of_two():
    return (torch.tensor(x), torch.tensor(x2)), torch.tensor(y)

def alone():
    return torch.tensor(x)

def nothing():
    return None
'''

SIZES = ("--epochs", 5, "--lr", 0.02, "--seed", 7, "--checkpoint", "run.safetensors", "--csv", "log.csv")


@pytest.fixture
def mine(tmp_path: Path):
    """The user's own module, written where the command runs, and files of its data."""
    (tmp_path / "mine.py").write_text(MINE)
    spec = importlib.util.spec_from_file_location("the_same", tmp_path / "mine.py")
    made = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(made)
    x, y, ids = made.x, made.y, made.ids
    three = np.stack([y, x[:, 0], x[:, 1] ** 2], 1)
    files = {
        "real": (x, y),
        "three": (x, three),
        "doubles": (x.astype("float64"), y.astype("float64")[:, None]),
        "whole": (x, np.round(y * 3) + 20),
        "labels": (x, (x[:, :3] > 0).astype("int64")),
        "classes": (x, (y > 0).astype("int64")),
        "words": (ids, ids[:, 0] % 2),
        "next": (ids[:, :-1], ids[:, 1:]),
        "integers": (np.round(x * 4).astype("int64"), y),
        "onehot": (x, np.eye(3, dtype="int64")[np.arange(40) % 3]),
        "constant": (x, np.full(40, 0.3, "float32")),
        "holes": (x, np.where(np.arange(40) == 3, np.nan, y)),
    }
    for name, (inputs, targets) in files.items():
        np.savez(tmp_path / f"{name}.npz", x=inputs, y=targets)
    np.savez(tmp_path / "alone.npz", x=x)
    lines = [",".join(map(str, [*row, price])) for row, price in zip(x.tolist(), y.tolist(), strict=True)]
    (tmp_path / "table.csv").write_text("a,b,c,d,e,price\n" + "\n".join(lines))
    return made


def t(values) -> torch.Tensor:
    return torch.as_tensor(np.asarray(values))


def error(out, y):
    return ((out.reshape(y.shape) - y) ** 2).mean()


def yes_or_no(out, y):
    return F.binary_cross_entropy(out.sigmoid(), y.float())


def words(out, y):
    return F.nll_loss(out.log_softmax(-1).flatten(0, -2), y.flatten())


KINDS = {
    # name: model, options, what makes the model, inputs, targets, loss, score
    "real": ("mine:dense", ["--data", "real.npz"], lambda m: m.dense(), lambda m: (m.x,), lambda m: m.y, error, "r2"),
    "three": (
        "mine:three",
        ["--data", "three.npz"],
        lambda m: m.three(),
        lambda m: (m.x,),
        lambda m: np.stack([m.y, m.x[:, 0], m.x[:, 1] ** 2], 1),
        error,
        "r2",
    ),
    "doubles": (
        "mine:dense",
        ["--data", "doubles.npz"],
        lambda m: m.dense(),
        lambda m: (m.x,),
        lambda m: m.y[:, None],
        error,
        "r2",
    ),
    "whole": (
        "mine:dense",
        ["--data", "whole.npz", "--loss", "mse"],
        lambda m: m.dense(),
        lambda m: (m.x,),
        lambda m: (np.round(m.y * 3) + 20).astype("float32"),
        error,
        "r2",
    ),
    "labels": (
        "mine:three",
        ["--data", "labels.npz"],
        lambda m: m.three(),
        lambda m: (m.x,),
        lambda m: (m.x[:, :3] > 0).astype("int64"),
        yes_or_no,
        "accuracy",
    ),
    "one logit": (
        "mine:dense",
        ["--data", "classes.npz", "--loss", "bce"],
        lambda m: m.dense(),
        lambda m: (m.x,),
        lambda m: (m.y > 0).astype("int64")[:, None],
        yes_or_no,
        "accuracy",
    ),
    "words": (
        "mine:Words",
        ["--data", "words.npz"],
        lambda m: m.Words(),
        lambda m: (m.ids,),
        lambda m: m.ids[:, 0] % 2,
        words,
        "accuracy",
    ),
    "next word": (
        "mine:language",
        ["--data", "next.npz"],
        lambda m: m.language(),
        lambda m: (m.ids[:, :-1],),
        lambda m: m.ids[:, 1:],
        words,
        "accuracy",
    ),
    "argument": (
        "mine:Words",
        ["--data", "words.npz", "--arg", "outputs=4"],
        lambda m: m.Words(4),
        lambda m: (m.ids,),
        lambda m: m.ids[:, 0] % 2,
        words,
        "accuracy",
    ),
    "loader": (
        "mine:dense",
        ["--data", "mine:loader"],
        lambda m: m.dense(),
        lambda m: (m.x,),
        lambda m: m.y,
        error,
        "r2",
    ),
    "dataset": (
        "mine:dense",
        ["--data", "mine:dataset"],
        lambda m: m.dense(),
        lambda m: (m.x,),
        lambda m: m.y,
        error,
        "r2",
    ),
    "two inputs": (
        "mine:Two",
        ["--data", "mine:inputs_of_two"],
        lambda m: m.Two(),
        lambda m: (m.x, m.x2),
        lambda m: m.y,
        error,
        "r2",
    ),
    "mapping": (
        "mine:Masked",
        ["--data", "mine:mapping"],
        lambda m: m.Masked(),
        lambda m: (m.ids, m.mask.astype("int64")),
        lambda m: m.ids[:, 0] % 2,
        lambda out, y: words(out.logits, y),
        "accuracy",
    ),
    "table": (
        "mine:dense",
        ["--data", "table.csv", "--target", "price"],
        lambda m: m.dense(),
        lambda m: (m.x,),
        lambda m: m.y,
        error,
        "r2",
    ),
    "integers": (
        "mine:dense",
        ["--data", "integers.npz"],
        lambda m: m.dense(),
        lambda m: (np.round(m.x * 4),),
        lambda m: m.y,
        error,
        "r2",
    ),
    "pair": (
        "mine:Pair",
        ["--data", "real.npz"],
        lambda m: m.Pair(),
        lambda m: (m.x,),
        lambda m: m.y,
        lambda out, y: error(out[0], y),
        "r2",
    ),
    "own": (
        "mine:dense",
        ["--data", "real.npz", "--loss", "mine:loss"],
        lambda m: m.dense(),
        lambda m: (m.x,),
        lambda m: m.y,
        lambda out, y: (out[:, 0] - y).abs().mean(),
        "loss",
    ),
    "a module": (
        "mine:three",
        ["--data", "three.npz", "--loss", "mine:huber"],
        lambda m: m.three(),
        lambda m: (m.x,),
        lambda m: np.stack([m.y, m.x[:, 0], m.x[:, 1] ** 2], 1),
        F.huber_loss,
        "loss",
    ),
    "a class": (
        "mine:three",
        ["--data", "three.npz", "--loss", "torch.nn:SmoothL1Loss"],
        lambda m: m.three(),
        lambda m: (m.x,),
        lambda m: np.stack([m.y, m.x[:, 0], m.x[:, 1] ** 2], 1),
        F.smooth_l1_loss,
        "loss",
    ),
}


@pytest.mark.twin
@pytest.mark.parametrize("kind", KINDS)
def test_training_equals_a_plain_loop(alive, mine, tmp_path: Path, kind: str) -> None:
    model, options, make, inputs, targets, loss, score = KINDS[kind]
    code, out, err = alive("train", model, *options, *SIZES)
    assert code == 0, err
    torch.manual_seed(7)
    net = make(mine)
    given, y = tuple(t(x) for x in inputs(mine)), t(targets(mine))
    steps = torch.optim.Adam(net.parameters(), lr=0.02, eps=1e-7)
    losses = []
    for _ in range(5):
        value = loss(net(*given), y)
        losses.append(value.item())
        steps.zero_grad()
        value.backward()
        steps.step()
    kept = load_file(tmp_path / "run.safetensors")
    for name, weight in net.state_dict().items():
        torch.testing.assert_close(kept[f"model/{name}"], weight, rtol=1e-4, atol=1e-5)
    header, *lines = (tmp_path / "log.csv").read_text().splitlines()
    assert header == f"epoch,loss,penalty,train_{score},test_{score}"
    assert [float(line.split(",")[1]) for line in lines] == pytest.approx(losses, rel=1e-4)
    told = float(lines[-1].split(",")[3])
    assert told == pytest.approx(graded(net.eval(), given, y, loss, score), abs=1e-4)
    word = {"r2": "R²", "accuracy": "accuracy", "loss": "loss"}[score]
    assert f"last  train {word} {told:.4f}" in out


@torch.no_grad()
def graded(net, given, y, loss, score: str) -> float:
    """The score, by sklearn and numpy."""
    out = net(*given)
    out = out[0] if isinstance(out, tuple) else getattr(out, "logits", out)
    if score == "loss":
        return loss(net(*given), y).item()
    if score == "r2":
        return float(r2_score(y.reshape(len(y), -1).double().numpy(), out.reshape(len(y), -1).double().numpy()))
    named = (out > 0).long() if out.shape == y.shape else out.argmax(-1)
    return float((named.numpy() == y.numpy()).mean())


def test_what_was_chosen_for_the_user_is_said(alive, mine) -> None:
    for model, data, says in [
        ("mine:dense", "real.npz", "the targets [40] are real numbers: loss mse, score R²"),
        ("mine:three", "labels.npz", "each point has [3] labels 0 or 1: loss bce"),
        ("mine:language", "next.npz", "each point has labels [6]: loss ce"),
        ("mine:Pair", "real.npz", "the model gives 2 tensors in a tuple; the first is trained"),
        ("mine:dense", "integers.npz", "the model reads the whole numbers of its inputs as floats"),
        ("mine:dense", "constant.npz", "constant, so that R² is undefined"),
    ]:
        code, _, err = alive("train", model, "--data", data, "--epochs", 1)
        assert code == 0, err
        assert says in err
    _, _, err = alive("train", "mine:dense", "--data", "classes.npz", "--epochs", 1)
    assert err == "", "labels of points are the usual case"


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["mine:dense", "--data", "alone.npz"], "no targets"),
        (["mine:dense", "--data", "mine:alone"], "no targets"),
        (["mine:dense", "--data", "mine:nothing"], "not data"),
        (["mine:dense"], "mine:dense needs data. Add --data"),
        (["mine:three", "--data", "real.npz"], "gave [40, 3] for targets [40]"),
        (["mine:dense", "--data", "three.npz"], "gave [40, 1] for targets [40, 3]"),
        (["mine:dense", "--data", "real.npz", "--loss", "ce"], "needs class numbers"),
        (["mine:dense", "--data", "classes.npz", "--loss", "ce"], "Use --loss bce"),
        (["mine:dense", "--data", "real.npz", "--loss", "bce"], "needs targets from 0 to 1"),
        (["mine:dense", "--data", "real.npz", "--loss", "mes"], "did you mean 'mse'"),
        (["mine:dense", "--data", "real.npz", "--loss", "mine:los"], "did you mean 'loss'"),
        (["mine:dense", "--data", "real.npz", "--loss", "mine:x"], "mine:x is a ndarray, not a function"),
        (["mine:dense", "--data", "real.npz", "--loss", "mine:many"], "not one number"),
        (["mine:dense", "--data", "real.npz", "--loss", "mine:numpy_loss"], "gave a float, not one number"),
        (["mine:dense", "--data", "real.npz", "--loss", "mine:broken"], "AttributeError"),
        (["mine:three", "--data", "onehot.npz"], "y.argmax(1)"),
        (["mine:dense", "--data", "holes.npz"], "1 of 40 numbers are NaN or infinite, the first at index [3]"),
        (["mine:Words", "--data", "real.npz"], "could not run on points [40, 5]"),
        (["5x4", "--data", "next.npz"], "the labels [40, 6] go up to 12, and the model gives [40, 13]"),
        (["5x4", "--data", "real.npz", "--batch-size", "41"], "larger than the 40"),
    ],
)
def test_wrong_ways_get_one_line(alive, mine, words: list[str], says: str) -> None:
    code, out, err = alive("train", *words, "--epochs", 1)
    assert (code, out) == (2, ""), err
    assert says in err
    assert len([line for line in err.splitlines() if not line.startswith("note: ")]) == 1


def test_make_data_beside_the_model_is_taken_and_said(alive, mine, tmp_path: Path) -> None:
    (tmp_path / "beside.py").write_text("from mine import dense, dataset as make_data\n")
    code, out, err = alive("train", "beside:dense", "--epochs", 1)
    assert code == 0, err
    assert "data: beside:make_data, which lies beside the model" in err
    assert "R²" in out


def test_a_plain_network_fits_any_table(alive, mine) -> None:
    for data, more in [("real.npz", []), ("three.npz", []), ("labels.npz", []), ("whole.npz", ["--loss", "mse"])]:
        code, out, err = alive("train", "3x8", "--data", data, *more, "--epochs", 60, "--init", "kaiming")
        assert code == 0, err
        assert "hidden.2" in out
    assert alive("train", "3x8", "--data", "integers.npz", "--epochs", 2)[0] == 0


def test_an_interrupted_regression_goes_on_to_the_bit(alive, mine, tmp_path: Path) -> None:
    run = ("train", "mine:dense", "--data", "real.npz", "--batch-size", 16, "--shuffle", "--jumpstart", "UP")
    assert alive(*run, "--epochs", 8, "--checkpoint", "whole.safetensors", "--csv", "whole.csv")[0] == 0
    assert alive(*run, "--epochs", 3, "--checkpoint", "part.safetensors", "--csv", "part.csv")[0] == 0
    assert alive(*run, "--epochs", 8, "--checkpoint", "part.safetensors", "--csv", "part.csv", "--resume")[0] == 0
    assert (tmp_path / "whole.csv").read_text() == (tmp_path / "part.csv").read_text()
    whole, part = (load_file(tmp_path / f"{name}.safetensors") for name in ("whole", "part"))
    assert all(torch.equal(value, part[name]) for name, value in whole.items())
    code, _, err = alive(*run, "--epochs", 9, "--checkpoint", "part.safetensors", "--resume", "--loss", "mine:loss")
    assert code == 2
    assert "loss was 'mse', asked 'mine:loss'" in err


@pytest.mark.slow
def test_a_model_of_transformers_trains(alive, tmp_path: Path) -> None:
    from transformers import BertConfig, BertForSequenceClassification

    sizes = {"hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 24}
    config = BertConfig(vocab_size=30, hidden_act="relu", num_labels=3, **sizes)
    BertForSequenceClassification(config).save_pretrained(tmp_path / "bert")
    ids = np.random.default_rng(0).integers(30, size=(24, 6))
    np.savez(tmp_path / "ids.npz", x=ids, y=ids[:, 1] % 3)
    (tmp_path / "mine.py").write_text(
        "import numpy as np, torch\n"
        "def make_data():\n"
        "    held = np.load('ids.npz')\n"
        "    x, y = torch.tensor(held['x']), torch.tensor(held['y'])\n"
        "    return {'input_ids': x, 'attention_mask': torch.ones_like(x), 'labels': y}\n"
    )
    for data in ("ids.npz", "mine:make_data"):
        code, out, err = alive("train", "hf:bert", "--data", data, "--epochs", 2, "--lr", 0.001)
        assert code == 0, err
        assert "train accuracy" in out
        assert "fresh start" not in err
    (tmp_path / "bert" / "model.safetensors").unlink()
    code, _, err = alive("train", "hf:bert", "--data", "ids.npz", "--epochs", 1)
    assert code == 0, err
    assert "note: hf:bert holds a configuration alone: its weights are a fresh start" in err


@pytest.mark.slow
def test_two_ranks_train_a_regression_as_one(mine, tmp_path: Path) -> None:
    arguments = ["-m", "alive", "train", "mine:three", "--data", "three.npz", "--epochs", "4", "--batch-size", "9"]
    logs = {}
    for name, launcher in {
        "one": [sys.executable],
        "two": [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2"],
    }.items():
        environment = os.environ | {"OMP_NUM_THREADS": "1", "GLOO_SOCKET_IFNAME": "lo"}
        done = subprocess.run(
            [*launcher, *arguments, "--csv", f"{name}.csv"],
            capture_output=True,
            text=True,
            timeout=300,
            env=environment,
            check=False,
            cwd=tmp_path,
        )
        assert done.returncode == 0, done.stderr
        assert done.stderr.count("real numbers") == 1, "one rank alone speaks"
        header, *lines = (tmp_path / f"{name}.csv").read_text().splitlines()
        assert header.endswith("train_r2,test_r2")
        logs[name] = [[float(value or 0) for value in line.split(",")] for line in lines]
    torch.testing.assert_close(torch.tensor(logs["two"]), torch.tensor(logs["one"]), rtol=1e-5, atol=1e-6)


def test_the_census_at_the_end_is_that_of_the_trained_network(alive, mine) -> None:
    code, out, err = alive("train", "mine:Words", "--data", "words.npz", *SIZES)
    assert code == 0, err
    code, told, err = alive("census", "mine:Words", "--data", "words.npz", "--weights", "run.safetensors", "--json")
    assert code == 0, err
    (layer,) = json.loads(told)["layers"]
    shown = next(line for line in out.splitlines() if "relu" in line)
    assert str(layer["units"]["nonlinear"]) in shown.split()


def test_a_penalty_that_drowns_the_task_is_said(alive) -> None:
    code, _, err = alive("train", "20x4", "--epochs", 60, "--jumpstart", "UP", "--weight", 1e5)
    assert code == 0
    assert "the penalty pulls" in err
    assert "drowns it" in err
    assert "Lower --weight, or leave --jumpstart out." in err
    code, _, err = alive("train", "3x8", "--epochs", 60, "--jumpstart", "UP", "--weight", 1e5)
    assert (code, err) == (0, ""), "what has learned is not drowned, however little the task pulls at its end"


def test_training_starts_from_weights(alive, mine, tmp_path: Path) -> None:
    torch.manual_seed(3)
    torch.save({"state_dict": mine.dense().state_dict()}, tmp_path / "start.pt")
    code, _, err = alive("train", "mine:dense", "--data", "real.npz", "--weights", "start.pt", *SIZES, "--lr", 1e-12)
    assert code == 0, err
    torch.manual_seed(3)
    kept = load_file(tmp_path / "run.safetensors")
    for name, weight in mine.dense().state_dict().items():
        torch.testing.assert_close(kept[f"model/{name}"], weight)


def test_the_output_layer_may_have_a_rate_of_its_own(alive, tmp_path: Path) -> None:
    def losses(*options: object) -> list[str]:
        code, _, err = alive("train", "3x4", "--epochs", 4, "--lr", 0.02, "--csv", "log.csv", *options)
        assert code == 0, err
        return (tmp_path / "log.csv").read_text().splitlines()

    assert losses() == losses("--output-lr", 0.02) != losses("--output-lr", 0.5)
    code, _, err = alive("train", "3x4", "--output-lr", 0)
    assert code == 2
    assert "output_lr must be finite and above 0, got 0.0" in err


SKIPS = """
import torch
from torch import nn

class Block(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.branch = nn.Sequential(nn.Linear(width, width), nn.ReLU(), nn.Linear(width, width))
    def forward(self, x):
        return torch.relu(x + self.branch(x))

def residual():
    return nn.Sequential(nn.Linear(2, 8), nn.ReLU(), Block(8), Block(8), nn.Linear(8, 1))
"""


@pytest.mark.parametrize(
    ("options", "says"),
    [
        (("--zero-start",), "best"),
        (("--jumpstart", "U", "--balance", 0.6, "--margin", 0.5, "--conv", "position"), "best"),
        (("--phase-out", 0.7), "best"),
        (("--farkas", "--phase-out", 0.7), "2.branch.2: converted"),
        (("--farkas", "--jumpstart", "UP"), "0: converted, unit"),
    ],
)
def test_the_papers_methods_train_a_network_of_ones_own(alive, tmp_path, monkeypatch, options, says):
    (tmp_path / "skips.py").write_text(SKIPS)
    monkeypatch.chdir(tmp_path)
    code, out, err = alive("train", "skips:residual", "--data", "moons", "--epochs", 5, *options)
    assert code == 0, err
    assert says in out + err


@pytest.mark.parametrize(
    ("options", "says"),
    [
        (("--balance", 0.6), "need a penalty: add --jumpstart UP"),
        (("--phase-out", 0.5, "--zero-start"), "leave --jumpstart and --zero-start out"),
        (("--phase-out", 1.5), "is a part of training"),
        (("--phase-out", 0.5), "has no skip connection"),
        (("--jumpstart", "U", "--conv", "chanel"), "channel"),
    ],
)
def test_methods_that_do_not_fit_are_refused(alive, options, says):
    code, _, err = alive("train", "3x4", "--epochs", 5, *options)
    assert code == 2
    assert says in err
