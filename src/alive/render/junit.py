"""Findings as JUnit XML: a test case for each rule, and for each condition that was asked for."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING
from xml.etree import ElementTree

from ..findings.finding import Place, Rule
from ..findings.rules import rules_of

if TYPE_CHECKING:
    from .sheet import Sheet


UNSURE = "not found, and not ruled out: not everything is known, or measured (--gradient)"


def junit(sheet: Sheet) -> str:
    """Errors and warnings fail, notes are told in system-out, what is unknown is skipped."""
    name = f"alive {sheet.by} {sheet.model}"
    rules = [rule for rule in rules_of(sheet.by) if rule.id not in sheet.ignored]
    suite = ElementTree.Element("testsuite", name=_plain(name))
    for rule in rules:
        case = _of_rule(suite, rule, [a for a in sheet.findings if a.rule == rule.id], sheet.model)
        if rule.id in sheet.unsure:
            ElementTree.SubElement(case, "skipped", message=UNSURE)
    for condition in sheet.conditions:
        case = _case(suite, f"--fail-on {condition.text}", sheet.model)
        if why := sheet.failed.get(condition.text):
            ElementTree.SubElement(case, "failure", type="limit", message=_plain(why))
    counts = {kind: str(len(suite.findall(f"testcase/{kind}"))) for kind in ("failure", "skipped")}
    sums = {"tests": str(len(suite)), "failures": counts["failure"], "errors": "0", "skipped": counts["skipped"]}
    suite.attrib.update(sums)
    root = ElementTree.Element("testsuites", {"name": _plain(name), **sums})
    root.append(suite)
    ElementTree.indent(root)
    return ElementTree.tostring(root, encoding="unicode", xml_declaration=False).join(
        ['<?xml version="1.0" encoding="utf-8"?>\n', "\n"]
    )


def _of_rule(suite: ElementTree.Element, rule: Rule, found: list[Place], model: str) -> ElementTree.Element:
    case = _case(suite, rule.title, model)
    if not found:
        return case
    place = next((a.where for a in found if a.where), "")
    if place:
        file, _, line = place.rpartition(":")
        case.attrib.update({"file": _plain(file), "line": line})
    told = "\n".join(f"{a.where + ': ' if a.where else ''}{a.message}. What to do: {a.do}." for a in found)
    if rule.unknown:
        ElementTree.SubElement(case, "skipped", message=_plain(found[0].message))
    elif any(a.level != "note" for a in found):
        failure = ElementTree.SubElement(case, "failure", type=rule.id, message=_plain(found[0].message))
        failure.text = _plain(told)
        return case
    ElementTree.SubElement(case, "system-out").text = _plain(told)
    return case


def _case(suite: ElementTree.Element, name: str, model: str) -> ElementTree.Element:
    return ElementTree.SubElement(suite, "testcase", name=_plain(name), classname=_plain(model), time="0")


def _plain(text: str) -> str:
    """Without what XML 1.0 cannot hold."""
    return re.sub(r"[^\t\n\r\u0020-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]", "�", text)
