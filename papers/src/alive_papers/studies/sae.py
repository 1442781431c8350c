"""Sparse autoencoders whose latents die, and what people do against it: one run at equal budget and equal sparsity."""

from __future__ import annotations

from dataclasses import dataclass, field
from math import exp
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from alive.data import Data
from alive.functional import Separation, aggregate, slacks
from alive.surgery.revive.numbers import Bench
from alive.surgery.revive.ways import Points, by_loss
from alive.surgery.revive.wires import Part, Wires

from .record import Run, RunResult, Tell, course, descend

METHODS = ("none", "centring", "AuxK", "pre-activation", "resampling", "Sep-U", "Sep-U, centring")
KINDS = ("relu", "topk", "batchtopk")
FEATURES, INPUTS, ACTIVE = 64, 32, 3.0
BATCH, TEST = 128, 4096
RECENT = 50  # steps without being chosen, after which a latent counts as dead while training
FOUND = 0.9  # cosine from which a feature counts as found
AUX_SHARE = 1 / 32
SEP_U = Separation(mode="U", against="death")
WIRES = Wires((Part("encoder.weight"), Part("encoder.bias")), (Part("decoder.weight", axis=1),))


class SparseAutoencoder(nn.Module):
    """x̂ = decoder(h), h = the chosen of relu(encoder(x − b)), b the decoder's bias; decoder columns have norm 1."""

    def __init__(self, inputs: int, latents: int, kind: str, k: int, generator: torch.Generator) -> None:
        super().__init__()
        self.kind, self.k = kind, k
        self.seen = torch.empty(0), torch.empty(0)
        self.encoder, self.decoder = nn.Linear(inputs, latents), nn.Linear(latents, inputs)
        with torch.no_grad():
            columns = F.normalize(torch.randn(inputs, latents, generator=generator), dim=0)
            self.decoder.weight.copy_(columns)
            self.encoder.weight.copy_(columns.T)
            self.encoder.bias.zero_()
            self.decoder.bias.zero_()

    def chosen(self, z: Tensor) -> Tensor:
        """The latents after the choice: all positive ones, the k largest of a point, or k a point of the batch."""
        if self.kind == "topk":
            values, places = z.topk(self.k, dim=-1)
            return torch.zeros_like(z).scatter(-1, places, torch.relu(values))
        if self.kind == "batchtopk":
            flat = z.flatten()
            values, places = flat.topk(self.k * len(z))
            return torch.zeros_like(flat).scatter(0, places, torch.relu(values)).view_as(z)
        return torch.relu(z)

    def forward(self, x: Tensor) -> Tensor:
        """The input again; `seen` holds the latents before and after the choice."""
        z = self.encoder(x - self.decoder.bias)
        h = self.chosen(z)
        self.seen = z, h
        return self.decoder(h)  # type: ignore[no-any-return]

    def bar(self, z: Tensor) -> Tensor:
        """What each latent must exceed to be chosen at each point: the k-th largest of the others, and zero."""
        if self.kind == "relu":
            return torch.zeros_like(z)
        rows = z.detach() if self.kind == "topk" else z.detach().reshape(1, -1)
        k = self.k if self.kind == "topk" else self.k * len(z)
        top = rows.topk(k + 1, dim=-1).values
        return torch.where(rows >= top[:, -2:-1], top[:, -1:], top[:, -2:-1]).clamp(min=0).view_as(z)


@dataclass(slots=True, eq=False)
class Source:
    """Where inputs come from: an endless stream, a test set, and the true features [F, d] where they are known."""

    given: Any
    test: Tensor
    features: Tensor | None = None
    mean: Tensor = field(default_factory=lambda: torch.zeros(1))

    def batch(self, chance: torch.Generator) -> Tensor:
        """So many fresh inputs."""
        found: Tensor = self.given(BATCH, chance)
        return found


def synthetic(gamma: float, chance: torch.Generator) -> Source:
    """Sums of a few of many random directions, the frequent ones far more often; the mean lies γ spreads away."""
    features = F.normalize(torch.randn(FEATURES, INPUTS, generator=chance), dim=1)
    odds = 1 / torch.arange(1, FEATURES + 1).float().sqrt()
    odds = odds * (ACTIVE / odds.sum())
    away = F.normalize(torch.randn(INPUTS, generator=chance), dim=0)

    def centred(n: int, luck: torch.Generator) -> Tensor:
        on = torch.rand(n, FEATURES, generator=luck) < odds
        return (on * (0.5 + torch.rand(n, FEATURES, generator=luck))) @ features

    sample = centred(TEST, chance)
    middle = sample.mean(0)
    spread = float((sample - middle).square().sum(1).mean().sqrt())
    offset = gamma * spread * away - middle
    return Source(lambda n, luck: centred(n, luck) + offset, centred(TEST, chance) + offset, features, offset + middle)


def activations(data: Data, chance: torch.Generator) -> Source:
    """The hidden layer of a small network that was trained on the data's images."""
    x, y = data.pixels(data.train_x).flatten(1), data.train_y
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(int(torch.randint(2**31, (), generator=chance)))
        net = nn.Sequential(nn.Linear(x.shape[1], INPUTS), nn.ReLU(), nn.Linear(INPUTS, data.outputs))
        adam = torch.optim.Adam(net.parameters(), 3e-3)
        for _ in range(200):
            own = torch.randint(len(x), (128,), generator=chance)
            adam.zero_grad()
            F.cross_entropy(net(x[own]), y[own]).backward()
            adam.step()
    assert data.test_x is not None
    with torch.no_grad():
        hidden, test = torch.relu(net[0](x)), torch.relu(net[0](data.pixels(data.test_x).flatten(1)))

    def given(n: int, luck: torch.Generator) -> Tensor:
        return hidden[torch.randint(len(hidden), (n,), generator=luck)]

    return Source(given, test, None, hidden.mean(0))


