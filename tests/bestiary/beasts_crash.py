"""Beasts on which a follower falls over: scalars, other kinds of tensors, other transforms, and what torch hides."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from case import case, leaning
from notebook import Made, note, noted, plant
from torch import nn


def headed(go, **parts):
    """A net of one hidden layer with a dead and a linear unit, and a head of one column; some points are dead."""
    first = nn.Linear(3, 5)
    plant(first, dead=(1,), linear=(2,))
    return Made(go, a=first, o=nn.Linear(5, 1), **parts), leaning(8, 3)


def score(m, x):
    return m.o(torch.relu(note(m.a(x))))


# A scalar out of a head of one column


@case("the mean of a head of one column", "crash", truth=noted)
def mean_of_a_head():
    return headed(lambda m, x: score(m, x).mean())


@case("the largest of a head of one column", "crash", truth=noted)
def largest_of_a_head():
    return headed(lambda m, x: score(m, x).max())


@case("a head of one column, squeezed and summed", "crash", truth=noted)
def sum_of_a_head():
    return headed(lambda m, x: score(m, x).squeeze(-1).sum())


@case("the first point's score alone", "crash", truth=noted)
def one_score():
    return headed(lambda m, x: score(m, x)[0, 0])


@case("the mean of a single weight's product", "crash", truth=noted)
def mean_of_a_dot():
    return headed(lambda m, x: torch.relu(note(m.a(x))).mean(0) @ m.o.weight[0])


@case("mean squared error of l[:, 0], written out", "crash", truth=noted)
def squared_error():
    return headed(lambda m, x: ((score(m, x)[:, 0] - x[:, 0]) ** 2).mean())


@case("cross-entropy of l[:, 0] by probabilities, written out", "crash", truth=noted)
def cross_entropy():
    def go(m, x):
        p, y = score(m, x)[:, 0].sigmoid(), (x[:, 0] > 0).float()
        return -(y * p.log() + (1 - y) * (1 - p).log()).mean()

    return headed(go)


@case("a hinge on the mean of a critic: part of a loss", "crash", truth=noted)
def hinge_of_a_critic():
    return headed(lambda m, x: F.relu(1 - score(m, x).mean()))


@case("a hinge on the difference of two critics' means", "crash", truth=noted)
def hinge_of_two():
    return headed(lambda m, x: F.relu(1 - score(m, x).mean()) + torch.clamp(1 + score(m, -x).mean(), min=0))


@case("a gradient penalty beside a critic: a scalar root", "crash", truth=noted)
def root_of_a_mean():
    return headed(lambda m, x: (score(m, x).mean() ** 2 + 1e-6).sqrt())


# Inside vmap


@case("torch.where under vmap", "crash", truth=noted)
def where_under_vmap():
    def go(m, x):
        return m.o(torch.vmap(lambda r: torch.where(r > 0, r, torch.zeros_like(r)))(note(m.a(x))))

    return headed(go)
