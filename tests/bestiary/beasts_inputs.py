"""Beasts with a second input that is as long as the batch: paired with the first, or that long by chance."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from case import along, case, leaning
from notebook import Made, note, noted, plant
from torch import nn

from alive import Declared

NOBODY = torch.tensor(-1)


def layer(inputs=3):
    found = nn.Linear(inputs, 4)
    plant(found, dead=(1,), linear=(2,), by=8.0)
    return found


def paired_case(name, go, second=lambda x: leaning(len(x), 3).flip(0), inputs=3, **more):
    """A model of two inputs, x and other, of six points each."""

    def make():
        x = leaning(6, 3)
        return Made(go, a=layer(), b=layer(inputs)), [{"x": x, "other": second(x)}]

    case(name, "inputs", truth=noted, **more)(make)


def apart(m, x, other, point=NOBODY):
    """Both through layers of their own, and never beside one another."""
    return torch.relu(note(m.a(x))), torch.relu(note(m.b(other), point=point))


def towers(m, x, other):
    return apart(m, x, other, along(other, 0)[:, :1])


def memory(m, x, other):
    h, s = apart(m, x, other)
    return torch.softmax(h @ s.t(), -1) @ s


def ring(m, x, other):
    h, e = apart(m, x, other)
    return h.sum(1) + torch.zeros(6, 4).index_add(0, (torch.arange(6) + 1) % 6, e).sum(1)


def ring_by_source(m, x, other):
    source = torch.arange(6)
    e = torch.relu(note(m.b(torch.cat([x[source], x[(source + 1) % 6], other], 1)), point=NOBODY))
    return torch.relu(note(m.a(x))).sum() + e.sum(1)


def grid(m, x, other):
    h, t = apart(m, x, other)
    return h[:, None] * t[None]


def basis(m, x, other):
    h, t = apart(m, x, other)
    return h @ t.t()


def support(m, x, other):
    prototypes = torch.relu(note(m.a(other), point=NOBODY)).view(2, 3, 4).mean(1)
    return -torch.cdist(torch.relu(note(m.a(x))), prototypes)


def masked(m, x, other):
    return m.b(torch.relu(note(m.a(x) * other)))


paired_case("a memory of as many slots as points", memory)
paired_case("as many edges of a ring as points, their features", ring)
paired_case("as many edges of a ring as points, with both ends", ring_by_source, inputs=9)
paired_case("as many times as points, on a grid", grid, lambda x: torch.linspace(-1, 1, 6)[:, None], inputs=1)
paired_case("as many sensors as points: DeepONet", basis, lambda x: torch.linspace(-1, 1, 6)[:, None], inputs=1)
paired_case("a support set as large as the batch", support)
paired_case("a memory, and the user says so", memory, options={"declared": Declared(paired=[])})
paired_case("two towers that never meet", towers)
paired_case(
    "two towers that never meet, and the user pairs them", towers, options={"declared": Declared(paired=["other"])}
)
paired_case("two towers that are compared", lambda m, x, other: torch.sub(*towers(m, x, other)))
paired_case("a mask of the points", masked, lambda x: x[:, :1].sign(), inputs=4)
paired_case("two inputs side by side", lambda m, x, other: torch.relu(note(m.b(torch.cat([x, other], 1)))), inputs=6)


@case("two towers in batches of two lengths", "inputs", truth=noted)
def two_lengths():
    x, other = leaning(6, 3), leaning(6, 3)
    return Made(towers, a=layer(), b=layer()), [{"x": x[:n], "other": other[:n]} for n in (6, 4)]


@case("a memory that stays as long while batches change", "inputs", truth=noted)
def one_length():
    x, other = leaning(6, 3), leaning(6, 3)
    return Made(apart, a=layer(), b=layer()), [{"x": x[:n], "other": other} for n in (6, 4)]


@case("sequences of as many steps as points, steps first", "inputs", truth=noted, options={"point_axis": 1})
def as_many_steps():
    x = leaning(6, 6, 3).transpose(0, 1).contiguous()
    return Made(lambda m, x: torch.relu(note(m.a(x), points=1)), a=layer()), x


@case("pairs of nodes as an input: messages belong to their source", "inputs", truth=noted)
def edge_list():
    def go(m, x, edges):
        return F.relu(note(m.a(x[edges[:, 0]]), point=edges[:, :1]))

    ends = torch.arange(6)
    return Made(go, a=layer()), [{"x": leaning(6, 3), "edges": torch.stack([ends, (ends + 1) % 6], 1)}]
