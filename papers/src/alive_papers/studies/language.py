"""Small language models of bytes: dead and rare units and dead tokens while they learn Python's standard library."""

from __future__ import annotations

import sysconfig
import time
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from functools import cache
from math import log
from pathlib import Path
from types import MappingProxyType

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from alive.data import Data
from alive.diagnosis import census
from alive.penalties import Jumpstart
from alive.surgery import shrink

from .record import Run, RunResult, Tell, course, descend
from .ways import RARE

METHODS = ("plain", "Sep-U")
BYTES, CONTEXT, HEADS, BATCH, LOOKED_AT = 256, 64, 4, 16, 64
TEXT = 4_000_000  # bytes, of which every tenth file is not learnt from
CHANGE = 1e-4  # of the largest logit, that shrinking may move in single precision


class Gated(nn.Module):
    """SwiGLU: what one layer tells, times silu of what another does; two thirds as wide, so as many weights."""

    def __init__(self, width: int, hidden: int) -> None:
        super().__init__()
        inner = 2 * hidden // 3
        self.gate, self.up = nn.Linear(width, inner), nn.Linear(width, inner)
        self.act, self.down = nn.SiLU(), nn.Linear(inner, width)

    def forward(self, x: Tensor) -> Tensor:
        """The same width again."""
        out: Tensor = self.down(self.act(self.gate(x)) * self.up(x))
        return out


class Plain(nn.Module):
    """Two layers, between them an activation and its square, if it is one of the squared."""

    def __init__(self, width: int, hidden: int, act: nn.Module, *, squared: bool) -> None:
        super().__init__()
        self.up, self.act, self.down, self.squared = nn.Linear(width, hidden), act, nn.Linear(hidden, width), squared

    def forward(self, x: Tensor) -> Tensor:
        """The same width again."""
        h = self.act(self.up(x))
        out: Tensor = self.down(h.square() if self.squared else h)
        return out


ACTIVATIONS: Mapping[str, Callable[[int, int], Gated | Plain]] = MappingProxyType(
    {
        "ReLU": lambda width, hidden: Plain(width, hidden, nn.ReLU(), squared=False),
        "ReLU²": lambda width, hidden: Plain(width, hidden, nn.ReLU(), squared=True),
        "leaky ReLU²": lambda width, hidden: Plain(width, hidden, nn.LeakyReLU(0.5), squared=True),
        "SwiGLU": Gated,
    }
)


class Block(nn.Module):
    """Attention to what was before, then a network for each token; both added to what there was."""

    mlp: Gated | Plain

    def __init__(self, width: int, make: Callable[[int, int], Gated | Plain]) -> None:
        super().__init__()
        self.norms = nn.ModuleList([nn.LayerNorm(width), nn.LayerNorm(width)])
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.mlp = make(width, 4 * width)

    def forward(self, x: Tensor) -> Tensor:
        """The stream after this block."""
        heads = self.qkv(self.norms[0](x)).unflatten(-1, (3, HEADS, -1)).permute(2, 0, 3, 1, 4)
        mixed = F.scaled_dot_product_attention(heads[0], heads[1], heads[2], is_causal=True)
        x = x + self.out(mixed.transpose(1, 2).flatten(2))
        out: Tensor = x + self.mlp(self.norms[1](x))
        return out


class Language(nn.Module):
    """Bytes in, logits of the next byte out."""

    def __init__(self, width: int, layers: int, activation: str) -> None:
        super().__init__()
        self.bytes, self.places = nn.Embedding(BYTES, width), nn.Parameter(0.02 * torch.randn(CONTEXT, width))
        self.blocks = nn.ModuleList([Block(width, ACTIVATIONS[activation]) for _ in range(layers)])
        self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, BYTES)

    def forward(self, x: Tensor) -> Tensor:
        """Of every place the logits of what comes next."""
        stream = self.bytes(x) + self.places
        for block in self.blocks:
            stream = block(stream)
        out: Tensor = self.head(self.norm(stream))
        return out

    @property
    def networks(self) -> list[Gated | Plain]:
        """Those of the tokens, block by block."""
        return [block.mlp for block in self.blocks if isinstance(block, Block)]


