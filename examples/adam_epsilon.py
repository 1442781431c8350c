"""When Adam's ε matters: how small the second moments are, and networks whose ε or rate changes after 500 epochs.

python examples/adam_epsilon.py moments    # docs/rivals.md, first table of its last section: under a minute
python examples/adam_epsilon.py switches   # second table: a quarter of an hour on one core
"""

from __future__ import annotations

import sys
from collections.abc import Callable

import numpy as np

from alive.data import moons
from alive.experiments.measure import TRAINS
from alive.train.fleet import Member
from alive.train.fleet.engine import COLUMNS, ROWS, STEP, run
from alive.train.fleet.start import arenas_of, course_of, order_of, plan_of, points_of, room_of
from alive.train.fleet.update import BETA2, connect

DATA = moons()
COUNT = len(DATA.train_y)
EPOCHS, FIRST = 5000, 500
SMALL, LARGE = 1e-7, 1e-5


class Going:
    """One network that can be stopped, looked at, and sent on with other settings."""

    def __init__(self, depth: int, width: int, seed: int, eps: float) -> None:
        member = Member(depth, width, "Sep-UP", seed, 1e-4, "sumsq", architecture="keras_same", eps=eps, epochs=EPOCHS)
        self.net, self.room = arenas_of(member, DATA), room_of(member, DATA)
        self.plan, self.course = plan_of(member, COUNT, 1), course_of(member, COUNT)
        self.order, self.points = order_of(member, COUNT, 0, 1), points_of(DATA)
        self.log = np.zeros((EPOCHS, len(COLUMNS)), np.float32)
        self.state, self.signal = np.zeros(4, np.int64), np.zeros(2, np.int64)
        connect(self.plan, self.net)

    def to(self, epoch: int, eps: float | None = None) -> Going:
        """Train until this epoch, from here on with another ε."""
        if eps is not None:
            self.plan = self.plan._replace(eps=np.float32(eps))
        run(
            self.plan, self.net, self.room, self.points, self.course, self.order, self.state, self.log, epoch,
            self.signal,
        )  # fmt: skip
        return self

    @property
    def roots(self) -> np.ndarray:
        """√v̂ of every trained number, which ε is added to."""
        return np.sqrt(self.net.second_moment / (1 - BETA2 ** int(self.state[STEP])))

    @property
    def trains(self) -> bool:
        """Whether it has learnt the training set at its best epoch."""
        return bool(self.log[: self.state[ROWS], COLUMNS.index("train_right")].max() / COUNT >= TRAINS)


def warmed_up(depth: int, width: int, seed: int) -> Going:
    """ε small, the rate growing over the first epochs."""
    going = Going(depth, width, seed, SMALL)
    going.course = going.course._replace(lr=np.append(np.linspace(0.01 / FIRST, 0.01, FIRST), 0.01))
    return going.to(EPOCHS)


def like_keras(depth: int, width: int, seed: int) -> Going:
    """ε beside √v, as Keras has it: beside √v̂ that is ε/√(1 − β₂^t), followed closely for 300 steps."""
    going = Going(depth, width, seed, SMALL)
    for step in range(1, 301):
        going.to(step, SMALL / np.sqrt(1 - BETA2**step))
    return going.to(1000, 1.5 * SMALL).to(EPOCHS, SMALL)


ARMS: dict[str, Callable[[int, int, int], Going]] = {
    "large, then small": lambda d, w, s: Going(d, w, s, LARGE).to(FIRST).to(EPOCHS, SMALL),
    "small, then large": lambda d, w, s: Going(d, w, s, SMALL).to(FIRST).to(EPOCHS, LARGE),
    "small, the rate warmed up": warmed_up,
    "small, as Keras has it": like_keras,
}


def moments() -> None:
    """Shares of the second moments below some sizes, and how large the weights have become."""
    for depth, width, seed in ((80, 10, 10), (100, 10, 11), (100, 15, 12)):
        for eps in (SMALL, LARGE):
            going = Going(depth, width, seed, eps)
            for epoch in (1, 10, 100, 300, 1000):
                roots = going.to(epoch).roots
                size = np.sqrt(np.mean(going.net.free**2))
                print(f"{depth}x{width} ε {eps:g} epoch {epoch}: ", end="")
                print(f"{np.mean(roots < 1e-6):.2f} below 1e-6, {np.mean(roots < 1e-5):.2f} below 1e-5, W {size:.3f}")


def switches() -> None:
    """How many of 36 networks train in each arm."""
    places = [(d, w, s) for s in range(10, 16) for d in (80, 100, 120) for w in (10, 15)]
    for name, arm in ARMS.items():
        print(name, sum(arm(*place).trains for place in places), "of", len(places), flush=True)


if __name__ == "__main__":
    {"moments": moments, "switches": switches}[sys.argv[1]]()
