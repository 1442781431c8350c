"""Every command of README and docs, typed by a new user in a folder that holds nothing but his own files."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from collections.abc import Callable
from operator import attrgetter
from pathlib import Path

import numpy as np
import pytest
from documents import Block, blocks_in

from alive.cli.sources import imports
from alive_papers.benchmarks import penalty
from alive_papers.experiments import EXPERIMENTS

ROOT = Path(__file__).parents[1]
ALIVE = Path(sys.executable).with_name("alive")
TARGETS = re.findall(r"^(\w+):", (ROOT / "Makefile").read_text(), re.M)
SHORT = {
    "train": ["--epochs", "2"],
    "bench": ["--rounds", "1"],
    "cure": ["--steps", "4", "--seeds", "1"],
    "preflight": ["--draws", "20"],
    "reproduce 004-Fig2": ["--width", "3"],
}  # what would take minutes is cut short
PLUGIN = "pip install examples/alive-plugin"
STUDIES = (
    "one-setting",
    "sae",
    "continual",
    "drift",
    "agents",
    "language",
    "lens",
    "codebook",
)  # they train for minutes; tested by their parts
BY_OTHERS = ("pip", "torchrun")  # set-up is tried by hand in a fresh clone, ranks in tests of their own
OF_THE_SHELL = "--show-completion"  # asks which shell it is typed in

MINE = """
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


def make_model():
    return nn.Sequential(nn.Linear(2, 4), nn.ReLU(), nn.Linear(4, 1))


def make_data():
    return torch.randn(20, 2), torch.arange(20) % 2


def step(model, batch):
    x, y = batch
    loss = (model(x)[:, 0] - y).square().mean()
    loss.backward()
    with torch.no_grad():
        for number in model.parameters():
            number -= 0.01 * number.grad
            number.grad = None


def make_loader():
    x = torch.randn(20, 2)
    return DataLoader(TensorDataset(x, x.sum(1)), batch_size=5)


def loss(output, targets):
    return (output[:, 0] - targets).abs().mean()
"""
TOKENS = """
import torch


def make_data():
    return {"input_ids": torch.randint(30, (40, 6)), "labels": torch.arange(40) % 2}
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """The files that the commands name."""
    from transformers import BertConfig, BertForSequenceClassification

    chance = np.random.default_rng(0)
    (tmp_path / "mine.py").write_text(MINE)
    np.savez(tmp_path / "data.npz", x=chance.normal(size=(40, 2)).astype("float32"), y=np.arange(40) % 2)
    np.savez(tmp_path / "counts.npz", x=chance.normal(size=(40, 2)), y=chance.integers(100, size=40))
    np.savez(tmp_path / "tokens.npz", input_ids=chance.integers(30, size=(12, 6)))
    (tmp_path / "points.svm").write_text("".join(f"{n % 2} 1:{n / 9:.3f} 2:{n % 3}\n" for n in range(20)))
    table = np.c_[chance.normal(size=(30, 2)), chance.normal(size=30)]
    for name in ("table.csv", "houses.csv"):
        np.savetxt(tmp_path / name, table, delimiter=",", header="rooms,area,price", comments="")
    config = BertConfig(
        vocab_size=30, hidden_size=8, num_hidden_layers=1, num_attention_heads=2, intermediate_size=16, num_labels=2
    )
    BertForSequenceClassification(config).save_pretrained(tmp_path / "folder")
    return tmp_path


@pytest.fixture
def answer(alive, monkeypatch, request) -> Callable[[list[str], bool], tuple[int, str, str]]:
    """What a command answers: in this process, or in a shell where it asks for that or for packages of its own."""
    monkeypatch.setenv("BROWSER", "true")  # which opens nothing
    monkeypatch.setattr(penalty, "SIZES", [size for size in penalty.SIZES if "30x16 at batch 64" in size.name])

    def run(words: list[str], plugged: bool) -> tuple[int, str, str]:
        if plugged or OF_THE_SHELL in words:
            done = typed(words, Path.cwd(), request.getfixturevalue("plug_in") if plugged else "")
            return done.returncode, done.stdout, done.stderr
        sys.modules.pop("mine", None)  # the file may have been written anew
        imports._module.cache_clear()
        return alive(*_cut_short(words))

    return run


@pytest.mark.filterwarnings("default")
@pytest.mark.parametrize("block", blocks_in("sh"), ids=attrgetter("name"))
def test_every_command_does_what_it_says(block: Block, folder: Path, answer) -> None:
    """The commands of a block are typed one after the other."""
    code = block.code
    for line in code.splitlines():
        words = shlex.split(line, comments=True)
        if words[:1] == ["make"]:
            assert words[1] in TARGETS
            continue
        if not words or words[0] in BY_OTHERS or "ray" in words:
            continue
        assert words[0] == "alive", line
        if words[1:3] == ["data", "get"] and "--from" in words:
            break  # it needs a file that is fetched before, and so does what follows
        if "--claim" in words:
            continue  # it needs MNIST
        if words[1] == "reproduce" and words[2:] and words[2] in STUDIES:
            assert_there_is(words[2:])
            break  # what follows reads what it would have stored
        if words[1:3] == ["train", "hf:folder"]:
            (folder / "mine.py").write_text(TOKENS)
        returned, out, err = answer(words[1:], PLUGIN in code)
        may_fail = words[1] in ("bench", "check-cure") or "--fail-on" in words  # which say by 1 that a limit holds
        assert returned == 0 or (may_fail and returned == 1), f"{line}\n{out}\n{err}"
        assert "Traceback" not in err, line
        for option, made in (("--html", "report.html"), ("--csv", "log.csv"), ("--checkpoint", "run.safetensors")):
            assert option not in words or (folder / made).stat().st_size > 0, line


def assert_there_is(words: list[str]) -> None:
    """The study that is to be reproduced, at the scale and with the seeds named; none of its networks is trained."""
    options = dict(zip(words[1::2], words[2::2], strict=True))
    assert options.keys() <= {"--seeds", "--scale"}
    study = EXPERIMENTS[words[0]]
    assert len(study.cells(options.get("--scale", "quick"), seeds=int(options["--seeds"]))) >= int(options["--seeds"])


def _cut_short(words: list[str]) -> list[str]:
    more = SHORT.get(" ".join(words[:2]), SHORT.get(words[0], []))
    return ["quick" if word == "paper" else word for word in words] + more


def typed(words: list[str], folder: Path, packages: Path | str) -> subprocess.CompletedProcess[str]:
    """Run a command in a shell, in a process of its own."""
    path = os.pathsep.join(filter(None, [str(packages), os.environ.get("PYTHONPATH", "")]))
    browser = {"BROWSER": "true"}  # which opens nothing
    environment = {**os.environ, **browser, "OMP_NUM_THREADS": "1", "PYTHONPATH": path}
    line = shlex.join([str(ALIVE), *_cut_short(words)])
    command = ["bash", "-c", f"{line}; exit $?"]
    return subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)
