"""Which cure for which finding, in the order of what was measured, and the lines of code that apply it.

The order is that of the clinic's table (docs/advice.md): cures by how many of the networks with that finding they
train, of equals the simpler first; a test holds this file to the table.
"""

from __future__ import annotations

from typing import NamedTuple

from ..record import Census

# What can be found wrong. The word in the middle tells a fresh network from one that has left its start.
INFINITE_FRESH, INFINITE_TRAINED = "infinite at the start", "infinite after training"
DEAD_FRESH, DEAD_TRAINED = "dead at the start", "dead after training"
SIGNAL_GONE, EXPLODES, EXPLODES_AROUND = "the signal is gone", "explodes", "explodes along skips"
ALIKE, SCALE, DROWNED, IN_PART = "units alike", "inputs badly scaled", "the penalty drowns the task", "dead in part"


class Remedy(NamedTuple):
    """A cure in words, and the lines of code that apply it to `model` (its inputs `x`, its `optimiser`, its `loss`)."""

    words: str
    code: tuple[str, ...]


ADDED, CLIPPED = "loss = loss + keep.penalty()", "torch.nn.utils.clip_grad_norm_(model.parameters(), max_norm=1.0)"
EACH_STEP = (ADDED, CLIPPED)


def _start(name: str) -> str:
    return f'alive.nn.initialise_(model, "{name}")'


def _penalty(mode: str, aggregate: str, weight: float) -> tuple[str, ...]:
    asked = f'alive.Jumpstart(model, weight={weight:g}, mode="{mode}", aggregate="{aggregate}")'
    return f"keep = {asked}", ADDED


RATE = 'for group in optimiser.param_groups: group["lr"] /= 10'
STANDARDISE = "model = torch.nn.Sequential(alive.nn.Standardise(x), model)"
ON_BOTH = _penalty("UP", "mean", 0.3)

REMEDIES: dict[str, Remedy] = {
    "kaiming": Remedy("start anew, Kaiming", (_start("kaiming"),)),
    "glorot": Remedy("start anew, Glorot", (_start("glorot"),)),
    "mirrored": Remedy("start anew in mirrored pairs", (_start("mirrored"),)),
    "U sum": Remedy("keep units alive while it trains", _penalty("U", "sumsq", 1e-4)),
    "P sum": Remedy("keep points alive while it trains", _penalty("P", "sumsq", 1e-4)),
    "UP sum": Remedy("keep units and points alive while it trains", _penalty("UP", "sumsq", 1e-4)),
    "U mean": Remedy("keep units alive while it trains", _penalty("U", "mean", 0.3)),
    "UP mean": Remedy("keep units and points alive while it trains", ON_BOTH),
    "rate/10": Remedy("take a tenth of the learning rate", (RATE,)),
    "clip": Remedy("clip gradients, after backward", (CLIPPED,)),
    "standardise": Remedy("bring the inputs to mean 0 and spread 1", (STANDARDISE,)),
    "batch norm": Remedy("put batch norm behind every hidden layer", ("model = alive.nn.with_batch_norm(model)",)),
    "torch, rate/10": Remedy("start anew, as PyTorch does, at a tenth of the rate", (_start("torch"), RATE)),
    "kaiming, rate/10": Remedy("start anew, Kaiming, at a tenth of the rate", (_start("kaiming"), RATE)),
    "mirrored, rate/10": Remedy("start anew in mirrored pairs, at a tenth of the rate", (_start("mirrored"), RATE)),
    "mirrored, UP mean": Remedy("start anew in mirrored pairs, and keep it alive", (_start("mirrored"), *ON_BOTH)),
    "standardise, kaiming": Remedy(
        "bring the inputs to mean 0 and spread 1, and start anew, Kaiming", (_start("kaiming"), STANDARDISE)
    ),
    "no penalty": Remedy("train without the penalty", ("keep.detach()",)),
}

ORDER: dict[str, tuple[str, ...]] = {
    INFINITE_FRESH: ("mirrored", "mirrored, UP mean", "mirrored, rate/10"),
    INFINITE_TRAINED: ("torch, rate/10", "mirrored, rate/10", "kaiming, rate/10"),
    DEAD_FRESH: (
        "mirrored, UP mean",
        "mirrored, rate/10",
        "mirrored",
        "kaiming",
        "glorot",
        "standardise, kaiming",
        "kaiming, rate/10",
    ),
    DEAD_TRAINED: (
        "mirrored, rate/10",
        "kaiming, rate/10",
        "mirrored",
        "glorot",
        "torch, rate/10",
        "mirrored, UP mean",
    ),
    SIGNAL_GONE: ("mirrored", "mirrored, UP mean", "mirrored, rate/10", "kaiming"),
    EXPLODES: (
        "mirrored",
        "kaiming",
        "glorot",
        "mirrored, UP mean",
        "mirrored, rate/10",
        "standardise, kaiming",
        "kaiming, rate/10",
    ),
    EXPLODES_AROUND: ("batch norm", "mirrored", "mirrored, UP mean", "torch, rate/10", "glorot", "mirrored, rate/10"),
    ALIKE: (
        "kaiming",
        "glorot",
        "mirrored",
        "mirrored, UP mean",
        "standardise, kaiming",
        "kaiming, rate/10",
        "mirrored, rate/10",
    ),
    SCALE: ("standardise", "standardise, kaiming"),
    DROWNED: ("U mean", "U sum", "UP sum", "UP mean", "no penalty", "P sum"),
    IN_PART: ("U sum", "UP sum", "UP mean", "U mean"),
}


def cures(finding: str, census: Census) -> tuple[str, ...]:
    """The cures for a finding that apply to the model of a census, the best first."""
    skips = finding != EXPLODES_AROUND and any(layer.bypassed for layer in census.layers)
    named = [name for name in ORDER[finding] if not (skips and "mirrored" in name)]  # which asks for a plain chain
    return tuple(name for name in named if all(_applies(part, census) for part in name.split(", ")))


def _applies(part: str, census: Census) -> bool:
    """Whether one part of a cure can be applied; where nothing is known of the model, all can."""
    if part == "standardise":
        return census.input is not None
    if census.build is None:
        return True
    if part in ("torch", "kaiming", "glorot", "mirrored"):
        return part in census.build.starts
    return part != "batch norm" or (bool(census.build.starts) and not census.build.norms)
