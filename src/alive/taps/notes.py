"""What passes show of a model beside its layers: what was left out of the count, and why."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from fnmatch import fnmatchcase

from torch import nn

from ..errors import AliveError
from ..provenance import Layout
from .declared import OF_CLASSES
from .records import Unseen

CURE = (
    "Death needs a ReLU-like unit (ReLU, LeakyReLU, ReLU6, ELU, SELU, GELU, SiLU, Softplus ...), or a choice of a "
    "few of many (top-k, JumpReLU, a codebook, experts); one spelled out, such as x * (x > 0), is seen where it is a "
    f"module of its own and you say so: declared=alive.Declared(activations={OF_CLASSES['activations'][1]})"
)


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

    def asks_for(self, name: str) -> bool:
        """Whether a name matches a pattern, or there are none."""
        return not self.patterns or any(fnmatchcase(name, pattern) for pattern in self.patterns)

    def tell(self, name: str, why: str, path: str) -> None:
        """Something was noticed in a part of the model, and is not counted."""
        if name not in self.unseen and self.asks_for(name):
            self.unseen[name] = Unseen(name, why, self._share(path))

    def without_activations(self) -> AliveError:
        """What to say where no tap was met, or only taps that `layers` passed over, or ones not counted."""
        over, idle = (", ".join([*names][:8]) + " ..." * (len(names) > 8) for names in (self.passed_over, self.idle))
        if missed := next(iter(self.unseen.values()), None):
            why, _, cure = missed.why.partition("; declare")
            told = f"no one-sided activation was counted: {missed.name} {why}"
            return AliveError(told, f"Declare{cure}" if cure else CURE)
        if over:
            return AliveError(
                f"no tap matches the patterns in layers; there are {over}",
                'Patterns are shell-like and match whole names: layers=["features.*"]',
            )
        if idle:
            ran = "no one-sided activation got anything that depends on the data"
            return AliveError(f"{ran}: {idle} got only constants and weights", CURE)
        made_of = ", ".join(sorted({type(m).__name__ for m in self._root.modules() if not list(m.children())}))
        ran = f"no one-sided activation ran in {type(self._root).__name__}"
        return AliveError(f"{ran} (it is made of {made_of or 'no modules'})", CURE)

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
