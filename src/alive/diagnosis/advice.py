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
    return [*_broken(census), *_dead_points(census), *_dead_units(census), *_linear(census), *_unknown(census)]


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


def _stops(layer: LayerCensus) -> bool:
    """Whether no gradient passes a point that is dead in the layer: nothing leaks, and no path leads around."""
    return not layer.activation.leaks and not layer.bypassed


def _dead_points(census: Census) -> list[Advice]:
    dead, total = census.points.dead, census.points.total
    if not dead:
        return []
    killers = sorted((layer for layer in census.layers if layer.first_deaths), key=lambda a: -a.first_deaths)
    where = ", ".join(f"{layer.name} ({layer.first_deaths})" for layer in killers[:WORST])
    cure = 'train with alive.Jumpstart(model), or start from alive.nn.initialise_(model, "mirrored")'
    walls = [layer for layer in census.layers if (layer.first_deaths or layer.points.dead) and _stops(layer)]
    if not walls:
        how_many = f"all {total}" if dead == total else f"{dead} of {total}"
        leaks = all(layer.activation.leaks for layer in killers)
        but = "only a small slope passes there" if leaks else "gradients still pass, for other paths lead around"
        return [Advice(f"{how_many} points are off in whole layers, first at {where}; {but}", cure)]
    cure += ", or add skip connections"
    if dead == total and any(max(layer.first_deaths, layer.points.dead) == total for layer in walls):
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
            grave=any(layer.units.dead == layer.units.total and _stops(layer) for layer in worst),
        )
    ]


def _unknown(census: Census) -> list[Advice]:
    """What could not be told, and where to tell it."""
    layers = [layer for layer in census.layers if layer.unknown]
    told = [f"{layer.name}, {'; '.join(layer.unknown)}" for layer in layers[:WORST]]
    more = f", and {len(layers) - WORST} layers more" if len(layers) > WORST else ""
    found = [f"unknown in {' / '.join(told)}{more}"] if layers else []
    found += [f"not counted: {a.name} {a.why} ({a.share:.1%} of the parameters)" for a in census.unseen]
    where = "say what lies where: point_axis, unit_axes, activations or outputs (docs/guide.md, What is unknown)"
    return [Advice(text, where) for text in found]


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
