"""The house: documents that run, a tree that is complete, imports that point downward."""

from __future__ import annotations

import subprocess
import sys
import tomllib
from operator import attrgetter
from pathlib import Path

import pytest
from documents import blocks_in
from shape import SOURCE, readers, sources, tree, unused

import alive

ROOT = Path(__file__).parents[1]
HOMES = {
    "typer": {"cli", "__main__", "pytest_plugin"},
    "numba": {"functional"},
    "sqlite3": {"store"},
}


ALONE = [block for block in blocks_in("python") if block.page.name != "gallery.md"]  # whose pictures are compared


@pytest.mark.parametrize("block", ALONE, ids=attrgetter("name"))
def test_python_in_the_documents_runs(block, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    exec(compile(block.code, block.name, "exec"), {"__name__": "__main__"})


def test_import_contracts_name_every_room():
    """What may not import a package is everything but the rooms where that package belongs."""
    contracts = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]["contracts"]
    rooms = {path.stem for path in SOURCE.iterdir() if path.suffix == ".py" or (path / "__init__.py").exists()}
    for contract in contracts:
        if contract["type"] == "forbidden" and len(contract["source_modules"]) > 1:
            named = {module.removeprefix("alive.") for module in contract["source_modules"]}
            assert rooms - named - {"__init__"} <= HOMES[contract["forbidden_modules"][0]]


def test_the_laboratory_has_the_version_of_the_library():
    papers = tomllib.loads((ROOT / "papers" / "pyproject.toml").read_text())["project"]
    assert papers["version"] == alive.__version__


def test_the_tree_of_rooms_is_that_of_the_source():
    """Write it anew from `shape.tree()` where a room came, went or says something else."""
    assert f"```text\n{tree()}\n```" in (ROOT / "docs" / "architecture.md").read_text()


def test_exported_names_are_used_or_documented():
    """In some other package, a test or a document. A name that nobody needs is not exported."""
    assert unused(sources(), readers()) == {}


def test_imports_point_downward():
    linter = Path(sys.executable).with_name("lint-imports")
    if not linter.exists():
        pytest.skip("import-linter is not installed; pip install '.[dev]'")
    done = subprocess.run([linter, "--no-cache"], cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout


def test_importing_alive_imports_no_torch():
    code = "import sys, alive; print('torch' in sys.modules, alive.__version__)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split()[0] == "False"


def test_public_names_are_there():

    for name in alive.__all__:
        assert getattr(alive, name) is not None
    assert callable(alive.census)
    with pytest.raises(AttributeError, match="nonsense"):
        _ = alive.nonsense
