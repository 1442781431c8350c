"""What the trials say of each finding: the patients that show it, and the cures in the order of what they did."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

from alive.cures import KEPT, ORDER, find
from alive.cures.jumpstart import Jumpstart
from alive.files import write_atomically

from .book import Book
from .patients import PATIENTS
from .trial import TRIED

ENOUGH = 1 / 2  # of its networks, which a cure must train to be named


def shown_by(finding: str) -> tuple[str, ...]:
    """The patients that show a finding; what is dead in part is judged by the one whose other part is worth keeping."""
    if finding == "dead in part":
        return ("dead-code",)
    return tuple(patient.name for patient in PATIENTS.values() if patient.finding == finding)


def sensible(finding: str) -> tuple[str, ...]:
    """The cures that can be a first choice: where weights are worth keeping, those that leave all else as it is."""
    if finding not in KEPT:
        return TRIED
    penalties = tuple(cure for cure in TRIED if isinstance(find(cure)[0], Jumpstart))
    return (*penalties, "no penalty") if finding == "the penalty drowns the task" else penalties


def ranking(book: Book, finding: str) -> tuple[str, ...]:
    """The cures for a finding: by how many of its networks they train; of equals the simpler, then the better one.

    Of the recipes of a penalty one is named: the default, unless another trains more networks.
    """
    judged = {cure: _judged(book, finding, cure) for cure in sensible(finding)}
    recipes = [cure for cure in judged if isinstance(find(cure)[0], Jumpstart)]
    best = max(recipes, key=lambda cure: judged[cure][0])  # of equals the first, which is the default
    kept = [cure for cure, (share, _) in judged.items() if share >= ENOUGH and (cure == best or cure not in recipes)]
    return tuple(sorted(kept, key=lambda cure: (-judged[cure][0], cure.count(","), -judged[cure][1])))


def write_order(book: Book, path: Path) -> None:
    """Write the cures for each finding as `alive.cures` reads them, a finding a line."""
    rows = (f" {json.dumps(finding)}: {json.dumps(ranking(book, finding))}" for finding in ORDER)
    write_atomically(path, ("{\n" + ",\n".join(rows) + "\n}\n").encode())


def _judged(book: Book, finding: str, cure: str) -> tuple[float, float]:
    """The share of networks a cure trains, and the mean way from chance (0) to the healthy network (1)."""
    runs = sum(len(book.of(patient, cure)) for patient in shown_by(finding))
    trained = sum(book.summary(patient, cure).trains for patient in shown_by(finding))
    return (round(trained / runs, 4), round(sum(_ways(book, finding, cure)) / runs, 4)) if runs else (0.0, 0.0)


def _ways(book: Book, finding: str, cure: str) -> Iterator[float]:
    for patient in shown_by(finding):
        chance, healthy = PATIENTS[patient].sample.chance, book.healthy(patient)
        for score in book.summary(patient, cure).scores:
            yield max(0.0, (score - chance) / (healthy - chance))
