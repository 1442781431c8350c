"""Checking a certificate against its layer, without the solver: rational arithmetic and nothing else."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from math import isfinite, isinf

import numpy as np

from .cases import Case, cases
from .certificates import CaseCertificate, Certificate, Domain, Layer, is_dead, prove


@dataclass(frozen=True, slots=True)
class Verification:
    """True if every claim of the certificate holds; otherwise `faults` says which do not."""

    faults: tuple[str, ...]

    def __bool__(self) -> bool:
        return not self.faults


def verify(layer: Layer, certificate: Certificate) -> Verification:
    """Check every claim of a certificate exactly: multipliers, margin, radius, dead inputs, no position left out.

    >>> import torch
    >>> from alive.theory import certify
    >>> layer = (torch.tensor([[1.0], [-1.0]]), torch.tensor([0.0, 1.0]))
    >>> bool(verify(layer, certify(layer)))
    True
    >>> verify((layer[0], -layer[1]), certify(layer)).faults
    ('case 0: the multipliers prove nothing',)
    """
    found = cases(layer, certificate.size)
    inputs = found[0].seen.size
    if len(certificate.lo) != inputs or len(certificate.hi) != inputs:
        return Verification((f"it speaks of {len(certificate.lo)} inputs, the layer has {inputs}",))
    if [case.positions for case in found] != [case.positions for case in certificate.cases]:
        return Verification((f"it has {len(certificate.cases)} cases of positions, the layer {len(found)} others",))
    whole = Domain(np.array(certificate.lo), np.array(certificate.hi))
    faults = []
    for number, (case, claim) in enumerate(zip(found, certificate.cases, strict=True)):
        domain = Domain(whole.lo[case.seen], whole.hi[case.seen])
        if fault := _fault(case, claim, domain, certificate.cutoff):
            faults.append(f"case {number}: {fault}")
    return Verification(tuple(faults))


def _fault(case: Case, claim: CaseCertificate, domain: Domain, cutoff: float) -> str:
    """What is wrong with the claim about one case; nothing if it holds."""
    if claim.verdict == "alive":
        return _not_alive(case, claim, domain, cutoff)
    if claim.verdict == "dead":
        return _not_dead(case, claim, domain, cutoff)
    return "" if claim.verdict == "undecided" else f"unknown verdict {claim.verdict!r}"


def _not_alive(case: Case, claim: CaseCertificate, domain: Domain, cutoff: float) -> str:
    if len(claim.multipliers) != len(case.bias):
        return f"{len(claim.multipliers)} multipliers for {len(case.bias)} units"
    proof = prove(case, domain, cutoff, claim.multipliers)
    if proof is None:
        return "the multipliers prove nothing"
    if not (isfinite(claim.margin) and 0 < Fraction(claim.margin) <= proof.margin):
        return f"the margin is not {claim.margin:g} but {float(proof.margin):g}"
    limit, claimed = proof.radius_squared, claim.valid_for_norm_up_to
    if limit is not None and (isinf(claimed) or Fraction(claimed) ** 2 > limit):
        return f"the proof holds up to norm {proof.radius:g}, not {claimed:g}"
    return "" if claimed > 0 else "the proof is claimed for no input"


def _not_dead(case: Case, claim: CaseCertificate, domain: Domain, cutoff: float) -> str:
    if len(claim.dead_input) != case.seen.size:
        return f"an input of {len(claim.dead_input)} entries, not {case.seen.size}"
    if any(value for value, seen in zip(claim.dead_input, case.seen, strict=True) if not seen):
        return "the input is not zero where there is padding"
    x = [value for value, seen in zip(claim.dead_input, case.seen, strict=True) if seen]
    return "" if is_dead(case, domain, cutoff, x) else "the input is not dead, or outside the box"
