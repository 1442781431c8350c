"""Private names of torch: all there in the installed release, all listed, and used through one file."""

from __future__ import annotations

import ast
import re
from importlib import import_module
from typing import Any

import pytest
import torch
from shape import private_accesses, sources
from torch import nn

from alive import torch_private
from alive.torch_private import PRIVATE, Private

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
    assert {*torch_private.__all__} - taken == {"PRIVATE", "Private"}
