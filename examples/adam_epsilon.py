"""Why Adam's ε matters to deep networks with Sep-UP: numbers that wake late take long steps, and ε shortens them.

python examples/adam_epsilon.py waking     # who wakes late, and how far it moves: under a minute
python examples/adam_epsilon.py arms       # how many of 36 networks train in each arm of docs/rivals.md: an hour a core
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from itertools import product

import numpy as np
from numpy.typing import NDArray

from alive.data import moons
from alive_papers.experiments.measure import TRAINS
from alive_papers.fleet import Member
from alive_papers.fleet.engine import COLUMNS, EPOCH, FRESH, ROWS, STEP, run
from alive_papers.fleet.start import arenas_of, course_of, order_of, plan_of
from alive_papers.fleet.update import BETA1, BETA2, connect

DATA = moons()
RATE, EPOCHS, FIRST = 0.01, 5000, 500
SMALL, LARGE = 1e-7, 1e-5
YOUNG = 50  # steps after a number's first gradient in which its step is a long one
PLACES = [*product((80, 100, 120), (10, 15), range(10, 16))]  # depth, width, seed


class Going:
    """One network that can be stopped, looked at, and sent on with other settings."""

    def __init__(self, depth: int, width: int, seed: int, eps: float, epochs: int = EPOCHS) -> None:
        settings = {"architecture": "keras_same", "eps": eps, "lr": RATE, "epochs": epochs}
        self.member = Member(depth, width, "Sep-UP", seed, 1e-4, "sumsq", **settings)  # type: ignore[arg-type]
        self.epochs, self.net = epochs, arenas_of(self.member, DATA)
        self.plan = plan_of(self.member, DATA, 1, self.net)
        self.course = course_of(self.member, len(DATA.train_y))
        self.points, self.room = self.member.form.points(DATA), self.member.form.room(self.member, DATA)
        self.order = order_of(self.member, DATA, 0, 1)
        self.log = np.zeros((epochs, len(COLUMNS)), np.float32)
        self.state, self.signal = np.zeros(5, np.int64), np.zeros(2, np.int64)
        self.woken = np.zeros(self.net.free.size, np.int64)  # the step at which each number had its first gradient
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

    def steps(self, last: int) -> Iterator[NDArray[np.float32]]:
        """Go on step by step to this epoch, and hand out what all numbers were before each step."""
        while self.state[EPOCH] < last:
            before, epoch = self.net.free.copy(), int(self.state[EPOCH])
            self.to(epoch + 1)
            if self.state[EPOCH] == epoch:  # a loss was not finite
                return
            self.woken[(self.woken == 0) & (self.net.second_moment > 0)] = self.state[STEP]
            yield before

    def put(self, which: NDArray[np.bool_], values: NDArray[np.float32]) -> None:
        """Give some numbers other values; what was computed with the old ones is computed again."""
        self.net.free[which] = values[which]
        connect(self.plan, self.net)
        self.state[FRESH] = 0

    @property
    def roots(self) -> NDArray[np.float32]:
        """√v̂ of every trained number, which ε is added to."""
        return np.sqrt(self.net.second_moment / (1 - BETA2 ** int(self.state[STEP])))

    @property
    def ages(self) -> NDArray[np.int64]:
        """How many steps ago each number woke, counting that one; only of those that `late` names."""
        return self.state[STEP] - self.woken + 1

    @property
    def late(self) -> NDArray[np.bool_]:
        """Which numbers had no gradient in the first step, and have had one since."""
        return self.woken > 1

    @property
    def trains(self) -> bool:
        """Whether it has learnt the training set at its best epoch."""
        hits = self.log[: self.state[ROWS], COLUMNS.index("train_right")]
        return bool(hits.max() / len(DATA.train_y) >= TRAINS)


Arm = Callable[[int, int, int], Going]


def constant(eps: float) -> Arm:
    """One ε from start to end."""
    return lambda *place: Going(*place, eps).to(EPOCHS)


def changed(first: float, then: float) -> Arm:
    """Another ε after the first epochs."""
    return lambda *place: Going(*place, first).to(FIRST).to(EPOCHS, then)


def warmed_up(*place: int) -> Going:
    """ε small, the rate growing over the first epochs."""
    going = Going(*place, SMALL)
    going.course = going.course._replace(
        lr=np.append(np.linspace(RATE / FIRST, RATE, FIRST), RATE),
        output_lr=np.append(np.linspace(RATE / FIRST, RATE, FIRST), RATE),
    )
    return going.to(EPOCHS)


def like_keras(*place: int) -> Going:
    """ε small and beside √v, as Keras has it: beside √v̂ that is ε/√(1 − β₂^t), followed closely for 300 steps."""
    going = Going(*place, SMALL)
    for step in range(1, 301):
        going.to(step, SMALL / np.sqrt(1 - BETA2**step))
    return going.to(1000, 1.5 * SMALL).to(EPOCHS, SMALL)


def held(*place: int) -> Going:
    """ε small, but in the first epochs a number whose √v̂ is below the large ε does not move."""
    going = Going(*place, SMALL)
    for before in going.steps(FIRST):
        going.put(going.roots < LARGE, before)
    return going.to(EPOCHS)


def held_by_lot(*place: int) -> Going:
    """The control: as many numbers do not move, but drawn by lot, anew in each step."""
    going = Going(*place, SMALL)
    lots = np.random.default_rng(place)
    for before in going.steps(FIRST):
        going.put(lots.permutation(going.roots < LARGE), before)
    return going.to(EPOCHS)


def gentle(*place: int) -> Going:
    """ε small, but in the first epochs a number that has just woken takes half of each step."""
    going = Going(*place, SMALL)
    for before in going.steps(FIRST):
        going.put(going.late & (going.ages <= YOUNG), before + np.float32(0.5) * (going.net.free - before))
    return going.to(EPOCHS)


def own_clock(*place: int) -> Going:
    """ε small, but in the first epochs Adam's corrections count the steps since a number woke."""
    going = Going(*place, SMALL)
    for before in going.steps(FIRST):
        age = np.maximum(going.ages, 1)
        mean = going.net.first_moment / (1 - BETA1**age)
        root = np.sqrt(going.net.second_moment / (1 - BETA2**age))
        going.put(going.late, (before - RATE * mean / (root + SMALL)).astype(np.float32))
    return going.to(EPOCHS)


