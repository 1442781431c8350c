"""Trials: one patient, one cure, one seed, at the patient's own budget."""

from __future__ import annotations

import time
import warnings
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import product

import torch
from torch import nn

from alive._version import __version__
from alive.cures import AS_IS
from alive.errors import AliveError
from alive.nn import Standardise

from .case import Case, score, train, treated
from .patients import Patient
from .round import advised

HEALTHY = "healthy"  # no cure: a shallow network on the same points, which sets the bar
ADVICE = "advice"  # the first choice of the advice, whatever it is
UNSEEN = 10  # the advice has seeds so much later: its order was chosen on the others, which cannot judge it
HEALTHY_RATE = 3e-3
TRIED = (
    *(AS_IS, "rate/10", "rate/100", "rate/1000", "warm-up", "clip", "standardise", "kaiming", "glorot", "mirrored"),
    *("jumpstart", "U sum", "UP mean", "batch norm", "kaiming, rate/10", "mirrored, rate/10", "mirrored, jumpstart"),
    *("standardise, kaiming", "no penalty"),
)


@dataclass(frozen=True, slots=True)
class Trial:
    """One trial: the score on the test points; None where the cure cannot be applied, and `note` says why.

    For the advice, `note` is the cure it named first, and `finding` what it found first. `seconds` are those of a CPU.
    """

    patient: str
    cure: str
    seed: int
    score: float | None
    note: str = ""
    finding: str = ""
    seconds: float = 0.0
    version: str = __version__

    @property
    def key(self) -> tuple[str | int, ...]:
        """What was tried."""
        return self.patient, self.cure, self.seed, self.version


def treat(patient: Patient, cure: str, seed: int, *, in_hand: bool = False) -> Trial:
    """Make the patient, apply the cure, train it, and score it.

    in_hand   apply the cure to what was trained in vain, where that is what the owner has; else training starts over
    """
    if cure == ADVICE:
        return _advice(patient, seed)
    began = time.process_time()
    with torch.random.fork_rng(devices=[]), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # such as: a layer of one unit cannot be separated
        torch.manual_seed(seed)
        case = patient.case(seed)
        if in_hand:
            case = case.but(make=lambda: patient.case(seed).model)  # dead, where it was handed on dead
        if in_hand and patient.trained:
            train(case)
        if cure == HEALTHY:
            case = _healthy(case)
        try:
            treatment = treated(case, AS_IS if cure == HEALTHY else cure)
        except AliveError as refused:
            return Trial(patient.name, cure, seed, None, refused.cause)
        train(case, treatment)
        reached = score(treatment.model, case.sample)
    return Trial(patient.name, cure, seed, round(reached, 4), seconds=round(time.process_time() - began, 2))


def _healthy(case: Case) -> Case:
    """A shallow network on the same points, standardised, with Adam, for as many steps."""
    model = case.sample.healthy()
    if case.sample.train_x.is_floating_point():
        model = nn.Sequential(Standardise(case.sample.train_x), model)
    return Case(model, case.sample, HEALTHY_RATE, epochs=case.epochs, batch_size=case.batch_size, seed=case.seed)


def trials(patients: Sequence[str], cures: Sequence[str], seeds: Sequence[int]) -> list[tuple[str, str, int]]:
    """What there is to try: for each patient the healthy network first, which sets the bar; advice on other seeds."""
    asked = product(patients, (HEALTHY, *cures), seeds)
    return [(patient, cure, seed + UNSEEN * (cure == ADVICE)) for patient, cure, seed in asked]


def _advice(patient: Patient, seed: int) -> Trial:
    """What came of the advice: the cure it named first, on the network it was given for."""
    finding, named = advised(patient, seed)
    row = treat(patient, named or AS_IS, seed, in_hand=True)
    return replace(row, cure=ADVICE, note=row.cure, finding=finding)
