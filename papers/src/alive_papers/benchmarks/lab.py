"""What the page of the lab takes: an epoch of the papers' network in node, and a frame in Chromium while it trains."""

from __future__ import annotations

import re
import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

from .. import lab
from ..lab.browser import CHROMIUM, Browser
from .figure import Figure

EPOCH = 5.0  # milliseconds: 200 epochs a second
FRAME = 1000 / 30
SECONDS = 5

TRAIN = """
{engine}
for (const method of ["none", "sep-up"]) {{
  const settings = {{ ...lab.DEFAULTS, method }};
  const run = new lab.Run(settings, lab.load(settings));
  let best = Infinity;
  for (let round = 0; round < {rounds} + 2; round++) {{
    const begun = performance.now();
    for (let k = 0; k < 100; k++) run.step();
    best = Math.min(best, performance.now() - begun);
  }}
  console.log(method, best / 100);
}}
"""
COUNT = """(() => { globalThis.drawn = [];
  const count = new MutationObserver(() => drawn.push(performance.now()));
  count.observe(document.querySelector(".figures"), {childList: true});
  document.querySelector("#pace").value = "0";
  document.querySelector("#cure-sep-up").click(); document.querySelector("#play").click(); })()"""

NOW = """[performance.now(), drawn.length,
  +document.querySelector(".figures").textContent.match(/epoch ([0-9,]+)/)[1].replace(",", "")]"""


def figures(rounds: int) -> Iterator[Figure]:
    """Milliseconds an epoch of 50x4 on MOONS on one core; those of a frame and an epoch of the page that plays."""
    if shutil.which("node") is None:
        print("the lab's epochs are measured in node, and there is none")
    else:
        for method, taken in epochs(rounds):
            yield Figure(f"ms an epoch, 50x4 on MOONS, {method}, in node ({1000 / taken:.0f} a second)", taken, EPOCH)
    if CHROMIUM is None:
        print("the lab's frames are measured in Chromium, and there is none")
    else:
        frame, epoch = playing()
        yield Figure(f"ms a frame while it trains, in Chromium ({1000 / frame:.0f} a second)", frame, FRAME)
        yield Figure(f"ms an epoch while it draws, Sep-UP, in Chromium ({1000 / epoch:.0f} a second)", epoch, EPOCH)


def epochs(rounds: int) -> list[tuple[str, float]]:
    """The shortest time of an epoch by method, over rounds of a hundred."""
    engine = re.search(r'<script id="engine">(.*?)</script>', lab.page(), re.S)
    assert engine is not None
    with tempfile.TemporaryDirectory() as folder:
        script = Path(folder) / "train.cjs"
        script.write_text(TRAIN.format(engine=engine[1], rounds=rounds), encoding="utf-8")
        done = subprocess.run(["node", script], capture_output=True, text=True, check=True)
    return [(method, float(taken)) for method, taken in (line.split() for line in done.stdout.splitlines())]


def playing() -> tuple[float, float]:
    """Milliseconds from frame to frame and an epoch of the page while it trains 50x4: the best of some seconds."""
    with tempfile.TemporaryDirectory() as folder, Browser(Path(folder)) as browser:
        browser.size(1400, 1000)
        browser.open(lab.write(Path(folder) / "lab.html").as_uri())
        browser.until("!!document.querySelector('#census tbody')")
        browser.ask(COUNT)
        seen = []
        for _ in range(SECONDS + 1):
            time.sleep(1)
            seen.append(browser.ask(NOW))
    taken = [[after - before for before, after in zip(*pair, strict=True)] for pair in pairwise(seen)]
    frame, epoch = (min(each[0] / max(each[k], 1) for each in taken) for k in (1, 2))
    return frame, epoch
