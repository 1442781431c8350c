"""Links that lead out of docs/ in the repository, and to pages of the site here."""

from __future__ import annotations

import re
from pathlib import Path
from posixpath import dirname, relpath

from sphinx.application import Sphinx

HOMES = {
    "README.md": "index.md",
    "CHANGELOG.md": "changelog.md",
    "CONTRIBUTING.md": "contributing.md",
    "SECURITY.md": "security.md",
}  # what lies beside docs/, and the page that shows it
LAB = re.compile(r"\[([^\]]*)\]\((?:\.\./)+papers/src/alive_papers/lab/page\.html([^)]*)\)")
ONLY_HERE = re.compile(r"<!-- site: (.*?) -->", re.S)


def on_the_site(app: Sphinx, name: str, source: list[str]) -> None:
    """Turn the links of a page to what has a place of its own on the site; what is for the site alone appears."""
    source[0] = _turned(source[0], name)


def of_an_included_file(app: Sphinx, path: Path, name: str, source: list[str]) -> None:
    """The same for a file of the repository that a page shows, which has its links from the repository's root."""
    source[0] = _turned(re.sub(r"\]\(docs/", "](", source[0]), name, root="")


def _turned(text: str, name: str, root: str = "../") -> str:
    up = "../" * name.count("/")
    text = LAB.sub(rf'<a href="{up}lab/page.html\2">\1</a>', ONLY_HERE.sub(r"\1", text))
    for file, page in HOMES.items():
        text = text.replace(f"]({up}{root}{file})", f"]({relpath(page, dirname(name) or '.')})")
    return text
