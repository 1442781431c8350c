"""alive beside its six packages alone, and beside those of one extra: what is missing is hidden, as if never installed.

`python tests/used.py` does it in a real environment, which takes minutes.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tomllib
from importlib import metadata
from pathlib import Path

import light
import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from alive.errors import AliveError, require

ROOT = Path(__file__).parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
LIGHT = ("none", "fast", "programs", "sklearn", "data", "export")
HEAVY = ("tensorboard", "huggingface", "lightning", "accelerate", "skorch", "keras", "sb3", "wandb", "mlflow")

# What needs which package, and the extra that brings it.
MODULES = {
    "alive.functional.keeping": ("numba", None),  # asked for where numba is
    "alive.functional.tile_kernels": ("triton", None),  # a GPU's torch brings it
    **{
        f"alive.functional.sweep.{name}": ("numba", None)
        for name in ["back", "compiled", "ends", "keys", "many", "maps", "rows", "vectors"]
    },
    "alive.integrations.accelerate": ("accelerate", "accelerate"),
    "alive.integrations.huggingface": ("transformers", "huggingface"),
    "alive.integrations.keras": ("keras", "keras"),
    "alive.integrations.lightning": ("pytorch-lightning", "lightning"),
    "alive.integrations.sklearn": ("scikit-learn", "sklearn"),
    "alive.integrations.sae_lens": ("sae-lens", "sae"),
    "alive.integrations.skorch": ("skorch", "skorch"),
    "alive.integrations.stable_baselines3": ("stable-baselines3", "sb3"),
}
PARTS = {
    "certify": ("scipy", "programs"),
    "digits": ("scikit-learn", "sklearn"),
    "parquet": ("pyarrow", "data"),
    "onnx": ("onnxruntime", "export"),
    "tensorboard": ("tensorboard", "tensorboard"),
    "board": ("tensorboard", "tensorboard"),
    "folder": ("transformers", "huggingface"),
    "wandb": ("wandb", "wandb"),
    "mlflow": ("mlflow-skinny", "mlflow"),
    "trackio": ("trackio", "trackio"),
}


def brought(wanted: list[str]) -> set[str]:
    """All packages that pip would install for these, by what those that are here say of themselves."""
    todo, found = [Requirement(each) for each in wanted], set()
    while todo:
        one = todo.pop()
        name = canonicalize_name(one.name)
        if (name, *one.extras) in found:
            continue
        found.add((name, *one.extras))
        if name == "alive":
            needs = [need for extra in one.extras for need in PROJECT["optional-dependencies"][extra]]
            todo += map(Requirement, PROJECT["dependencies"] + needs)
            continue
        try:
            needs = metadata.requires(name) or []
        except metadata.PackageNotFoundError:  # for another system, or not in this environment
            continue
        for need in map(Requirement, needs):
            if need.marker is None or any(need.marker.evaluate({"extra": extra}) for extra in one.extras or {""}):
                todo.append(need)
    return {name for name, *_ in found}


@pytest.fixture(scope="module")
def here() -> list[float]:
    """The penalty as it is measured with all packages."""
    return light.measure()


@pytest.mark.parametrize("extra", [*LIGHT, *(pytest.param(extra, marks=pytest.mark.slow) for extra in HEAVY)])
def test_each_extra_alone(extra: str, here: list[float], tmp_path: Path) -> None:
    there = brought(["alive" if extra == "none" else f"alive[{extra}]"])
    done = subprocess.run(
        [sys.executable, ROOT / "tests" / "light.py", json.dumps(sorted(there))],
        cwd=tmp_path, env=os.environ | {"PYTHONPATH": str(ROOT / "src")}, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    saw = json.loads(done.stdout.splitlines()[-1])

    assert saw["attached"] == [], "attaching a Jumpstart loads none of the large packages"
    assert saw["census"] == [0, True]
    assert saw["penalty"] == pytest.approx(here, rel=1e-5)
    slow = [text for text in saw["warnings"] if 'pip install "alive[fast]"' in text]
    assert len(slow) == ("numba" not in there), "said once, and not at all where numba is"

    assert saw["parts"]["shrink_on_points"] == saw["parts"]["shrink_over_a_box"] == ""
    for needs, words in ((MODULES, saw["modules"]), (PARTS, saw["parts"])):
        assert {name for name, text in words.items() if "No module" in text or "not installed" in text} == {
            name for name, (package, _) in needs.items() if package not in there
        }
        for name, (package, source) in needs.items():
            if package not in there and source is not None:
                assert words[name].startswith("AliveError: "), words[name]
                assert words[name].endswith(f'which is not installed. Run pip install "alive[{source}]".'), words[name]


def test_every_extra_is_tried() -> None:
    """But those that bring only tools of those who work on alive, or nothing that alive imports."""
    tools = {"test", "docs", "release", "dev", "sae", "compare", "trainers", "trackio"}
    assert set(PROJECT["optional-dependencies"]) - tools == {*LIGHT, *HEAVY} - {"none"}


def test_what_needs_an_extra_names_one_that_brings_it() -> None:
    for package, extra in [*MODULES.values(), *PARTS.values()]:
        if extra is not None and package != "trackio":
            assert canonicalize_name(package) in brought([f"alive[{extra}]"])


def test_a_package_that_cannot_be_imported_is_not_called_missing() -> None:
    with (
        pytest.raises(AliveError, match=r"^flying needs a package that cannot be imported: wings are wet\. Run pip in"),
        require("flying", "alive[wings]"),
    ):
        raise ImportError("wings are wet.")
