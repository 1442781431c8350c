"""The pytest plug-in, the GitHub Action and the pre-commit hook, each run for real."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).parents[2]
BIN = Path(sys.executable).parent
PROBE = """
import sys

def test_nothing_of_torch_is_loaded(pytestconfig):
    assert pytestconfig.pluginmanager.hasplugin("alive")
    assert "torch" not in sys.modules
    assert not [name for name in sys.modules if name.startswith("alive.") and name not in
                ("alive._version", "alive.errors", "alive.pytest_plugin", "alive.rooms")]
"""


@pytest.fixture(scope="module")
def installed(tmp_path_factory):
    """Folders that pytest finds the plug-in through: a wheel's entry points, and the source."""
    folder = tmp_path_factory.mktemp("site")
    points = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["entry-points"]["pytest11"]
    info = folder / "alive_probe-0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: alive-probe\nVersion: 0\n")
    lines = "\n".join(f"{name} = {value}" for name, value in points.items())
    (info / "entry_points.txt").write_text(f"[pytest11]\n{lines}\n")
    return os.pathsep.join([str(folder), str(ROOT / "src")])


def ran(folder: Path, installed: str, *words: str) -> subprocess.CompletedProcess[str]:
    environment = os.environ | {"PYTHONPATH": installed, "OMP_NUM_THREADS": "1", "PYTEST_ADDOPTS": ""}
    command = [sys.executable, "-m", "pytest", "-W", "error", "-p", "no:cacheprovider", "-q", "-rA", *words]
    return subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)


def outcomes(done: subprocess.CompletedProcess[str]) -> dict[str, str]:
    found = re.findall(r"^(PASSED|FAILED|ERROR) alive::mine:\w+::(\S+)", done.stdout, re.M)
    return {rule: outcome for outcome, rule in found}


def test_asleep_it_imports_nothing(mine, installed):
    (mine / "test_probe.py").write_text(PROBE)
    done = ran(mine, installed)
    assert done.returncode == 0, done.stdout
    assert "1 passed" in done.stdout


def test_every_rule_of_a_model_is_a_test(mine, installed):
    done = ran(mine, installed, "--alive=mine:make_model", "-n", "0")
    assert done.returncode == 1, done.stdout + done.stderr
    found = outcomes(done)
    assert found["ALV001"] == "FAILED"
    assert "mine.py:" in done.stdout
    assert {rule for rule, outcome in found.items() if outcome == "FAILED"} == {"ALV001"}
    assert found["ALV007"] == "PASSED"  # the gradient was measured
    assert "ALV003" not in found  # a note fails nothing
    done = ran(mine, installed, "--alive=mine:make_model", "--alive-ignore=ALV001", "-n", "2", "-k", "ALV")
    assert done.returncode == 0, done.stdout


def test_thresholds_and_limits(mine, installed):
    words = ["--alive=mine:make_model", "--alive-threshold=ALV001=20%"]
    limits = ["--alive-fail-on=ALV001", "--alive-fail-on=dead_units>50%", "--alive-fail-on=dead_units>5%"]
    done = ran(mine, installed, *words, *limits, "-n", "0")
    found = outcomes(done)
    assert found == {"ALV001": "PASSED", "dead_units>50%": "PASSED", "dead_units>5%": "FAILED"}, done.stdout


def test_bad_words_are_one_line(mine, installed):
    done = ran(mine, installed, "--alive=mine:make_model", "--alive-ignore=ALV999", "-n", "0")
    assert done.returncode == 4
    assert "ERROR: alive: unknown rule id 'ALV999'" in done.stderr
    done = ran(mine, installed, "--alive=mine:nothing", "--alive-fail-on=ALV001", "-n", "0")
    assert done.returncode == 1
    assert "unknown name in mine:" in done.stdout
    assert "Traceback" not in done.stdout


# The action.


