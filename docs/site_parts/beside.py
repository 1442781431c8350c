"""Files that lie beside the pages: the lab, the page of evidence, how to cite, and llms.txt for programs that read."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

from sphinx.application import Sphinx

ROOT = Path(__file__).parents[2]


def write(app: Sphinx, failed: Exception | None) -> None:
    """Write all of them into the site, once its pages are there."""
    if failed is not None or app.builder.format != "html":
        return
    from alive_papers import lab, study

    out = Path(app.outdir)
    (out / "lab").mkdir(exist_ok=True)
    lab.write(out / "lab" / "page.html")
    study.evidence([], out / "evidence")
    shutil.copy(ROOT / "CITATION.cff", out / "CITATION.cff")
    pages = _in_reading_order(app)
    (out / "llms.txt").write_text(_contents(app, pages), encoding="utf-8")
    (out / "llms-full.txt").write_text(_whole(app, pages), encoding="utf-8")


def _in_reading_order(app: Sphinx) -> list[str]:
    """Every page once, as the tables of contents lead through them."""
    found: list[str] = []
    waiting = ["index"]
    while waiting:
        name = waiting.pop(0)
        if name not in found:
            found.append(name)
            waiting = [*app.env.toctree_includes.get(name, []), *waiting]
    return found


def _contents(app: Sphinx, pages: list[str]) -> str:
    """A line for each page, as https://llmstxt.org asks: its name, its address, its first sentence."""
    about = "> Finds dead and linear ReLU units and dead points in any PyTorch model, cures them and proves the cure."
    lines = [f"- [{app.env.titles[name].astext()}]({name}.html): {_first_sentence(app, name)}" for name in pages[1:]]
    return "\n".join(["# alive", "", about, "", "## Pages", "", *lines, "", "All of it in one file: llms-full.txt", ""])


def _first_sentence(app: Sphinx, name: str) -> str:
    from docutils import nodes

    page = app.env.get_doctree(name)
    texts = (paragraph.astext() for paragraph in page.findall(nodes.paragraph))
    text = " ".join(next(texts, "").split())
    return re.split(r"(?<=[.?!:])\s", text, maxsplit=1)[0]


def _whole(app: Sphinx, pages: list[str]) -> str:
    files = (Path(app.env.doc2path(name)) for name in pages)
    return "\n\n".join(file.read_text(encoding="utf-8") for file in files)
