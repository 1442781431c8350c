"""A history as TensorBoard shows it: curves, and who was alive as a picture."""

from __future__ import annotations

from os import PathLike
from pathlib import Path

import torch
from torch import Tensor

from ..errors import require
from ..files import expect_writable, unwritable
from .record import NEVER, History

COLOURS = {
    "d": (200, 72, 61), "l": (245, 176, 65), "n": (184, 220, 198), "b": (155, 89, 194), "u": (158, 203, 230),
    NEVER: (228, 231, 235),
}  # fmt: skip
TALL = 2048  # rows of the picture, beyond which layers are left out


def to_tensorboard(history: History, folder: str | PathLike[str]) -> Path:
    """Write every number of a history as a curve, and the states of all units as an image; returns the folder."""
    with require("a log for TensorBoard", "alive[tensorboard]"):
        from torch.utils.tensorboard import SummaryWriter
    place = Path(folder)
    try:
        place.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise unwritable(place, error) from None
    expect_writable(place / "events")
    with SummaryWriter(str(place)) as writer:
        for moment in history.moments:
            for name, value in moment.scalars.items():
                writer.add_scalar(name, value, moment.step)
        if history.moments:
            writer.add_image("alive/over time", picture(history), history.moments[-1].step)
    return place


def picture(history: History) -> Tensor:
    """Units from top to bottom, moments from left to right, a grey line between layers: uint8 [3, H, W]."""
    rows: list[str] = []
    for layer in history.layers:
        seen = [moment.layers.get(layer.name) for moment in history.moments]
        units = max((len(s.units) for s in seen if s is not None), default=0)
        if len(rows) + units + 1 > TALL:
            break
        for unit in range(units):
            rows.append("".join(s.units[unit] if s is not None and unit < len(s.units) else NEVER for s in seen))
        rows.append(NEVER * len(seen))
    colours = torch.tensor([[COLOURS[letter] for letter in row] for row in rows or [NEVER]], dtype=torch.uint8)
    return colours.permute(2, 0, 1).repeat_interleave(4, 1).repeat_interleave(4, 2)
