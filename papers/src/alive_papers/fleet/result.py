"""What a fleet leaves behind: for each member its rows, why it ended, and the network it became."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from alive.data import Data
from alive.errors import AliveError
from alive.train.result import Best, EpochHealth

from .architecture import Shape
from .arena import Floats
from .engine import COLUMNS, HEALTH_POINTS
from .member import Member
from .start import parts_of


@dataclass(frozen=True, slots=True, eq=False)
class MemberResult:
    """One member: `log` holds its recorded epochs [rows, columns of EpochHealth, right points in place of accuracies].

    `stopped` says why it ended before its last epoch, or is None. `weights`, `norms`, `alpha` are what it ended with.
    """

    member: Member
    log: Floats
    points: int
    test_points: int
    outputs: int
    shape: Shape
    stopped: str | None
    weights: Floats
    norms: Floats
    alpha: Floats

    @property
    def finished(self) -> bool:
        """Whether it has ended, well or not; otherwise it was interrupted."""
        return not (self.stopped or "").startswith("interrupted")

    @property
    def rows(self) -> tuple[EpochHealth, ...]:
        """All recorded epochs."""
        return tuple(self._row(values) for values in self.log)

    @property
    def last(self) -> EpochHealth | None:
        """The last recorded epoch, if there is one."""
        return self._row(self.log[-1]) if len(self.log) else None

    @property
    def best(self) -> Best:
        """The largest accuracies over the recorded epochs, train and test separately."""
        if not len(self.log):
            return Best(None, None)
        tested = float(self.column("test_right").max()) / self.test_points if self.test_points else None
        return Best(float(self.column("train_right").max()) / self.points, tested)

    @property
    def best_after(self) -> float | None:
        """The largest training accuracy of the network after an epoch, where `best` has that of the steps themselves.

        None where these are one, or where only some of the points are looked at after an epoch.
        """
        told = self.member.running and self.points <= HEALTH_POINTS and len(self.log)
        return float(self.column("after_right").max()) / self.points if told else None

    @property
    def curves(self) -> dict[str, list[float]]:
        """Every recorded epoch, by the names of EpochHealth; "after_accuracy" where the steps' own is another."""
        scale = dict.fromkeys(("train_right", "after_right"), self.points) | {"test_right": max(1, self.test_points)}
        names = COLUMNS if self.best_after is not None else COLUMNS[:-1]
        columns = {name: self.column(name).astype(float) / scale.get(name, 1) for name in names}
        return {name.replace("right", "accuracy"): values.tolist() for name, values in columns.items()}

    @property
    def kept(self) -> tuple[bytes, int]:
        """Weights and then norms as bytes, and how many numbers the norms are."""
        return self.weights.tobytes() + self.norms.tobytes(), self.norms.size

    def column(self, name: str) -> NDArray[np.float32]:
        """One column of the log, by name: for whole curves without making rows."""
        return self.log[:, COLUMNS.index(name)]

    def network(self) -> nn.Module:
        """The network as a torch module in eval mode; a Farkas layer becomes the plain layer it computes, as do
        concatenated and leaky ReLUs."""
        if self.alpha.size and (self.alpha[1:] < 1).any():
            raise AliveError(
                f"a {self.member.method} member still has open skips and no plain network computes the same",
                "Train until every α is 1, or read weights and alpha",
            )
        net = self.member.form.plain(self.member, self.shape, self.outputs)
        with torch.no_grad():
            _fill(parts_of(net), self.weights)
            norms = [module for module in net.modules() if isinstance(module, nn.BatchNorm1d | nn.BatchNorm2d)]
            running = [norm.running_mean for norm in norms] + [norm.running_var for norm in norms]
            _fill([part for part in running if part is not None], self.norms)
        return net.eval()

    def _row(self, values: Floats) -> EpochHealth:
        epoch, loss, penalty, trained, tested, dead, linear, points, _ = values.tolist()
        return EpochHealth(
            int(epoch),
            loss,
            penalty,
            trained / self.points,
            tested / self.test_points if self.test_points else None,
            int(dead),
            int(linear),
            int(points),
        )


@dataclass(frozen=True, slots=True, eq=False)
class FleetResult:
    """All members in the order they were given; `interrupted` says that some had no time to end."""

    members: tuple[MemberResult, ...]
    seconds: float
    interrupted: bool

    @property
    def finished(self) -> tuple[MemberResult, ...]:
        """The members that have ended, well or not."""
        return tuple(result for result in self.members if result.finished)


def restored(member: Member, flat: Floats, norms: int, data: Data) -> nn.Module:
    """The network of a member from the numbers that were `kept` of it, the last of which are its norms."""
    cut, none = flat.size - norms, np.zeros(0, np.float32)
    shape = tuple(data.train_x.shape[1:])
    return MemberResult(
        member, none, len(data.train_y), 0, data.outputs, shape, None, flat[:cut], flat[cut:], none
    ).network()


def _fill(parts: list[torch.Tensor], flat: Floats) -> None:
    """Write a flat arena into tensors, one after the other."""
    begun = 0
    for part in parts:
        part.copy_(torch.from_numpy(flat[begun : begun + part.numel()].copy()).view_as(part))
        begun += part.numel()
