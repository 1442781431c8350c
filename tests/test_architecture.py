"""docs/architecture.md is true: its picture's flows run through the files it names, in the order it draws them."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("numba")  # the penalty's way through torch alone is another

DOCS = Path(__file__).parents[1] / "docs"
BOX = re.compile(r'x="(\d+)" y="(\d+)" class="t">(papers: )?([^<]+)')

# Prints the files of ours in the order in which a function of theirs is first called, what they import left out.
WALK = """
import sys
seen, importing = {}, [0]
def look(frame, event, arg):
    name = frame.f_code.co_filename
    if "importlib" in name:
        importing[0] += {"call": 1, "return": -1}.get(event, 0)
    if event == "call" and not importing[0] and frame.f_code.co_name[0] != "<":
        for package in ("/alive/", "/alive_papers/"):
            if "/src" + package in name:
                seen.setdefault(name.rpartition("/src" + package)[2], len(seen))
sys.setprofile(look)
"""
TRAIN = """
import alive, torch
from torch import nn
torch.manual_seed(0)
model = nn.Sequential(nn.Linear(2, 4), nn.ReLU(), nn.Linear(4, 3), nn.ReLU(), nn.Linear(3, 1))
keep = alive.Jumpstart(model)
(model(torch.randn(3, 2)).sum() + keep.penalty()).backward()
"""
COMMAND = """
import contextlib, io
sys.argv = ["alive", *{words}]
from alive import cli
with contextlib.redirect_stdout(io.StringIO()), contextlib.suppress(SystemExit):
    cli.main()
"""
PRINT = """
sys.setprofile(None)
print(*seen)
"""


def drawn(column: int) -> list[str]:
    """The boxes of a flow, from above; folders as they are written."""
    boxes = [(int(x), int(y), name) for x, y, _, name in BOX.findall((DOCS / "architecture.svg").read_text())]
    left = sorted({x for x, _, _ in boxes})[column]
    return [name for _, y, name in sorted(boxes, key=lambda box: box[1]) if _ == left]


def walk(code: str, folder: Path) -> list[str]:
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", WALK + code + PRINT],
        cwd=folder,
        capture_output=True,
        text=True,
        check=True,
    )
    return done.stdout.splitlines()[-1].split()


FLOWS = {
    0: TRAIN,
    1: COMMAND.format(words=["census", "50x4", "--json"]),
    2: COMMAND.format(words=["reproduce", "001-Fig1", "--depth", "10", "--width", "3", "--threads", "1"]),
}


@pytest.mark.parametrize("column", FLOWS)
def test_each_flow_goes_through_its_files_in_their_order(column, tmp_path):
    """Of a folder in the picture, any of its files."""
    called = walk(FLOWS[column], tmp_path)
    first = []
    for box in drawn(column):
        prefixes = tuple(part.strip() for part in box.split(","))
        found = [place for place, file in enumerate(called) if file.startswith(prefixes)]
        assert found, f"{box} is not on the way: {called}"
        first.append(found[0])
    assert first == sorted(first), [called[place] for place in first]
