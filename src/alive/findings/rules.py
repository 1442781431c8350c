"""All rules, by id: ours, and those of installed packages; what is seen by them; and their pages."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

from ..diagnosis.record import Census
from ..errors import expect_one_of
from ..registry import Registry
from . import alike, broken, dead_points, dead_units, drowned, linear, output, scale, shrunk, signal, unchosen, unknown
from .finding import LEVELS, Finding, Rule, has_moved

ELSE = "look at the rate, at the labels, and at how the loss is reduced; `alive cure` tries rates first"
SETTLE = "it may change once the batch norms have seen data"
PARTS = (dead_points.SOME, dead_units.RULE, linear.LAYERS, linear.UNITS)
OWN = (  # what explains most comes first: causes, then what is dead or linear in part, then what is unknown
    *(unknown.NORMS, broken.RULE, scale.RULE, dead_points.ALL, alike.RULE),
    *(signal.MERGING, signal.EXPLODING, signal.VANISHING, output.RULE, drowned.RULE),
    *(*PARTS, unchosen.RULE, unknown.LAYERS, unknown.OPERATIONS),
)


def _fault(name: str, rule: Any) -> str:
    if not isinstance(rule, Rule) or rule.level not in LEVELS or rule.by != "census":
        return "it is no alive.findings.Rule of a census, of level error, warning or note"
    return "" if rule.id == name else f"its id is {rule.id!r}"


_BY_ID = {rule.id: rule for rule in sorted((*OWN, *shrunk.RULES), key=lambda rule: rule.id)}
RULES: Registry[Rule] = Registry("alive.findings", "finding", _BY_ID, fault=_fault)


def see_all(census: Census, pull: float | None = None) -> tuple[Finding, ...]:
    """All that is found in a census, the gravest first; empty if all is well. `census.findings` has the same.

    pull   how hard the penalty pulls at the weights, where it was trained with one and the task was not learned: see
           `alive.penalties.pull`

    >>> import torch, alive
    >>> model = torch.nn.Sequential(torch.nn.Linear(1, 2), torch.nn.ReLU())
    >>> _ = torch.nn.init.constant_(model[0].bias, -9), torch.nn.init.constant_(model[0].weight, 1)
    >>> [finding.rule for finding in alive.census(model, torch.rand(5, 1)).findings]
    ['ALV011', 'ALV001', 'ALV004']
    """
    added = [rule for rule in rules_of("census") if rule.id not in RULES.own]
    seen = ((rule, rule.see(census, *([pull] if rule is drowned.RULE else []))) for rule in (*OWN, *added))
    told = [(rule, found) for rule, found in seen if found]
    if census.unsettled:
        told = [(rule, found if rule.unknown else _later(replace(found, grave=False), SETTLE)) for rule, found in told]
    told.sort(key=lambda pair: not pair[1].grave)
    if told and told[0][1].grave:
        (rule, first), *others = told
        after = f"it may follow from {rule.id}: cure that first, then take the census again"
        told[1:] = [(r, _later(each, after) if _follows(r, each, first) else each) for r, each in others]
    return tuple(rule.named(found) for rule, found in told)


def verdict(census: Census) -> tuple[str, bool]:
    """One sentence, never better than what was measured; and whether it is grave: it can hardly learn as it is."""
    count, grave = len(census.findings), any(each.grave for each in census.findings)
    loss = "" if census.task is None else f" {census.task.sentence}"
    if grave or census.gone:
        return f"As it is, this network can hardly learn{'.' if grave else f': {census.gone}.'}{loss}", True
    found = "One thing found, and it is" if count == 1 else f"{count} things found, and they are"
    said = f"{found} not grave." if count else "Every unit and every point is alive."
    if census.task is not None and census.task.is_at_chance and has_moved(census):
        return f"{said}{loss} So nothing is learned, and units are not why: {ELSE}.", False
    if any(layer.signal.gradient is not None for layer in census.layers):
        return f"{said}{loss}", False
    return f"{said} Whether gradients come back was not measured: --gradient, or census(..., gradient=True).", False


def _later(finding: Finding, do: str) -> Finding:
    """A finding that waits for something else: no cure of its own."""
    return replace(finding, do=do, code=(), measured_as="", cures=())


def _follows(rule: Rule, finding: Finding, first: Finding) -> bool:
    """Whether a finding may be gone with the first: what is dead in part, and what the same cures are for."""
    return bool(finding.measured_as) and (rule in PARTS or finding.cures == first.cures)


def rule(name: str) -> Rule:
    """A rule by its id, in large or small letters; an unknown one is refused with the nearest.

    >>> rule("alv001").name
    'dead units'
    """
    name = name if name in RULES else name.upper()
    expect_one_of("rule id", name, RULES)
    return RULES[name]


def rules_of(command: str) -> list[Rule]:
    """The rules that a command can find."""
    return [rule for rule in RULES.values() if rule.by == command]


def page(rule: Rule) -> str:
    """The page of a rule, as Markdown; docs/rules holds the same."""
    return f"""# {rule.title}

**{_capital(rule.short)}.** Level: {rule.level}. Found by `alive {rule.by}`.

## Cause

{rule.cause}

## How it is counted

{rule.counted}

## Cure

{rule.cure}

## How to silence it

{_how_to_silence(rule)}"""


def _how_to_silence(rule: Rule) -> str:
    if rule.by == "train":
        return (
            "It is said after a run that learned next to nothing, and changes no exit code; a smaller weight ends it.\n"
        )
    counted = f"`--threshold {rule.id}=5%` reports a layer only if more than 5% of its {rule.counts} are concerned; "
    more = f"{counted}`{rule.id}=3`, only if more than 3 are. " if rule.counts else ""
    command = "census mine:make_model" if rule.by == "census" else "shrink mine:make_model"
    return f"""`alive {command} --ignore {rule.id}` leaves it out; `--ignore "{rule.id}:encoder.*"` does so in layers of
that name. {more}The same for good, in `pyproject.toml`:

```toml
[tool.alive]
ignore = ["{rule.id}"]
```
"""


def index(rules: Iterable[Rule]) -> str:
    """All rules as a Markdown table, each with a link to its page."""
    rows = (f"| [{r.id}](rules/{r.id}.md) | {r.level} | {r.name} | {_capital(r.short)}. |" for r in rules)
    return "\n".join(["| id | level | name | what is found |", "|---|---|---|---|", *rows])


def _capital(text: str) -> str:
    return text[:1].upper() + text[1:]
