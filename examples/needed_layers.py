"""Which layers of a very deep plain convolution do something: train one as in depth-images, then let layers pass on.

python examples/needed_layers.py 10000 30     # layers, seed: about a quarter of an hour of one core
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np

from alive_papers.experiments import Cell, Row
from alive_papers.experiments.ours.depth_images import DATA, POINTS, TEST_POINTS, member
from alive_papers.experiments.ours.layer_work import layer_work
from alive_papers.run import Store, run
from alive_papers.run.progress import Bar


def wanted(layers: int, seed: int) -> Cell:
    """The network of depth-images at 10,000 layers, but kept."""
    return Cell(member(layers, seed, 2), DATA, points=POINTS, test_points=TEST_POINTS, keep_network=True)


def trained(cell: Cell, store: Path) -> Row:
    """A second call finds it in the store."""
    with Store(store) as kept, Bar() as bar:
        run([cell], kept, threads=1, bar=bar)
        return kept.rows([cell])[0]


def told(row: Row) -> str:
    """How many layers are needed, where they are, and how far layers are from passing their input on."""
    work = layer_work(row)
    needed = np.argsort(-work.moves, kind="stable")[: work.needed]
    thirds = np.bincount(3 * needed // len(work.moves), minlength=3)
    low, middle, high = np.quantile(work.moves, (0.05, 0.5, 0.95))
    return (
        f"best test accuracy {row.best_test:.4f}\n"
        f"{work.needed:,} of {len(work.moves):,} layers are needed for training accuracy {work.accuracy:.3f}\n"
        f"of the first, second and last third: {', '.join(f'{count:,}' for count in thirds)}\n"
        f"relative distance from passing on, 5 %, 50 %, 95 % of layers: {low:.2g}, {middle:.2g}, {high:.2g}"
    )


if __name__ == "__main__":
    print(told(trained(wanted(int(sys.argv[1]), int(sys.argv[2])), Path("needed-layers.sqlite"))))
