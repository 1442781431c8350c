"""What to leave out, from how much on to report, and what to fail on: by rule id, typed or in pyproject.toml."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any, NamedTuple

from ..errors import AliveError, expect_one_of
from .finding import Finding, Place, Rule
from .rules import rule

KEYS = ("ignore", "threshold", "fail-on")
FILE = "pyproject.toml"


class Threshold(NamedTuple):
    """A layer is reported if more than this many are concerned, or more than this share of it."""

    number: float
    percent: bool = False

    def passed(self, count: float, total: float) -> bool:
        """Whether so many of so many are too many."""
        return (100 * count / total if total else 0.0) > self.number if self.percent else count > self.number

    def __str__(self) -> str:
        return f"{self.number:g}{'%' * self.percent}"


NONE = Threshold(0)


@dataclass(frozen=True, slots=True)
class Policy:
    """Which findings count.

    ignored     pairs of a rule id and a pattern of layers; "*" stands for the whole rule
    thresholds  by rule id
    fail_on     as typed: limits, rule ids, levels
    """

    ignored: tuple[tuple[str, str], ...] = ()
    thresholds: Mapping[str, Threshold] = field(default_factory=dict)
    fail_on: tuple[str, ...] = ()

    def drops(self, name: str, *layers: str) -> bool:
        """Whether a rule is left out, at a layer of any of these names or altogether."""
        patterns = [pattern for known, pattern in self.ignored if known == name]
        return "*" in patterns or any(fnmatchcase(layer, pattern) for pattern in patterns for layer in layers if layer)

    @property
    def dropped(self) -> tuple[str, ...]:
        """The rules that are left out altogether."""
        return tuple(name for name, pattern in self.ignored if pattern == "*")

    def threshold(self, name: str) -> Threshold:
        """From how much on a rule is reported."""
        return self.thresholds.get(name, NONE)

    def plus(self, other: Policy) -> Policy:
        """Both together; of two thresholds of a rule the other's counts."""
        fail_on = other.fail_on or self.fail_on
        return Policy((*self.ignored, *other.ignored), {**self.thresholds, **other.thresholds}, fail_on)


def places(findings: Iterable[Finding], policy: Policy, *, made_at: str = "") -> tuple[Place, ...]:
    """Findings layer by layer, without what the policy leaves out: by rule, in the network's order.

    made_at   where a place is whose own line is not known: the line of what makes the model
    """
    every = (
        replace(at, rule=each.rule, level=each.level, where=at.where or made_at, do=each.advice)
        for each in findings
        for at in each.places or (Place(message=each.found),)
    )
    return tuple(sorted((at for at in every if _counts(at, policy)), key=lambda at: at.rule))


def _counts(at: Place, policy: Policy) -> bool:
    if policy.drops(at.rule, at.layer, at.label):
        return False
    return at.count is None or policy.threshold(at.rule).passed(at.count, at.total or 0)


def policy(*, ignore: Iterable[str] = (), threshold: Iterable[str] = (), fail_on: Sequence[str] = ()) -> Policy:
    """Read what was typed: `ALV003`, `ALV003:encoder.*`, several after commas; `ALV001=5%`.

    >>> policy(ignore=["ALV003,alv004:head"], threshold=["ALV001=5%"]).thresholds["ALV001"]
    Threshold(number=5.0, percent=True)
    """
    ignored = [_parse_ignored(part) for text in ignore for part in text.split(",") if part.strip()]
    limits = [_threshold(part) for text in threshold for part in text.split(",") if part.strip()]
    return Policy(tuple(ignored), dict(limits), tuple(fail_on))


def _parse_ignored(text: str) -> tuple[str, str]:
    name, colon, pattern = text.strip().partition(":")
    return rule(name.strip()).id, pattern.strip() if colon else "*"


def _threshold(text: str) -> tuple[str, Threshold]:
    match = re.fullmatch(r"\s*(\w+)\s*=\s*(\d+(?:\.\d*)?)\s*(%?)\s*", text)
    if match is None:
        raise AliveError(f"cannot read the threshold {text!r}", "Write a rule id and a number or share: ALV001=5%")
    name, number, percent = match.groups()
    found: Rule = rule(name)
    if not found.counts:
        raise AliveError(
            f"{found.id} holds or does not hold, and takes no threshold", f"Leave it out with --ignore {found.id}"
        )
    return found.id, Threshold(float(number), bool(percent))


def of_project(folder: Path) -> Policy:
    """What [tool.alive] says in the pyproject.toml of the folder, or of the nearest one above that has one."""
    for place in (folder, *folder.parents):
        if (place / FILE).is_file():
            return _of_file(place / FILE)
    return Policy()


def _of_file(file: Path) -> Policy:
    try:
        said = tomllib.loads(file.read_text(encoding="utf-8")).get("tool", {}).get("alive", {})
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise AliveError(f"cannot read {file}: {error}", "Correct the file") from None
    try:
        return _of_table(said)
    except AliveError as error:
        raise AliveError(f"{file}, [tool.alive]: {error.cause}", error.cure) from None


def _of_table(said: Any) -> Policy:
    if not isinstance(said, dict):
        raise AliveError("it is no table", "Write [tool.alive], then ignore = [...]")
    for key in said:
        expect_one_of("key", key, KEYS)
    lists = {key: said.get(key, []) for key in ("ignore", "fail-on")}
    for key, value in lists.items():
        if not (isinstance(value, list) and all(isinstance(text, str) for text in value)):
            raise AliveError(f"{key} is not a list of texts", f'Write {key} = ["ALV003"]')
    limits = said.get("threshold", {})
    if not isinstance(limits, dict):
        raise AliveError("threshold is no table", 'Write threshold = { ALV001 = "5%" }')
    return policy(
        ignore=lists["ignore"], threshold=[f"{name}={value}" for name, value in limits.items()],
        fail_on=lists["fail-on"],
    )  # fmt: skip
