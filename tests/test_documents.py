"""The documents: every block of code is run or read, every link leads somewhere, every page is in some contents."""

from __future__ import annotations

import importlib
import json
import re
import subprocess
import sys
import tomllib
from dataclasses import replace
from operator import attrgetter
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import pytest
import yaml
from documents import (
    DOCS,
    DOCUMENTS,
    GO_ON,
    MARKUP,
    PAGES,
    READ,
    ROOT,
    RUN,
    SHOWN,
    anchors,
    blocks,
    blocks_in,
    contents,
    links,
    walk,
)

import alive
from alive_papers.experiments import EXPERIMENTS
from alive_papers.experiments.papers import PAPERS
from alive_papers.fleet import train_fleet
from alive_papers.run import Store, run

READERS = {"toml": tomllib.loads, "json": json.loads, "yaml": yaml.safe_load, "xml": ElementTree.fromstring}


@pytest.mark.contract
@pytest.mark.parametrize("page", DOCUMENTS, ids=attrgetter("name"))
def test_every_block_is_of_a_kind_that_the_tests_know(page):
    """Python and commands are run, data are read; a block without a language would be neither."""
    assert {block.language for block in blocks(page)} <= {*RUN, *READ, *SHOWN, *MARKUP}


@pytest.mark.parametrize("block", [each for kind in READERS for each in blocks_in(kind)], ids=attrgetter("name"))
def test_data_in_the_documents_can_be_read(block):
    assert READERS[block.language](block.code)


@pytest.mark.parametrize("page", sorted(GO_ON), ids=attrgetter("name"))
def test_a_page_that_goes_on_says_what_comes_out(page, tmp_path, monkeypatch, alive):
    def command(words: list[str], folder: Path) -> str:
        code, out, err = alive(*words)
        assert code in ((0, 1) if "--fail-on" in words else (0,)), err
        return out

    monkeypatch.syspath_prepend(tmp_path)
    said = ""
    for block, out in walk(page, tmp_path, command):
        if block.language == "text":
            assert similar(block.code, said), f"{block.name}:\n{said}"
        else:
            said = out


def similar(written: str, said: str) -> bool:
    """The same words; numbers may differ a little, as they do from one processor to another."""
    ours, theirs = (re.split(r"(-?[\d,]*\.?\d+(?:e[+-]?\d+)?)", text.strip()) for text in (written, said))
    same = [" ".join(part.split()) for part in ours[::2]] == [" ".join(part.split()) for part in theirs[::2]]
    pairs = zip(numbers(ours), numbers(theirs), strict=False)
    return same and all(a == pytest.approx(b, rel=0.1, abs=0.05) for a, b in pairs)


def numbers(parts: list[str]) -> list[float]:
    return [float(part.replace(",", "") or 0) for part in parts[1::2]]


def test_similar_sees_another_word_and_another_number():
    assert similar("0.92 of 1,437\n", "0.93  of 1,437")
    assert not similar("0.92 of the digits", "0.92 of digits")
    assert not similar("0.92 of the digits", "0.49 of the digits")


PICTURES = [block for block in blocks(DOCS / "gallery.md") if block.language == "python"]


@pytest.mark.parametrize("block", PICTURES, ids=attrgetter("name"))
def test_the_gallery_shows_what_its_code_draws(block, tmp_path, monkeypatch):
    from matplotlib import image, pyplot

    monkeypatch.chdir(tmp_path)
    exec(compile(block.code, block.name, "exec"), {"__name__": "__main__"})
    pyplot.close("all")
    (drawn,) = tmp_path.glob("*.png")
    shown = image.imread(DOCS / "gallery" / drawn.name)
    again = image.imread(drawn)
    assert again.shape == shown.shape
    assert abs(again - shown).mean() < 0.02
    text = (DOCS / "gallery.md").read_text()
    assert f"(gallery/{drawn.name})" in text[block.span[1] :].split("```")[1]  # right below


