"""All weights drawn anew."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import alive

from .cure import Cure


@dataclass(frozen=True)
class Start(Cure):
    """A start by its name."""

    start: str
    words: str
    raced: bool = False
    changes = "all weights are drawn anew"

    def applies(self, census: alive.Census) -> bool:
        return census.build is None or self.start in census.build.starts

    def model(self, model: Any) -> Any:
        alive.nn.initialise_(model, self.start)
        return model


class Anew(Cure):
    """The model as its owner makes it, without what training did to it."""

    words = "make the model anew"
    changes = "all weights are as they were before training"
    raced = False

    def model(self, make_model: Any) -> Any:
        return make_model()


CURES: dict[str, Cure] = {
    "anew": Anew(),
    "mirrored": Start("mirrored", "start anew in mirrored pairs", raced=True),
    "kaiming": Start("kaiming", "start anew, Kaiming"),
    "glorot": Start("glorot", "start anew, Glorot"),
    "torch": Start("torch", "start anew, as PyTorch does"),
}
