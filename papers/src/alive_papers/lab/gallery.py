"""Pictures of the presets, taken in a real browser: `alive lab --pictures docs` makes those of the documents."""

from __future__ import annotations

import base64
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from . import write
from .browser import Browser

RESTS = """!!document.querySelector("#census tbody") && document.querySelector("#play .word").textContent === "Play" &&
  !/ of /.test(document.querySelector(".figures").textContent)"""
FRAME = """(() => {
  const left = document.querySelector("#networks").getBoundingClientRect();
  const right = document.querySelector("#right section").getBoundingClientRect();
  const height = Math.max(left.height, right.height) + 12;
  return {x: left.x - 6, y: left.y - 6, width: right.right - left.x + 12, height};
})()"""


def draw(folder: Path) -> Iterator[Path]:
    """Network and decision map of every preset, as the page shows them when it rests; and the page as a whole."""
    with tempfile.TemporaryDirectory() as place, Browser(Path(place)) as browser:
        browser.size(1280, 800)
        browser.open(write(Path(place) / "lab.html").as_uri() + "#epoch=0")
        for preset in browser.ask("lab.PRESETS"):
            browser.until(RESTS)
            browser.ask(f"document.querySelector('#presets [data-name={preset['name']}]').click()")
            browser.until(RESTS)
            time.sleep(0.5)  # until the last frame is painted
            shot = browser.send("Page.captureScreenshot", format="png", clip={**browser.ask(FRAME), "scale": 1})
            file = folder / f"lab-{preset['name']}.png"
            file.write_bytes(base64.b64decode(shot["data"]))
            yield file
        file = folder / "lab.png"
        browser.picture(file)
        yield file
