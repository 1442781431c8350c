"""Beasts that run in parts: on other points the same weights are one layer of more points, on the same a new one."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from case import along, case, leaning
from notebook import Made, note, noted, plant
from torch import nn
from torch.utils.checkpoint import checkpoint


def dense(inputs=3):
    """Two layers of four units; unit 1 of the first is dead, and unit 0 of the second."""
    a, b = nn.Linear(inputs, 4), nn.Linear(4, 4)
    plant(a, dead=(1,), linear=(2,))
    plant(b, dead=(0,))
    return {"a": a, "b": b}


def rows(z, first):
    """The points of a part that begins with this one."""
    return along(z, 0) + first


def hidden(m, part, first):
    return m.b(torch.relu(note(m.a(part), point=rows(part, first), name="a")))


def both(m, part, first):
    return torch.relu(note(hidden(m, part, first), point=rows(part, first), name="b"))


def in_place(m, part, first):
    return m.b(F.relu(note(m.a(part) * 1.0, point=rows(part, first), name="a").clone(), inplace=True))


def checkpointed(m, part, first):
    return checkpoint(lambda x: both(m, x, first), part, use_reentrant=False)


def recurrent(m, part, first):
    h = torch.zeros(len(part), 4)
    for t in range(3):
        h = torch.relu(note(m.a(part) + m.b(h), point=rows(part, first), name=f"step {t}"))
    return h


def normed(m, part, first):
    return F.gelu(note(F.layer_norm(m.a(part), (4,)), point=rows(part, first), name="a"))


def parted_case(name, split, run=hidden, batches=lambda x: [x, x[:4], torch.cat([x, -x])], **more):
    """A forward that runs on parts of the batch, one after the other."""

    def go(m, x):
        found, first = [], 0
        for part in split(x):
            found.append(run(m, part, first))
            first += len(part)
        return torch.cat(found)

    def make():
        return Made(go, **dense()), batches(leaning(6, 3))

    case(name, "chunks", truth=noted, **more)(make)


parted_case("chunks, of batches of three sizes", lambda x: x.chunk(2))
parted_case("one batch in chunks", lambda x: x.chunk(2), batches=lambda x: x)
parted_case("parts of two points", lambda x: x.split(2))
parted_case("parts of four points, and the rest", lambda x: x.split(4))
parted_case("parts of unequal size", lambda x: torch.tensor_split(x, 3))
parted_case("points one by one, as batches of one", lambda x: [x[i : i + 1] for i in range(len(x))])
parted_case("chunks, in place", lambda x: x.chunk(2), in_place)
parted_case("two layers in chunks", lambda x: x.chunk(2), both)
parted_case("two layers in chunks, each a checkpoint", lambda x: x.chunk(2), checkpointed)
parted_case("a recurrence in chunks: each step is a layer", lambda x: x.chunk(2), recurrent)
parted_case("a gelu behind a norm, in chunks", lambda x: x.chunk(2), normed)


@case("points one by one, as vectors", "chunks", truth=noted)
def vectors():
    def go(m, x):
        return torch.stack([torch.relu(note(m.a(x[i]), point=torch.tensor([i]), name="a")) for i in range(len(x))])

    x = leaning(6, 3)
    return Made(go, **dense()), [x, x[:4]]


@case("a convolution in parts of two images", "chunks", truth=noted)
def images():
    def go(m, x):
        found = []
        for k, part in enumerate(x.split(2)):
            point = (torch.arange(len(part)) + 2 * k).view(-1, 1, 1, 1)
            found.append(torch.relu(note(m.a(part), point=point, units=1, name="a")).mean((2, 3)))
        return torch.cat(found)

    a = nn.Conv2d(2, 4, 3)
    plant(a, dead=(1,), linear=(2,))
    x = leaning(6, 2, 5, 5)
    return Made(go, a=a), [x, x[:4]]


@case("sequences in chunks, as many steps as points", "chunks", truth=noted)
def sequences():
    def go(m, x):
        found = []
        for k, part in enumerate(x.chunk(2)):
            point = (torch.arange(len(part)) + k * len(part)).view(-1, 1, 1)
            found.append(torch.relu(note(m.a(part), point=point, name="a")))
        return torch.cat(found)

    x = leaning(6, 6, 3)
    return Made(go, **dense()), [x, x[:4]]


@case("even points and odd ones", "chunks", truth=noted)
def even_and_odd():
    def go(m, x):
        parts = [torch.relu(note(m.a(x[k::2]), point=along(x[k::2], 0) * 2 + k, name="a")) for k in range(2)]
        return torch.stack(parts, 1).flatten(0, 1)

    x = leaning(6, 3)
    return Made(go, **dense()), [x, x[:4]]


@case("halves of the batch, each with weights of its own", "chunks", truth=noted)
def own_weights():
    def go(m, x):
        n = len(x) // 2
        return torch.cat([m.r(note(m.a(x[:n]), name="a")), m.r(note(m.b(x[n:]), point=rows(x[n:], n), name="b"))])

    x = leaning(6, 4)
    return Made(go, r=nn.ReLU(), **dense(4)), [x, x[:4]]


@case("half of the points once more: a layer of its own", "chunks", truth=noted)
def half_again():
    def go(m, x):
        n = len(x) // 2
        h = torch.relu(note(m.a(x)))
        return torch.cat([torch.relu(note(m.a(h[:n]))), h[n:]])

    x = leaning(6, 4)
    return Made(go, **dense(4)), [x, x[:4]]


@case("two crops of each image in a loop: a layer each", "chunks", truth=noted)
def crops():
    def go(m, x):
        return torch.cat([torch.relu(note(m.a(crop))) for crop in (x[:, :3], x[:, 3:])])

    x = leaning(6, 6)
    return Made(go, **dense()), [x, x[:4]]


@case("two crops of each image stacked: one layer", "chunks", truth=noted)
def crops_stacked():
    def go(m, x):
        z = m.a(torch.cat([x[:, :3], x[:, 3:]]))
        return torch.relu(note(z, point=(torch.arange(len(z)) % len(x))[:, None]))

    x = leaning(6, 6)
    return Made(go, **dense()), [x, x[:4]]


@case("experts by slot: a point comes to each of two in one of them", "chunks", truth=noted)
def slots():
    def go(m, x):
        chosen = m.router(x).topk(2).indices
        out = torch.zeros(len(x), 4)
        for slot in range(2):
            for k, expert in enumerate(m.experts):
                sent = chosen[:, slot] == k
                point = sent.nonzero()
                out[sent] = out[sent] + torch.relu(note(expert(x[sent]), point=point, name=f"expert {k}"))
        return out

    experts = nn.ModuleList(nn.Linear(3, 4) for _ in range(3))
    for expert in experts:
        plant(expert, dead=(1,))
    return Made(go, experts=experts, router=nn.Linear(3, 3)), leaning(9, 3)
