"""The documents as tests read them: pages, code blocks, links, tables of contents.

`python tests/documents.py` counts the code blocks; `--record docs/tutorial.md` runs a page that goes on from block to
block and writes what came out below each.
"""

from __future__ import annotations

import contextlib
import io
import os
import re
import shlex
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from fnmatch import fnmatch
from pathlib import Path

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"
PAGES = sorted(DOCS.rglob("*.md"))
DOCUMENTS = [*(ROOT / f"{name}.md" for name in ("README", "CHANGELOG", "CONTRIBUTING", "SECURITY")), *PAGES]
GO_ON = {DOCS / "tutorial.md"}  # each block goes on from the one before
RUN = ("python", "sh")
READ = ("toml", "json", "yaml", "xml", "bibtex")
SHOWN = ("text",)  # output, trees of files
MARKUP = ("{toctree}", "{include}", "{eval-rst}", "{rst-class}")
FENCE = re.compile(r"^(`{3,})([^\n`]*)\n(.*?)^\1 *$", re.M | re.S)
SPELT = re.compile(r"!?\[[^\]]*\]\(([^()\s]+)\)")


@dataclass(frozen=True)
class Block:
    """A fenced block of a page."""

    page: Path
    number: int
    language: str
    code: str
    span: tuple[int, int]

    @property
    def name(self) -> str:
        """Such as `howto/small-models.md-2`."""
        home = DOCS if self.page.is_relative_to(DOCS) else ROOT
        return f"{self.page.relative_to(home)}-{self.number}"


def blocks(page: Path) -> list[Block]:
    """All fenced blocks of a page, numbered within their language."""
    seen: Counter[str] = Counter()
    found = []
    for match in FENCE.finditer(page.read_text(encoding="utf-8")):
        language = (match[2].split() or [""])[0]
        found.append(Block(page, seen[language], language, match[3], match.span(3)))
        seen[language] += 1
    return found


def blocks_in(language: str) -> list[Block]:
    """Those of all documents that stand alone, in one language."""
    return [each for page in DOCUMENTS if page not in GO_ON for each in blocks(page) if each.language == language]


def links(page: Path) -> list[str]:
    """Where a page leads, code aside."""
    text = re.sub(r"`[^`\n]*`", "", FENCE.sub("", page.read_text(encoding="utf-8")))
    return SPELT.findall(text)


def anchors(page: Path) -> set[str]:
    """The headings of a page as addresses, spelt as GitHub and MyST spell them."""
    text = FENCE.sub("", page.read_text(encoding="utf-8"))
    titles = re.findall(r"^#+ +(.*)$", text, re.M)
    return {re.sub(r"[^\w\- ]", "", title.replace("`", "").lower()).strip().replace(" ", "-") for title in titles}


def contents() -> set[Path]:
    """Every page that some table of contents names, globs resolved as Sphinx does."""
    found: set[Path] = set()
    for page in PAGES:
        for block in blocks(page):
            if block.language == "{toctree}":
                entries = [line.strip() for line in block.code.splitlines() if line.strip() and line[0] != ":"]
                found |= {each for entry in entries for each in _meant(page, entry)}
    return found


def _meant(page: Path, entry: str) -> Iterator[Path]:
    here = f"{page.parent.relative_to(DOCS)}/".removeprefix("./")
    for each in PAGES:
        name = str(each.relative_to(DOCS).with_suffix(""))
        fits = fnmatch(name, here + entry) and name.count("/") == (here + entry).count("/")
        if fits and each != page:
            yield each


def walk(page: Path, folder: Path, typed: Callable[[list[str], Path], str]) -> Iterator[tuple[Block, str]]:
    """Run the blocks of a page one after the other in a folder; each with what it printed."""
    space: dict[str, object] = {"__name__": "__main__"}
    for block in blocks(page):
        said = io.StringIO()
        if block.language == "python" and (file := re.match(r"# (\w+\.py)\n", block.code)):
            (folder / file[1]).write_text(block.code)
        elif block.language == "python":
            with contextlib.redirect_stdout(said):
                exec(compile(block.code, block.name, "exec"), space)
        elif block.language == "sh":
            for line in block.code.splitlines():
                words = shlex.split(line, comments=True)
                if words[:1] == ["alive"]:
                    said.write(typed(words[1:], folder))
        yield block, said.getvalue()


def record(page: Path) -> None:
    """Write what came out of each block into the block of text below it."""
    text, outputs, said = page.read_text(encoding="utf-8"), [], ""
    with tempfile.TemporaryDirectory() as folder, contextlib.chdir(folder):
        sys.path.insert(0, folder)
        for block, out in walk(page, Path(folder), _typed):
            outputs.append((block, said if block.language == "text" else ""))
            said = out or (said if block.language == "text" else "")
    for block, out in reversed(outputs):
        if block.language == "text":
            text = text[: block.span[0]] + out.rstrip("\n") + "\n" + text[block.span[1] :]
    page.write_text(text, encoding="utf-8")


def _typed(words: list[str], folder: Path) -> str:
    command = [Path(sys.executable).with_name("alive"), *words]
    done = subprocess.run(command, cwd=folder, env=os.environ, capture_output=True, text=True, check=False)
    return done.stdout


def main() -> None:
    """Count, or record."""
    if sys.argv[1:2] == ["--record"]:
        for name in sys.argv[2:]:
            record(Path(name).resolve())
        return
    count = Counter(block.language for page in DOCUMENTS for block in blocks(page))
    ways = {"run": RUN, "read": READ, "shown": SHOWN, "markup": MARKUP}
    for way, languages in ways.items():
        print(
            f"{way}: {sum(count[each] for each in languages)}", {each: count[each] for each in languages if count[each]}
        )


if __name__ == "__main__":
    main()