@cache
def text() -> tuple[Tensor, Tensor]:
    """Python's own modules as bytes: to learn from, and every tenth of them not."""
    files = sorted(Path(sysconfig.get_path("stdlib")).glob("*.py"))
    parts = [
        b"".join(file.read_bytes() for k, file in enumerate(files) if (k % 10 == 9) == last) for last in (False, True)
    ]
    learnt, test = (torch.frombuffer(bytearray(part[:TEXT]), dtype=torch.uint8).long() for part in parts)
    return learnt, test


def passages(source: Tensor, count: int, chance: torch.Generator) -> tuple[Tensor, Tensor]:
    """So many places of a text, and of each the byte that follows."""
    starts = torch.randint(len(source) - CONTEXT - 1, (count, 1), generator=chance)
    found = source[starts + torch.arange(CONTEXT + 1)]
    return found[:, :-1], found[:, 1:]


def train_language(run: Run, data: Data, tell: Tell) -> RunResult:
    """One model; the score is the share of uncertainty about a byte that it takes away. The data are not read."""
    learnt, held = text()
    chance = torch.Generator().manual_seed(run.seed)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(run.seed)
        model = Language(run.width, int(run.option("layers", 2)), str(run.option("activation", "ReLU")))
    adam = torch.optim.AdamW(model.parameters(), run.lr, fused=True)
    test = passages(held, LOOKED_AT, torch.Generator().manual_seed(0))
    spent = [0.0]
    with ExitStack() as stack:
        keep = None
        if run.method == "Sep-U":
            keep = stack.enter_context(Jumpstart(model, float(run.option("weight", 0.1)), mode="U"))

        def step(number: int) -> None:
            x, y = passages(learnt, BATCH, chance)
            begun = time.process_time()  # the clock of one thread that nobody else shares
            for group in adam.param_groups:
                group["lr"] = run.lr * min(1.0, (number + 1) / 50)
            loss = bits(model(x), y)
            descend(adam, loss if keep is None else loss + keep.penalty())
            spent[0] += time.process_time() - begun

        def look(number: int) -> dict[str, float]:
            return {**measured(model, *test), "seconds": spent[0]}

        curves = course(run, step, look, tell, marks=10)
    removed, difference = shrunk(model, test[0])
    curves["removed"], curves["difference"] = (
        [0.0] * (len(curves["epoch"]) - 1) + [end] for end in (removed, difference)
    )
    units = sum(mlp.down.in_features for mlp in model.networks)
    return RunResult(curves, 1 - curves["bits"][-1] / 8, round(curves["dead"][-1] * units))


def bits(logits: Tensor, y: Tensor) -> Tensor:
    """How many bits a byte takes."""
    return F.cross_entropy(logits.flatten(0, 1), y.flatten()) / log(2)


@torch.no_grad()
def measured(model: Language, x: Tensor, y: Tensor) -> dict[str, float]:
    """On text not learnt from: bits a byte, the shares of dead and of rare units, and of tokens for which all are off.

    Every token is a point of the network that it goes through.
    """
    reads: list[Tensor] = []
    handles = [
        mlp.register_forward_pre_hook(lambda _, args: reads.append(args[0].flatten(0, 1))) for mlp in model.networks
    ]
    lost = float(bits(model(x), y))
    for handle in handles:
        handle.remove()
    layers = [layer for mlp, own in zip(model.networks, reads, strict=True) for layer in census(mlp, own).layers]
    on = torch.cat([layer.rates.values for layer in layers if layer.rates is not None])
    return {
        "bits": lost,
        "dead": sum(layer.units.dead for layer in layers) / len(on),
        "rare": float((on < RARE).double().mean()),
        "off": sum(layer.points.dead for layer in layers) / (len(layers) * x.numel()),
        "on": float(on.mean()),
    }


def shrunk(model: Language, x: Tensor) -> tuple[float, float]:
    """How many units are dead on a text and removed, and how far the logits move, of the largest."""
    before = model.eval()(x).detach()
    done = shrink(model, x)
    moved = float((done.model(x).detach() - before).abs().max() / before.abs().max())
    assert moved < CHANGE, moved
    return float(done.report.units - done.report.units_left), moved
