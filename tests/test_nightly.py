"""The weekly run against torch's nightly is well formed, and asks for what is here."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import yaml

ROOT = Path(__file__).parents[1]
FLOW = yaml.safe_load((ROOT / ".github" / "workflows" / "nightly.yml").read_text())


def test_it_runs_once_a_week_and_may_only_read() -> None:
    (when,) = FLOW[True]["schedule"]  # YAML takes `on` for a truth
    assert re.fullmatch(r"\d+ \d+ \* \* [0-6]", when["cron"])
    assert FLOW["permissions"] == {"contents": "read"}


def test_every_step_can_be_taken() -> None:
    (job,) = FLOW["jobs"].values()
    assert all(("uses" in step) != ("run" in step) for step in job["steps"])
    commands = [step["run"] for step in job["steps"] if "run" in step]
    assert any("--pre torch" in command and "nightly" in command for command in commands)
    tests = [word for word in commands[-1].split() if word.startswith("tests/")]
    assert tests
    assert all((ROOT / word).exists() for word in tests)
    known = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    (extras,) = re.findall(r"\.\[([\w,]+)\]", " ".join(commands))
    assert set(extras.split(",")) <= set(known)
