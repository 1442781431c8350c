"""What a census means for training, and what to do about it: the worst layers by name."""

from __future__ import annotations

from typing import NamedTuple

from .census import Census, LayerCensus

WORST = 3  # layers named in one piece of advice


class Advice(NamedTuple):
    """What was found, and what to do; grave if training cannot work as it is."""

    found: str
    do: str
    grave: bool = False


def advise(census: Census) -> list[Advice]:
    """What to say, the gravest first; nothing if every unit and point is alive and nonlinear."""
    return [*_broken(census), *_dead_points(census), *_dead_units(census), *_linear(census)]


def _broken(census: Census) -> list[Advice]:
    worst = [layer for layer in census.layers if layer.units.broken]
    if not worst:
        return []
    return [
        Advice(
            f"NaN or infinite pre-activations from {worst[0].name} on",
            "lower the learning rate, clip gradients, or look for a division or logarithm before that layer",
            grave=True,
        )
    ]


def _dead_points(census: Census) -> list[Advice]:
    dead, total = census.points.dead, census.points.total
    if not dead:
        return []
    cure = (
        'train with alive.Jumpstart(model), start from alive.nn.initialise_(model, "mirrored"), or add skip connections'
    )
    killers = sorted((layer for layer in census.layers if layer.first_deaths), key=lambda a: -a.first_deaths)
    where = ", ".join(f"{layer.name} ({layer.first_deaths})" for layer in killers[:WORST])
    if dead == total:
        return [
            Advice(f"no point reaches the output: all {total} die, first at {where}; no gradient passes", cure, True)
        ]
    return [Advice(f"{dead} of {total} points die before the output, first at {where}; they teach nothing below", cure)]


def _dead_units(census: Census) -> list[Advice]:
    worst = sorted((layer for layer in census.layers if layer.units.dead), key=_share_dead, reverse=True)
    if not worst:
        return []
    where = ", ".join(f"{layer.name} ({layer.units.dead} of {layer.units.total})" for layer in worst[:WORST])
    return [
        Advice(
            f"{census.units.dead} of {census.units.total} units are off for every point, most in {where}",
            'train with alive.Jumpstart(model, mode="U"), or lower the learning rate if they died during training',
            grave=any(layer.units.dead == layer.units.total for layer in worst),
        )
    ]


def _linear(census: Census) -> list[Advice]:
    worst = sorted((layer for layer in census.layers if layer.units.linear), key=lambda a: -a.units.linear)
    if not worst:
        return []
    where = ", ".join(f"{layer.name} ({layer.units.linear} of {layer.units.total})" for layer in worst[:WORST])
    return [
        Advice(
            f"{census.units.linear} of {census.units.total} units are never off and bend nothing, most in {where}",
            "harmless to gradients; alive.Jumpstart(model) makes them bend, or merge them into the next layer",
        )
    ]


def _share_dead(layer: LayerCensus) -> float:
    return layer.units.dead / layer.units.total
