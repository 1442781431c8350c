"""`alive cure`: what it prints and writes, what it keeps, what it refuses."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from alive.race.laps import Lap, Laps

MINE = """
import torch
from torch import nn


def make_model(width=8):
    return nn.Sequential(nn.Linear(2, width), nn.ReLU(), nn.Linear(width, 8), nn.ReLU(), nn.Linear(8, 1))


def dead():
    model = make_model()
    nn.init.constant_(model[2].bias, -99.0)
    return model


model = make_model()


def make_data():
    x = torch.randn(80, 2)
    return x, (x[:, 0] > 0).long()


def loss(output, targets):
    return (output[:, 0] - targets).abs().mean()
"""
QUICK = ("--steps", 8, "--seeds", 1, "--cure", "mirrored", "--jobs", 1)


@pytest.fixture
def mine(alive):
    Path("mine.py").write_text(MINE)
    return lambda *words: alive("cure", *words)


def test_it_prints_a_table_a_verdict_and_the_lines(mine) -> None:
    words = ("mine:dead", "--steps", 60, "--seeds", 2, "--lr", 0.05, "--cure", "mirrored", "--html", "report.html")
    code, out, err = mine(*words)
    assert code == 0, err
    assert "mirrored trains it in 2 of 2 seeds" in " ".join(out.split())
    assert 'alive.nn.initialise_(model, "mirrored")' in out
    assert "held out" in err
    page = Path("report.html").read_text()
    assert "alive cure mine:dead" in page
    assert not re.search(r"(src|href)=|url\(|https?:", page)  # nothing is fetched from anywhere
    assert page.count("<polyline") == 2 * 4  # two cures, four charts
    assert mine(*words)[1] == out  # from the store


def test_json_is_json_alone(mine) -> None:
    code, out, _ = mine("mine:make_model", *QUICK, "--json", "--arg", "width=4", "--loss", "mine:loss")
    assert code == 0
    found = json.loads(out)
    assert found["measure"] == "loss"
    assert {arm["name"] for arm in found["arms"]} == {"as it is", "mirrored"}
    assert found["arms"][0]["runs"][0]["marks"][0]["step"] == 0


def test_networks_by_depth_and_width_are_raced_on_named_data(mine) -> None:
    code, out, err = mine("5x4", *QUICK)
    assert code == 0, err
    assert "5x4 on moons" in out


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("mine:model", *QUICK), "returns the same model each time"),
        (("mine:make_model", "--cure", "mirored"), "did you mean 'mirrored'"),
        (("mine:make_model", "--loss", "mes"), "did you mean 'mse'"),
        (("mine:make_model", "--store", "nowhere/runs"), "nowhere"),
        (("mine:make_model", "--html", "nowhere/page"), "nowhere"),
        (("mine:make_model", "--init", "torch"), "--init and --batch-norm are for"),
        (("mine:make_model", "--data", "mine:nothing"), "nothing"),
        (("5x4", "--arg", "a=1"), "--arg is for models of your own"),
        (("mine:make_model", "--steps", 0), "steps"),
    ],
)
def test_what_it_cannot_do_is_said_in_one_line(mine, words, said) -> None:
    code, _, err = mine(*words)
    assert code == 2
    assert said in err
    assert len([line for line in err.splitlines() if not line.startswith("note: ")]) == 1


def laps(path: Path) -> list[Lap]:
    if not path.exists():
        return []
    with Laps(path) as store:
        return store.all()


def test_ctrl_c_keeps_what_is_finished_and_leaves_no_process(tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text(MINE)
    words = ("cure", "mine:make_model", "--steps", "400", "--seeds", "2", "--jobs", "2")
    command = [sys.executable, "-m", "alive", *words]
    env = {**os.environ, "OMP_NUM_THREADS": "1"}
    store = tmp_path / "alive-cure.sqlite"
    running = subprocess.Popen(
        command,
        cwd=tmp_path,
        env=env,
        stderr=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    until = time.monotonic() + 120
    while not laps(store) and time.monotonic() < until:
        time.sleep(0.05)
    os.killpg(running.pid, signal.SIGINT)  # as a terminal sends it: to all of them
    _, err = running.communicate(timeout=60)
    assert running.returncode == 130, err
    assert "the same command goes on from there" in err
    assert "Traceback" not in err
    assert laps(store)
    with pytest.raises(ProcessLookupError):
        os.killpg(running.pid, 0)
