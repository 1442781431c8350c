"""Beasts whose units hide in their weights: copied over the batch, gathered, kept in buffers, or added to others."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from case import along, case, leaning
from notebook import Made, note, noted, plant
from torch import nn


def stack_of(count=None, inputs=3, units=4):
    """Weights as one parameter [(count,) inputs, units], of which unit 1 is dead for inputs that lean."""
    shape = (inputs, units) if count is None else (count, inputs, units)
    weight = torch.rand(shape) + 0.1
    weight[..., 1] = -weight[..., 1]
    return nn.Parameter(weight)


# A weight that is repeated over the batch


def repeated_case(name, product, *, rows=3, positive=True):
    """x [N, rows, 3] times copies of one weight [3, 4] for each point: four units."""

    def go(m, x):
        z = note(product(m, x, m.w) - 1.0, 0, -1)
        return z.relu().sum((1, 2)) if z.ndim == 3 else z.relu().sum(1)

    def make():
        x = leaning(5, rows, 3, low=-2.0, high=2.0)
        return Made(go, w=stack_of()), [x, x[:3], torch.cat([x, -x])]

    case(name, "units", truth=noted)(make)


repeated_case("a weight repeated for every point", lambda m, x, w: torch.bmm(x, w.unsqueeze(0).repeat(len(x), 1, 1)))
repeated_case(
    "a weight expanded and made contiguous", lambda m, x, w: torch.bmm(x, w.expand(len(x), 3, 4).contiguous())
)
repeated_case("a weight stacked once for every point", lambda m, x, w: torch.bmm(x, torch.stack([w] * len(x))))
repeated_case(
    "copies of a weight concatenated, one for every point",
    lambda m, x, w: torch.bmm(x, torch.cat([w] * len(x)).view(len(x), 3, 4)),
)
repeated_case("a weight tiled under matmul", lambda m, x, w: x @ w[None].tile(len(x), 1, 1))
repeated_case(
    "a weight repeated in an einsum",
    lambda m, x, w: torch.einsum("nrf,nfk->nrk", x, w.repeat(len(x), 1, 1)),
)
repeated_case(
    "a weight repeated under baddbmm",
    lambda m, x, w: torch.baddbmm(torch.zeros(1, 1, 4), x, w.repeat(len(x), 1, 1)),
)
repeated_case(
    "a weight gathered for every point by a constant index",
    lambda m, x, w: torch.bmm(x, w[None][torch.zeros(len(x), dtype=torch.long)]),
)
repeated_case(
    "a weight repeated on the left of bmm",
    lambda m, x, w: torch.bmm(w.t().repeat(len(x), 1, 1), x.transpose(1, 2)).transpose(1, 2),
)
repeated_case(
    "a scaled and masked weight repeated for every point",
    lambda m, x, w: torch.bmm(x, (w.repeat(len(x), 1, 1) * 2.0).masked_fill(torch.eye(3, 4).bool(), 0.0)),
)
repeated_case(
    "a weight written into every row of a new tensor",
    lambda m, x, w: torch.bmm(x, x.new_empty(len(x), 3, 4).copy_(w)),
)
repeated_case(
    "a low-rank weight made of repeated factors",
    lambda m, x, w: torch.bmm(x, torch.bmm(w.repeat(len(x), 1, 1), torch.eye(4).repeat(len(x), 1, 1))),
)


@case("a weight repeated for each of two kinds of rows", "units", truth=noted)
def two_kinds():
    def go(m, x):
        w = torch.stack([m.a, m.a, m.b])  # [3, F, C]
        kind = torch.tensor([0, 0, 1])
        z = torch.bmm(x.transpose(0, 1), w) - 1.0  # [3, N, C]
        unit = kind[:, None, None] * 4 + along(z, 2)
        return note(z, 1, unit=unit).relu().sum((0, 2))

    x = leaning(5, 3, 3)
    return Made(go, a=stack_of(), b=stack_of()), [x, x[:3], torch.cat([x, -x])]


@case("a stack of weights that are equal and yet own", "units", truth=noted)
def equal_and_own():
    def go(m, x):
        z = torch.bmm(x.transpose(0, 1), m.w) - 1.0  # [3, N, C]
        return note(z, 1, unit=along(z, 0) * 4 + along(z, 2)).relu().sum((0, 2))

    x = leaning(5, 3, 3)
    return Made(go, w=nn.Parameter(stack_of().detach().repeat(3, 1, 1))), [x, x[:3]]


def kernels(go, **more):
    kernel = torch.rand(4, 2, 3, 3) * 0.3
    kernel[1] = -kernel[1]
    x = leaning(5, 2, 6, 6)
    return Made(go, w=nn.Parameter(kernel), **more), [x, x[:3], torch.cat([x, -x])]


@case("a kernel repeated as groups, one for every point", "units", truth=noted)
def as_groups():
    def go(m, x):
        n = len(x)
        z = F.conv2d(x.reshape(1, n * 2, 6, 6), m.w.repeat(n, 1, 1, 1), groups=n).view(n, 4, 4, 4) - 1.0
        return note(z, 0, 1).relu().sum((1, 2, 3))

    return kernels(go)


@case("a kernel expanded as groups", "units", truth=noted)
def expanded_as_groups():
    def go(m, x):
        n = len(x)
        w = m.w.expand(n, 4, 2, 3, 3).reshape(n * 4, 2, 3, 3)
        z = F.conv2d(x.reshape(1, n * 2, 6, 6), w, groups=n).view(n, 4, 4, 4) - 1.0
        return note(z, 0, 1).relu().sum((1, 2, 3))

    return kernels(go)


@case("a kernel stacked as groups of a transposed convolution", "units", truth=noted)
def as_transposed_groups():
    def go(m, x):
        n = len(x)
        w = torch.cat([m.w.transpose(0, 1)] * n)
        z = F.conv_transpose2d(x.reshape(1, n * 2, 6, 6), w, groups=n).view(n, 4, 8, 8) - 1.0
        return note(z, 0, 1).relu().sum((1, 2, 3))

    return kernels(go)


# Two layers that are added somewhere


def added_case(name, read):
    def make():
        a, b = nn.Linear(3, 4), nn.Linear(3, 4)
        plant(a, dead=(1,), linear=(2,))
        plant(b, dead=(3,))
        x = leaning(6, 3)
        return Made(lambda m, x: read(m, m.a(x), m.b(x)), a=a, b=b, c=nn.Linear(4, 4)), [x, x[:4]]

    case(name, "units", truth=noted)(make)


def gate_of_sum(m, a, b):
    g = (a + b).sigmoid()
    z = torch.stack([a, b], 1)
    return note(z, 0, unit=along(z, 1) * 4 + along(z, 2)).relu() * g[:, None]


def gated_before(m, a, b):
    z = torch.stack([a, b], 1) * (a + b).sigmoid()[:, None]
    return note(z, 0, unit=along(z, 1) * 4 + along(z, 2)).relu()


def sum_after(m, a, b):
    z = torch.stack([a, b], 1)
    h = note(z, 0, unit=along(z, 1) * 4 + along(z, 2)).relu()
    return note(m.c(a + b)).relu() + h.sum(1)


def sum_and_terms(m, a, b):
    return note(a).relu() * note(b).relu() + note(a + b).relu()


def sum_beside_terms(m, a, b):
    z = torch.stack([a, b, a + b], 1)
    return note(z, 0, unit=along(z, 1) * 4 + along(z, 2)).relu().sum(1)


def sum_beside_one(m, a, b):
    z = torch.stack([a, a + b], 1)
    return note(z, 0, unit=along(z, 1) * 4 + along(z, 2)).relu().sum(1)


def difference(m, a, b):
    d = torch.exp(-((a - b) ** 2))
    z = torch.stack([a, b])
    return (note(z, 1, unit=along(z, 0) * 4 + along(z, 2)).relu() * d).sum(0)


def concatenated_after(m, a, b):
    g = torch.where(a > b, a, b)
    return note(torch.cat([a, b, m.c(g)], 1)).relu()


def in_a_list_of_branches(m, a, b):
    s = sum([a, b, m.c(a)])
    z = torch.stack([a, b, m.c(a)], -1)
    return note(z, 0, unit=along(z, 1) + along(z, 2) * 4).relu().sum(-1) * s.tanh()


added_case("two layers that are added in a gate, and stacked", gate_of_sum)
added_case("two layers stacked, times a gate of their sum", gated_before)
added_case("two layers that are added after they were stacked", sum_after)
added_case("two layers and their sum, each with a relu", sum_and_terms)
added_case("two layers and their sum, stacked", sum_beside_terms)
added_case("a layer and its sum with another, stacked", sum_beside_one)
added_case("two layers that are subtracted, and stacked", difference)
added_case("two layers of which the larger is taken, concatenated", concatenated_after)
added_case("three branches that are summed, and stacked", in_a_list_of_branches)


@case("a recurrence that has no state at first, its steps stacked", "units", truth=noted)
def no_state_at_first():
    def go(m, x):
        steps, h = [], None
        for t in range(3):
            z = m.a(x[:, t]) if h is None else m.a(x[:, t]) + m.b(h)
            steps.append(z)
            h = z.tanh()
        return note(torch.stack(steps, 1)).relu().sum(1)

    a, b = nn.Linear(3, 4), nn.Linear(4, 4)
    plant(a, dead=(1,), linear=(2,))
    x = leaning(6, 3, 3)
    return Made(go, a=a, b=b), [x, x[:4]]


# Weights that are not trained, shared, or chosen


def held(go, weight, **parts):
    model = Made(go, **parts)
    model.register_buffer("w", weight)
    return model


@case("random features: a buffer as a weight", "units", truth=noted)
def random_features():
    weight = stack_of().detach()
    x = leaning(6, 3)
    return held(lambda m, x: m.o(note(x @ m.w).relu()), weight, o=nn.Linear(4, 1)), [x, x[:4]]


@case("int8 weights in a buffer, and their scales", "units", truth=noted)
def dequantised():
    def go(m, x):
        return m.o(note(F.linear(x, m.w.float() * m.scale[:, None])).relu())

    weight = (stack_of().detach().t() * 100).to(torch.int8)
    model = held(go, weight, o=nn.Linear(4, 1))
    model.register_buffer("scale", torch.rand(4) * 0.01)
    x = leaning(6, 3)
    return model, [x, x[:4]]


@case("a convolution by a buffer", "units", truth=noted)
def fixed_convolution():
    weight = torch.rand(4, 2, 3, 3)
    weight[1] = -weight[1]
    x = leaning(6, 2, 5, 5)
    return held(lambda m, x: m.o(note(F.conv2d(x, m.w), units=1).relu().mean((2, 3))), weight, o=nn.Linear(4, 1)), x


@case("a buffer that mixes places from the left: units stay", "units", truth=noted)
def mixed_places():
    a = nn.Linear(3, 4)
    plant(a, dead=(1,), linear=(2,))
    x = leaning(6, 5, 3)
    return held(lambda m, x: m.o(note(m.w @ m.a(x)).relu()), torch.rand(5, 5), a=a, o=nn.Linear(4, 1)), [x, x[:4]]


@case("distances from centres, by cdist", "units", truth=noted)
def centres():
    x = leaning(6, 3)
    return Made(lambda m, x: note(1.5 - torch.cdist(x, m.c)).relu(), c=nn.Parameter(torch.randn(4, 3) * 2)), [x, x[:4]]


@case("weights of a relation, chosen for each point, under bmm", "units", truth=noted)
def by_relation():
    def go(m, x, relation):
        z = torch.bmm(x[:, None], m.w[relation])[:, 0] - 1
        return note(z, unit=relation[:, None] * 4 + along(z, 1)).relu()

    x, relation = leaning(8, 3), torch.tensor([0, 1, 2, 0, 1, 2, 0, 1])
    batches = [{"x": x, "relation": relation}, {"x": x[:4], "relation": torch.tensor([2, 1, 0, 1])}]
    return Made(go, w=stack_of(3)), batches


@case("grouped queries: four heads ask two", "units", truth=noted)
def grouped_queries():
    def go(m, x):
        n, t, _ = x.shape
        q, k, v = (f(x).view(n, t, -1, 2).transpose(1, 2) for f in (m.q, m.k, m.v))
        y = F.scaled_dot_product_attention(q, k, v, enable_gqa=True).transpose(1, 2).reshape(n, t, 8)
        return note(m.a(y)).relu()

    a = nn.Linear(8, 4)
    plant(a, dead=(1,), linear=(2,))
    x = leaning(6, 5, 8)
    return Made(go, a=a, q=nn.Linear(8, 8), k=nn.Linear(8, 4), v=nn.Linear(8, 4)), [x, x[:4]]


# Numbers of a weight, one for each copy of a value


def copied_case(name, go, weight, **parts):
    def make():
        x = leaning(6, 3)
        return Made(go, w=nn.Parameter(weight()), **{key: part() for key, part in parts.items()}), [x, x[:4]]

    case(name, "units", truth=noted)(make)


def shifts():
    return nn.Parameter(torch.tensor([0.0, -50.0, 50.0, 0.0]))


def by_feature(m, x):
    z = x[..., None] * m.w - 0.5
    return m.o(note(z, unit=along(z, 1) * 4 + along(z, 2)).relu().flatten(1))


def by_hand(m, x):
    return note((x[:, None] * m.w).sum(-1) + m.b).relu()


def around(m, x):
    return note(1.5 - ((x[:, None] - m.w) ** 2).sum(-1)).relu()


copied_case("each feature times weights of its own", by_feature, lambda: torch.randn(3, 4), o=lambda: nn.Linear(12, 1))
copied_case("a linear map by products and sums", by_hand, lambda: torch.randn(4, 3), b=shifts)
copied_case("distances from centres, by hand", around, lambda: torch.randn(4, 3) * 2)
