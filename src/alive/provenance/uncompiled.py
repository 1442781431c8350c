"""While a pass is followed, what is compiled runs as it is written."""

from __future__ import annotations

import sys
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec
from importlib.util import find_spec
from types import ModuleType
from typing import Any

import torch

COMPILER = "torch._dynamo"


class Uncompiled(MetaPathFinder):
    """What is compiled in part runs as it is written inside, and is compiled at its next call.

    The compiler takes a second to load, and few models use it: where it is not there yet, we wait until the pass
    itself loads it, as `torch.cond` and `flex_attention` do at their first call.
    """

    def __init__(self) -> None:
        self._passes = 0
        self._stance: Any = None

    def begin(self) -> None:
        """A pass is followed."""
        self._passes += 1
        if self._stance is None and COMPILER in sys.modules:
            self._stance = torch.compiler.set_stance("force_eager")
        elif self._stance is None and self not in sys.meta_path:
            sys.meta_path.insert(0, self)

    def end(self) -> None:
        """It has ended; the last of several gives back what was, in whichever order they end."""
        self._passes -= 1
        if self._passes > 0:
            return
        if self in sys.meta_path:
            sys.meta_path.remove(self)
        if self._stance is not None:
            stance, self._stance = self._stance, None
            stance.__exit__(None, None, None)

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> ModuleSpec | None:
        """Of the compiler, how it is loaded, with one more step at the end; of all else nothing."""
        if name != COMPILER:
            return None
        sys.meta_path.remove(self)
        found = find_spec(name)
        if found is not None and found.loader is not None:
            load = found.loader.exec_module

            def loaded(module: ModuleType) -> None:
                load(module)
                if self._passes:
                    self._stance = torch.compiler.set_stance("force_eager")

            found.loader.exec_module = loaded  # type: ignore[method-assign]
        return found


UNCOMPILED = Uncompiled()
