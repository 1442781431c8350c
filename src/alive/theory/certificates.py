"""Certificates: can any input switch all units of a layer off? A proof that none can, or an input that does."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from math import inf, isinf
from typing import Literal, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from ..errors import expect, require
from .cases import Array, Case, cases, numbers
from .exact import decide, dot, fractions, nearest_float, products, root

Verdict = Literal["alive", "dead", "undecided"]
Layer = nn.Module | tuple[Tensor, Tensor]

EXACT_SIZE = 1000  # entries of a tableau up to which an unclear case is decided in rational arithmetic: about a second
MOST = 1000  # the largest power of two by which a row is scaled
SMALL = 1e-9  # multipliers below this share of the largest are the solver's noise


class Domain(NamedTuple):
    """The inputs asked about: lo <= x <= hi [n], infinite where free."""

    lo: Array
    hi: Array


class Proof(NamedTuple):
    """What multipliers show: max_j z_j - cutoff >= margin (1 - |x| / radius) for every x of the domain."""

    margin: Fraction
    radius_squared: Fraction | None  # None: any norm

    @property
    def radius(self) -> float:
        """A float that is not above the radius."""
        return inf if self.radius_squared is None else root(self.radius_squared) * (1 - 1e-12)


@dataclass(frozen=True, slots=True)
class CaseCertificate:
    """One kind of output position, `positions` of them.

    alive      `multipliers` [m] prove it: max_j z_j - cutoff >= margin (1 - |x| / valid_for_norm_up_to)
    dead       `dead_input` (padding included) has all z_j <= cutoff, in exact arithmetic
    undecided  the least possible maximum is too near the cutoff for floats, the layer too large for fractions
    """

    verdict: Verdict
    positions: int = 1
    multipliers: tuple[Fraction, ...] = ()
    margin: float = 0.0
    valid_for_norm_up_to: float = 0.0
    dead_input: tuple[Fraction, ...] = ()


@dataclass(frozen=True, slots=True)
class Certificate:
    """The answer for a layer: alive if every output position is, dead if one can be killed.

    For convolutions a dead position need not mean a dead image: its other positions may still be alive.
    """

    cutoff: float
    lo: tuple[float, ...]
    hi: tuple[float, ...]
    size: tuple[int, ...] | None
    cases: tuple[CaseCertificate, ...]

    @property
    def verdict(self) -> Verdict:
        """Dead if a case is, else undecided if a case is, else alive."""
        found = {case.verdict for case in self.cases}
        return "dead" if "dead" in found else "undecided" if "undecided" in found else "alive"

    @property
    def margin(self) -> float:
        """The least margin of all cases; 0 unless alive."""
        return min(case.margin for case in self.cases) if self.verdict == "alive" else 0.0

    @property
    def valid_for_norm_up_to(self) -> float:
        """The largest norm of an input, or patch, up to which every case is proved; 0 unless alive."""
        return min(case.valid_for_norm_up_to for case in self.cases) if self.verdict == "alive" else 0.0

    @property
    def dead_input(self) -> Tensor | None:
        """The first dead input, or patch, as float64 [n]; the case itself keeps it as fractions."""
        found = next((case.dead_input for case in self.cases if case.verdict == "dead"), None)
        return None if found is None else torch.tensor([nearest_float(x) for x in found], dtype=torch.float64)


def certify(
    layer: Layer,
    *,
    cutoff: float = 0.0,
    box: tuple[float | Tensor, float | Tensor] = (-inf, inf),
    size: Sequence[int] | None = None,
    reach: float = 1e4,
) -> Certificate:
    """Prove that no input switches all units of a layer off, or give one that does (Lemma 3.1 of 000).

    cutoff  a unit is off where z <= cutoff
    box     bounds of the inputs, numbers or [n]; (0, inf) for what a ReLU passed on
    size    spatial size of the images, where a convolution pads
    reach   inputs beyond this in size are not looked for: a proof over all of R^n holds at least up to there, and
            without limit where the multipliers cancel the weights exactly. Rounded weights seldom cancel exactly,
            and then some gigantic input may be dead: `valid_for_norm_up_to` says how far the proof goes

    The solver is only asked for a guess: whatever is returned was checked in rational arithmetic.

    >>> t = torch.tensor
    >>> certify((t([[1.0], [-1.0]]), t([0.0, 1.0]))).margin  # z = (x, 1 - x)
    0.5
    >>> certify((t([[1.0], [-1.0]]), t([0.0, 0.0]))).dead_input  # both are 0 at 0
    tensor([0.], dtype=torch.float64)
    """
    found = cases(layer, size)
    domain = _domain(box, found[0].seen.size)
    expect(
        [(np.isfinite(cutoff).item(), f"cutoff must be finite, got {cutoff}"), (reach > 0, "reach must be positive")]
    )
    certified = tuple(_certify(case, Domain(*(side[case.seen] for side in domain)), cutoff, reach) for case in found)
    return Certificate(
        float(cutoff),
        tuple(domain.lo.tolist()),
        tuple(domain.hi.tolist()),
        None if size is None else tuple(size),
        certified,
    )


def prove(case: Case, domain: Domain, cutoff: float, multipliers: Sequence[Fraction]) -> Proof | None:
    """What the multipliers show in exact arithmetic, or None if nothing.

    With r = multipliers' W, the sum of multipliers (z - cutoff) is at least multipliers'(b - cutoff) plus, for each
    input, the smaller end of r_i x_i; where that end is infinite, |r_i x_i| is left, and bounded by |r| |x|.
    """
    total = sum(multipliers, Fraction())
    if total <= 0 or min(multipliers) < 0:
        return None
    bias = [value - Fraction(cutoff) for value in fractions(case.bias.tolist())]
    sure, loose = dot(multipliers, bias), Fraction()
    for r, lo, hi in zip(products(case.weight.T, multipliers), domain.lo.tolist(), domain.hi.tolist(), strict=True):
        end = lo if r > 0 else hi
        if r and isinf(end):
            loose += r * r
        elif r:
            sure += r * Fraction(end)
    if sure <= 0:
        return None
    return Proof(sure / total, sure * sure / loose if loose else None)


def is_dead(case: Case, domain: Domain, cutoff: float, x: Sequence[Fraction]) -> bool:
    """Whether x lies in the domain and leaves every unit at or below the cutoff, in exact arithmetic."""
    ends = zip(x, domain.lo.tolist(), domain.hi.tolist(), strict=True)
    if not all(lo <= value <= hi for value, lo, hi in ends):
        return False
    z = (a + b for a, b in zip(products(case.weight, x), fractions(case.bias.tolist()), strict=True))
    return all(value <= Fraction(cutoff) for value in z)


def _domain(box: tuple[float | Tensor, float | Tensor], inputs: int) -> Domain:
    sides = [numbers(side) for side in box]
    expect(
        (side.size == inputs or side.ndim == 0, f"{inputs} inputs need as many bounds, or one, got {list(side.shape)}")
        for side in sides
    )
    lo, hi = (np.broadcast_to(side.reshape(-1), (inputs,)).astype(np.float64) for side in sides)
    expect([(bool((lo <= hi).all() and (lo < inf).all() and (hi > -inf).all()), "the box is empty: lo must be <= hi")])
    return Domain(lo, hi)


def _certify(case: Case, domain: Domain, cutoff: float, reach: float) -> CaseCertificate:
    """Guess by linear programming and check the guess; where neither guess holds, decide in rational arithmetic."""
    constant = (case.weight == 0).all(1)
    sure = np.flatnonzero(constant & (case.bias > cutoff))
    if sure.size:  # a unit that is on whatever comes
        only = [Fraction(int(unit == sure[0])) for unit in range(len(case.bias))]
        return _alive(case, domain, cutoff, only, reach) or CaseCertificate("undecided", case.positions)
    if not constant.all() and np.isfinite(reach):
        guess = _solve(case, domain, cutoff, reach)
        certified = _alive(case, domain, cutoff, guess.multipliers, reach)
        if certified is not None:
            return certified
        for x in guess.inputs:
            if is_dead(case, domain, cutoff, x):
                return _dead(case, x)
    return _decide(case, domain, cutoff)


def _alive(
    case: Case, domain: Domain, cutoff: float, multipliers: Sequence[Fraction], reach: float
) -> CaseCertificate | None:
    """The certificate that the multipliers make, if they prove enough."""
    proof = prove(case, domain, cutoff, multipliers)
    if proof is None or proof.radius < min(reach, 1e300):
        return None
    margin = nearest_float(proof.margin)
    margin = margin if Fraction(margin) <= proof.margin else float(np.nextafter(margin, 0))
    return CaseCertificate("alive", case.positions, tuple(multipliers), margin, proof.radius)


def _dead(case: Case, x: Sequence[Fraction]) -> CaseCertificate:
    whole, values = [Fraction()] * case.seen.size, iter(x)
    for place in np.flatnonzero(case.seen):
        whole[place] = next(values)
    return CaseCertificate("dead", case.positions, dead_input=tuple(whole))


class _Guess(NamedTuple):
    multipliers: list[Fraction]
    inputs: list[list[Fraction]]


def _solve(case: Case, domain: Domain, cutoff: float, reach: float) -> _Guess:
    """Minimise over x the largest pre-activation; its multipliers and its x are guesses, to be checked."""
    with require("certify", "alive[programs]"):
        from scipy.optimize import linprog
    live = (case.weight != 0).any(1)  # a constant unit that is off changes nothing
    size = np.log2(np.abs(case.weight[live]).max(1))
    scale = np.exp2(np.clip(-np.floor(size), -MOST, MOST))[:, None]  # powers of two round nothing
    with np.errstate(over="ignore"):
        weight, bias = case.weight[live] * scale, (case.bias[live] - cutoff) * scale[:, 0]
    if not np.isfinite(bias).all():  # some unit is constant but for inputs beyond all floats
        return _Guess([Fraction()] * len(case.bias), [])
    lo = np.where(np.isinf(domain.lo), np.minimum(domain.hi, 0) - reach, domain.lo)
    hi = np.where(np.isinf(domain.hi), np.maximum(domain.lo, 0) + reach, domain.hi)
    costs = np.append(np.zeros(weight.shape[1]), 1.0)
    rows = np.hstack([weight, -np.ones((len(weight), 1))])
    done = linprog(costs, rows, -bias, bounds=[*zip(lo, hi, strict=True), (None, None)], method="highs")
    if done.x is None:
        return _Guess([Fraction()] * len(case.bias), [])
    multipliers = np.zeros(len(case.bias))
    multipliers[live] = _polish(np.clip(-done.ineqlin.marginals, 0, None), weight, domain) * scale[:, 0]
    found = [np.clip(done.x[:-1], domain.lo, domain.hi)]
    if done.fun < 0 and not (np.isfinite(domain.lo).all() and np.isfinite(domain.hi).all()):
        found.insert(0, _smallest(weight, bias, domain, done.fun))
    found.append(np.clip(np.zeros_like(lo), domain.lo, domain.hi))
    return _Guess(fractions(multipliers.tolist()), [fractions(x.tolist()) for x in found])


def _polish(multipliers: Array, weight: Array, domain: Domain) -> Array:
    """Remove what the solver's tolerance left of multipliers'W along inputs without bound."""
    best = multipliers = np.where(multipliers > SMALL * multipliers.max(), multipliers, 0.0)
    for _ in range(3):
        r = best @ weight
        loose = np.where(r > 0, np.isinf(domain.lo), np.isinf(domain.hi)) & (r != 0)
        support = best > 0
        if not loose.any():
            break
        step, *_ = np.linalg.lstsq(weight[support][:, loose].T, -r[loose], rcond=None)
        moved = best.copy()
        moved[support] = np.clip(best[support] + step, 0, None)
        best = moved
    kernel = _kernel(multipliers > 0, weight, np.isinf(domain.lo) & np.isinf(domain.hi))
    return min((m for m in (best, multipliers, kernel) if m.max() > 0), key=lambda m: _leftover(m, weight, domain))


def _kernel(support: NDArray[np.bool_], weight: Array, free: NDArray[np.bool_]) -> Array:
    """The multipliers on a support that cancel best along free inputs, if they are all of one sign; else zeros.

    Steps towards cancelling may shrink all multipliers instead; this direction has no size to shrink.
    """
    found = np.zeros(len(support))
    if free.any() and support.any():
        direction = np.linalg.svd(weight[support][:, free])[0][:, -1]
        if (direction >= 0).all() or (direction <= 0).all():
            found[support] = np.abs(direction)
    return found


def _leftover(multipliers: Array, weight: Array, domain: Domain) -> float:
    """What is left of multipliers'W along inputs without bound, relative to the multipliers."""
    r = multipliers @ weight
    loose = np.where(r > 0, np.isinf(domain.lo), np.isinf(domain.hi))
    return float(np.linalg.norm(r[loose]) / multipliers.sum())


