"""What a census means for training, and what to do about it: the layers at fault, the cause, and measured cures."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

from ...taps import NOUNS
from ...taps.selections import CODE, EXPERT, LATENT, UNIT
from ..record import CUT_OFF, EXPLODED, HAVE_MERGED, VANISHED, Census, LayerCensus, silent
from . import remedies
from .remedies import cures, spoken
from .scale import scale

WORST = 3  # layers named in one piece of advice
# Times the task's gradient, after training: at most 0.7 in the 74 networks of the clinic that a penalty trained, at
# least 1400 in the three that it drowned; this is the middle. At the start it tells nothing: up to 136 in the former.
DROWNS = 30.0
FIRST = "it may follow from the above: cure that first, then take the census again"
SAME = "do the same"
SETTLE = "it may change once the batch norms have seen data"
RACE = "Or race all cures on your own data: alive cure"
LIFTED = (
    "or add alive.Jumpstart(model, weight=1e-3, mode='U', against='death').penalty() to the loss, which lifts the "
    "largest margin of each to being chosen"
)
CHOSEN_AGAIN = {
    LATENT: "subtract the mean of the data before the encoder",
    CODE: "set dead codes to inputs of the quantiser",
    EXPERT: "add a loss that balances the load of the router",
}
LOST = {HAVE_MERGED: "ALV006", VANISHED: "ALV007", EXPLODED: "ALV008"}  # the rule of each way to lose the signal
BY_HAND = "make thin layers wider, or add skip connections or norms"
CUTS = "torch.no_grad(), detach(), .data, numpy or an argmax in forward()"
BUT = ", if nothing else in it bends (a tanh, a softmax, a norm, a maximum)"


class Advice(NamedTuple):
    """What was found, and what to do; grave if training cannot work as it is.

    finding  its name in `remedies.ORDER`, where cures for it were measured
    cures    those that apply to the model, the best first, by their names in `remedies.REMEDIES`
    rule     the id of its kind, which `alive rules` explains
    at       the layer where it begins, by its name; empty where it is of the whole network
    """

    found: str
    do: str
    grave: bool = False
    finding: str = ""
    cures: tuple[str, ...] = ()
    rule: str = ""
    at: str = ""


def advise(census: Census, *, pull: float | None = None) -> list[Advice]:
    """The findings with their cures, the most serious first; empty if all is well.

    pull   how hard the penalty pulls at the weights, where it was trained with one and the task was not learned: see
           `alive.penalties.pull`
    """
    inputs = _scale(census)
    causes = [
        *_broken(census),
        *(a for a in inputs if a.grave),
        *_no_point(census),
        *_alike(census),
        *_cut_off(census),
        *_gone(census),
        *_explodes(census),
        *drowned(census, pull),
        *(a for a in inputs if not a.grave),
    ]
    caused = any(a.grave for a in causes)
    parts = [*_dead_points(census), *_dead_units(census, caused), *_bends_nothing(census), *_linear(census)]
    parts = [a._replace(do=FIRST, cures=()) for a in parts] if caused else _once(parts, _in_part(census))
    found = [*causes[:1], *(a._replace(do=_after(a, causes[0])) for a in causes[1:]), *parts, *_never_chosen(census)]
    if census.unsettled:
        found = [_unsettled(census), *(a._replace(do=SETTLE, grave=False, cures=()) for a in found)]
    return [*found, *_unknown(census)]


def _unsettled(census: Census) -> Advice:
    """Batch norms do in training what fresh ones do not do in a census."""
    norms = census.unsettled
    which = f"{norms[0]} has" if len(norms) == 1 else f"{len(norms)} batch norms ({norms[0]} first) have"
    return Advice(
        f"{which} seen no data yet: in eval mode they do nothing, and what is counted here is not what training sees",
        "take the census after some steps of training, or judge fresh starts by alive preflight, which settles them",
        rule="ALV014",
    )


def _after(advice: Advice, first: Advice) -> str:
    """A later finding with the same cures as an earlier one does not repeat them."""
    return FIRST if first.grave and advice.cures == first.cures else advice.do


def _once(parts: Sequence[Advice], cure: str) -> list[Advice]:
    """The same without saying a cure twice."""
    told = [number for number, advice in enumerate(parts) if advice.do.endswith(cure)]
    return [a._replace(do=a.do.replace(cure, SAME)) if k in told[1:] else a for k, a in enumerate(parts)]


def _measured(found: str, finding: str, census: Census, *, rule: str, at: LayerCensus | None = None) -> Advice:
    """A grave finding, and the cures that were measured for it."""
    names = cures(finding, census)
    place = "" if at is None else at.name
    return Advice(found, f"{spoken(names, BY_HAND)}. {RACE}", True, finding, names, rule, place)


class Names:
    """What leads to the layers of a census: what made the input, the activation, and the line of the call.

    Where one line calls all of them, it leads nowhere and is left out.
    """

    def __init__(self, census: Census) -> None:
        self._by_line = len({layer.where for layer in census.layers}) > 1

    def of(self, layer: LayerCensus, count: str = "") -> str:
        """One layer."""
        at = f" at {layer.where}" if self._by_line and layer.where else ""
        return f"{layer.label or layer.name}{at}{count}"

    def few(self, layers: Sequence[LayerCensus], counts: Sequence[str] = ()) -> str:
        """The first few, each with its count."""
        return ", ".join(map(self.of, layers[:WORST], [f" ({count})" for count in counts] or [""] * WORST))


def _has_moved(census: Census) -> bool:
    return census.build is not None and census.build.moved


def _broken(census: Census) -> list[Advice]:
    worst = [layer for layer in census.layers if layer.units.broken]
    if not worst:
        return []
    found = f"NaN or infinite pre-activations from {Names(census).of(worst[0])} on"
    moved = _has_moved(census)
    said, finding = (
        (": training went astray", remedies.INFINITE_TRAINED)
        if moved
        else (", in a fresh network", remedies.INFINITE_FRESH)
    )
    return [_measured(found + said, finding, census, rule="ALV005", at=worst[0])]


def _scale(census: Census) -> list[Advice]:
    found, grave = scale(census.input)
    if not found:
        return []
    return [_measured(found, remedies.SCALE, census, rule="ALV010")._replace(grave=grave)]


def _stops(layer: LayerCensus) -> bool:
    """Whether no gradient passes a point that is dead in the layer: nothing leaks, and no path leads around."""
    return not layer.activation.leaks and not layer.bypassed


def _walls(census: Census) -> list[LayerCensus]:
    """The layers at which gradients of dead points stop."""
    return [layer for layer in census.layers if (layer.first_deaths or layer.points.dead) and _stops(layer)]


def _all_die(census: Census) -> bool:
    dead, total = census.points.dead, census.points.total
    return 0 < dead == total and any(max(a.first_deaths, a.points.dead) == total for a in _walls(census))


def _killers(census: Census) -> str:
    killers = sorted((layer for layer in census.layers if layer.first_deaths), key=lambda a: -a.first_deaths)
    return Names(census).few(killers, [str(layer.first_deaths) for layer in killers])


def _no_point(census: Census) -> list[Advice]:
    """No point reaches the output: born so, or died while it was trained."""
    if not _all_die(census):
        return []
    moved = _has_moved(census)
    how = (
        "; its biases are not those of a fresh start, so it died in training, as happens at too high a rate"
        if moved
        else ""
    )
    found = (
        f"no point reaches the output: all {census.points.total} die, first at {_killers(census)}; no gradient passes"
    )
    finding = remedies.DEAD_TRAINED if moved else remedies.DEAD_FRESH
    first = max(census.layers, key=lambda layer: layer.first_deaths)
    return [_measured(found + how, finding, census, rule="ALV011", at=first)]


def _alike(census: Census) -> list[Advice]:
    """All units of every layer do the same, as after a constant start: they learn as one."""
    if not census.layers or not all(map(_is_alike, census.layers)):
        return []
    found = (
        f"all units of every layer do the same, from {Names(census).of(census.layers[0])} on: they learn as one unit"
    )
    return [_measured(found, remedies.ALIKE, census, rule="ALV009", at=census.layers[0])]


def _is_alike(layer: LayerCensus) -> bool:
    top, bottom = layer.top, layer.bottom
    same = len(top) > 1 and bool((top == top[0]).all() and (bottom == bottom[0]).all())
    return same and bool(top[0] > layer.activation.cutoff)


def _gone(census: Census) -> list[Advice]:
    """No signal passes: points have merged, or the gradient has vanished or exploded."""
    if not census.losses or _all_die(census) or _is_broken(census) or is_cut_off(census):
        return []
    exploded = remedies.EXPLODES_AROUND if any(a.bypassed for a in census.layers) else remedies.EXPLODES
    findings = {EXPLODED: exploded, VANISHED: remedies.SIGNAL_GONE, HAVE_MERGED: remedies.SIGNAL_GONE}
    return [
        _measured(
            census.sentence(word, layer, Names(census).of(layer)), findings[word], census, rule=LOST[word], at=layer
        )
        for word, layer in census.losses
    ]


def is_cut_off(census: Census) -> bool:
    """Whether nothing leads back from the output to any layer."""
    return any(word == CUT_OFF for word, _ in census.losses)


def _cut_off(census: Census) -> list[Advice]:
    """Nothing leads back to a layer: grave where that is so of all of them."""
    if not census.cut_off:
        return []
    last = census.cut_off[-1]
    if is_cut_off(census):
        found = census.sentence(CUT_OFF, last, Names(census).of(last))
        do = f"unless that is meant, look for what cuts it off: {CUTS}"
        return [Advice(found, do, True, rule="ALV007", at=last.name)]
    found = f"no gradient comes back to {Names(census).few(census.cut_off)}: nothing leads there from the output"
    do = f"a frozen part, or one that this output does not use, is as it should be; else look for {CUTS}"
    return [Advice(found, do, rule="ALV007", at=last.name)]


def _explodes(census: Census) -> list[Advice]:
    """The gradient explodes in layers that skips lead around: the signal is not gone, and cannot be used."""
    hit = [layer for layer in census.layers if EXPLODED in census.words(layer)]
    if not hit or census.losses or census.unsettled or _is_broken(census):
        return []
    times, where = hit[0].signal.gradient, Names(census).of(hit[0])
    found = f"the gradient grows to {times:.1e} times the output's on its way back to {where}"
    return [_measured(found, remedies.EXPLODES_AROUND, census, rule="ALV008", at=hit[0])]


def _is_broken(census: Census) -> bool:
    return any(layer.units.broken for layer in census.layers)


def drowned(census: Census, pull: float | None) -> list[Advice]:
    """Whether the penalty's own weight is the cause; where the task has no gradient left, something else is."""
    if pull is None or not DROWNS < pull < float("inf"):
        return []
    found = f"the penalty pulls {pull:.0f} times as hard at the weights as the task, and drowns it: it weighs too much"
    names = cures(remedies.DROWNED, census)
    kept = "keep.detach(), then " if names[:1] != ("no penalty",) else ""
    return [Advice(found, kept + spoken(names, BY_HAND), True, remedies.DROWNED, names, "ALV015")]


