"""Findings as SARIF 2.1.0, which code hosts and editors show at the lines they are about."""

from __future__ import annotations

import json
import sys
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from .._version import __version__
from ..findings.finding import Place, Rule
from ..findings.rules import RULES, page, rules_of

if TYPE_CHECKING:
    from .sheet import Sheet

SCHEMA = "https://json.schemastore.org/sarif-2.1.0.json"
ROOT = "%SRCROOT%"


def sarif(sheet: Sheet) -> str:
    """One run: the rules with their pages, and a result for each finding."""
    rules = rules_of(sheet.by)
    places = {rule.id: number for number, rule in enumerate(rules)}
    driver = {"name": "alive", "version": __version__, "rules": [_rule(rule) for rule in rules]}
    run = {
        "tool": {"driver": driver},
        "invocations": [{"executionSuccessful": True, "commandLine": sheet.command or f"alive {sheet.by}"}],
        "columnKind": "unicodeCodePoints",
        "results": [_result(finding, places[finding.rule]) for finding in sheet.findings],
        "properties": {
            "model": sheet.model,
            "data": sheet.data,
            "verdict": sheet.headline,
            "unsure": list(sheet.unsure),
        },
    }
    return json.dumps({"$schema": SCHEMA, "version": "2.1.0", "runs": [run]}, indent=2, allow_nan=False)


def _rule(rule: Rule) -> dict[str, Any]:
    text = f"{rule.cause} {rule.counted} {rule.cure}"
    return {
        "id": rule.id,
        "name": "".join(word.capitalize() for word in rule.name.replace(":", "").split()),
        "shortDescription": {"text": rule.name},
        "fullDescription": {"text": f"{rule.short[:1].upper()}{rule.short[1:]}."},
        "help": {"text": text, "markdown": page(rule)},
        "defaultConfiguration": {"level": rule.level},
    }


def _result(finding: Place, number: int) -> dict[str, Any]:
    """What is unknown is neither passed nor failed: the standard calls it open, and gives it no level."""
    is_open = RULES[finding.rule].unknown
    cure = f" What to do: {finding.do}." if finding.do else ""
    mark = sha256(f"{finding.rule} {finding.layer}".encode()).hexdigest()[:16]
    counts = {"count": finding.count, "total": finding.total}
    return {
        "ruleId": finding.rule,
        "ruleIndex": number,
        "kind": "open" if is_open else "fail",
        "level": "none" if is_open else finding.level,
        "message": {"text": f"{finding.message}.{cure}"},
        "locations": [_location(finding)] if finding.where or finding.layer else [],
        "partialFingerprints": {"ruleAndLayer/v1": mark},
        "properties": {name: value for name, value in counts.items() if value is not None},
    }


def _location(finding: Place) -> dict[str, Any]:
    place: dict[str, Any] = {}
    if finding.where:
        file, _, line = finding.where.rpartition(":")
        place["physicalLocation"] = {"artifactLocation": _artifact(file), "region": {"startLine": int(line)}}
    if finding.layer:
        named = {"name": finding.label, "fullyQualifiedName": finding.layer, "kind": "member"}
        place["logicalLocations"] = [named]
    return place


def _artifact(file: str) -> dict[str, str]:
    """A file of this folder relative to it, any other by its whole path."""
    path = Path(file)
    if not path.is_absolute():
        if (Path.cwd() / path).exists():
            return {"uri": quote(path.as_posix()), "uriBaseId": ROOT}
        path = next((base / path for base in map(Path, sys.path) if (base / path).is_file()), path)
    return {"uri": path.as_uri() if path.is_absolute() else quote(path.as_posix())}
