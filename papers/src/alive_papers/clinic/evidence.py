"""What the trials say of each finding: the patients that show it, and the cures in the order of what they did."""

from __future__ import annotations

from collections.abc import Iterator

from alive.diagnosis.advice import remedies
from alive.diagnosis.advice.remedies import REMEDIES

from .book import Book
from .patients import PATIENTS

ENOUGH = 1 / 2  # of its networks, which a cure must train to be named
STARTS = ("torch", "kaiming", "glorot", "mirrored")
PENALTIES = ("U sum", "P sum", "UP sum", "U mean", "UP mean")


def shown_by(finding: str) -> tuple[str, ...]:
    """The patients that show a finding; what is dead in part is judged by the one whose other part is worth keeping."""
    if finding == remedies.IN_PART:
        return ("dead-code",)
    return tuple(patient.name for patient in PATIENTS.values() if patient.finding == finding)


def sensible(finding: str) -> tuple[str, ...]:
    """The cures that can be a first choice: where weights are lost, those that start anew; where a penalty weighs too
    much, or some units are dead, those that leave all else as it is."""
    if finding in (remedies.INFINITE_TRAINED, remedies.DEAD_TRAINED):
        return tuple(cure for cure in REMEDIES if cure.split(", ")[0] in STARTS)
    if finding == remedies.DROWNED:
        return (*PENALTIES, "no penalty")
    return PENALTIES if finding == remedies.IN_PART else tuple(REMEDIES)


def ranking(book: Book, finding: str) -> tuple[str, ...]:
    """The cures for a finding: by how many of its networks they train; of equals the simpler, then the better one."""
    judged = {cure: _judged(book, finding, cure) for cure in sensible(finding)}
    named = [cure for cure, (trained, _) in judged.items() if trained >= ENOUGH]
    return tuple(sorted(named, key=lambda cure: (-judged[cure][0], cure.count(","), -judged[cure][1])))


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
