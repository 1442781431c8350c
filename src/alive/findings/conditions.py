"""Whether to fail: limits, rule ids and levels, judged on what was found and on what is unknown."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace

from ..diagnosis.limits import Limit
from ..diagnosis.record import Census
from ..errors import AliveError
from .finding import LEVELS, Place, Rule
from .policy import Policy
from .rules import RULES, rule, rules_of

BY_GRADIENT = ("ALV007", "ALV008")


@dataclass(frozen=True, slots=True)
class Condition:
    """One thing to fail on: a limit on counts, or a set of rules."""

    text: str
    limit: Limit | None = None
    rules: tuple[str, ...] = ()

    @property
    def wants_gradient(self) -> bool:
        """Whether only a census with the gradient can tell."""
        return any(name in BY_GRADIENT for name in self.rules) if self.limit is None else self.limit.wants_gradient

    def failed(self, found: Sequence[Place], census: Census | None, policy: Policy) -> str:
        """Why it fails, in words; empty where it does not."""
        if self.limit is not None:
            return "" if census is None else _limit(self.limit, census)
        hit = [a for a in found if a.rule in self.rules]
        if hit:
            more = f", and {len(hit) - 1} more" if len(hit) > 1 else ""
            named = "" if self.text == hit[0].rule else f" {hit[0].rule}"
            return f"{self.text} holds:{named} {hit[0].message}{more}"
        unsure = [name for name in self.rules if census is not None and is_open(RULES[name], census, policy)]
        return f"{self.text} cannot be ruled out ({unsure[0]}), because not everything is known" if unsure else ""


def condition(text: str, command: str, policy: Policy) -> Condition:
    """Read `dead_units>0`, `ALV001` or a level: error, warning (and above), note (all).

    >>> condition("warning", "shrink", Policy()).rules, condition("ALV001", "census", Policy()).rules
    ((), ('ALV001',))
    """
    word = text.strip()
    if word.lower() in LEVELS:
        which = LEVELS[: LEVELS.index(word.lower()) + 1]
        names = [r.id for r in rules_of(command) if r.level in which and not policy.drops(r.id)]
        return Condition(word.lower(), rules=tuple(names))
    if word in RULES or (re.search(r"[<>=!]", word) is None and re.match(r"(?i)al", word)):
        found = rule(word)
        if found.by != command:
            raise AliveError(f"{found.id} is found by alive {found.by}, not by alive {command}", "Leave it out")
        return Condition(found.id, rules=(found.id,))
    if command != "census":
        raise AliveError(f"cannot read {text!r}", f"alive {command} --fail-on takes a rule id or a level: ALV101, note")
    return Condition(word, limit=Limit.parse(word))


def _limit(limit: Limit, census: Census) -> str:
    if limit.holds(census):
        return f"{limit} holds, it is {limit.value(census):g}{'%' * limit.percent}"
    return f"{limit} cannot be ruled out, because not everything is known" if limit.is_open(census) else ""


def is_open(rule: Rule, census: Census, policy: Policy) -> bool:
    """Whether the unknown part of a census could make a rule hold that does not hold in the known part."""
    if policy.drops(rule.id) or rule.unknown:
        return False
    layers = tuple(a for a in census.layers if not policy.drops(rule.id, a.name, a.label))
    return rule.is_open(replace(census, layers=layers), policy.threshold(rule.id))