def train_sae(run: Run, data: Data, tell: Tell) -> RunResult:
    """Train one autoencoder on fresh batches, and measure it on points it has not seen."""
    chance = torch.Generator().manual_seed(run.seed)
    gamma, k = run.option("gamma", None), int(run.option("k", 4))
    source = activations(data, chance) if gamma is None else synthetic(float(gamma), chance)
    model = SparseAutoencoder(source.test.shape[1], run.width, run.option("kind", "topk"), k, chance)
    if "centring" in run.method:
        with torch.no_grad():
            model.decoder.bias.copy_(source.batch(chance).mean(0))
    work = _Work(run, model, source, chance)
    curves = course(run, work.step, lambda _: work.measured(), tell)
    return RunResult(curves, 1 - curves["unexplained"][-1], round(curves["dead"][-1] * run.width))


def sep_u(model: SparseAutoencoder, z: Tensor) -> Tensor:
    """Sep-U against death on the margins to being chosen, the mean of squares.

    It is what `alive.Jumpstart(model, mode="U", against="death")` measures of top-k, and a test holds it to that; the
    latter also finds out who chooses from whom, which a study need not pay for at every step.
    """
    return aggregate([slacks(z - model.bar(z), SEP_U)], "meansq")


class _Work:
    """One autoencoder in training."""

    def __init__(self, run: Run, model: SparseAutoencoder, source: Source, chance: torch.Generator) -> None:
        self.run, self.model, self.source, self.chance = run, model, source, chance
        self.adam = torch.optim.Adam(model.parameters(), run.lr, fused=True)
        self.idle = torch.zeros(run.width)  # steps since each latent was chosen
        self.scale = float((source.test - source.mean).square().sum(1).mean())
        self.sparsity = 0.1  # the weight of L1 for ReLU, steered to the same number of chosen latents

    def step(self, number: int) -> None:
        """One step of the optimiser, and of what is done against death."""
        x = self.source.batch(self.chance)
        again = self.model(x)
        z, h = self.model.seen
        self.idle = torch.where((h > 0).any(0), 0.0, self.idle + 1)
        loss = (again - x).square().sum(1).mean() / self.scale
        if self.model.kind == "relu":
            loss = loss + self.sparsity * h.sum(1).mean() / self.scale**0.5
            self._steer(float((h > 0).sum(1).float().mean()))
        loss = loss + self._extra(x, again, z)
        descend(self.adam, loss)
        with torch.no_grad():
            self.model.decoder.weight.copy_(F.normalize(self.model.decoder.weight, dim=0))
        if self.run.method == "resampling" and number + 1 in {self.run.steps // 4, self.run.steps // 2}:
            self._resample()

    def _steer(self, chosen: float) -> None:
        """Raise the weight of L1 while too many latents are on, and lower it while too few are."""
        self.sparsity *= exp(0.01 * max(-1.0, min(1.0, chosen / self.model.k - 1)))

    def _extra(self, x: Tensor, again: Tensor, z: Tensor) -> Tensor:
        """What the method adds to the loss."""
        dead, weight = self.idle >= RECENT, float(self.run.option("weight", 1e-3))
        if self.run.method.startswith("Sep-U"):
            return weight * sep_u(self.model, z)
        if self.run.method == "AuxK" and bool(dead.any()):
            own = torch.where(dead, z, -torch.inf)
            values, places = own.topk(min(4 * self.model.k, int(dead.sum())), dim=-1)
            h = torch.zeros_like(z).scatter(-1, places, torch.relu(values))
            rest = (x - again).detach()
            return AUX_SHARE * (h @ self.model.decoder.weight.T - rest).square().sum(1).mean() / self.scale
        if self.run.method == "pre-activation" and bool(dead.any()):
            short = torch.relu(self.model.bar(z) - z)[:, dead]  # decoder norms are 1
            return weight * short.sum(1).mean()
        return torch.zeros(())

    def _resample(self) -> None:
        """Point dead latents at inputs that are told badly, as `alive.revive(how="loss")` does."""
        dead = (self.idle >= RECENT).nonzero().flatten()
        if not len(dead):
            return
        x = torch.cat([self.source.batch(self.chance) for _ in range(8)])
        with torch.no_grad():
            losses = (self.model(x) - x).square().mean(1)
            points = Points(x - self.model.decoder.bias, losses)
        bench = Bench(self.model, [self.adam], int(torch.randint(2**31, (), generator=self.chance)))
        by_loss(bench, WIRES, dead, points)
        bench.forget()
        self.idle[dead] = 0

    @torch.no_grad()
    def measured(self) -> dict[str, float]:
        """On points that were not learnt from: dead latents, what is not told, how many are chosen, features found."""
        x = self.source.test
        again = self.model.eval()(x)
        self.model.train()
        h = self.model.seen[1]
        found = 0.0
        if self.source.features is not None:
            columns = F.normalize(self.model.decoder.weight, dim=0)
            found = float(((self.source.features @ columns).amax(1) > FOUND).float().mean())
        return {
            "dead": float((~(h > 0).any(0)).float().mean()),
            "unexplained": float((again - x).square().sum() / (x - x.mean(0)).square().sum()),
            "chosen": float((h > 0).sum(1).float().mean()),
            "found": found,
        }
