"""Who finds what: alive and three other packages on planted cases, each beside a count by brute force.

Units are counted dead by running the model and looking at every unit on every point, in a few lines that share nothing
with alive. Each package is called as its own documents say: torchdiag on all points at once, as it takes one batch;
torch-audit and torchmortem on batch after batch, with their default limits.
"""

from __future__ import annotations

import contextlib
import io
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from importlib import import_module
from importlib.util import find_spec
from tempfile import TemporaryDirectory
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from alive.diagnosis import census

from .figure import Figure

POINTS, BATCH, INPUTS = 2000, 100, 8


@dataclass(frozen=True, slots=True)
class Verdict(Figure):
    """What a detector said of a case, and by how many units it is wrong."""

    said: str = ""

    def __str__(self) -> str:
        return f"{self.name}: {self.said}"


@dataclass(frozen=True, slots=True, eq=False)
class Case:
    """A model with planted units, and what each unit gives at every point [N, C]: the ground of the brute force."""

    name: str
    model: nn.Module
    x: Tensor
    units: Callable[[Tensor], Tensor]

    @property
    def dead(self) -> int:
        """Units that give nothing at any point."""
        with torch.no_grad():
            return int((self.units(self.x) == 0).all(0).sum())

    @property
    def linear(self) -> int:
        """Units that give something at every point."""
        with torch.no_grad():
            return int((self.units(self.x) > 0).all(0).sum())


class Functional(nn.Module):
    """ReLU as a function."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.last = nn.Linear(INPUTS, 16), nn.Linear(16, 1)

    def forward(self, x: Tensor) -> Tensor:
        """One hidden layer."""
        return self.last(F.relu(self.first(x)))  # type: ignore[no-any-return]


class TopK(nn.Module):
    """A sparse autoencoder that keeps four of 64 latents."""

    def __init__(self) -> None:
        super().__init__()
        self.encoder, self.relu, self.decoder = nn.Linear(INPUTS, 64), nn.ReLU(), nn.Linear(64, INPUTS)

    def latents(self, x: Tensor) -> Tensor:
        """All latents, most of them zero."""
        values, places = self.encoder(x).topk(4, dim=-1)
        return torch.zeros(len(x), 64).scatter(-1, places, self.relu(values))

    def forward(self, x: Tensor) -> Tensor:
        """The input again."""
        return self.decoder(self.latents(x))  # type: ignore[no-any-return]


def _dense(biases: list[float]) -> nn.Sequential:
    net = nn.Sequential(nn.Linear(INPUTS, 16), nn.ReLU(), nn.Linear(16, 1))
    first: Any = net[0]
    with torch.no_grad():
        first.bias.copy_(torch.tensor(biases))
    return net


def _hidden(net: nn.Sequential) -> Callable[[Tensor], Tensor]:
    return lambda x: net[0](x).clamp(min=0)


def cases() -> Iterator[Case]:
    """The planted cases: dead, rare but alive, sparse but alive, functional, top-k, convolution, linear."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        x = torch.randn(POINTS, INPUTS)
        few = _dense([-100.0] * 3 + [0.0] * 13)
        yield Case("3 of 16 units dead", few, x, _hidden(few))
        most = _dense([-100.0] * 14 + [0.0] * 2)
        yield Case("14 of 16 units dead", most, x, _hidden(most))
        rare = _rare(x)
        yield Case("one unit on at one point of 2000", rare, x, _hidden(rare))
        sparse = _sparse(x)
        yield Case("all alive, each on at one point in 50", sparse, x, _hidden(sparse))
        functional = Functional()
        with torch.no_grad():
            functional.first.bias.copy_(torch.tensor([-100.0] * 14 + [0.0] * 2))
        yield Case("F.relu, 14 of 16 units dead", functional, x, lambda x: functional.first(x).clamp(min=0))
        topk = TopK()
        with torch.no_grad():
            topk.encoder.bias[:40] = -100.0
        yield Case("top-k, 40 of 64 latents dead", topk, x, topk.latents)
        yield _convolution()
        straight = _dense([100.0] * 5 + [0.0] * 11)
        yield Case("5 of 16 units linear", straight, x, _hidden(straight))


@torch.no_grad()
def _rare(x: Tensor) -> nn.Sequential:
    """Unit 0 is on at the point where it is largest, in whichever batch that is, and at no other."""
    net = _dense([0.0] * 16)
    first: Any = net[0]
    top = (x @ first.weight[0]).topk(2).values
    first.bias[0] = -top.mean()
    return net