def _smallest(weight: Array, bias: Array, domain: Domain, least: float) -> Array:
    """A dead input of small size: the least bound t with |x_i| <= t, all units a little below the cutoff."""
    from scipy.optimize import linprog

    inputs = weight.shape[1]
    below = min(-least / 2, 1e-3 * float(np.abs(bias).max(initial=1e-3)))
    eye, one = np.eye(inputs), np.ones((inputs, 1))
    rows = np.block([[weight, np.zeros((len(weight), 1))], [eye, -one], [-eye, -one]])
    limits = np.concatenate([-bias - below, np.zeros(2 * inputs)])
    bounds = [*zip(domain.lo, domain.hi, strict=True), (0, None)]
    done = linprog(np.append(np.zeros(inputs), 1.0), rows, limits, bounds=bounds, method="highs")
    x = np.zeros(inputs) if done.x is None else done.x[:-1]
    return np.clip(x, domain.lo, domain.hi)


def _decide(case: Case, domain: Domain, cutoff: float) -> CaseCertificate:
    """The rational answer, where the layer is small enough for it."""
    inputs = case.weight.shape[1]
    rows = [fractions(row) for row in case.weight.tolist()]
    limits = [Fraction(cutoff) - value for value in fractions(case.bias.tolist())]
    for place in range(inputs):
        for sign, end in ((1, domain.hi[place]), (-1, domain.lo[place])):
            if np.isfinite(end):
                rows.append([Fraction(sign * (other == place)) for other in range(inputs)])
                limits.append(sign * Fraction(float(end)))
    undecided = CaseCertificate("undecided", case.positions)
    if (inputs + 1) * (len(rows) + inputs + 2) > EXACT_SIZE:
        return undecided
    x, y = decide(rows, limits)
    if y is None:
        return _dead(case, x or [])
    return _alive(case, domain, cutoff, y[: len(case.bias)], 0.0) or undecided
