"""A cure: words on it, and what it does at each place of a training script."""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Callable
from functools import cache
from inspect import getsource
from textwrap import dedent
from typing import TYPE_CHECKING, Any

from ..errors import AliveError

if TYPE_CHECKING:
    from ..diagnosis import Census

PLACES = {
    "once the model is made, before the optimiser is": ("model", "keep"),
    "once the optimiser is made": ("optimiser", "schedule"),
    "in each step, before backward()": ("loss",),
    "in each step, after backward()": ("gradients",),
    "in each step, after optimiser.step()": ("stepped",),
}


class Cure:
    """One cure, with a method for each place of a training script where it does something; this one does nothing.

    The places are model, keep (a penalty that is attached), optimiser, schedule (of its rate), loss, gradients and
    stepped. A method takes what it names of these, of `x`, the training inputs, and of `make_model`, which makes the
    model as its owner does, and returns what its place is named after. Users are shown its body, with the values of
    what it reads of `self`, and with `return` as an assignment; it imports what is not in torch or alive.

    words    what it does, as an order
    changes  what it changes about the network at the start
    raced    whether a race tries it although nobody asks for it
    small    whether it changes the steps alone: the model, its start, its inputs and the loss stay
    """

    words: str = "leave the network as its owner has it"
    changes: str = "nothing"
    raced: bool = True
    small: bool = False

    def applies(self, census: Census) -> bool:
        """Whether it can be applied to the model of a census; what is not known is no reason against it."""
        return True

    def fault(self, model: Any) -> str:
        """Why nothing came of it on a model; empty where something did."""
        return ""

    def at(self, place: str) -> Callable[..., Any] | None:
        """Its method for a place, if it has one."""
        return getattr(self, place, None)

    def text(self, place: str) -> str:
        """What a user writes at a place, who has imported torch and alive."""
        if self.at(place) is None:
            return ""
        body = re.sub(
            r"\bself\.(\w+)", lambda name: _literal(getattr(self, name[1])), _body(getattr(type(self), place))
        )
        body = re.sub(r"^return\b", f"{place} =", body, flags=re.MULTILINE)
        return "\n".join(line for line in body.splitlines() if line not in ("import torch", "", f"{place} = {place}"))


def _literal(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False) if isinstance(value, str) else repr(value)


@cache
def _body(function: Callable[..., Any]) -> str:
    """The body of a function, without its docstring."""
    try:
        text = dedent(getsource(function))
    except OSError:
        raise AliveError(
            f"the source of {function.__qualname__} cannot be read", "Write the cure into a file"
        ) from None
    definition: Any = ast.parse(text).body[0]
    first = definition.body[ast.get_docstring(definition) is not None]
    return dedent("\n".join(text.splitlines()[first.lineno - 1 :]))