def _in_part(census: Census) -> str:
    return spoken(cures(remedies.IN_PART, census)[:1], BY_HAND)


def _revived(found: str, census: Census, rule: str) -> Advice:
    """What is dead in part: no reason not to train, and what brings it back."""
    do = f"it may train all the same; to bring them back, {_in_part(census)}"
    return Advice(found, do, False, remedies.IN_PART, cures(remedies.IN_PART, census), rule)


def _dead_points(census: Census) -> list[Advice]:
    """Some points are dead, or all are and gradients still pass."""
    dead, total = census.points.dead, census.points.total
    if not dead or _all_die(census):
        return []
    if _walls(census):
        found = f"{dead} of {total} points die before the output, first at {_killers(census)}; they teach nothing below"
        return [_revived(found, census, "ALV002")]
    how_many = f"all {total}" if dead == total else f"{dead} of {total}"
    walls = [layer for layer in census.layers if layer.first_deaths]
    are = "off or saturated" if any(math.isfinite(layer.activation.ceiling) for layer in walls) else "off"
    leaks = all(layer.activation.leaks for layer in walls)
    but = "only a small slope passes there" if leaks else "gradients still pass along other paths"
    found = f"{how_many} points are {are} in whole layers, first at {_killers(census)}; {but}"
    return [_revived(found, census, "ALV002")]


