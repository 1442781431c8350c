"""The Triton kernels on a CPU: under Triton's interpreter they are torch's own reductions; for a GPU they compile."""

from __future__ import annotations

import json
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
import torch

from alive.functional import tiles

if find_spec("triton") is None:
    pytest.skip("Triton is not here", allow_module_level=True)

SCRIPT = Path(__file__).with_name("tiles_by_hand.py")
COUNT = 500


def told(*arguments: str) -> Any:
    done = subprocess.run([sys.executable, SCRIPT, *arguments], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@pytest.mark.twin
def test_random_layers_are_as_by_torch_in_value_place_and_gradient() -> None:
    found = told(str(COUNT), "0")
    assert found["faults"] == {}
    kinds = found["kinds"]
    assert sum(kinds[str(dtype)] for dtype in tiles.DTYPES) == COUNT
    assert min(kinds[kind] for kind in ("broken", "maps", "rows")) > COUNT // 10


@pytest.mark.twin
def test_a_step_by_the_kernels_is_that_by_plain_torch() -> None:
    for net, (mine, plain, apart) in told("step").items():
        assert mine == pytest.approx(plain, rel=1e-2), net
        assert apart < 0.05, net


def test_they_compile_for_two_architectures() -> None:
    found = told("ptx")
    assert len(found) == 3 * 2 * 2 * 3 * 2
    for name, (reads, writes, atomics) in found.items():
        assert reads > 0, name
        assert writes > 0, name
        assert (atomics > 0) == name.startswith("find"), name


def test_one_setting_leaves_them_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ALIVE_TRITON", "0")
    tiles.kernels.cache_clear()
    try:
        assert tiles.kernels() is None
    finally:
        tiles.kernels.cache_clear()
    assert not tiles.serves(torch.ones(3))  # on a CPU they are never taken
