"""Small language models: who is dead or rarely on while they learn, and whether Sep-U helps."""

from __future__ import annotations

from ...studies import Run
from ...studies.language import ACTIVATIONS, METHODS
from ..cell import Cell
from ..spec import Claim, Experiment, Figure
from .dying import lead, measured


def _models(scale: str, architecture: str, seed: int) -> list[Cell]:
    steps, width = (5000, 256) if scale == "paper" else (120, 64)
    return [
        Cell(
            Run(
                "language",
                f"{activation}, {layers} layers",
                method,
                seed,
                steps=steps,
                width=width,
                lr=3e-3,
                options=(("layers", layers), ("activation", activation)),
            )
        )
        for layers in ((2,) if scale == "quick" else (2, 4, 6))
        for activation in ACTIVATIONS
        for method in METHODS
    ]


LANGUAGE = Experiment(
    name="language",
    title="Language models of bytes: dead and rare units, and Sep-U",
    paper="ours",
    grid=_models,
    claims=(
        Claim("dead", "ReLU, 2 layers: share of dead units", measured("dead", "plain", "ReLU, 2 layers"), (0.01, 1)),
        *(
            Claim(
                f"bits-{activation.replace('²', '-squared')}",
                f"{activation}, 2 layers: with Sep-U a byte takes fewer bits after as many steps: by how much",
                lead("bits", "Sep-U", "plain", f"{activation}, 2 layers"),
                (0, 1),
            )
            for activation in ACTIVATIONS
        ),
    ),
    figures=(Figure("courses", "courses", "Over the steps: mean over seeds, and their spread"),),
)
