"""The round: what a census finds in a patient as its owner sees it, and which cure its advice names first."""

from __future__ import annotations

from alive.diagnosis import Census, census
from alive.findings import see_all
from alive.penalties import Jumpstart, pull

from .case import Case, train
from .patients import Patient


def seen(patient: Patient, seed: int) -> tuple[Census, float | None]:
    """The census with gradient, and the pull of the penalty if there is one, before or after training in vain."""
    case = patient.case(seed)
    if patient.trained:
        train(case)
    return census(case.model, (case.sample.train_x, case.sample.train_y), gradient=True), _pull(case)


def _pull(case: Case) -> float | None:
    if not case.penalty:
        return None
    case.model.train()
    with Jumpstart(case.model, **case.penalty) as keep:
        return pull(case.model, keep, case.loss(case.model(case.sample.train_x), case.sample.train_y))


def advised(patient: Patient, seed: int) -> tuple[str, str]:
    """The first finding with a cure, and the cure named first for it; empty words where there is none."""
    found = see_all(*seen(patient, seed))
    return next(((each.measured_as, each.cures[0]) for each in found if each.cures), ("", ""))
