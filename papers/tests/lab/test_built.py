"""The built page: not older than its source, whole in itself, in the wheel; the command that opens or writes it."""

from __future__ import annotations

import hashlib
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from alive_papers import lab

ROOT = Path(__file__).parents[3]
SOURCE = Path(lab.__file__).with_name("source")


def digest():
    """As build.mjs computes it."""
    found = hashlib.sha256()
    names = (file.relative_to(SOURCE).as_posix() for file in SOURCE.rglob("*") if file.is_file())
    for name in sorted(name for name in names if not name.startswith("node_modules")):
        found.update(f"{name}\n".encode())
        found.update((SOURCE / name).read_bytes())
    return found.hexdigest()


def test_the_page_is_not_older_than_its_source():
    recorded = re.search(r'<meta name="source" content="(\w+)">', lab.page())
    assert recorded
    assert recorded[1] == digest(), "papers/src/alive_papers/lab/page.html is stale: run `make lab`"


@pytest.fixture(scope="module")
def modules(tmp_path_factory):
    """The pinned packages: those that `make lab` has installed, or fresh ones from npm."""
    if shutil.which("node") is None or shutil.which("npm") is None:
        pytest.skip("there is no node to build the page with")
    made = ROOT / "build" / "lab"
    lock = made / "package-lock.json"
    if lock.exists() and lock.read_bytes() == (SOURCE / lock.name).read_bytes() and (made / "node_modules").exists():
        return made / "node_modules"
    folder = tmp_path_factory.mktemp("npm")
    for name in ("package.json", "package-lock.json"):
        shutil.copy(SOURCE / name, folder)
    command = ["npm", "ci", "--no-audit", "--no-fund", "--fetch-retries", "0", "--fetch-timeout", "20000"]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    if done.returncode:
        pytest.skip("npm gives no packages here")
    return folder / "node_modules"


def test_building_it_again_gives_the_same_page(modules, tmp_path):
    out = tmp_path / "page.html"
    command = ["node", SOURCE / "build.mjs", "--modules", modules, "--out", out]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert out.read_text(encoding="utf-8") == lab.page()


def test_the_page_stands_alone():
    text = lab.page()
    assert "default-src 'none'" in text
    assert not re.search(r"https?://|@import|<script src|url\(", text)
    assert "{{" not in re.sub(r"<script.*?</script>", "", text, flags=re.S)


def test_the_command_writes_it(alive, tmp_path):
    code, out, _ = alive("lab", "--out", "page.html")
    assert (code, out.strip()) == (0, "page.html")
    assert (tmp_path / "page.html").read_text(encoding="utf-8") == lab.page()
    code, _, err = alive("lab", "--out", "no/page.html")
    assert code == 2
    assert "cannot write no/page.html" in err


@pytest.mark.parametrize(("screen", "said"), [("", "there is no browser to open here"), (":7", "opened")])
def test_the_command_opens_it_where_there_is_a_screen(alive, monkeypatch, screen, said):
    opened = []
    monkeypatch.setattr("webbrowser.open", lambda url: opened.append(url) or True)
    monkeypatch.setattr("sys.platform", "linux")
    for name in ("BROWSER", "WAYLAND_DISPLAY"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("DISPLAY", screen)
    code, _, err = alive("lab")
    assert code == 0
    assert said in err
    assert [url.rsplit("/", 1)[-1] for url in opened] == (["page.html"] if screen else [])
