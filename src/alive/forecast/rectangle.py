"""Networks by depth x width: many draws at once for death and merging, a few with the gradient, closed forms beside."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from ..data import Data
from ..data.batches import stream
from ..nn import Rectangular, RectangularConv
from ..theory import Birth, Estimate, arriving, birth, point_dead, spreads, width_for
from .own import Draws, middle
from .record import RISK, Preflight, Remedy, Shares

WIDEST = 512  # widths beyond this are not tried
WITH_GRADIENT, IN_REMEDIES = 20, 8  # networks that are run back through
COMPARED = 200  # points whose products make the closed form


@dataclass(frozen=True, slots=True, eq=False)
class Kind:
    """Networks of one kind over points [N, d] or [N, C, H, W]."""

    x: Tensor
    outputs: int
    depth: int
    width: int
    init: str
    batch_norm: bool
    seed: int

    def born(self, draws: int) -> Birth:
        """Who is dead, and who has merged, in so many fresh networks."""
        kind: dict[str, Any] = {name: getattr(self, name) for name in ("depth", "width", "init", "batch_norm")}
        return birth(self.x, **kind, draws=draws, generator=torch.Generator().manual_seed(self.seed))

    def with_gradient(self, draws: int, most: int = WITH_GRADIENT) -> tuple[Shares, float | None, float | None]:
        """Of a few networks: which cannot learn, the spread at the end, the gradient at the beginning."""
        drawn = Draws(self._network, stream([self.x]), self.seed)
        with torch.random.fork_rng(devices=[]):
            counted = [drawn.census(drawn.network(number)) for number in range(min(draws, most))]
        spread = middle([found.layers[-1].signal.spread for found in counted])
        return Shares.of(counted), spread, middle([found.layers[0].signal.gradient for found in counted])

    def _network(self) -> nn.Module:
        options: dict[str, Any] = {
            "depth": self.depth,
            "width": self.width,
            "batch_norm": self.batch_norm,
            "init": self.init,
            "generator": torch.Generator().manual_seed(torch.initial_seed()),
        }
        make = RectangularConv if self.x.ndim == 4 else Rectangular
        return make(self.x.shape[1], self.outputs, **options).to(self.x.dtype)

    def lost(self, draws: int) -> Estimate:
        """Share of networks that cannot learn."""
        return _all(self.born(draws), self.with_gradient(draws, IN_REMEDIES)[0]).lost


def _all(born: Birth, few: Shares) -> Shares:
    """Death and merging from the many draws, the gradient from the few."""
    return few._replace(born_dead=born.born_dead, merged=born.born_merged)


def judged(depth: int, width: int, data: Data, *, init: str, batch_norm: bool, draws: int, seed: int) -> Preflight:
    """Judge networks of this depth and width over the training points."""
    x = data.pixels(data.train_x)
    x = x if x.ndim == 4 else x.flatten(1)
    kind = Kind(x, data.outputs, depth, width, init, batch_norm, seed)
    born = kind.born(draws)
    few, spread, gradient = kind.with_gradient(draws)
    shares = _all(born, few)
    closed = not batch_norm and x.ndim == 2
    wide = spreads(x[:COMPARED], depth=depth, width=width, init=init) if closed else None
    return Preflight(
        model=f"{depth}x{width}",
        data=data.name,
        points=len(x),
        draws=draws,
        fixed=False,
        shares=shares,
        dead_points=born.dead_points,
        dead_units=born.dead_units,
        spread=spread,
        gradient=gradient,
        closed_form=point_dead(init, [width] * depth) if closed else None,
        closed_spread=None if wide is None else wide[-1],
        closed_gradient=arriving(init, depth=depth, width=width, outputs=data.outputs) if closed else None,
        remedies=tuple(_remedies(kind, born, shares.lost.value)) if shares.lost.value >= RISK else (),
    )


def _remedies(kind: Kind, found: Birth, lost: float) -> Iterator[Remedy]:
    """What helps, each measured on fewer draws, the best first; the penalty acts in training and cannot be."""
    fewer, tried = max(20, found.draws // 2), []

    def changed(**change: Any) -> Kind:
        return Kind(**({name: getattr(kind, name) for name in Kind.__slots__} | change))

    size = f"{kind.depth}x{kind.width}"
    for start in ("mirrored", "kaiming"):
        if kind.init != start and (kind.width > 1 or start != "mirrored"):
            words = f'start {start} (--init {start}, alive.nn.initialise_(model, "{start}")) at {size}'
            tried.append(Remedy(words, changed(init=start).lost(fewer)))
    dies = found.born_dead.value >= RISK and kind.init != "zeros"
    wider = _wider(lambda width: changed(width=width), kind, fewer) if dies else None
    if wider is not None:
        tried.append(Remedy(f"make it wider: {kind.depth}x{wider.width}", wider.lost(fewer)))
    shallow = sum(share < RISK for share in found.merged_by_depth)  # shares rise with depth
    if shallow and kind.init != "mirrored":
        few = changed(depth=shallow).with_gradient(fewer, IN_REMEDIES)[0]
        share = found.merged_by_depth[shallow - 1]
        many = Estimate.of((torch.arange(found.draws) < round(share * found.draws)).double())
        shares = few._replace(born_dead=many, merged=Estimate(0.0, 0.0))  # which holds both
        tried.append(Remedy(f"make it shallower: {shallow}x{kind.width}", shares.lost))
    if not kind.batch_norm:
        tried.append(Remedy(f"add batch norm (--batch-norm) at {size}", changed(batch_norm=True).lost(fewer)))
    helping = [remedy for remedy in tried if remedy.lost is not None and remedy.lost.value < lost]
    yield from sorted(helping, key=lambda remedy: remedy.lost.value if remedy.lost else 1.0)
    yield Remedy("train with the penalty, which revives dead units and points: alive.Jumpstart(model), mode UP", None)


def _wider(changed: Callable[[int], Kind], kind: Kind, draws: int) -> Kind | None:
    """The least width whose networks are seldom born dead, by halving between one too thin and one wide enough."""
    known = point_dead(kind.init, [kind.width]) is not None
    low, high = kind.width, max(kind.width + 1, width_for(kind.depth, RISK) if known else 2 * kind.width)
    while changed(high).born(draws).born_dead.value >= RISK:
        if high >= WIDEST:
            return None
        low, high = high, 2 * high
    while high - low > 1:
        middle_width = (low + high) // 2
        risky = changed(middle_width).born(draws).born_dead.value >= RISK
        low, high = (middle_width, high) if risky else (low, middle_width)
    return changed(high)
