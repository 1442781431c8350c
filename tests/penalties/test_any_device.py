"""Where nothing is compiled: no waiting for the device, no shape made by values, and the numbers of the plain rule."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import elsewhere
import pytest
import torch
from elsewhere import NETS, WEIGHTS, Ledger, step
from torch import Tensor, nn
from torch.utils import backend_registration

from alive import Jumpstart
from alive.functional import Separation, parts, way
from alive.functional import ends as operator
from alive.functional.extremes import Axes

CASES = [f"{net.__name__} {weight} {mode}" for net in NETS for weight in WEIGHTS for mode in ("UP", "L")]


@pytest.fixture(scope="module")
def steps() -> dict[str, Any]:
    """Steps on a device without values."""
    if not hasattr(backend_registration, "_setup_privateuseone_for_python_backend"):
        pytest.skip(f"torch {torch.__version__} knows no backend written in Python")
    found = subprocess.run([sys.executable, elsewhere.__file__], capture_output=True, text=True, check=False)
    assert found.returncode == 0, found.stderr
    return json.loads(found.stdout)


@pytest.mark.parametrize("case", CASES)
def test_a_step_elsewhere_never_waits(steps: dict[str, Any], case: str) -> None:
    assert steps[case]["waits"] == []
    assert steps[case]["measured"] >= 2
    assert steps[case]["added"] >= 2


def test_elsewhere_a_value_cannot_be_read_nor_devices_mixed(steps: dict[str, Any]) -> None:
    assert steps["reading"] == ["refused", "refused", "copy to cpu"]


@pytest.mark.parametrize("weight", WEIGHTS.values(), ids=str)
@pytest.mark.parametrize("net", NETS)
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_a_step_in_half_precision_never_waits(net: Callable[[], Any], weight: Any, dtype: torch.dtype) -> None:
    model, x = net()
    model, x, y = model.to(dtype), x.to(dtype), torch.zeros(len(x), dtype=torch.long)
    with Jumpstart(model, weight) as keep:
        for _ in range(3):
            forward, backward = step(model, x, y, keep)
    assert forward.waits + backward.waits == []
    assert forward.operations["max"] >= 2


def test_waiting_is_noticed() -> None:
    x = torch.ones(3)
    for wait in (x.sum().item, x.nonzero, lambda: x[x > 0], x.unique, lambda: x.long().bincount()):
        with Ledger() as ledger:
            wait()
        assert ledger.waits, wait
    with Ledger() as ledger:
        x.max(0)
    assert not ledger.waits


@pytest.mark.parametrize("net", NETS)
@pytest.mark.parametrize("mode", ["U", "P", "UP", "L"])
@pytest.mark.parametrize("conv", ["channel", "position"])
def test_penalty_and_gradient_are_those_of_the_compiled_way(
    net: Callable[[], Any], mode: str, conv: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def graded() -> tuple[Tensor, list[Tensor]]:
        torch.manual_seed(0)
        model, x = net()
        model, x = model.double(), x.double()
        with Jumpstart(model, mode=mode, conv=conv) as keep:
            for _ in range(2):
                loss = model(x).square().mean() + keep.penalty()
            return loss, list(torch.autograd.grad(loss, [*model.parameters()], allow_unused=True))

    loss, gradients = graded()
    monkeypatch.setattr(way, "_ways", {})
    monkeypatch.setattr(way, "compiles", lambda z: False)
    monkeypatch.setattr(operator, "compiles", lambda z: False)
    elsewhere, others = graded()
    torch.testing.assert_close(elsewhere, loss)
    for mine, theirs in zip(gradients, others, strict=True):
        torch.testing.assert_close(theirs, mine)


def deep(kind: str, depth: int = 10) -> tuple[nn.Module, Tensor]:
    if kind == "dense":
        layers = [[nn.Linear(32, 32), nn.ReLU()] for _ in range(depth)]
        return nn.Sequential(*(m for each in layers for m in each)), torch.randn(64, 32)
    layers = [[nn.Conv2d(8, 8, 3, padding=1), nn.ReLU()] for _ in range(depth)]
    return nn.Sequential(*(m for each in layers for m in each), nn.Flatten()), torch.randn(16, 8, 12, 12)


NO_WORK = {
    *("detach", "view", "_unsafe_view", "t", "transpose", "unsqueeze", "squeeze", "expand", "slice", "select", "split"),
    *(
        "flatten",
        "promote_types",
        "split_with_sizes",
        "unbind",
        "empty",
        "new_empty",
        "empty_like",
        "alias",
        "as_strided",
    ),
}


@pytest.mark.parametrize(("kind", "forward", "backward"), [("dense", 5, 2), ("conv", 10, 2)])
def test_a_layer_takes_few_operations(kind: str, forward: int, backward: int) -> None:
    """Beside those of the plain layer; what is done once for all layers does not grow with them."""

    def counted(depth: int, *, penalised: bool) -> list[int]:
        model, x = deep(kind, depth)
        model, x, y = model.bfloat16(), x.bfloat16(), torch.zeros(len(x), dtype=torch.long)
        keep = Jumpstart(model) if penalised else None
        for _ in range(3):
            ledgers = step(model, x, y, keep)
        return [sum(n for name, n in each.operations.items() if name not in NO_WORK) for each in ledgers]

    ours, plain = (
        [more - less for more, less in zip(counted(10, penalised=k), counted(5, penalised=k), strict=True)]
        for k in (True, False)
    )
    assert 0 < ours[0] - plain[0] <= 5 * forward
    assert 0 < ours[1] - plain[1] <= 5 * backward


@pytest.mark.parametrize("shape", [(6, 5), (1, 5), (4, 3, 6, 6), (0, 3)])
@pytest.mark.parametrize("mode", ["U", "L"])
@pytest.mark.parametrize("against", ["both", "death", "linearity"])
def test_the_part_of_a_rank_is_the_plain_one(
    shape: tuple[int, ...], mode: str, against: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Ends, margins and gradients; the first of equal values stands for all of them."""
    monkeypatch.setattr(way, "_ways", {})
    monkeypatch.setattr(way, "compiles", lambda z: False)
    monkeypatch.setattr(operator, "compiles", lambda z: False)
    monkeypatch.setattr(parts, "_by_operator", lambda z: True)
    rule = Separation(mode=mode, against=against, ties="single")
    z = torch.randn(shape).mul(2).round().div(4).requires_grad_()
    with Ledger() as ledger:
        part = parts.measure(z, rule, cutoff=-0.25)
    if not len(z):
        assert (part.ends == -torch.inf).all()
        return
    assert ledger.waits == []
    ends, _ = parts.plain_ends(z, rule, Axes())
    assert torch.equal(part.ends, ends)
    weight = torch.randn_like(ends)
    (mine,) = torch.autograd.grad((part.ends * weight).sum(), z)
    (plain,) = torch.autograd.grad((ends * weight).sum(), z)
    torch.testing.assert_close(mine, plain)
    s = parts.slacks(part.ends, parts.against_death(part, rule).margins, rule)
    top = ends[0] + 0.25 if 1 in rule.signs else None
    expected = torch.zeros_like(s) if top is None else rule.shares[0] * torch.relu(1 - top)
    torch.testing.assert_close(s, expected)
