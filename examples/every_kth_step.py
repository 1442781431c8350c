"""What is lost where the penalty is taken in every k-th step alone: seeds of six kinds of networks, each k beside none.

python examples/every_kth_step.py rows.jsonl [seeds]

Each row is written as soon as it is known; started again, it goes on. The tables are printed at the end.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from statistics import mean, stdev
from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from alive import Jumpstart
from alive.data import load
from alive.nn import Rectangular, RectangularConv

EVERY = (0, 1, 2, 4, 8, 16)  # 0: no penalty


class Task(NamedTuple):
    """Training and test points, batches of how many, for how many steps, the learning rate, and the model of a seed."""

    points: tuple[Tensor, Tensor, Tensor, Tensor]
    batch: int
    steps: int
    lr: float
    make: Callable[[torch.Generator], nn.Module]


class Encoder(nn.Module):
    """A small transformer with ReLU over the rows of a picture."""

    def __init__(self, layers: int, width: int) -> None:
        super().__init__()
        block = nn.TransformerEncoderLayer(width, 2, 2 * width, dropout=0.0, batch_first=True)
        self.first, self.head = nn.Linear(8, width), nn.Linear(width, 10)
        self.places = nn.Parameter(torch.zeros(8, width))
        self.encoder = nn.TransformerEncoder(block, layers, enable_nested_tensor=False)

    def forward(self, x: Tensor) -> Tensor:
        """Classes of pictures [N, 64]."""
        logits: Tensor = self.head(self.encoder(self.first(x.view(-1, 8, 8)) + self.places).mean(1))
        return logits


class Pictures(nn.Module):
    """A thin convolutional network on pictures given as rows of 64 numbers."""

    def __init__(self, depth: int, width: int, chance: torch.Generator) -> None:
        super().__init__()
        self.net = RectangularConv(1, 10, depth=depth, width=width, generator=chance)

    def forward(self, x: Tensor) -> Tensor:
        """Classes of pictures [N, 64]."""
        logits: Tensor = self.net(x.view(-1, 1, 8, 8))
        return logits


def tasks() -> dict[str, Task]:
    """The networks: moons as in the papers, and wider and thinner ones on tables and pictures."""
    moons, digits = (_points(name) for name in ("moons", "digits"))
    table = _table()
    width = table[0].shape[1]
    return {
        "moons 50x4": Task(moons, 10_000, 1000, 0.01, lambda chance: _dense(2, 2, 50, 4, chance)),
        "digits 28x4": Task(digits, 256, 600, 0.003, lambda chance: _dense(64, 10, 28, 4, chance)),
        "digits 6x64": Task(digits, 256, 300, 0.001, lambda chance: _dense(64, 10, 6, 64, chance)),
        "digits, conv 16x4": Task(digits, 128, 400, 0.003, lambda chance: Pictures(16, 4, chance)),
        "breast cancer 20x3": Task(table, 128, 600, 0.003, lambda chance: _dense(width, 2, 20, 3, chance)),
        "digits, transformer 3x32": Task(digits, 128, 300, 0.002, lambda chance: Encoder(3, 32)),
    }


def _dense(inputs: int, classes: int, depth: int, width: int, chance: torch.Generator) -> nn.Module:
    return Rectangular(inputs, classes, depth=depth, width=width, generator=chance)


def _points(name: str) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    data = load(name)
    scale = data.train_x.std()
    return data.train_x / scale, data.train_y, data.test_x / scale, data.test_y


def _table() -> tuple[Tensor, Tensor, Tensor, Tensor]:
    from sklearn.datasets import load_breast_cancer

    x, y = (torch.from_numpy(part) for part in load_breast_cancer(return_X_y=True))
    order = torch.randperm(len(x), generator=torch.Generator().manual_seed(0))
    x, y = ((x - x.mean(0)) / x.std(0)).float()[order], y.long()[order]
    return x[:400], y[:400], x[400:], y[400:]


def train(task: Task, seed: int, every: int) -> dict[str, float]:
    """Accuracies of one run, and in how many of the last hundred steps it had some penalty left to pay."""
    torch.manual_seed(seed)
    chance = torch.Generator().manual_seed(seed)
    model = task.make(chance)
    keep = Jumpstart(model, every=every) if every else None
    optimiser = torch.optim.Adam(model.parameters(), lr=task.lr)
    x, y, test_x, test_y = task.points
    best = 0.0
    for step in range(task.steps):
        some = torch.randperm(len(x), generator=chance)[: task.batch] if task.batch < len(x) else slice(None)
        optimiser.zero_grad()
        loss = cross_entropy(model(x[some]), y[some])
        (loss if keep is None else loss + keep.penalty()).backward()
        optimiser.step()
        if step % 20 == 19:
            best = max(best, _accuracy(model, x, y))
    if keep is not None:
        keep.detach()
    return {"best": best, "train": _accuracy(model, x, y), "test": _accuracy(model, test_x, test_y)}


def _accuracy(model: nn.Module, x: Tensor, y: Tensor) -> float:
    model.eval()
    with torch.no_grad():
        right = (model(x).argmax(1) == y).double().mean().item()
    model.train()
    return float(right)


def rows(path: Path, seeds: int) -> Iterator[dict[str, float | str]]:
    """All rows, those of an earlier start among them."""
    known = [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []
    yield from known
    done = {(row["task"], row["seed"], row["every"]) for row in known}
    all_tasks = tasks()
    for seed in range(seeds):
        for name, task in all_tasks.items():
            for every in EVERY:
                if (name, seed, every) not in done:
                    row = {"task": name, "seed": seed, "every": every, **train(task, seed, every)}
                    with path.open("a") as file:
                        file.write(json.dumps(row) + "\n")
                    yield row


def table(found: list[dict[str, float | str]], what: str) -> Iterator[str]:
    """A line for each task: mean and deviation over seeds for each k, and the mean difference of seeds from k = 1."""
    yield f"| {what} accuracy | seeds | " + " | ".join("none" if not k else f"k = {k}" for k in EVERY) + " |"
    yield "|---|---|" + "---|" * len(EVERY)
    for name in dict.fromkeys(row["task"] for row in found):
        of = {(row["seed"], row["every"]): float(row[what]) for row in found if row["task"] == name}
        seeds = [seed for seed, every in of if every == EVERY[-1]]
        cells = []
        for every in EVERY:
            values = [of[seed, every] for seed in seeds]
            beside = [of[seed, every] - of[seed, 1] for seed in seeds]
            spread = stdev(values) if len(values) > 1 else 0.0
            cells.append(f"{mean(values):.3f} ± {spread:.3f}" + (f" ({mean(beside):+.3f})" if every > 1 else ""))
        yield f"| {name} | {len(seeds)} | " + " | ".join(cells) + " |"


if __name__ == "__main__":
    torch.set_num_threads(1)
    made = list(rows(Path(sys.argv[1]), int(sys.argv[2]) if len(sys.argv) > 2 else 10))
    for kind in ("best", "train", "test"):
        print("\n".join(table(made, kind)), end="\n\n")
