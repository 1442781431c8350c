"""The signal is lost: points have merged, or no gradient comes back that can be used."""

from __future__ import annotations

from ..diagnosis.record import CUT_OFF, EXPLODED, HAVE_MERGED, VANISHED, Census
from .broken import is_broken
from .dead_points import all_die
from .finding import Finding, Rule, at, lacks, measured, named

CUTS = "torch.no_grad(), detach(), .data, numpy or an argmax in forward()"
GRADIENT = "Only a census with the gradient can tell: `--gradient`, or `--loss`."


def lost(census: Census, word: str, name: str) -> Finding | None:
    """The signal is lost in some way, on its only way, and nothing more is wrong than that."""
    layer = dict(census.losses).get(word)
    if layer is None or all_die(census) or is_broken(census):
        return None
    found = census.sentence(word, layer, named(census, [layer]))
    return measured(name, found, census, at(layer, found))


def see_merged(census: Census) -> Finding | None:
    """Points lie closer together than the numbers resolve, and stay there."""
    return lost(census, HAVE_MERGED, "the signal is gone")


def see_exploded(census: Census) -> Finding | None:
    """On the only way back; or in layers that skips lead around, where the signal is not gone and cannot be used."""
    along = any(layer.bypassed for layer in census.layers)
    hit = [layer for layer in census.layers if EXPLODED in census.words(layer)]
    if census.losses or census.unsettled or is_broken(census) or not hit:
        return lost(census, EXPLODED, "explodes along skips" if along else "explodes")
    times, where = hit[0].signal.gradient, named(census, hit[:1])
    found = f"the gradient grows to {times:.1e} times the output's on its way back to {where}"
    return measured("explodes along skips", found, census, at(hit[0], found))


def is_cut_off(census: Census) -> bool:
    """Whether nothing leads back from the output to any layer."""
    return any(word == CUT_OFF for word, _ in census.losses)


def see_vanished(census: Census) -> Finding | None:
    """Grave where too little arrives, or where nothing leads back to any layer."""
    vanished = lost(census, VANISHED, "the signal is gone")
    if vanished or not census.cut_off:
        return vanished
    last = census.cut_off[-1]
    if is_cut_off(census):
        found = census.sentence(CUT_OFF, last, named(census, [last]))
        do = f"unless that is meant, look for what cuts it off: {CUTS}"
        return Finding(found, do, grave=True, places=(at(last, found),))
    found = f"no gradient comes back to {named(census, census.cut_off)}: nothing leads there from the output"
    do = f"a frozen part, or one that this output does not use, is as it should be; else look for {CUTS}"
    return Finding(found, do, places=(at(last, found),))


MERGING = Rule(
    "ALV006", "merged points", "error", "all points have become one point",
    "The spread of the points falls from layer to layer until the numbers no longer resolve it, as in deep "
    "networks whose start is too small, or where nearly all units are off.",
    "Points have merged if their spread in a layer is below a thousandth of that at first, or below what the "
    "numbers resolve, and no later layer tells them apart again. Layers with a path around them do not count.",
    "Start in mirrored pairs or by Kaiming: `alive.nn.initialise_(model, \"mirrored\")`; norms or skips.",
    see_merged, is_open=lacks("spread"),
)  # fmt: skip
VANISHING = Rule(
    "ALV007", "a vanished gradient", "error", "no gradient arrives at a layer",
    "Each layer passes on less than it gets, and there are many; or all points are dead further up; or nothing "
    "leads back there at all: `torch.no_grad()`, `detach()`, `.data`, numpy or an argmax cuts it off.",
    "The gradient at a layer has vanished if less than 1.2e-7 of that at the output arrives, on average over "
    f"points. It is cut off where autograd finds no way back. {GRADIENT}",
    "A start that keeps the size of signals (`alive.nn.initialise_`), norms, or skips; `alive cure` tries them. "
    "Take out what cuts it off, unless that part is to stay as it is.",
    see_vanished, is_open=lacks("gradient"),
)  # fmt: skip
EXPLODING = Rule(
    "ALV008", "an exploded gradient", "error", "a gradient that grows on its way back until it cannot be used",
    "Each layer passes on more than it gets, as where the start is too large.",
    f"The gradient at a layer has exploded if it is more than 8.4e6 times that at the output. {GRADIENT}",
    "A smaller start (`alive.nn.initialise_(model, \"kaiming\")`), or batch norm where skips add up.",
    see_exploded, is_open=lacks("gradient"),
)  # fmt: skip
