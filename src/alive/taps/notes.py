"""What passes show of a model beside its layers: what was left out of the count, and why."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Sequence
from fnmatch import fnmatchcase

from torch import nn

from ..provenance import Layout
from .records import Unseen


class Notes:
    """What was not counted, in all passes so far, and what the last one that was followed told of its output."""

    def __init__(self, root: nn.Module, patterns: Sequence[str]) -> None:
        self.passed_over: dict[str, None] = {}  # names that match none of the patterns
        self.idle: dict[str, None] = {}  # names of activations of what depends on no data
        self.unseen: dict[str, Unseen] = {}
        self.aside: set[str] = set()  # taps that turned out to be no layers
        self.through: frozenset[str] | None = None  # taps on every path to the output, once a pass was followed
        self.output: Layout | None = None  # of the output, where it is one tensor
        self.patterns = (patterns,) if isinstance(patterns, str) else tuple(patterns)
        self._root = root
        self._warned: set[str] = set()

    @property
    def reasons(self) -> tuple[Iterable[str], Iterable[Unseen], Iterable[str]]:
        """Why no layer was counted, if none was: for `without_activations`."""
        return self.passed_over, self.unseen.values(), self.idle

    def asks_for(self, name: str) -> bool:
        """Whether a name matches a pattern, or there are none."""
        return not self.patterns or any(fnmatchcase(name, pattern) for pattern in self.patterns)

    def tell(self, name: str, why: str, path: str) -> None:
        """Something was noticed in a part of the model, and is not counted."""
        if name not in self.unseen and self.asks_for(name):
            self.unseen[name] = Unseen(name, why, self._share(path))

    def warn(self, text: str) -> None:
        """Say something once."""
        if text not in self._warned:
            self._warned.add(text)
            warnings.warn(text, stacklevel=3)

    def _share(self, path: str) -> float:
        """The share of the model's parameters that lies in a part of it."""
        whole = sum(p.numel() for p in self._root.parameters()) or 1
        try:
            return sum(p.numel() for p in self._root.get_submodule(path).parameters()) / whole
        except AttributeError:
            return 0.0