def step(folder: Path, **inputs: str) -> subprocess.CompletedProcess[str]:
    """Run the census of the action as GitHub does: bash, its inputs in the environment."""
    action = yaml.safe_load((ROOT / "action.yml").read_text())
    given = {name: str(said.get("default", "")) for name, said in action["inputs"].items()} | inputs
    census = next(step for step in action["runs"]["steps"] if step.get("id") == "census")
    own = {}
    for name, value in census["env"].items():
        key = re.fullmatch(r"\$\{\{ inputs\.([\w-]+) \}\}", value).group(1)
        own[name] = given[key]
    path = {"PATH": f"{BIN}{os.pathsep}{os.environ['PATH']}"}
    files = {"GITHUB_OUTPUT": folder / "output", "GITHUB_STEP_SUMMARY": folder / "summary", "RUNNER_TEMP": folder}
    environment = os.environ | own | path | {name: str(value) for name, value in files.items()}
    script = folder / "step.sh"
    script.write_text(census["run"])
    command = ["bash", "--noprofile", "--norc", "-e", "-o", "pipefail", str(script)]
    return subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)


def test_the_action_writes_sarif_and_a_summary_and_fails_as_asked(mine):
    done = step(mine, model="mine:make_model", ignore="ALV003")
    assert done.returncode == 0, done.stderr
    rules = {a["ruleId"] for a in json.loads((mine / "alive.sarif").read_text())["runs"][0]["results"]}
    assert "ALV001" in rules
    assert "ALV003" not in rules
    assert (mine / "output").read_text() == "sarif=alive.sarif\n"
    assert (mine / "summary").read_text().startswith("## alive census: mine:make")
    done = step(mine, model="mine:make_model", **{"fail-on": "error\ndead_units>0\n", "arguments": "--gradient --all"})
    assert done.returncode == 1
    assert "dead_units>0 holds" in done.stderr
    done = step(mine, model="mine:none; touch owned")
    assert done.returncode == 2
    assert not (mine / "owned").exists()


def test_the_action_is_well_formed():
    """And no input reaches a shell but through the environment."""
    action = yaml.safe_load((ROOT / "action.yml").read_text())
    assert action["runs"]["using"] == "composite"
    for each in action["runs"]["steps"]:
        assert each["shell"] == "bash"
        assert "${{" not in each["run"]
    used = re.findall(r"inputs\.([\w-]+)", (ROOT / "action.yml").read_text())
    assert set(used) == set(action["inputs"])


# The hook.


@pytest.mark.skipif(shutil.which("git") is None, reason="there is no git")
def test_the_hook_runs_in_pre_commit(mine):
    pre_commit = BIN / "pre-commit"
    if not pre_commit.exists():
        pytest.skip("pre-commit is not installed; pip install pre-commit")
    hooks = mine / "hooks"
    hooks.mkdir()
    shutil.copy(ROOT / ".pre-commit-hooks.yaml", hooks)
    environment = os.environ | {"PATH": f"{BIN}{os.pathsep}{os.environ['PATH']}", "PRE_COMMIT_HOME": str(mine / "home")}
    environment |= {f"GIT_{who}_{what}": "x@y" for who in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")}

    def run(*command: object, where: Path) -> subprocess.CompletedProcess[str]:
        words = [*map(str, command)]
        return subprocess.run(words, cwd=where, env=environment, capture_output=True, text=True, check=False)

    for words in (["init", "-q"], ["add", "-A"], ["commit", "-qm", "hooks"]):
        assert run("git", *words, where=hooks).returncode == 0
    revision = run("git", "rev-parse", "HEAD", where=hooks).stdout.strip()
    work = mine / "work"
    work.mkdir()
    shutil.copy(mine / "mine.py", work)
    hook = {"id": "alive-census", "args": ["mine:make_model", "--fail-on", "ALV001"]}
    config = {"repos": [{"repo": str(hooks), "rev": revision, "hooks": [hook]}]}
    (work / ".pre-commit-config.yaml").write_text(yaml.safe_dump(config))
    assert run("git", "init", "-q", where=work).returncode == 0
    assert run("git", "add", "-A", where=work).returncode == 0
    done = run(pre_commit, "run", "--all-files", where=work)
    assert done.returncode == 1
    assert "alive census" in done.stdout
    assert "ALV001 holds" in done.stdout
    hook["args"] = ["mine:healthy", "--fail-on", "warning"]
    (work / ".pre-commit-config.yaml").write_text(yaml.safe_dump(config))
    assert run("git", "add", "-A", where=work).returncode == 0
    done = run(pre_commit, "run", "--all-files", where=work)
    assert done.returncode == 0, done.stdout + done.stderr
