"""The site as built: no warning, no dead link, no other host, every public name, nothing wider than the screen."""

from __future__ import annotations

import importlib
import subprocess
import sys
from html.parser import HTMLParser
from importlib.util import find_spec
from inspect import isclass, isfunction
from pathlib import Path
from urllib.parse import unquote

import pytest
from documents import DOCS, PAGES

from alive_papers.lab.browser import CHROMIUM, Browser

ROOT = DOCS.parent
ROOMS = sorted(path.stem for path in (DOCS / "api").glob("*.md") if path.stem != "index")
INTEGRATIONS, SHARED = ROOT / "src" / "alive" / "integrations", ("__init__", "attachment")
pytest.importorskip("sphinx", reason="the site needs pip install '.[docs]'")


@pytest.fixture(scope="session")
def site(tmp_path_factory) -> Path:
    out = tmp_path_factory.mktemp("site")
    command = [
        sys.executable,
        "-m",
        "sphinx",
        "-q",
        "-W",
        "--keep-going",
        "-b",
        "html",
        "-d",
        out / "trees",
        DOCS,
        out / "html",
    ]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return out / "html"


class Page(HTMLParser):
    """What a page of the site names: links, things it loads, places one can lead to."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.links: list[str] = []
        self.loads: list[str] = []
        self.places: set[str] = set()
        self.feed(path.read_text(encoding="utf-8"))

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        has = dict(attrs)
        self.places |= {value for key in ("id", "name") if (value := has.get(key))}
        if tag == "a" and has.get("href"):
            self.links.append(str(has["href"]))
        elif has.get("src") or (tag == "link" and has.get("rel") in ("stylesheet", "icon", "preload")):
            self.loads.append(str(has.get("src") or has.get("href")))


def test_every_page_is_there_with_what_lies_beside(site):
    assert [page for page in PAGES if not (site / page.relative_to(DOCS).with_suffix(".html")).exists()] == []
    assert all((site / each).stat().st_size > 0 for each in ("lab/page.html", "evidence/evidence.html", "CITATION.cff"))
    listed = (site / "llms.txt").read_text()
    names = [str(page.relative_to(DOCS).with_suffix(".html")) for page in PAGES if page.stem != "index"]
    assert [name for name in names if f"]({name}): " not in listed] == []


def test_every_link_of_the_site_leads_somewhere_and_no_other_host_is_asked(site):
    pages = {path: Page(path) for path in site.rglob("*.html") if path.parent.name not in ("lab", "evidence")}
    count = 0
    for path, page in pages.items():
        assert [load for load in page.loads if "://" in load or load.startswith("//")] == []
        for link in page.links:
            if ":" in link.split("#")[0]:
                continue
            count += 1
            name, _, place = unquote(link).partition("#")
            target = (path.parent / name).resolve() if name else path
            assert target.exists(), f"{path.name} leads to {link}"
            if place and target in pages:
                assert place in pages[target].places, f"{path.name} leads to {link}"
    assert count > 1000


def full(room):
    """A room as it is imported."""
    return f"alive_{room}" if room.startswith("papers.") else f"alive.{room}"


def test_every_public_name_is_in_the_reference(site):
    from sphinx.util.inventory import InventoryFile

    with (site / "objects.inv").open("rb") as file:
        known = InventoryFile.load(file, "", lambda base, name: name)
    places = {name for kind in known.values() for name in kind}
    here = [each.stem for each in INTEGRATIONS.glob("*.py") if each.stem != "sae_lens" or find_spec("sae_lens")]
    integrations = [f"integrations.{stem}" for stem in here if stem not in SHARED]
    for room in [room for room in ROOMS if room != "integrations"] + integrations:
        module = importlib.import_module(full(room))
        things = {name: getattr(module, name) for name in getattr(module, "__all__", vars(module))}
        made = [name for name, thing in things.items() if isclass(thing) or isfunction(thing)]
        own = [
            name for name in made if room in ROOMS or (things[name].__module__ == module.__name__ and name[0] != "_")
        ]
        homes = (room, room.rpartition(".")[0])  # what a part shares with the room it belongs to is told there
        missing = [name for name in own if not any(f"{full(home)}.{name}" in places for home in homes)]
        assert missing == [], room


@pytest.mark.skipif(CHROMIUM is None, reason="there is no chromium on the path; apt-get install chromium")
def test_nothing_is_wider_than_the_screen(site, tmp_path):
    pages = [str(page.relative_to(DOCS).with_suffix(".html")) for page in PAGES]
    with Browser(tmp_path) as browser:
        for width in (400, 1400):
            browser.size(width, 900)
            for page in pages:
                browser.open((site / page).as_uri())
                assert "alive" in browser.ask("document.title"), page  # and not the page of an error
                wide = browser.ask("document.documentElement.scrollWidth")
                assert wide <= width, f"{page} is {wide} wide on a screen of {width}"
        assert [line for line in browser.console if "error" in line.lower()] == []
        assert [url for url in browser.requests if not url.startswith(("file:", "data:", "blob:"))] == []
