"""The cures, one line each in the registry: a cure changes a case, or refuses one it cannot be applied to."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import nn

from alive.errors import AliveError
from alive.nn import Standardise, initialise_, with_batch_norm

from .case import Case

Change = Callable[[Case], Case]


@dataclass(frozen=True, slots=True)
class Cure:
    """A cure by its name, what it does in words, and the change it makes."""

    name: str
    words: str
    apply: Change


def _start(name: str) -> Change:
    def change(case: Case) -> Case:
        initialise_(case.model, name, generator=torch.Generator().manual_seed(case.seed))
        return case

    return change


def _jumpstart(mode: str, aggregate: str, weight: float) -> Change:
    return lambda case: case.but(penalty={"mode": mode, "aggregate": aggregate, "weight": weight})


def _slower(factor: float) -> Change:
    return lambda case: case.but(lr=case.lr / factor)


def _standardise(case: Case) -> Case:
    return case.but(model=nn.Sequential(Standardise(case.sample.train_x), case.model))


def _batch_norm(case: Case) -> Case:
    return case.but(model=with_batch_norm(case.model))


def _clip(case: Case) -> Case:
    return case.but(clip=1.0)


def _lighter(case: Case) -> Case:
    if not case.penalty:
        raise AliveError("there is no penalty to make lighter", "Leave it out")
    return case.but(penalty={**case.penalty, "weight": case.penalty["weight"] / LIGHTER})


def _without_penalty(case: Case) -> Case:
    if not case.penalty:
        raise AliveError("there is no penalty to leave out", "Leave the model as it is")
    return case.but(penalty={})


def _both(*changes: Change) -> Change:
    def change(case: Case) -> Case:
        for each in changes:
            case = each(case)
        return case

    return change


LIGHTER = 100
MEAN, SUM = 0.3, 1e-4  # weights of the penalty: of a mean of squares, of a sum of squares

CURES: dict[str, Cure] = {
    cure.name: cure
    for cure in (
        Cure("nothing", "as it is: the control", lambda case: case),
        Cure("kaiming", "start anew, Kaiming", _start("kaiming")),
        Cure("glorot", "start anew, Glorot", _start("glorot")),
        Cure("mirrored", "start anew, mirrored pairs", _start("mirrored")),
        Cure("U sum", f"Jumpstart on units, sum of squares, {SUM:g}", _jumpstart("U", "sumsq", SUM)),
        Cure("P sum", f"Jumpstart on points, sum of squares, {SUM:g}", _jumpstart("P", "sumsq", SUM)),
        Cure("UP sum", f"Jumpstart on both, sum of squares, {SUM:g}", _jumpstart("UP", "sumsq", SUM)),
        Cure("U mean", f"Jumpstart on units, mean of squares, {MEAN:g}", _jumpstart("U", "mean", MEAN)),
        Cure("UP mean", f"Jumpstart on both, mean of squares, {MEAN:g}", _jumpstart("UP", "mean", MEAN)),
        Cure("rate/10", "a tenth of the learning rate", _slower(10)),
        Cure("rate/100", "a hundredth of the learning rate", _slower(100)),
        Cure("clip", "gradients clipped to norm 1", _clip),
        Cure("standardise", "inputs of mean 0 and spread 1", _standardise),
        Cure("batch norm", "batch norm behind every hidden layer", _batch_norm),
        Cure(
            "torch, rate/10", "start anew, as PyTorch does, at a tenth of the rate", _both(_start("torch"), _slower(10))
        ),
        Cure("kaiming, rate/10", "start anew, Kaiming, at a tenth of the rate", _both(_start("kaiming"), _slower(10))),
        Cure(
            "mirrored, rate/10",
            "start anew, mirrored, at a tenth of the rate",
            _both(_start("mirrored"), _slower(10)),
        ),
        Cure(
            "mirrored, UP mean",
            "start anew, mirrored, with Jumpstart",
            _both(_start("mirrored"), _jumpstart("UP", "mean", MEAN)),
        ),
        Cure(
            "standardise, kaiming",
            "inputs of mean 0 and spread 1, and start anew, Kaiming",
            _both(_start("kaiming"), _standardise),
        ),
        Cure("weight/100", "a hundredth of the penalty's weight", _lighter),
        Cure("no penalty", "without the penalty", _without_penalty),
    )
}