def rough(*place: int) -> Going:
    """The reverse: ε large in the first epochs, but a number that has just woken moves as the small one lets it."""
    going = Going(*place, LARGE)
    for before in going.steps(FIRST):
        mean = going.net.first_moment / (1 - BETA1 ** int(going.state[STEP]))
        moved = before - RATE * mean / (going.roots + SMALL)
        going.put(going.late & (going.ages <= YOUNG), moved.astype(np.float32))
    return going.to(EPOCHS, SMALL)


ARMS: dict[str, Arm] = {
    "small": constant(SMALL),
    "large": constant(LARGE),
    "large for 500 epochs, then small": changed(LARGE, SMALL),
    "small for 500 epochs, then large": changed(SMALL, LARGE),
    "small, the rate warmed up over 500 epochs": warmed_up,
    "small, as Keras has it": like_keras,
    "small, tiny √v̂ held for 500 epochs": held,
    "small, as many held by lot": held_by_lot,
    "small, half steps for the newly woken in 500 epochs": gentle,
    "small, corrections by a number's own age in 500 epochs": own_clock,
    "large for 500 epochs but for the newly woken, then small": rough,
}


def waking() -> None:
    """How far numbers move in the first 500 steps: those that woke late and just now, and all that are awake."""
    for place in ((80, 10, 10), (100, 10, 11), (100, 15, 12)):
        for eps in (SMALL, LARGE):
            going, new, awake = Going(*place, eps), [], []
            for before in going.steps(FIRST):
                moved = np.abs(going.net.free - before) / RATE
                young = (going.woken > 20) & (going.ages <= YOUNG)
                new += [moved[young].mean()] if young.any() else []
                awake.append(np.median(moved[going.woken > 0]))
            print(
                f"{place[0]}x{place[1]} seed {place[2]}, ε {eps:g}: {np.mean(going.woken > 20):.0%} woke after step "
                f"20; in their next {YOUNG} steps they moved {np.mean(new):.2f} of the rate a step; the median of "
                f"all awake {np.mean(awake):.2f}"
            )


def one(name: str, place: tuple[int, int, int]) -> bool:
    """Whether this network trains in this arm."""
    return ARMS[name](*place).trains


def arms() -> None:
    """How many networks train in each arm, by depth, and which go otherwise than with the small ε alone."""
    plain: list[bool] = []
    with ProcessPoolExecutor() as pool:
        for name in ARMS:
            found = list(pool.map(one, [name] * len(PLACES), PLACES))
            plain = plain or found
            gained = sum(now and not was for now, was in zip(found, plain, strict=True))
            lost = sum(was and not now for now, was in zip(found, plain, strict=True))
            third = len(found) // 3
            by_depth = ", ".join(str(sum(found[i * third : (i + 1) * third])) for i in range(3))
            print(f"{name}: {sum(found)} of {len(found)} ({by_depth}), gained {gained}, lost {lost}", flush=True)


if __name__ == "__main__":
    {"waking": waking, "arms": arms}[sys.argv[1]]()