def _dead_units(census: Census, caused: bool) -> list[Advice]:
    worst = _worst_dead(census, UNIT)
    if not worst:
        return []
    where = Names(census).few(worst, [f"{layer.units.dead} of {layer.units.known}" for layer in worst])
    units = census.chosen(UNIT)
    found = f"{units.dead} of {units.known} units are {silent(worst)} for every point, most in {where}"
    if not caused and any(layer.units.dead == layer.units.total and _stops(layer) for layer in worst):
        finding = remedies.DEAD_TRAINED if _has_moved(census) else remedies.DEAD_FRESH
        return [_measured(found, finding, census, rule="ALV001", at=worst[0])]
    return [_revived(found, census, "ALV001")]


def _worst_dead(census: Census, noun: str) -> list[LayerCensus]:
    """The layers of units of a kind in which some are dead, the worst first."""
    hit = (layer for layer in census.layers if layer.noun == noun and layer.units.dead)
    return sorted(hit, key=_share_dead, reverse=True)


def _never_chosen(census: Census) -> list[Advice]:
    """Latents, codes and experts that nothing chooses."""
    advice = []
    for noun in NOUNS:
        if worst := _worst_dead(census, noun):
            dead, total = census.chosen(noun).dead, census.chosen(noun).known
            where = Names(census).few(worst, [f"{layer.units.dead} of {layer.units.known}" for layer in worst])
            never = "are never chosen with a value that passes" if noun == LATENT else "are never chosen"
            found = f"{dead} of {total} {noun}s {never}, most in {where}: they learn nothing"
            advice.append(Advice(found, f"{CHOSEN_AGAIN[noun]}; {LIFTED}", rule="ALV016"))
    return advice


