"""What was seen of a cure: a check a question, and the faults among them."""

from __future__ import annotations

from dataclasses import dataclass

QUESTIONS = {
    "gradient": "did gradient arrive at what is dead",
    "acts": "did the revival act",
    "stays": "did it stay",
    "optimiser": "did the optimiser's state follow",
    "averages": "did moving averages follow",
    "targets": "did target copies follow",
    "harm": "was everything alive left alone",
    "loss": "was the loss as before at the moment of revival",
}


@dataclass(frozen=True, slots=True)
class Check:
    """The answer to one question: yes, no, or "" where there was nothing to see; what was seen, and whether it is a
    fault.
    """

    name: str
    answer: str
    seen: str
    fault: bool = False

    def __str__(self) -> str:
        return f"{'FAULT ' if self.fault else ''}{QUESTIONS[self.name]}? {self.answer or 'not to be seen'}: {self.seen}"


@dataclass(frozen=True, slots=True)
class Proof:
    """A cure on trial: which units of which layer were planted dead, how many steps were run, and the checks."""

    layer: str
    noun: str
    planted: tuple[int, ...]
    count: int
    steps: int
    revived: tuple[int, ...]
    checks: tuple[Check, ...]

    @property
    def faults(self) -> tuple[str, ...]:
        """The names of the checks that found a fault."""
        return tuple(check.name for check in self.checks if check.fault)

    def __getitem__(self, name: str) -> Check:
        """A check by its name: gradient, acts, stays, optimiser, averages, targets, harm, loss."""
        return next(check for check in self.checks if check.name == name)

    def __str__(self) -> str:
        many = f"{len(self.planted)} of {self.count} {self.noun}s of {self.layer} planted dead, {self.steps} steps"
        verdict = f"{len(self.faults)} fault{'s' * (len(self.faults) > 1)}" if self.faults else "no fault"
        return "\n".join((f"{many}: {verdict}", *(f"- {check}" for check in self.checks)))
