"""Separation slacks (Jumpstart): by how much each unit, point or layer misses its margins.

For the pre-activations z of one layer over one batch, and a unit j (mode U),

    ξ⁺ = relu(1 − max z_j)      ξ⁻ = relu(1 + min z_j)      s = β ξ⁺ + (1−β) ξ⁻

so that s = 0 when the unit is on for some point and off for another, both by a margin. Mode P asks the same of
each point over the units, L of the layer as a whole. `slack` is the rule; everything here is plain torch, the slow,
obvious version that its fast twins are tested against.

Differs from the paper: equations 10 and 12 print max{0, −1−min}, which rewards the violation; ξ⁻ is as above.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from math import inf
from typing import NamedTuple

import torch
from torch import Tensor

from ..errors import expect, expect_one_of, near
from ..torch_private import remember
from .extremes import by_group, canonical, extreme

MODES = {"U": ("U",), "P": ("P",), "UP": ("U", "P"), "L": ("L",)}
CONVS = ("channel", "position")
AGAINST = ("both", "death", "linearity")
TIES = ("split", "single")
AGGREGATES = ("meansq", "sumsq", "sum", "norm", "mean", "balanced")

Slacks = Mapping[str, Tensor]
"""Slacks of one layer by axis: "U" units, "P" points, "L" the layer; each a vector."""
Rows = dict[str, tuple[tuple[int, ...], Sequence[tuple[list[int], Tensor]]]]
"""By axis the numbers of the layers that have it, and their slacks: those of one size as rows of a matrix, with their
places among these layers."""


@dataclass(frozen=True, slots=True)
class Separation:
    """What is asked of a layer.

    mode       U units, P points, UP both, L the layer as a whole
    conv       "channel": a unit is a channel, a point a sample; "position": each position of the map on its own
    against    "both", or only "death" (s = ξ⁺) or only "linearity" (s = ξ⁻)
    balance    β, the share of ξ⁺ when against both
    ties       "split" shares the gradient among equal extremes, "single" gives it to the first; so does "split" on
               devices and in precisions for which nothing is compiled (`ends`)
    """

    mode: str = "UP"
    conv: str = "channel"
    against: str = "both"
    balance: float = 0.5
    pos_margin: float = 1.0
    neg_margin: float = 1.0
    ties: str = "split"

    def __post_init__(self) -> None:
        known = (("mode", MODES), ("conv", CONVS), ("against", AGAINST), ("ties", TIES))
        expect(
            [
                (getattr(self, n) in list(ks), f"unknown {n} {getattr(self, n)!r}: {near(getattr(self, n), ks)}")
                for n, ks in known
            ]
            + [
                (0 <= self.balance <= 1, f"balance must lie in [0, 1], got {self.balance}"),
                (0 <= self.pos_margin < inf, f"pos_margin must be finite and not negative, got {self.pos_margin}"),
                (0 <= self.neg_margin < inf, f"neg_margin must be finite and not negative, got {self.neg_margin}"),
            ]
        )

    @property
    def axes(self) -> tuple[str, ...]:
        """The axes measured, in order: some of U, P, L."""
        return MODES[self.mode]

    @property
    def shares(self) -> tuple[float, float]:
        """Weights of ξ⁺ and ξ⁻ in s."""
        return {"both": (self.balance, 1 - self.balance), "death": (1.0, 0.0), "linearity": (0.0, 1.0)}[self.against]

    @property
    def signs(self) -> tuple[int, ...]:
        """The sides that have a share: 1 for the largest z, −1 for the smallest."""
        return tuple(sign for sign, share in zip((1, -1), self.shares, strict=True) if share)

    def pools(self, ndim: int) -> bool:
        """Whether the extremes of units and points are taken over positions as well."""
        return ndim > 2 and self.conv == "channel"

    def over(self, axis: str, ndim: int) -> tuple[int, ...]:
        """The dimensions of [N, C, *positions] that an extreme of `axis` is taken over."""
        positions = tuple(range(2, ndim))
        if axis == "L":
            return (0, 1, *positions)
        own = 0 if axis == "U" else 1
        return (own, *positions) if self.conv == "channel" else (own,)

    def satisfiable(self, axis: str, shape: Sequence[int]) -> bool:
        """Whether an extreme of `axis` is over more than one value; over one value no slack can reach zero."""
        count = 1
        for dim in self.over(axis, len(shape)):
            count *= shape[dim]
        return count > 1

    def satisfiable_axes(self, shape: Sequence[int]) -> list[str]:
        """The axes asked for that a layer of this shape [N, C, *positions] can satisfy."""
        return [axis for axis in self.axes if self.satisfiable(axis, shape)]

    def sizes(self, axes: Sequence[str], shape: torch.Size) -> list[int]:
        """How many groups, and so slacks, each axis of [N, C, *positions] has."""
        kept = shape[2:].numel() if self.conv == "position" else 1
        size = {"U": shape[1] * kept, "P": shape[0] * kept, "L": 1}
        return [size[axis] for axis in axes]


class Sides(NamedTuple):
    """The rule as tensors, of each side asked for: the sign of z, share and margin of ξ (as columns), ∂s/∂z at an end.

    The cutoff of the activation lies in the margins, so that z need not be shifted.
    """

    signs: Tensor
    shares: Tensor
    margins: Tensor
    slopes: Tensor


@remember
def sides(rule: Separation, cutoff: float, dtype: torch.dtype, device: torch.device) -> Sides:
    """The sides of a rule; made once for all layers alike."""
    of = {1: (rule.shares[0], rule.pos_margin + cutoff), -1: (rule.shares[1], rule.neg_margin - cutoff)}
    rows = [(sign, *of[sign]) for sign in rule.signs]
    sign, share, margin = torch.tensor(rows, dtype=dtype, device=device).unbind(1)
    return Sides(sign, share.unsqueeze(1), margin.unsqueeze(1), -sign * share)


def slack(top: Tensor, bottom: Tensor, rule: Separation) -> Tensor:
    """The rule itself: s = β relu(1 − top) + (1−β) relu(1 + bottom), from extremes measured from the cutoff.

    Its twins, each tested against it: `sweep`, `kernel` and `parts` here, and the laboratory's `fleet.slacks`.

    >>> slack(torch.tensor([2.0, 0.5]), torch.tensor([-3.0, 0.25]), Separation())
    tensor([0.0000, 0.8750])
    """
    plus, minus = rule.shares
    xi = []
    if plus:
        xi.append(plus * torch.relu(rule.pos_margin - top))
    if minus:
        xi.append(minus * torch.relu(rule.neg_margin + bottom))
    return torch.stack(xi).sum(0)


def slacks(z: Tensor, rule: Separation, *, cutoff: float = 0.0, unit_axis: int = 1, point_axis: int = 0) -> Slacks:
    """Slacks of one layer from its pre-activations z: [N, C, *positions], or as the axes say. At least float32.

    >>> z = torch.tensor([[2.0, 0.5], [-3.0, 0.25]])     # two points, two units
    >>> {axis: s.tolist() for axis, s in slacks(z, Separation()).items()}
    {'U': [0.0, 0.875], 'P': [0.75, 0.375]}
    """
    z = canonical(z, unit_axis, point_axis)
    z = z.to(torch.promote_types(z.dtype, torch.float32)) - cutoff
    measured = {}
    for axis in rule.satisfiable_axes(z.shape):
        over = rule.over(axis, z.ndim)
        top, bottom = (extreme(z, over, largest=largest, ties=rule.ties) for largest in (True, False))
        measured[axis] = slack(top, bottom, rule).flatten()
    return measured


def grouped_slacks(
    z: Tensor, rule: Separation, groups: Mapping[str, tuple[Tensor, int]], cutoff: float = 0.0
) -> Slacks:
    """Slacks of entries that lie on no grid: for each axis, the group of every entry of the flattened z, and how many.

    Entries of the group after the last belong to none.

    A group of one entry cannot be satisfied and is left out. Equal extremes share the gradient, whatever `ties` says.

    >>> z, rows = torch.tensor([2.0, -3.0, 0.5]), torch.tensor([0, 0, 1])
    >>> grouped_slacks(z, Separation(mode="P"), {"P": (rows, 2)})["P"].tolist()
    [0.0]
    """
    z = z.reshape(-1)
    z = z.to(torch.promote_types(z.dtype, torch.float32)) - cutoff
    measured = {}
    for axis in rule.axes:
        index, count = groups[axis]
        several = torch.bincount(index, minlength=count)[:count] > 1
        if not bool(several.any()):
            continue
        top, bottom = by_group(z, index, count)
        measured[axis] = slack(top[several], bottom[several], rule)
    return measured


def aggregate(layers: Sequence[Slacks], how: str = "meansq") -> Tensor:
    """One scalar from the slacks of all layers: A of the papers' objective C + λ·A.

    meansq: for each axis the mean of s² over a layer's slacks, and of these the mean over layers; summed over axes. So
    it stays the same, however many layers, units, points and positions there are.
    The papers' own: sumsq Σs², sum Σs, norm ‖s‖₂ (gradient 0 at 0), mean, balanced: mean over units plus mean over
    points. Zero where there is no slack at all. Layers may lie on several devices: the sum is on the first one's.

    >>> s = [{"U": torch.tensor([3.0, 0.0]), "P": torch.tensor([4.0])}]
    >>> [aggregate(s, how).item() for how in AGGREGATES]
    [20.5, 25.0, 7.0, 5.0, 2.3333332538604736, 5.5]
    """
    expect_one_of("aggregate", how, AGGREGATES)
    by_axis = {axis: list(of.values()) for axis, of in _by_axis(layers).items()}
    if not by_axis:
        return next((s.sum() for layer in layers for s in layer.values()), torch.zeros(()))
    if how == "meansq":
        return mean_squares(rows_of(layers))
    if how == "balanced":
        return torch.stack([torch.cat(s).mean() for s in by_axis.values()]).sum()
    s = torch.cat([slack for axis in by_axis.values() for slack in axis])
    match how:
        case "sumsq":
            return s.square().sum()
        case "sum":
            return s.sum()
        case "norm":
            return torch.linalg.vector_norm(s)  # type: ignore[no-any-return]
        case _:
            return s.mean()


class Means(NamedTuple):
    """Of one axis: the numbers of its layers, and for each of them the mean of s² and that of s, which has no gradient.

    present   which layers have the axis, where only a tensor knows; None: all. The means of the others are 0.
    """

    layers: tuple[int, ...]
    squares: Tensor
    slacks: Tensor
    present: Tensor | None = None

    def average(self, multipliers: Tensor | None = None) -> Tensor:
        """The mean over layers of the mean squares, each times its multiplier."""
        each = self.squares if multipliers is None else multipliers * self.squares
        return each.mean() if self.present is None else each.sum() / self.present.sum().clamp(min=1)


def means(layers: Sequence[Slacks]) -> dict[str, Means]:
    """For each axis that some layer has, the means of its layers.

    >>> means([{"U": torch.tensor([3.0, 0.0])}, {}, {"U": torch.tensor([1.0])}])["U"].squares
    tensor([4.5000, 1.0000])
    """
    return means_of(rows_of(layers))


def rows_of(layers: Sequence[Slacks]) -> Rows:
    """The slacks of all layers as rows of matrices."""
    return {axis: (tuple(of), by_size(list(of.values()))) for axis, of in _by_axis(layers).items()}


def mean_squares(rows: Rows) -> Tensor:
    """The aggregate "meansq"; of at least one row."""
    by_axis = [
        matrices[0][1].square().mean() if len(matrices) == 1 else in_order(matrices, mean_square).mean()
        for _, matrices in rows.values()
    ]
    return sum(by_axis[1:], by_axis[0])


def means_of(rows: Rows) -> dict[str, Means]:
    """As `means`."""
    return {
        axis: Means(numbers, in_order(matrices, mean_square), in_order(matrices, lambda rows: rows.detach().mean(1)))
        for axis, (numbers, matrices) in rows.items()
    }


def mean_square(rows: Tensor) -> Tensor:
    """The mean of the squares of each row."""
    return rows.square().mean(1)


def by_size(vectors: Sequence[Tensor]) -> list[tuple[list[int], Tensor]]:
    """Vectors of one length as the rows of one matrix, beside their numbers: few calls, however many layers."""
    if torch.compiler.is_compiling():  # a length may be a symbol there, which a dict would make a number
        return [([number], vector.unsqueeze(0)) for number, vector in enumerate(vectors)]
    numbers: dict[int, list[int]] = {}
    for number, vector in enumerate(vectors):
        numbers.setdefault(len(vector), []).append(number)
    return [(some, torch.stack([vectors[number] for number in some])) for some in numbers.values()]


def in_order(matrices: Sequence[tuple[list[int], Tensor]], reduce: Callable[[Tensor], Tensor]) -> Tensor:
    """One number a row, by `reduce` of each matrix, in the order of the vectors."""
    if len(matrices) == 1:
        return reduce(matrices[0][1])
    found = {number: one for some, rows in matrices for number, one in zip(some, reduce(rows).unbind(), strict=True)}
    return torch.stack([found[number] for number in range(len(found))])


def _by_axis(layers: Sequence[Slacks]) -> dict[str, dict[int, Tensor]]:
    """For each axis the slacks of the layers that have any, by the number of the layer, all on one device."""
    found: dict[str, dict[int, Tensor]] = {}
    device = None
    for number, layer in enumerate(layers):
        for axis, s in layer.items():
            if s.numel():
                device = s.device if device is None else device
                found.setdefault(axis, {})[number] = s if s.device == device else s.to(device)
    return {axis: found[axis] for axis in ("U", "P", "L") if axis in found}
