"""What reaches the terminal: one line of an error, control characters shown, nothing native in JSON."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from io import StringIO

import numpy as np
import pytest
from rich.table import Table
from rich.text import Text

from alive.gate import short_of_memory
from alive.screen import LONGEST, Screen, in_a_line, shown

EVIL = "a\x1b[2J\x1b]0;mine\x07\x9b31mb\u202ec\ud800"


def test_control_characters_are_shown():
    assert shown(EVIL) == r"a\x1b[2J\x1b]0;mine\x07\u009b31mb\u202ec\ud800"
    assert shown("lines\n\tand tabs, äöü, → 中 🙂") == "lines\n\tand tabs, äöü, → 中 🙂"


@pytest.mark.parametrize("wrapped", [EVIL, Text(EVIL, style="red"), Table(EVIL, title=EVIL)])
def test_the_screen_sends_only_what_it_means(wrapped):
    said = StringIO()
    Screen(file=said, force_terminal=True, width=100).print(wrapped)
    left = re.sub(r"\x1b\[[0-9;]*m", "", said.getvalue())  # of rich, for styles
    assert not any((ord(c) < 32 and c != "\n") or 127 <= ord(c) < 160 or c in "\u202e\ud800" for c in left), left
    assert "x1b[2J" in left


def test_json_stays_json(capsys):
    from alive.cli.words import put

    put(json.dumps({"name": EVIL}, ensure_ascii=False))
    out = capsys.readouterr().out
    assert json.loads(out) == {"name": EVIL}
    assert out.rstrip("\n").isprintable()


def test_a_message_is_one_short_line():
    assert in_a_line("a\nb\r\n  c") == "a b c"
    assert in_a_line("x" * LONGEST) == "x" * LONGEST
    long = in_a_line("begin " + "x" * 5000 + " end.")
    assert len(long) <= LONGEST
    assert long.startswith("begin")
    assert long.endswith("end.")


@pytest.fixture
def evil(tmp_path):
    (tmp_path / "evil.py").write_text(
        "import ctypes\nimport os\nfrom torch import nn\nimport torch\n"
        "def make_model():\n"
        "    net = nn.Sequential(nn.Linear(3, 4), nn.ReLU())\n"
        "    net.add_module('\\x1b[2J\\ud800', nn.Sequential(nn.Linear(4, 4), nn.ReLU()))\n"
        "    os.write(1, b'native')\n"
        "    ctypes.CDLL(None).printf(b'buffered')\n"
        "    print('python')\n"
        "    return net\n"
        "def no_memory(): raise MemoryError\n"
        "def deep(): return deep()\n"
        "def allocator(): return torch.empty(2**60)\n"
    )
    np.save(tmp_path / "x.npy", np.random.default_rng(0).normal(size=(9, 3)).astype("float32"))
    return tmp_path


def run(folder, *words):
    command = [sys.executable, "-m", "alive", *words]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False, env=os.environ)


def test_names_of_modules_are_shown_and_nothing_prints_into_json(evil):
    told = run(evil, "census", "evil:make_model", "--data", "x.npy", "--json")
    assert told.returncode == 0, told.stderr
    json.loads(told.stdout)
    assert {"native", "buffered"} <= set(re.findall("native|buffered", told.stderr))
    told = run(evil, "census", "evil:make_model", "--data", "x.npy")
    assert told.returncode == 0, told.stderr
    assert "\x1b" not in told.stdout
    assert r"\x1b[2J" in told.stdout


@pytest.mark.parametrize("name", ["no_memory", "deep", "allocator"])
def test_what_is_too_much_is_one_line(evil, name, alive):
    code, out, err = alive("census", f"{evil}/evil.py:{name}", "--data", evil / "x.npy")
    assert (code, out) == (2, ""), err
    assert err.count("\n") == 1, err


@pytest.mark.parametrize(
    ("error", "word"),
    [
        (MemoryError(), "memory"),
        (np._core._exceptions._ArrayMemoryError((2**60,), np.dtype("f8")), "memory"),
        (RuntimeError("DefaultCPUAllocator: can't allocate memory: you tried to allocate 4000 bytes."), "memory"),
        (RecursionError("maximum recursion depth exceeded"), "nested"),
        (UnicodeEncodeError("utf-8", "\ud800", 0, 1, "surrogates not allowed"), "Unicode"),
        (OverflowError("cannot convert float infinity to integer"), "too large"),
        (KeyError("what\nis this"), "report"),
    ],
)
def test_whatever_nobody_foresaw_is_one_line(error, word, alive, monkeypatch):
    def fails(*_, **__):
        raise error

    monkeypatch.setattr("alive.history.History.read", fails)
    code, out, err = alive("watch", "x.json")
    assert (code, out) == (2, "")
    assert err.count("\n") == 1
    assert word in err
    assert len(err) <= LONGEST + 1
    assert short_of_memory(error) == (word == "memory")


def test_in_a_folder_that_cannot_be_written_cure_keeps_nothing(alive, tmp_path):
    np.savez(tmp_path / "rows.npz", x=np.random.default_rng(0).normal(size=(40, 3)), y=np.arange(40) % 2)
    from alive.cli.cure import STORE

    (tmp_path / STORE).mkdir()
    words = ("cure", "2x3", "--data", "rows.npz", "--steps", "4", "--seeds", "1", "--cure", "mirrored", "--jobs", "1")
    code, out, err = alive(*words)
    assert code == 0, err
    assert "finished runs are not kept" in err
    (tmp_path / "mine").mkdir()
    code, out, err = alive(*words, "--store", "mine")
    assert (code, out) == (2, "")
