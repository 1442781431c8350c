"""Every MOONS figure of the papers, and ours, as frozen records: grids, claims, figures. Nothing here runs."""

from .atlas import ATLAS
from .cell import Cell, Row
from .depth import DEPTH_RECORD
from .fifty import FIG9, FIG12, TABLE1
from .grids import FIG1, FIG2_004, FIG4, FIG5
from .spec import SCALES, Claim, Experiment, Figure, Measured

EXPERIMENTS: dict[str, Experiment] = {
    experiment.name: experiment for experiment in (FIG1, FIG4, FIG5, TABLE1, FIG9, FIG12, FIG2_004, DEPTH_RECORD, ATLAS)
}

__all__ = ["EXPERIMENTS", "SCALES", "Cell", "Claim", "Experiment", "Figure", "Measured", "Row"]