@torch.no_grad()
def _sparse(x: Tensor) -> nn.Sequential:
    net = _dense([0.0] * 16)
    first: Any = net[0]
    first.bias.copy_(-(x @ first.weight.T).topk(POINTS // 50, dim=0).values[-1])
    return net


def _convolution() -> Case:
    net = nn.Sequential(nn.Conv2d(1, 8, 3), nn.ReLU(), nn.Flatten(), nn.Linear(8 * 36, 1))
    first: Any = net[0]
    with torch.no_grad():
        first.bias.copy_(torch.tensor([-100.0] * 6 + [0.0] * 2))
    x = torch.randn(POINTS, 1, 8, 8)
    return Case("convolution, 6 of 8 channels dead", net, x, lambda x: net[0](x).clamp(min=0).amax((2, 3)))


# What each detector says: the number of dead units, or the share of zeros that it calls dead units; None for nothing.


@dataclass(frozen=True, slots=True)
class Said:
    """What was said: a number of dead units, or some alarm; and whether the case was seen, or said not to be."""

    dead: int | None = None
    alarm: str = ""
    seen: bool = True
    owns_up: bool = False
    linear: int | None = None


def by_alive(case: Case) -> Said:
    """A census over all batches."""
    units = census(case.model, list(case.x.split(BATCH))).units
    return Said(units.dead, linear=units.linear)


def by_torchdiag(case: Case) -> Said:
    """check_dead_neurons on all points at once."""
    with contextlib.redirect_stdout(io.StringIO()) as printed:
        found = import_module("torchdiag").check_dead_neurons(case.model, case.x)
    owns_up = "No activation layers" in printed.getvalue()
    return Said(sum(int(layer["dead"]) for layer in found.values()), seen=bool(found), owns_up=owns_up)


def by_torch_audit(case: Case) -> Said:
    """Its activation check, batch after batch."""
    audit = import_module("torch_audit")
    check = import_module("torch_audit.validators.builtin.activation").ActivationValidator()
    check.attach(case.model)
    alarms: list[str] = []
    try:
        for batch in case.x.split(BATCH):
            with torch.no_grad():
                case.model(batch)
            found = audit.audit(case.model, phase="forward", validators=[_Kept(check)])
            alarms += [finding.message for finding in found.findings]
    finally:
        check.detach()
    hooked = any(isinstance(module, check.target_classes) for module in case.model.modules())
    return Said(alarm=alarms[0] if alarms else "", seen=hooked)


class _Kept:
    """The check as audit() calls it, without its forgetting the pass that came before the call."""

    def __init__(self, check: Any) -> None:
        self._check = check

    def __getattr__(self, name: str) -> Any:
        return getattr(self._check, name)

    def on_phase_start(self, context: Any) -> None:
        """The pass has been already."""


def by_torchmortem(case: Case) -> Said:
    """Its autopsy of steps that change nothing."""
    optimiser = torch.optim.SGD(case.model.parameters(), lr=0.0)
    with import_module("torchmortem").Autopsy(case.model, optimizer=optimiser, sampling="thorough") as autopsy:
        for batch in case.x.split(BATCH):
            optimiser.zero_grad()
            loss = case.model(batch.clone().requires_grad_()).square().mean()  # its hooks warn where inputs need none
            loss.backward()
            optimiser.step()
            autopsy.step(loss=loss.item())
    with TemporaryDirectory() as folder:
        report = autopsy.report(f"{folder}/report.json")
    findings = [one for one in report.findings if one.category == "dead_units" and _is_activation(case, one)]
    seen = any(isinstance(module, nn.ReLU) for module in case.model.modules())
    return Said(alarm=findings[0].summary if findings else "", seen=seen)


def _is_activation(case: Case, finding: Any) -> bool:
    """Whether a finding is about an activation, and not about the layer before or behind it."""
    return any(isinstance(case.model.get_submodule(name), nn.ReLU) for name in finding.affected_layers)


DETECTORS: dict[str, tuple[str, Callable[[Case], Said]]] = {
    "alive": ("alive", by_alive),
    "torchdiag": ("torchdiag", by_torchdiag),
    "torch-audit": ("torch_audit", by_torch_audit),
    "torchmortem": ("torchmortem", by_torchmortem),
}


def judged(said: Said, dead: int, linear: int, *, asks_linear: bool) -> tuple[str, float]:
    """What was said beside the truth, in words, and by how many units it is wrong."""
    if asks_linear:
        right = said.linear == linear
        return ("right" if right else "not looked for" if said.linear is None else "WRONG"), float(not right)
    if not said.seen:
        return f"not seen, and {'says so' if said.owns_up else 'not said'}", float(dead)
    if said.dead is not None:
        return ("right" if said.dead == dead else f"WRONG: {said.dead}"), float(abs(said.dead - dead))
    if dead:
        return (f"an alarm without a count ({said.alarm})" if said.alarm else "missed"), float(dead) * (not said.alarm)
    return (f"FALSE ALARM ({said.alarm})" if said.alarm else "rightly silent"), float(bool(said.alarm))


def verdicts() -> Iterator[Verdict]:
    """Every detector on every case; those that are not installed are said to be."""
    here = {name: found for name, found in DETECTORS.items() if find_spec(found[0]) is not None}
    for name in DETECTORS.keys() - here.keys():
        yield Verdict(name, 0.0, None, "not installed; pip install 'alive-papers[compare]'")
    for case in cases():
        linear = case.linear if "linear" in case.name else 0
        told = f"{linear} linear" if linear else f"{case.dead} dead"
        for name, (_, look) in here.items():
            words, wrong = judged(look(case), case.dead, linear, asks_linear=bool(linear))
            yield Verdict(f"{case.name} (truth: {told}), {name}", wrong, 0.0 if name == "alive" else None, words)


def figures(rounds: int) -> Iterator[Figure]:
    """All verdicts; nothing is timed, so that rounds do not matter."""
    yield from verdicts()
