"""Size against change: `python examples/shrink/nearly.py` trains networks on digits and shrinks them nearly.

For each share, over the seeds: units and parameters that are left, how far outputs move
on data held out, and the accuracy there, all against the network as it was trained.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from itertools import pairwise
from statistics import mean, stdev
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

import alive
from alive.data import digits

SHARES = (0.0, 1e-3, 3e-3, 1e-2, 3e-2, 0.1, 0.2)
WIDTH, DEPTH, EPOCHS = 128, 3, 40


def trained(seed: int, weight: float) -> tuple[nn.Sequential, tuple[Tensor, Tensor], tuple[Tensor, Tensor]]:
    """A network of three hidden layers, by cross entropy and L1 of its weights; the points, and those held out."""
    found = digits()
    x, other = found.train_x.flatten(1), found.test_x.flatten(1)
    torch.manual_seed(seed)
    widths = [x.shape[1], *[WIDTH] * DEPTH]
    layers = [part for a, b in pairwise(widths) for part in (nn.Linear(a, b), nn.ReLU())]
    net = nn.Sequential(*layers, nn.Linear(WIDTH, 10))
    optimiser = torch.optim.Adam(net.parameters(), 2e-3)
    for _ in range(EPOCHS):
        for rows in torch.randperm(len(x)).split(64):
            loss = F.cross_entropy(net(x[rows]), found.train_y[rows])
            loss = loss + weight * sum(p.abs().sum() for p in net.parameters() if p.ndim > 1)
            optimiser.zero_grad()
            loss.backward()
            optimiser.step()
    return net.eval(), (x, found.train_y), (other, found.test_y)


def made_linear(net: nn.Sequential, layer: int, x: Tensor, other: Tensor) -> Tensor:
    """What the network says of `other` if a hidden layer is linear, each unit on or off as mostly on x."""
    on = (net[: 2 * layer + 1](x) > 0).double().mean(0) > 0.5
    return net[2 * layer + 2 :](net[: 2 * layer + 1](other) * on)


def by_layer(nets: list[Any]) -> None:
    """Entropy of each hidden layer, and the accuracy on data held out if it alone is made linear."""
    print("\n| layer | entropy, bits | accuracy | if linear |\n|--:|--:|--:|--:|")
    for layer in range(DEPTH):
        rows = []
        for net, (x, _), (other, labels) in nets:
            entropy = alive.census(net, x).layers[layer].rates.entropy
            said = net(other), made_linear(net, layer, x, other)
            rows.append((entropy, *((each.argmax(1) == labels).double().mean().item() for each in said)))
        print(f"| {layer + 1} | {' | '.join(spread(column) for column in zip(*rows, strict=True))} |")


def spread(column: Sequence[float]) -> str:
    """Mean and standard deviation over the seeds."""
    return f"{mean(column):.3g} ± {stdev(column) if len(column) > 1 else 0:.1g}"


def main() -> None:
    """The table."""
    torch.set_num_threads(1)
    seeds, weight = range(int((sys.argv[1:] or ["5"])[0])), float((sys.argv[2:] or ["1e-4"])[0])
    nets = [trained(seed, weight) for seed in seeds]
    print("| share | units | parameters | difference held out | accuracy |\n|--:|--:|--:|--:|--:|")
    for share in SHARES:
        rows = []
        for net, (x, _), (other, labels) in nets:
            done = alive.shrink(net, x, held_out=other, nearly=share)
            right = (done.model(other).argmax(1) == labels).double().mean().item()
            report = done.report
            kept = report.units_left / report.units, report.parameters_left / report.parameters
            rows.append((*kept, report.held_out.relative, right))
        print(f"| {share:g} | {' | '.join(spread(column) for column in zip(*rows, strict=True))} |", flush=True)
    by_layer(nets)


if __name__ == "__main__":
    main()
