"""One run of a study as a record: which study, which setting, which method; and what is left of it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any

from torch import Tensor
from torch.optim import Optimizer

from alive.errors import expect
from alive.train.result import Best, EpochHealth
from alive.train.settings import whole

from ..networks.zoo import Shape

Options = tuple[tuple[str, float | str], ...]
Tell = Callable[[int], None]  # so many steps are done
Curves = dict[str, list[float]]


@dataclass(frozen=True, slots=True)
class Run:
    """A run of a study: the twin of a fleet's Member and the loop's Net for what is no classifier on fixed data.

    study    "sae", "continual", "drift", "agents" or "codebook"
    setting  what is learnt: "topk, γ 3"
    method   what is done against death
    steps    of the optimiser, the same for every method
    width    latents, units of a layer, or codes
    options  numbers of the setting and of the method

    >>> Run("sae", "topk", "none", steps=10, width=16).settings["method"]
    'none'
    """

    study: str
    setting: str
    method: str
    seed: int = 10
    steps: int = 500
    width: int = 64
    lr: float = 1e-3
    options: Options = ()

    def __post_init__(self) -> None:
        expect(
            [
                (whole(self.steps, 1), f"steps must be a whole number of at least 1, got {self.steps!r}"),
                (whole(self.width, 1), f"width must be a whole number of at least 1, got {self.width!r}"),
                (whole(self.seed, 0), f"seed must be a whole number of at least 0, got {self.seed!r}"),
            ]
        )

    def option(self, name: str, usual: Any) -> Any:
        """A number by its name."""
        return dict(self.options).get(name, usual)

    def options_without(self, *names: str) -> dict[str, Any]:
        """All but those of the setting: what is left is the method's."""
        return {name: value for name, value in self.options if name not in names}

    @property
    def depth(self) -> int:
        """Studies do not vary it."""
        return 1

    @property
    def epochs(self) -> int:
        """Steps: studies count by them."""
        return self.steps

    @property
    def engine(self) -> str:
        """Who runs it."""
        return "study"

    @property
    def label(self) -> str:
        """The method as a reader names it."""
        return self.method

    @property
    def keeps(self) -> bool:
        """Whether the trained network can be kept."""
        return False

    @property
    def settings(self) -> dict[str, Any]:
        """The record, its options by name."""
        return asdict(self) | {"options": dict(self.options)}

    def cost(self, points: int | None = None, shape: Shape | None = None) -> float:
        """About how many seconds it takes on one core; only ratios matter."""
        return 1e-3 * self.steps


def course(
    run: Run, step: Callable[[int], None], look: Callable[[int], dict[str, float]], tell: Tell, marks: int = 5
) -> Curves:
    """All steps of a run, and what is seen at so many marks on the way and at the end, by column."""
    curves: Curves = {}
    for number in range(run.steps):
        step(number)
        if (number + 1) % max(1, run.steps // marks) == 0 or number + 1 == run.steps:
            tell(number + 1)
            for name, value in (("epoch", number + 1), *look(number).items()):
                curves.setdefault(name, []).append(float(value))
    return curves


def descend(optimiser: Optimizer, loss: Tensor) -> None:
    """One step."""
    optimiser.zero_grad()
    loss.backward()
    optimiser.step()


@dataclass(frozen=True, slots=True, eq=False)
class RunResult:
    """The measures of a run over its course, by column; "epoch" counts steps or tasks. The score is a share."""

    curves: Curves
    score: float
    dead: int

    @property
    def best(self) -> Best:
        """The score at the end, on points not learnt from."""
        return Best(self.score, self.score)

    @property
    def last(self) -> EpochHealth | None:
        """The end of the run."""
        return EpochHealth(int(self.curves["epoch"][-1]), 0.0, 0.0, self.score, self.score, self.dead, 0, 0)

    @property
    def stopped(self) -> str | None:
        """Every run goes to its end."""
        return None

    @property
    def kept(self) -> tuple[bytes, int]:
        """Nothing is kept."""
        return b"", 0
