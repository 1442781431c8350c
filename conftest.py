"""What all tests share: one thread a process, and a fixed start for torch's generator."""

from __future__ import annotations

import importlib.util
import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path

import pytest
import torch
from hypothesis import settings
from warm import Warm

from alive import cli
from alive_papers.sets.download.places import NotThere

collect_ignore_glob = ["*conftest.py"]  # which hold no doctests
if importlib.util.find_spec("triton") is None:
    collect_ignore_glob.append("*tile_kernels.py")  # which only who has Triton can read
if find_spec("sae_lens") is None:  # which is in no extra of tests
    collect_ignore_glob += ["*/integrations/sae_lens.py", "*/studies/lens.py"]
PLUGIN = Path(__file__).parent / "examples" / "alive-plugin"

# `make quick` leaves out what starts a process, compiles or takes long, by what its file says; what it runs may not
# start a process, and has no numba.
QUICK = bool(os.environ.get("ALIVE_QUICK"))
LONG_ROOMS = {"bestiary", "fleet", "fuzz", "hostile", "integrations", "lab", "run", "selections"}
HEAVY = re.compile(
    r"subprocess|multiprocessing|two_ranks|plug_in|torch\.compile|numba|\bfused\b|kernel|sweep|fleet|transformers|onnx"
    r"|alive_papers\.(?!networks|theorems|sets)|to_exported|certif|clinic|torchrun|\bslow\b|cure\(|given\("
)
torch.set_num_threads(1)
# A run that fails, fails again, and no law has a deadline; --hypothesis-profile default looks for new examples.
settings.load_profile("ci")


@pytest.hookimpl(trylast=True)  # when those left out are gone
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """The fleet where the second of two processes begins: one compiles the fleet, meanwhile the other the sweeps."""
    fleet = [item for item in items if "fleet" in item.path.parts and "tests" in item.path.parts]
    if len(fleet) < len(items) // 4:
        others = [item for item in items if item not in set(fleet)]
        half = len(items) // 2
        items[:] = others[:half] + fleet + others[half:]


def pytest_ignore_collect(collection_path: Path) -> bool | None:
    """In a quick run, whether a file is left out."""
    if not QUICK or collection_path.suffix != ".py":
        return None
    return not LONG_ROOMS.isdisjoint(collection_path.parts) or bool(HEAVY.search(collection_path.read_text())) or None


def pytest_configure(config: pytest.Config) -> None:
    """A quick run has no numba, and that is no news."""
    if QUICK:
        config.addinivalue_line("filterwarnings", "ignore:the fast penalty")


if QUICK:
    sys.modules["numba"] = None  # type: ignore[assignment]

    def _refuse(event: str, args: tuple[object, ...]) -> None:
        if event in ("subprocess.Popen", "os.fork", "os.posix_spawn") and "PYTEST_CURRENT_TEST" in os.environ:
            raise RuntimeError(f"a quick test starts a process: {event}; name what it needs in HEAVY of conftest.py")

    sys.addaudithook(_refuse)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call() -> Iterator[None]:
    """A test that asks for a data set whose files are not on this machine is skipped, in alive's own words."""
    try:
        return (yield)
    except NotThere as absent:
        pytest.skip(str(absent))


pytest_runtest_setup = pytest_runtest_call  # and one whose fixture asks


@pytest.fixture(autouse=True)
def _seeded() -> Iterator[None]:
    with torch.random.fork_rng():
        torch.manual_seed(0)
        yield


@pytest.fixture
def alive(monkeypatch, capsys, tmp_path):
    """Run the command line in an empty folder: (exit code, stdout, stderr)."""
    monkeypatch.chdir(tmp_path)

    def run(*args: object) -> tuple[int, str, str]:
        monkeypatch.setattr(sys, "argv", ["alive", *map(str, args)])
        try:
            cli.main()
            code = 0
        except SystemExit as stop:
            code = int(stop.code or 0)
        return code, *capsys.readouterr()

    yield run
    for name, module in list(sys.modules.items()):  # of the folder, which the next test does not have
        if str(getattr(module, "__file__", None) or "").startswith(f"{tmp_path}{os.sep}"):
            del sys.modules[name]


@pytest.fixture(scope="session")
def plug_in(tmp_path_factory):
    """A folder to which pip has installed the plug-in of examples/."""
    folder = tmp_path_factory.mktemp("site")
    pip = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--no-build-isolation", "--no-index"]
    copy = folder / "source"
    copy.mkdir()
    for file in PLUGIN.iterdir():
        if file.is_file():
            (copy / file.name).write_bytes(file.read_bytes())
    target = folder / "packages"
    done = subprocess.run([*pip, "--target", target, copy], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return target


@pytest.fixture(scope="session")
def two_ranks(tmp_path_factory):
    """Run a script as two real processes, told their rank and a folder; returns the JSON each left there.

    What they left is what counts, not their exit codes: now and then gloo's threads abort a process that has
    already done everything and is on its way out ("terminate called without an active exception").
    """

    def run(script):
        folder = tmp_path_factory.mktemp("ranks")
        environment = os.environ | {"OMP_NUM_THREADS": "1", "GLOO_SOCKET_IFNAME": "lo"}
        started = [Warm(script, rank, folder, environment=environment) for rank in range(2)]
        try:
            said = [process.communicate(timeout=120)[1] for process in started]
        finally:
            for process in started:
                process.close()
        left = [folder / f"{rank}.json" for rank in range(2)]
        assert all(file.exists() for file in left), "\n".join(said)
        return [json.loads(file.read_text()) for file in left]

    return run