@pytest.mark.parametrize(
    "block", [each for each in blocks_in("python") if "alive.sqlite" in each.code], ids=attrgetter("name")
)
def test_code_that_reads_a_store_is_run_beside_one(block, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    with Store(Path("alive.sqlite")) as store:
        run(EXPERIMENTS["001-T1"].cells(), store, threads=1)
    exec(compile(block.code, block.name, "exec"), {"__name__": "__main__"})
    assert capsys.readouterr().out


@pytest.mark.contract
@pytest.mark.parametrize("page", DOCUMENTS, ids=attrgetter("name"))
def test_every_link_leads_somewhere(page):
    """In the repository; `make docs` looks after the site. Other hosts are not asked."""
    for link in links(page):
        if re.match(r"[a-z]+:", link):
            continue
        path, _, anchor = link.partition("#")
        target = (page.parent / path).resolve() if path else page
        assert target.exists(), link
        assert not anchor or target.suffix != ".md" or anchor in anchors(target), link


def test_every_page_is_in_a_table_of_contents():
    """A page of yours: one line in docs/index.md, or in the index of its folder."""
    assert set(PAGES) - contents() == {DOCS / "index.md"}


def test_a_page_that_no_table_names_is_seen(tmp_path, monkeypatch):
    (tmp_path / "index.md").write_text("```{toctree}\n:glob:\n\nnamed\nrooms/*\n```\n")
    (tmp_path / "rooms").mkdir()
    for name in ("named", "forgotten", "rooms/one"):
        (tmp_path / f"{name}.md").write_text("# A page\n")
    monkeypatch.setattr("documents.DOCS", tmp_path)
    monkeypatch.setattr("documents.PAGES", sorted(tmp_path.rglob("*.md")))
    assert contents() == {tmp_path / "named.md", tmp_path / "rooms" / "one.md"}


def test_the_readme_leads_to_the_site_and_its_pages():
    assert {"docs/index.md", "docs/tutorial.md", "docs/guide.md", "docs/mathematics.md"} <= set(
        links(ROOT / "README.md")
    )


def test_the_first_screen_of_the_readme_shows_what_its_command_prints(alive):
    """As it is cut there, at "..."; on lines of whatever width."""
    screen = next(each for each in blocks(ROOT / "README.md") if each.language == "text")
    printed = " ".join(alive("census", "50x4", "--gradient")[1].split())
    parts = [" ".join(part.split()) for part in re.split(r"\.\.\.|\n", screen.code) if part.strip()]
    assert len(parts) >= 4
    assert [part for part in parts if part not in printed] == []
    assert len((ROOT / "README.md").read_text().splitlines()) <= 120


def test_the_citation_is_of_this_version_and_names_the_papers():
    cited = yaml.safe_load((ROOT / "CITATION.cff").read_text())
    assert cited["version"] == alive.__version__
    titles = [(each["title"], each["year"], len(each["authors"])) for each in cited["references"]]
    names = [re.split(r", | and ", paper.authors) for paper in PAPERS.values()]
    assert titles == [(paper.title, paper.year, len(n)) for paper, n in zip(PAPERS.values(), names, strict=True)]


def test_every_extra_is_documented():
    parts = ROOT / "pyproject.toml", ROOT / "papers" / "pyproject.toml"
    extras = [name for part in parts for name in tomllib.loads(part.read_text())["project"]["optional-dependencies"]]
    text = (DOCS / "install.md").read_text()
    assert [name for name in extras if f"`{name}`" not in text] == []


@pytest.mark.parametrize("path", sorted((ROOT / ".github" / "ISSUE_TEMPLATE").glob("*.yml")), ids=attrgetter("name"))
def test_issue_templates_are_forms(path):
    form = yaml.safe_load(path.read_text())
    if path.name != "config.yml":
        assert {"name", "description", "body"} <= set(form)
        assert all(part["type"] in ("textarea", "input", "dropdown") for part in form["body"])


def test_the_example_of_sparse_autoencoders_runs(tmp_path):
    script = ROOT / "examples" / "sparse_autoencoder.py"
    done = subprocess.run(
        [sys.executable, script, "--steps", "3", "--seeds", "1"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=True,
    )
    assert re.fullmatch(r"plain, seed 0: \d+ dead, .* on\npenalty, seed 0: \d+ dead, .* on\n", done.stdout)


def test_the_example_of_adams_epsilon_goes_step_by_step_as_the_fleet_does(monkeypatch):
    monkeypatch.syspath_prepend(ROOT / "examples")
    example = importlib.import_module("adam_epsilon")
    whole = train_fleet([example.Going(4, 3, 1, 1e-5, 30).member], example.DATA).members[0]
    going = example.Going(4, 3, 1, 1e-5, 30)
    for before in going.steps(20):
        assert not np.array_equal(before, going.net.free)
        going.put(going.late, going.net.free)  # nothing changes
    np.testing.assert_array_equal(going.to(30).log, whole.log)
    np.testing.assert_array_equal(going.net.free, whole.weights)
    held = example.Going(4, 3, 1, 1e-5, 30)
    for before in held.steps(20):
        held.put(np.ones(before.size, bool), before)
    assert np.array_equal(held.net.free, example.Going(4, 3, 1, 1e-5, 30).net.free), "nothing has moved"


def test_the_example_of_needed_layers_counts_them_and_finds_its_network_again(monkeypatch, tmp_path):
    """On digits, which every machine has."""
    monkeypatch.syspath_prepend(ROOT / "examples")
    example = importlib.import_module("needed_layers")
    cell = replace(example.wanted(12, 1), data="digits", points=500, test_points=100)
    row = example.trained(cell, tmp_path / "s.sqlite")
    assert example.trained(cell, tmp_path / "s.sqlite").weights == row.weights
    accuracy, needed, thirds, _ = example.told(row).splitlines()
    assert accuracy == f"best test accuracy {row.best_test:.4f}"
    count = int(re.match(r"(\d+) of 11 layers are needed", needed)[1])
    assert sum(map(int, re.findall(r"\d+", thirds))) == count
