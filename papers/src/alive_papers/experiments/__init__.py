"""Every figure and table of the papers, and ours, as frozen records: grids, claims, figures. Nothing here runs."""

from alive.registry import Registry

from .cell import Cell, Row
from .ours import (
    ADAM_EPSILON,
    AGENTS_OVER_TASKS,
    ATLAS,
    ATLAS_IMAGES,
    CODEBOOK,
    CONTINUAL,
    DEPTH_IMAGES,
    DEPTH_RECORD,
    DRIFT,
    FARKAS_WHY,
    LANGUAGE,
    LENS,
    ONE_SETTING,
    RIVALS,
    SAE,
    TABLES_STUDY,
)
from .p000_farkas import FIG5_000, TABLE1_000, TABLE2_000, TABLE4_000
from .p001_separation import DEMO, FIG1, FIG2_001, FIG3_001, FIG4, FIG5, FIG9, FIG12, PRINTED, TABLE1
from .p002_phasing_out import FIG1_002, FIG2_002, FIG3_002, FIG4_002, FIG5_002, TABLE2_002
from .p003_identity import TABLE2_003
from .p004_jumpstart import FIG2_004, FIG3_004, FIG4_004, TABLE1_004
from .spec import Claim, Experiment, Figure, Measured

_OWN = {
    experiment.name: experiment
    for experiment in (
        *(TABLE1_000, TABLE2_000, TABLE4_000, FIG5_000),
        *(FIG1, FIG2_001, FIG3_001, FIG4, FIG5, TABLE1, PRINTED, FIG9, FIG12),
        *(FIG1_002, FIG2_002, FIG3_002, FIG4_002, FIG5_002, TABLE2_002),
        TABLE2_003,
        *(TABLE1_004, FIG2_004, FIG3_004, FIG4_004),
        *(DEPTH_RECORD, DEPTH_IMAGES, ATLAS, ATLAS_IMAGES, RIVALS, ADAM_EPSILON, ONE_SETTING),
        *(FARKAS_WHY, TABLES_STUDY, SAE, CONTINUAL, DRIFT, AGENTS_OVER_TASKS, LANGUAGE, LENS, CODEBOOK, DEMO),
    )
}


def _fault(name: str, thing: object) -> str:
    if not isinstance(thing, Experiment):
        return f"it is {type(thing).__name__}, not an alive_papers.experiments.Experiment"
    return "" if thing.name == name else f"it calls itself {thing.name!r}"


EXPERIMENTS: Registry[Experiment] = Registry("alive.experiments", "experiment", _OWN, fault=_fault)

__all__ = ["EXPERIMENTS", "Cell", "Claim", "Experiment", "Figure", "Measured", "Row"]
