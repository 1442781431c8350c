"""Findings: what a census or shrink found, one record a rule and layer, with the line of the call."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass
from typing import Any

from ..diagnosis.advice import FIRST, SAME, Advice, advise
from ..diagnosis.record import Census, LayerCensus, silent
from ..surgery.shrink.record import MEANING
from ..surgery.shrink.record import Report as Shrinking
from ..taps.selections import UNIT
from .policy import Policy
from .rules import OF_REASON, RULES, Level


@dataclass(frozen=True, slots=True)
class Finding:
    """One finding.

    layer   the layer by its name, label: as people name it; both empty where it is of the whole network
    where   file and line of the call, or of what makes the model; empty where neither is known
    count   how many units or points are concerned, of how many
    do      what to do about it
    """

    rule: str
    level: Level
    message: str
    layer: str = ""
    label: str = ""
    where: str = ""
    count: int | None = None
    total: int | None = None
    do: str = ""

    def to_dict(self) -> dict[str, Any]:
        """Plain numbers and text."""
        return asdict(self)


def of_census(census: Census, policy: Policy | None = None, *, made_at: str = "") -> list[Finding]:
    """The findings of a census that the policy does not leave out, by rule, in the network's order.

    made_at   file and line of what makes the model: where a finding lies whose own line is not known

    >>> import torch, alive
    >>> model = torch.nn.Sequential(torch.nn.Linear(1, 2), torch.nn.ReLU())
    >>> _ = torch.nn.init.constant_(model[0].bias, -9), torch.nn.init.constant_(model[0].weight, 1)
    >>> [(a.rule, a.message) for a in of_census(alive.census(model, torch.rand(5, 1)))][0]
    ('ALV001', '2 of 2 units of 0 → relu are off for every point')
    """
    policy, advice = policy or Policy(), advise(census)
    advice = _alone(advice)
    said = {a.rule: a for a in reversed(advice)}
    found = [*_by_layer(census, said), *_of_advice(census, advice)]
    kept = [a for a in found if not policy.drops(a.rule, a.layer, a.label) and _is_much(a, policy)]
    places = [a if a.where or not made_at else _moved(a, made_at) for a in kept]
    return sorted(places, key=lambda a: a.rule)


def of_shrink(report: Shrinking, policy: Policy | None = None, *, made_at: str = "") -> list[Finding]:
    """What `shrink` removed, one finding a layer and reason."""
    policy, found = policy or Policy(), []
    for layer in report.layers:
        for why, count in layer.reasons.items():
            meaning = MEANING[why][report.ground]
            each = f"{count} of {layer.units} units of {layer.layer} {'are' if count > 1 else 'is'} removed as {why}"
            name = OF_REASON[why]
            message = f"{each}: each {meaning}"
            found.append(
                Finding(
                    name, RULES[name].level, message, layer.layer, layer.layer, made_at, count, layer.units,
                    RULES[name].cure.rstrip("."),
                )
            )  # fmt: skip
    kept = [a for a in found if not policy.drops(a.rule, a.layer) and _is_much(a, policy)]
    return sorted(kept, key=lambda a: a.rule)


def _alone(advice: list[Advice]) -> list[Advice]:
    """The same advice in words that can be read without what stands above or beside it."""
    first = advice[0].rule if advice else ""
    after = f"it may follow from {first}: cure that first, then take the census again"
    usual = {a.rule: RULES[a.rule].cure.rstrip(".") for a in advice if a.rule}
    return [
        a._replace(do=after if a.do == FIRST else usual.get(a.rule, a.do) if a.do.endswith(SAME) else a.do)
        for a in advice
    ]


def _is_much(finding: Finding, policy: Policy) -> bool:
    if finding.count is None:
        return True
    return policy.threshold(finding.rule).passed(finding.count, finding.total or 0)


def _moved(finding: Finding, where: str) -> Finding:
    return Finding(**{**asdict(finding), "where": where})


def _by_layer(census: Census, said: Mapping[str, Advice]) -> Iterator[Finding]:
    """What is counted in each layer."""
    dying = "ALV011" in said
    for layer in census.layers:
        units, name = layer.units, layer.label or layer.name
        if layer.noun != UNIT:
            yield from _chosen(layer, said)
            continue
        off = "off" if math.isinf(layer.activation.ceiling) else "off, or every unit saturated"
        told: list[tuple[str, int | None, int | None, str]] = [
            ("ALV001", units.dead, units.total, f"of {name} are {silent([layer])} for every point"),
            ("ALV002", 0 if dying else layer.first_deaths, census.points.total, f"die at {name}: every unit is {off}"),
            ("ALV003", 0 if layer.bends is False else layer.straight, units.total, f"of {name} are never off"),
            ("ALV005", units.broken, units.total, f"of {name} are NaN or infinite for some point"),
        ]
        for rule, count, total, text in told:
            if count:
                what = RULES[rule].counts
                yield _at(layer, rule, f"{count} of {total} {what} {text}", said, count, total)
        if layer.bends is False:
            yield _at(layer, "ALV004", f"{name} bends nothing: every unit there is dead or linear", said)
        yield from _unknown(layer, said)


def _chosen(layer: LayerCensus, said: Mapping[str, Advice]) -> Iterator[Finding]:
    """Of a selection: what nothing chooses."""
    dead, total, name = layer.units.dead, layer.units.total, layer.label or layer.name
    if dead:
        yield _at(layer, "ALV016", f"{dead} of {total} {layer.noun}s of {name} are never chosen", said, dead, total)
    yield from _unknown(layer, said)


def _unknown(layer: LayerCensus, said: Mapping[str, Advice]) -> Iterator[Finding]:
    if layer.unknown:
        name = layer.label or layer.name
        yield _at(layer, "ALV012", f"unknown in {name}: {'; '.join(layer.unknown)}", said)


def _at(
    layer: LayerCensus, rule: str, message: str, said: Mapping[str, Advice], count: int | None = None,
    total: int | None = None,
) -> Finding:  # fmt: skip
    do = said[rule].do if rule in said else RULES[rule].cure.rstrip(".")
    name = layer.label or layer.name
    return Finding(rule, RULES[rule].level, message, layer.name, name, layer.where, count, total, do)


LAYERED = ("ALV001", "ALV002", "ALV003", "ALV004", "ALV005", "ALV012", "ALV016")


def _of_advice(census: Census, advice: Iterable[Advice]) -> Iterator[Finding]:
    """What holds for the network as a whole."""
    for each in advice:
        if not each.rule or each.rule in LAYERED:
            continue
        usual = RULES[each.rule].level
        level: Level = "error" if each.grave else "warning" if usual == "error" else usual
        layer = next((a for a in census.layers if a.name == each.at), None)
        place = ("", "", "") if layer is None else (layer.name, layer.label or layer.name, layer.where)
        yield Finding(each.rule, level, each.found, *place, do=each.do)
