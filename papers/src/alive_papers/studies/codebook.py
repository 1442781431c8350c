"""A codebook whose codes die: patches of images told by the nearest of many vectors, and what people do against it."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from alive.data import Data
from alive.functional import Separation, aggregate, slacks
from alive.surgery.revive.numbers import Bench
from alive.surgery.revive.ways import reseed
from alive.surgery.revive.wires import Part

from .record import Run, RunResult, Tell, course, descend

METHODS = ("none", "EMA", "EMA, reset", "Sep-U", "revive")
SIDE, LENGTH, HIDDEN, BATCH, TEST = 7, 8, 64, 256, 4096
COMMIT, DECAY = 0.25, 0.99
TIRED = 1.0  # running count of choices a batch below which "EMA, reset" replaces a code
RECENT = 50  # steps without being chosen, after which `revive` seeds a code anew
SEP_U = Separation(mode="U", against="death")


class Quantiser(nn.Module):
    """A patch is encoded, told by the nearest code, and decoded; gradients pass the choice as if it were not there."""

    def __init__(self, inputs: int, codes: int) -> None:
        super().__init__()
        self.encoder = nn.Sequential(nn.Linear(inputs, HIDDEN), nn.ReLU(), nn.Linear(HIDDEN, LENGTH))
        self.codes = nn.Parameter(torch.randn(codes, LENGTH))
        self.decoder = nn.Sequential(nn.Linear(LENGTH, HIDDEN), nn.ReLU(), nn.Linear(HIDDEN, inputs))
        self.register_buffer("counts", torch.ones(codes))
        self.register_buffer("sums", self.codes.detach().clone())
        self.counts: Tensor
        self.sums: Tensor
        self.seen = torch.empty(0), torch.empty(0), torch.empty(0)

    def forward(self, x: Tensor) -> Tensor:
        """The patch again; `seen` holds what was looked up, the distances, and who was chosen."""
        v = self.encoder(x)
        distances = torch.cdist(v, self.codes)
        chosen = distances.argmin(1)
        self.seen = v, distances, chosen
        told = self.codes[chosen]
        return self.decoder(v + (told - v).detach())  # type: ignore[no-any-return]


def patches(data: Data, test: bool) -> Tensor:
    """All patches of the images that are not blank, one a row."""
    assert data.test_x is not None
    images = data.pixels(data.test_x if test else data.train_x)
    cut = F.unfold(images, SIDE, stride=SIDE).transpose(1, 2).flatten(0, 1)
    return cut[cut.std(1) > 0.1]


def train_codebook(run: Run, data: Data, tell: Tell) -> RunResult:
    """Train one quantiser, and measure it on patches of images it has not seen."""
    chance = torch.Generator().manual_seed(run.seed)
    x, test = patches(data, False), patches(data, True)
    test = test[torch.randperm(len(test), generator=chance)[:TEST]]
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(run.seed)
        model = Quantiser(x.shape[1], run.width)
    work = _Work(run, model, chance)
    curves = course(
        run,
        lambda number: work.step(x[torch.randint(len(x), (BATCH,), generator=chance)], number),
        lambda _: measured(model, test),
        tell,
    )
    return RunResult(curves, 1 - curves["unexplained"][-1], round(curves["dead"][-1] * run.width))


@torch.no_grad()
def measured(model: Quantiser, x: Tensor) -> dict[str, float]:
    """Codes that nothing chooses, what is not told of the patches, and how many codes are used as if alike."""
    again = model(x)
    counts = torch.bincount(model.seen[2], minlength=len(model.codes)).double()
    share = counts[counts > 0] / counts.sum()
    return {
        "dead": float((counts == 0).double().mean()),
        "unexplained": float((again - x).square().sum() / (x - x.mean(0)).square().sum()),
        "perplexity": float((-(share * share.log()).sum()).exp()),
    }


class _Work:
    """One quantiser in training."""

    def __init__(self, run: Run, model: Quantiser, chance: torch.Generator) -> None:
        self.run, self.model, self.chance = run, model, chance
        self.by_mean = run.method.startswith("EMA")
        self.adam = torch.optim.Adam(
            [p for p in model.parameters() if not (self.by_mean and p is model.codes)], run.lr, fused=True
        )
        self.idle = torch.zeros(run.width)

    def step(self, x: Tensor, number: int) -> None:
        """One step of the optimiser, and of what is done against death."""
        again = self.model(x)
        v, _, chosen = self.model.seen
        told = self.model.codes[chosen]
        loss = (again - x).square().mean() + COMMIT * (v - told.detach()).square().mean()
        if not self.by_mean:
            loss = loss + (told - v.detach()).square().mean()
        if self.run.method == "Sep-U":
            loss = loss + float(self.run.option("weight", 1e-2)) * sep_u(v.detach(), self.model.codes)
        descend(self.adam, loss)
        used = torch.bincount(chosen, minlength=self.run.width)
        self.idle = torch.where(used > 0, 0.0, self.idle + 1)
        if self.by_mean:
            self._follow(v.detach(), chosen, used)
        if self.run.method == "revive" and (number + 1) % RECENT == 0 and number < 0.9 * self.run.steps:
            self._reseed(Part("codes"), (self.idle >= RECENT).nonzero().flatten(), v.detach())

    @torch.no_grad()
    def _follow(self, v: Tensor, chosen: Tensor, used: Tensor) -> None:
        """Codes are running means of what chose them; with a reset, those hardly chosen go to vectors of the batch."""
        model = self.model
        model.counts.lerp_(used.float(), 1 - DECAY)
        model.sums.lerp_(torch.zeros_like(model.sums).index_add_(0, chosen, v), 1 - DECAY)
        model.codes.copy_(model.sums / model.counts.clamp(min=1e-5)[:, None])
        tired = (model.counts < TIRED * DECAY**RECENT).nonzero().flatten()
        if "reset" in self.run.method and len(tired):
            places = torch.randint(len(v), (len(tired),), generator=self.chance)
            model.codes[tired] = model.sums[tired] = v[places]
            model.counts[tired] = 1.0

    def _reseed(self, part: Part, codes: Tensor, v: Tensor) -> None:
        """As `alive.revive(how="codes")` does."""
        if len(codes):
            bench = Bench(self.model, [self.adam], int(torch.randint(2**31, (), generator=self.chance)))
            reseed(bench, part, codes, v)
            bench.forget()
            self.idle[codes] = 0


def sep_u(v: Tensor, codes: Tensor) -> Tensor:
    """Sep-U against death on the margins to being chosen: the nearest of the others less a code's own distance.

    What is looked up is taken as given: the codes come to it.
    """
    distances = torch.cdist(v, codes)
    first, second = distances.detach().topk(2, dim=1, largest=False).values.split(1, 1)
    reach = torch.where(distances.detach() <= first, second, first)
    return aggregate([slacks(reach - distances, SEP_U)], "meansq")
