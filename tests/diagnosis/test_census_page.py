"""The census page as a browser shows it: on a telephone and on a screen, nothing lies outside and nothing is cut."""

from __future__ import annotations

import html
import json
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

from alive.diagnosis import census
from alive.render import Origin, page

CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
WIDTHS = (400, 1300)
HEIGHT = 900
LOOK = """<script>
addEventListener("error", (e) => window.parent.postMessage({ error: e.message }, "*"), true);
addEventListener("load", () => {
  const faults = [], top = (e) => e.getBoundingClientRect().top;
  const first = [...document.querySelectorAll(".verdict, .sums b.dead")].map((e) => [e.textContent, top(e)]);
  document.querySelectorAll("details").forEach((e) => { e.open = true; });
  for (const e of document.querySelectorAll("body *:not(script):not(style)")) {
    const box = e.getBoundingClientRect(), style = getComputedStyle(e);
    if (!box.width || e.closest("thead") || e.closest("svg")) continue;
    const name = e.tagName + " " + e.textContent.trim().slice(0, 40);
    if (box.right > innerWidth + 1 || box.left < -1) faults.push("outside: " + name);
    if (style.display !== "inline" && e.clientWidth && e.scrollWidth > e.clientWidth + 1) faults.push("cut: " + name);
  }
  const rows = [...document.querySelectorAll("tbody tr")].map((e) => e.innerText.replace(/\\s+/g, " "));
  const lines = [...document.querySelectorAll("polyline")].map((e) => e.getBoundingClientRect().width);
  parent.postMessage({ width: innerWidth, faults, first, rows, lines }, "*");
});
</script>"""


def born_dead() -> nn.Module:
    """Twelve layers of which the eighth maps most points to zeros, with names too long for a telephone."""
    torch.manual_seed(0)
    parts: dict[str, nn.Module] = {}
    for n in range(12):
        parts[f"a_block_with_a_rather_long_name_{n}"] = nn.Linear(6, 6)
        parts[f"relu_{n}"] = nn.ReLU()
    with torch.no_grad():
        parts["a_block_with_a_rather_long_name_7"].bias.fill_(-0.9)  # type: ignore[union-attr, operator]
    model = nn.Sequential()
    for name, part in parts.items():
        model.add_module(name, part)
    return model


@pytest.fixture(scope="module")
def shown() -> tuple[Any, str]:
    found = census(born_dead(), 2 * torch.randn(300, 6), gradient=True)
    origin = Origin("alive census mine:make_model --data " + "a-folder-of-a-long-name/" * 8, "mine:make_model", "data")
    return found, page(found, "Census of mine:make_model on a-folder-of-a-long-name/" + "data" * 20, origin)


def look(text: str, folder: Path) -> dict[int, dict[str, Any]]:
    """What the page says of itself in frames of both widths."""
    (folder / "page.html").write_text(text.replace("</body>", f"{LOOK}</body>"))
    frames = "".join(
        f'<iframe src="page.html" style="width:{w}px;height:{HEIGHT}px;border:0"></iframe>' for w in WIDTHS
    )
    (folder / "frames.html").write_text(
        f"<!doctype html><body>{frames}<pre></pre><script>const all = []; addEventListener('message', (e) => "
        "{ all.push(e.data); document.querySelector('pre').textContent = JSON.stringify(all); });</script></body>"
    )
    options = "--headless --no-sandbox --disable-gpu --no-first-run --disable-dev-shm-usage --virtual-time-budget=9000"
    done = subprocess.run(
        [CHROMIUM, *options.split(), "--window-size=1400,1900", f"--user-data-dir={folder / 'profile'}", "--dump-dom",
         (folder / "frames.html").as_uri()],
        capture_output=True, text=True, timeout=150, check=True,
    )  # fmt: skip
    told = re.search(r"<pre>(.+)</pre>", done.stdout, re.S)
    assert told, f"the page said nothing: {done.stderr[-2000:]}"
    said = json.loads(html.unescape(told[1]))
    assert not [each for each in said if "error" in each]
    return {each["width"]: each for each in said}


@pytest.mark.skipif(CHROMIUM is None, reason="there is no chromium on the path; apt-get install chromium")
def test_at_both_widths_the_diagnosis_comes_first_and_nothing_is_cut(shown: tuple[Any, str], tmp_path: Path) -> None:
    found, text = shown
    seen = look(text, tmp_path)
    assert set(seen) == set(WIDTHS)
    assert found.points.dead, "the model is to have dead points"
    for width, one in seen.items():
        assert one["faults"] == [], width
        dead = [said for said, top in one["first"] if top < HEIGHT]
        assert f"{found.points.dead:,} dead" in dead, "dead points are seen without scrolling"
        assert one["first"][0][1] < HEIGHT / 4, "and the verdict before all else"
        assert len(one["lines"]) >= 4
        assert all(line > 100 for line in one["lines"])
        for layer in found.layers:
            (row,) = {row for row in one["rows"] if layer.label in row}
            assert layer.points.dead == 0 or f"{layer.points.dead} dead" in row


@pytest.mark.skipif(CHROMIUM is None, reason="there is no chromium on the path; apt-get install chromium")
def test_the_browser_sees_what_is_spoilt(shown: tuple[Any, str], tmp_path: Path) -> None:
    spoilt = (
        '<p style="width:3000px">wide</p><div style="width:50px;overflow:hidden;white-space:nowrap">a long line</div>'
    )
    seen = look(shown[1].replace("</body>", f"{spoilt}</body>"), tmp_path)
    assert [fault for fault in seen[400]["faults"] if fault.startswith(("outside: P wide", "cut: DIV a long"))]
