"""The round: what a census finds in a patient as its owner sees it, and which cure its advice names first."""

from __future__ import annotations

from torch import nn

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
    found = census(case.model, (case.sample.train_x, case.sample.train_y), gradient=True)
    return found, None if case.penalty is None else pulled(case, case.model, case.penalty.keep(case.model))


def pulled(case: Case, model: nn.Module, keep: Jumpstart) -> float:
    """How hard a penalty pulls at a model of the case, as it stands; the penalty is let go of."""
    with keep:
        return pull(model, keep, case.loss(model.train()(case.sample.train_x), case.sample.train_y))


def advised(patient: Patient, seed: int) -> tuple[str, str]:
    """The first finding with a cure, and the cure named first for it; empty words where there is none."""
    found = see_all(*seen(patient, seed))
    return next(((each.measured_as, each.cures[0]) for each in found if each.cures), ("", ""))
