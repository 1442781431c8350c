"""What a user meets first: names that `dir` and an editor can see, and that load when they are used."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import fields
from inspect import Parameter, signature
from pathlib import Path

import pytest
from torch import nn

import alive
from alive.functional import Separation

ROOMS = (
    *("cures", "data", "diagnosis", "findings", "forecast", "functional", "history", "load", "nn"),
    *("penalties", "proof", "race", "render", "surgery", "taps", "theory", "train"),
)


def run(code: str) -> str:
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout


def test_dir_shows_the_public_names_and_imports_nothing():
    names = run("import sys, alive; print(*dir(alive)); print('torch' in sys.modules)").split()
    assert names[-1] == "False"
    assert set(names[:-1]) == {*alive.__all__, *ROOMS}


def test_every_room_loads_after_a_plain_import():
    folder = Path(alive.__file__).parent
    assert all((folder / room).is_dir() for room in ROOMS)
    rooms = f"*(getattr(alive, room).__name__ for room in {ROOMS})"
    code = f"import alive; print({rooms}, alive.nn.initialise_.__name__)"
    assert run(code).split() == [*(f"alive.{room}" for room in ROOMS), "initialise_"]


def test_a_star_leaves_the_users_own_nn_alone():
    code = (
        "from torch import nn; import sys; from alive import *; print(nn.__name__, Jumpstart.__name__, census.__name__)"
    )
    assert run(code).split() == ["torch.nn", "Jumpstart", "census"]


def test_a_name_that_is_nearly_right_leads_to_the_right_one():
    with pytest.raises(AttributeError, match=r"'Jumpstrt'.*did you mean 'Jumpstart'"):
        _ = alive.Jumpstrt
    assert not hasattr(alive, "__nonsense__")


# Jumpstart's options.

OPTIONS = signature(alive.Jumpstart).parameters


@pytest.mark.contract
@pytest.mark.parametrize("field", fields(Separation), ids=lambda field: field.name)
def test_what_separation_asks_is_an_option_with_the_same_default(field):
    option = OPTIONS[field.name]
    assert option.kind is Parameter.KEYWORD_ONLY
    assert option.default == field.default
    assert option.annotation == field.type


def test_every_option_is_documented():
    for name in OPTIONS:
        if name not in ("model", "unknown"):
            assert name in alive.Jumpstart.__doc__


OTHER = {"mode": "P", "conv": "position", "against": "death", "balance": 0.3, "pos_margin": 2.0, "neg_margin": 0.5}


def test_options_reach_the_rule():
    asked = OTHER | {"ties": "single"}
    assert set(asked) == {field.name for field in fields(Separation)}
    with alive.Jumpstart(nn.Sequential(nn.Linear(2, 2), nn.ReLU()), **asked) as keep:
        assert keep.rule == Separation(**asked)
        assert keep.rule != Separation()


def test_an_option_that_is_nearly_right_leads_to_the_right_one():
    with pytest.raises(alive.AliveError, match=r"unknown option 'agregate'.*did you mean 'aggregate'"):
        alive.Jumpstart(nn.Linear(1, 1), agregate="sum")
