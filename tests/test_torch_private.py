"""Private names of torch: all there in the installed release, all listed, and used through one file."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
import warnings
from importlib import import_module
from importlib.util import module_from_spec, spec_from_file_location
from typing import Any

import pytest
import torch
from shape import private_accesses, sources
from torch import nn

from alive import torch_private
from alive.errors import AliveError
from alive.torch_private import Private, read_private

PRIVATE = read_private()
NOT_OF_TORCH = {"_processes", "_private", "_cache_file"}  # of the standard library, Ray and Numba


class Double(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: torch.Tensor) -> torch.Tensor:
        ctx.save_for_backward(x)
        return 2 * x

    @staticmethod
    def backward(ctx: Any, gradient: torch.Tensor) -> torch.Tensor:
        return 2 * gradient


def objects(kind: str) -> list[Any]:
    """Things that have the attributes of a kind."""
    x = torch.ones(1, requires_grad=True)
    if kind == "Compiled":
        return [torch.compile(nn.Linear(1, 1))]
    return {
        "Module": [nn.Linear(1, 1)],
        "Tensor": [x],
        "Storage": [x.untyped_storage()],
        "Operator": [torch.ops.aten.relu.default],
        "Node": [x.exp().grad_fn],
        "Function": [Double, Double.apply(x).grad_fn],
    }[kind]


def is_there(name: str) -> bool:
    """Whether torch has it, or one of several."""
    return any(map(is_found, name.split(" or ")))


def is_found(name: str) -> bool:
    first, *steps = name.split(".")
    if first != "torch":
        return any(hasattr(found, steps[0]) for found in objects(first))
    found: Any = torch
    for number, step in enumerate(steps, 1):
        if not hasattr(found, step):
            try:
                import_module(".".join([first, *steps[:number]]))
            except ImportError:
                return False
        found = getattr(found, step)
    return True


@pytest.mark.contract
@pytest.mark.filterwarnings("ignore:.*torch.jit:DeprecationWarning")  # torch.compile imports what is deprecated
@pytest.mark.parametrize("private", PRIVATE, ids=lambda private: private.name)
def test_the_installed_torch_has_it(private: Private):
    assert is_there(private.name), (
        f"torch {torch.__version__} broke {private.name}, needed for: {private.needed_for}. "
        f"Public way: {private.instead}. constraints.txt has the release that is known to work"
    )


def test_a_name_that_went_away_is_noticed():
    assert not is_there("torch._C._no_such_name")
    assert not is_there("torch._no_such_module.name")
    assert not is_there("Module._no_such_attribute")
    assert not is_there("torch._C._no_such_name or torch._C._nor_this_one")
    assert is_there("torch._C._no_such_name or Module._modules")


def test_every_private_name_in_the_source_is_listed():
    listed = {part for private in PRIVATE for part in re.split(r"\.| or ", private.name)} | NOT_OF_TORCH
    _, found = private_accesses(sources())
    assert [access for access in found if not {*access.split(" ", 1)[1].split(".")} & listed] == []


def test_other_files_use_them_through_this_one():
    _, found = private_accesses(sources())
    outside = [access for access in found if not access.startswith("torch_private.py:")]
    assert [access for access in outside if access.rsplit(".", 1)[-1] not in NOT_OF_TORCH] == []


def test_what_the_file_offers_is_used():
    taken = {
        alias.name
        for module in sources().values()
        for node in ast.walk(module)
        if isinstance(node, ast.ImportFrom) and node.module == "torch_private"
        for alias in node.names
    }
    mine = {
        name for name, thing in vars(torch_private).items() if getattr(thing, "__module__", "") == "alive.torch_private"
    }
    offered = {name for name in mine if not name.startswith("_") and len(name) > 1}
    assert offered - taken == {"Private", "read_private"}


LOST = [name for private in PRIVATE for name in private.name.split(" or ") if re.match(r"torch\.(?!_VF)", name)]


def load_without(monkeypatch: pytest.MonkeyPatch, *names: str) -> Any:
    """A second copy of the file, as it is where torch does not have these names."""
    spec = spec_from_file_location("alive.torch_private_copy", torch_private.__file__)
    assert spec is not None
    assert spec.loader is not None
    copy = module_from_spec(spec)
    with monkeypatch.context() as without, warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        for name in names:
            owner, _, last = name.rpartition(".")
            without.delattr(owner_of(owner), last, raising=False)
        spec.loader.exec_module(copy)
    copy.told = [str(each.message) for each in told]
    return copy


def owner_of(path: str) -> Any:
    """A module or class of torch by its dotted name."""
    found: Any = torch
    for step in path.split(".")[1:]:
        found = getattr(found, step)
    return found


@pytest.mark.parametrize("name", LOST)
def test_without_a_name_the_file_still_loads_and_says_what_goes(name: str, monkeypatch: pytest.MonkeyPatch):
    copy = load_without(monkeypatch, name)
    assert set(copy.MISSING) <= {name}
    assert len(copy.told) == len(copy.MISSING)
    assert all(name in text and "goes without" in text for text in copy.told)


def test_without_all_of_them_questions_have_answers(monkeypatch: pytest.MonkeyPatch):
    copy = load_without(monkeypatch, *LOST)
    assert len(copy.MISSING) > 25
    assert copy.modes_without_values() == []
    assert not copy.is_transformed()
    assert not copy.is_proxy_tracing()
    assert not copy.is_fx_tracing()
    assert not copy.in_backward()
    assert copy.tree_map(lambda x: x + 1, {"a": [1, (2, 3)]}) == {"a": [2, (3, 4)]}
    assert copy.tree_leaves({"a": [1, (2, 3)]}) == [1, 2, 3]
    assert isinstance(nn.BatchNorm2d(1), copy.BatchNorm)
    with pytest.raises(AliveError, match="DisableTorchFunction"):
        copy.DisableTorchFunction()


def test_the_penalty_goes_on_without_what_only_asks(tmp_path):
    """A process whose torch lacks, while alive is imported, every name that something else can stand for."""
    script = tmp_path / "without.py"
    script.write_text(SCRIPT)
    names = [name for name in LOST if not any(word in name for word in NEEDED)]
    found = [
        subprocess.run(
            [sys.executable, "-W", "ignore", script, *some], check=True, capture_output=True, text=True
        ).stdout
        for some in (names, [])
    ]
    assert found[0] == found[1] != ""


NEEDED = ("_python_dispatch", "overrides", "TorchFunction", "functorch", "_call_impl", "HigherOrder")
SCRIPT = """
import sys, torch
from torch import nn

def owner_of(path):
    found = torch
    for step in path.split(".")[1:]:
        found = getattr(found, step)
    return found

held = []
for name in sys.argv[1:]:
    owner, _, last = name.rpartition(".")
    if hasattr(owner_of(owner), last):
        held.append((owner_of(owner), last, getattr(owner_of(owner), last)))
        delattr(*held[-1][:2])
import alive.torch_private
for each in held:
    setattr(*each)
assert len(alive.torch_private.MISSING) >= (10 if held else 0), alive.torch_private.MISSING
torch.manual_seed(0)
net = nn.Sequential(nn.Linear(2, 8), nn.BatchNorm1d(8), nn.ReLU(), nn.Linear(8, 8), nn.ReLU(), nn.Linear(8, 1))
x = torch.randn(64, 2)
optimiser = torch.optim.SGD(net.parameters(), lr=0.1)
with alive.Jumpstart(net) as keep:
    for _ in range(5):
        optimiser.zero_grad()
        (net(x).square().mean() + keep.penalty()).backward()
        optimiser.step()
print(sum(float(p.detach().double().sum()) for p in net.parameters()), alive.census(net.eval(), [x]))
"""