def _bends_nothing(census: Census) -> list[Advice]:
    """Layers in which every unit is dead or linear only multiply by a matrix."""
    flat = [layer for layer in census.layers if layer.bends is False and layer.noun == UNIT]
    if not flat:
        return []
    where = Names(census).few(flat)
    whole = f", so the network is a linear map on these points{BUT}" if len(flat) == len(census.layers) else ""
    layers = "1 layer bends" if len(flat) == 1 else f"{len(flat)} of {len(census.layers)} layers bend"
    found = f"{layers} nothing, because every unit there is dead or linear{whole}; the first: {where}"
    do = f"to make units bend, {_in_part(census)}"
    return [Advice(found, do, False, remedies.IN_PART, cures(remedies.IN_PART, census), "ALV004")]


def _linear(census: Census) -> list[Advice]:
    """Units that are never off, in layers that bend something."""
    some = [a for a in census.layers if a.straight and a.bends is not False and a.noun == UNIT]
    if not some:
        return []
    worst = sorted(some, key=lambda a: -a.straight)
    where = Names(census).few(worst, [f"{layer.straight} of {layer.units.known}" for layer in worst])
    straight = sum(layer.straight for layer in census.layers if layer.noun == UNIT)
    found = f"{straight} of {census.chosen(UNIT).known} units are never off and bend nothing, most in {where}"
    harmless = "" if census.gone else "harmless to gradients; to make them bend, "
    return [Advice(found, f"{harmless}{_in_part(census)}", rule="ALV003")]


def _unknown(census: Census) -> list[Advice]:
    """What could not be told, and where to tell it."""
    layers = [layer for layer in census.layers if layer.unknown]
    told = [f"{layer.name}, {'; '.join(layer.unknown)}" for layer in layers[:WORST]]
    more = f", and {len(layers) - WORST} layers more" if len(layers) > WORST else ""
    found = [(f"unknown in {' / '.join(told)}{more}", "ALV012")] if layers else []
    found += [(f"not counted: {a.name} {a.why} ({a.share:.1%} of the parameters)", "ALV013") for a in census.unseen]
    where = "say what lies where: point_axis, unit_axes, activations or outputs (docs/guide.md, What is unknown)"
    return [Advice(text, where, rule=rule) for text, rule in found]


def _share_dead(layer: LayerCensus) -> float:
    return layer.units.dead / layer.units.total


def first_choice(advice: Sequence[Advice]) -> tuple[str, str]:
    """The first finding with a cure, and that cure; empty words where there is none."""
    return next(((a.finding, a.cures[0]) for a in advice if a.cures), ("", ""))
