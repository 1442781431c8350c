"""The settings of one member as the kernels read them."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from .arena import Floats, Gates, Norm, Prices, Signals, Weights
from .conv.arena import Maps

UNTIED, SHARED, FARKAS, SCALED = 0, 1, 2, 3  # how connections follow from what is trained
NO_SKIP, SKIP, VAN = 0, 1, 2
DONE, BAD_LOSS, BAD_PENALTY, BAD_BOTH, BAD_LOGITS, INTERRUPTED = 0, 1, 2, 3, 4, 5


class Rule(NamedTuple):
    """How multipliers move, see penalties.multipliers."""

    ki: float
    kp: float
    nu: float
    tol: float
    top: float


class Extent(NamedTuple):
    """Sizes of an architecture for one shape of points, the first fields of a Plan."""

    side: int
    taps: int
    mean_head: bool
    by_position: bool
    unit_values: int
    point_values: int
    layer_values: int


class Plan(NamedTuple):
    """Numbers that do not change while a member trains."""

    side: int  # of a map, 1 where there is none
    taps: int  # of a kernel, in each direction
    mean_head: bool  # the output reads the mean of each map, not all positions
    by_position: bool  # a unit of the penalty is a channel at a position, not a channel
    unit_values: int  # how many values of one point a unit has
    point_values: int  # how many values a point has
    layer_values: int  # how many values of one point a layer has
    keep: bool  # all pre-activations are kept, for a penalty by position
    batch: int
    record_every: int
    epochs: int
    norm: bool
    skip: int
    tie: int
    units: bool  # axes of the penalty
    points: bool
    layer: bool
    squared: bool
    mean: bool  # slacks count as means of their layer and axis, not as sums
    auto: bool  # each mean has a multiplier of its own
    rule: Rule
    plus: np.float32  # shares of ξ⁺ and ξ⁻
    minus: np.float32
    margin: np.float32  # of a Farkas bias
    adam: bool
    momentum: np.float32
    eps: np.float32
    eta: np.float32  # of the gates
    ratio: np.float32
    task: bool  # whether the task's gradient counts
    running: bool  # training accuracy is that of the steps, not of the network after them
    cutout: int  # side of the square that is blanked in each image, 0 for none
    mean_fill: bool  # with its own mean, not with zero
    still: bool  # a training pass equals an evaluation: whole batches in order, no norm, no dropout
    seed: np.uint64


class Arenas(NamedTuple):
    """All that training changes."""

    free: Floats  # what is trained, flat
    slope: Floats  # its gradient
    first_moment: Floats
    second_moment: Floats
    flat: Floats  # one number for every connection: the same memory as `free` when untied
    flat_slope: Floats
    sharing: NDArray[np.int32]  # SHARED: which free number each connection follows, -1 for none
    factor: Floats  # SHARED: how many times that number it is
    w: Weights
    g: Weights
    norm: Norm
    gates: Gates
    prices: Prices
    top: Floats  # [D, width], over all points of an evaluation
    bottom: Floats


class Points(NamedTuple):
    """Data as rows."""

    x: Floats  # [inputs, N] for rows, [N, inputs] for maps
    y: NDArray[np.int32]
    test_x: Floats
    test_y: NDArray[np.int32]
    everyone: NDArray[np.int64]  # 0, 1, 2 ... as many as the larger set has


class Order(NamedTuple):
    """In which order some epochs show the points, and how they move images. The last entry holds from there on."""

    points: NDArray[np.int64]  # [epochs, N], their numbers
    moves: NDArray[np.int32]  # [epochs, N, 5] see data.augment.Moves, in the order shown; N is 0 without


class Course(NamedTuple):
    """What changes from epoch to epoch, the weight from step to step. The last entry holds from there on."""

    lr: NDArray[np.float64]
    output_lr: NDArray[np.float64]  # of the output layer
    weight: NDArray[np.float64]
    rate: NDArray[np.float64]


class Room(NamedTuple):
    """Where passes leave their traces: training batches, test points."""

    train: Signals | Maps
    test: Signals | Maps
