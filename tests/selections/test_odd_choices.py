"""Choices of which a part is used, or that are used in odd ways: counted as brute force counts, or said to be
unknown.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

import alive

WIDTH, MANY, EXPERTS, CODES = 10, 48, 8, 32


class Odd(nn.Module):
    """go(model, x) is its forward; where `asked`, it keeps in `on` who was chosen [rows, C].

    A census never asks: telling would be a use of what was chosen.
    """

    def __init__(self, go: Callable[[Any, Tensor], Tensor]) -> None:
        super().__init__()
        self.go, self.asked, self.on = go, False, torch.empty(0)
        self.before = nn.Sequential(nn.Linear(WIDTH, WIDTH), nn.ReLU())  # so that there is always something to count
        self.encoder, self.gate = nn.Linear(WIDTH, MANY), nn.Linear(WIDTH, EXPERTS)
        self.table, self.books = nn.Parameter(torch.randn(MANY, WIDTH)), nn.Parameter(torch.randn(2, CODES, WIDTH // 2))
        self.experts = nn.ModuleList(nn.Linear(WIDTH, WIDTH) for _ in range(EXPERTS))
        self.register_buffer("order", torch.arange(MANY) - 40.0)  # so that the order of ranks is nearly that of units
        with torch.no_grad():
            self.encoder.bias -= 1.0  # so that negative values are among the largest

    def forward(self, x: Tensor) -> Tensor:
        return self.go(self, self.before(x))

    def decoded(self, h: Tensor) -> Tensor:
        if self.asked:
            self.on = h != 0
        return h @ self.table

    def chose(self, count: int, *ids: Tensor) -> None:
        if self.asked:
            chosen = {int(i) for each in ids for i in each.flatten()}
            self.on = torch.tensor([[c in chosen for c in range(count)]])

    def fired(self, ids: Tensor, values: Tensor) -> None:
        if self.asked:
            fired = {int(i) for i, v in zip(ids.flatten(), values.flatten(), strict=True) if v != 0}
            self.on = torch.tensor([[c in fired for c in range(MANY)]])


def put(z: Tensor, ids: Tensor, values: Tensor) -> Tensor:
    return torch.zeros_like(z).scatter(-1, ids, values)


# Latents, of which rows of the decoder are taken


def rows_by_einsum(m, x):
    values, ids = m.encoder(x).topk(5)
    values = values.relu()
    m.fired(ids, values)
    return torch.einsum("nkd,nk->nd", m.table[ids], values)


def rows_by_matmul(m, x):
    values, ids = m.encoder(x).topk(5)
    values = values.relu()
    m.fired(ids, values)
    return (values.unsqueeze(1) @ F.embedding(ids, m.table)).squeeze(1)


def rows_by_bags(m, x):
    values, ids = m.encoder(x).topk(5, sorted=False)
    values = values.relu()
    m.fired(ids, values)
    return F.embedding_bag(ids, m.table, per_sample_weights=values, mode="sum")


def one_row(m, x):
    values, ids = m.encoder(x).topk(1)
    values = values.relu()
    m.fired(ids, values)
    return (m.table[ids] * values[..., None]).sum(1)


# Latents, of which some of the chosen are taken


def first_of_more(m, x):
    z = m.encoder(x) + m.order
    values, ids = z.topk(8)
    return m.decoded(put(z, ids[:, :3], values[:, :3]))


def every_second(m, x):
    z = m.encoder(x) + m.order
    values, ids = z.topk(8)
    return m.decoded(put(z, ids[:, ::2], values[:, ::2].relu()))


def split_off(m, x):
    z = m.encoder(x) + m.order
    values, ids = (each.split([3, 5], -1)[0] for each in z.topk(8))
    return m.decoded(put(z, ids, values.relu()))


def one_by_one(m, x):
    z = m.encoder(x) + m.order
    values, ids = z.topk(3)
    h = torch.zeros_like(z)
    for v, i in list(zip(values.unbind(-1), ids.unbind(-1), strict=True))[:2]:
        h = h.scatter(-1, i[:, None], v.relu()[:, None])
    return m.decoded(h)


def masked_then_relu(m, x):
    z = m.encoder(x)
    mask = torch.zeros_like(z, dtype=torch.bool).scatter_(-1, z.topk(5).indices, True)
    return m.decoded(torch.where(mask, z, torch.zeros_like(z)).relu())


def equal_to_the_largest(m, x):
    z = m.encoder(x)
    return m.decoded(z * (z == z.max(-1, keepdim=True).values))


def largest_of_each_group(m, x):
    z = m.encoder(x).view(len(x), 8, -1)
    values, ids = z.max(-1, keepdim=True)
    return m.decoded(put(z, ids, values.relu()).flatten(1))


# Experts


def second_best_for_the_load(m, x):  # Shazeer et al. 2017: one more than is used
    z = m.gate(x) + m.order[:EXPERTS]
    values, ids = z.topk(3)
    m.chose(EXPERTS, ids[:, :2])
    share = put(z, ids[:, :2], values[:, :2].softmax(-1))
    return (share[..., None] * torch.stack([expert(x) for expert in m.experts], 1)).sum(1)


def only_the_second(m, x):
    ids = (m.gate(x) + m.order[:EXPERTS]).topk(2).indices[:, 1]
    m.chose(EXPERTS, ids)
    out = torch.zeros_like(x)
    for number, expert in enumerate(m.experts):
        rows = ids == number
        if rows.any():
            out[rows] = expert(x[rows])
    return out


def gathered_from_all(m, x):
    values, ids = m.gate(x).softmax(-1).topk(2)
    m.chose(EXPERTS, ids)
    out = torch.stack([expert(x) for expert in m.experts], 1)
    return (out.gather(1, ids[..., None].expand(-1, -1, WIDTH)) * values[..., None]).sum(1)


# Codes


def nearest_by_equality(m, x):
    apart = torch.cdist(x, m.table)
    m.chose(MANY, apart.argmin(-1) if m.asked else apart)
    return (apart == apart.min(-1, keepdim=True).values).float() @ m.table


def first_of_three_nearest(m, x):
    ids = torch.cdist(x, m.table).topk(3, largest=False).indices
    m.chose(MANY, ids[:, 0])
    return m.table[ids[:, 0]]


def two_books_at_once(m, x):
    ids = torch.cdist(x.view(len(x), 2, -1).transpose(0, 1), m.books).argmin(-1)
    m.chose(2 * CODES, ids[0], ids[1] + CODES)
    return m.books[torch.arange(2)[:, None], ids].transpose(0, 1).flatten(1)


COUNTED = {
    "latent": [
        *(rows_by_einsum, rows_by_matmul, rows_by_bags, one_row, first_of_more, every_second, split_off, one_by_one),
        *(masked_then_relu, equal_to_the_largest, largest_of_each_group),
    ],
    "expert": [second_best_for_the_load, only_the_second, gathered_from_all],
    "code": [nearest_by_equality, first_of_three_nearest, two_books_at_once],
}


def data() -> list[Tensor]:
    x = torch.randn(24, WIDTH) + torch.randn(WIDTH)
    return [x[:9], x[9:18], x[18:]]


def truth(model: Odd, batches: list[Tensor]) -> list[bool]:
    model.asked, rows = True, []
    with torch.no_grad():
        for x in batches:
            model(x)
            rows.append(model.on)
    model.asked = False
    return torch.cat(rows).any(0).tolist()


@pytest.mark.parametrize(("noun", "go"), [(noun, go) for noun, all_of in COUNTED.items() for go in all_of])
def test_who_is_never_chosen(noun: str, go: Any) -> None:
    model, batches = Odd(go), data()
    on = truth(model, batches)
    assert not all(on)  # there is something to find
    found = alive.census(model, batches)
    (layer,) = [layer for layer in found.layers if layer.noun != "unit"]
    assert layer.noun == noun
    assert [state != 1 for state in layer.states.tolist()] == on
    assert not found.unseen


# Told


def loop_over_points(m, x):
    rows = []
    for z in m.encoder(x):
        values, ids = z.topk(5)
        rows.append(put(z, ids, values.relu()))
    return torch.stack(rows) @ m.table


def loop_over_points_and_codes(m, x):
    return torch.stack([m.table[(m.table - row).square().sum(1).argmin()] for row in x])


def books_one_by_one(m, x):
    z = x.view(len(x), 2, 1, -1)
    ids = (z - m.books).square().sum(-1).argmin(-1)
    return torch.cat([m.books[k][ids[:, k]] for k in range(2)], -1)


def chosen_among_the_chosen(m, x):
    z = m.encoder(x)
    values, ids = z.topk(12)
    values, again = values.topk(4)
    return put(z, ids.gather(-1, again), values.relu()) @ m.table


def hard_gate_with_a_soft_gradient(m, x):
    soft = m.encoder(x).sigmoid()
    gate = (soft > 0.4).float() + soft - soft.detach()
    return (gate * (x @ m.table.t())) @ m.table


def nearest_by_amin(m, x):
    apart = torch.cdist(x, m.table)
    return (apart == apart.amin(-1, keepdim=True)).float() @ m.table


def other_ranks_for_other_points(m, x):
    z = m.encoder(x)
    values, ids = z.topk(4)
    halves = [put(z[:3], ids[:3, :2], values[:3, :2]), put(z[3:], ids[3:], values[3:])]
    return torch.cat(halves) @ m.table


def less_than_the_largest_by_half(m, x):
    z = m.encoder(x)
    return z.masked_fill(z < z.topk(3).values[:, :1] - 0.1, -torch.inf).softmax(-1) @ m.table


TOLD = [loop_over_points, loop_over_points_and_codes, books_one_by_one, chosen_among_the_chosen]
TOLD += [hard_gate_with_a_soft_gradient, nearest_by_amin, other_ranks_for_other_points, less_than_the_largest_by_half]


@pytest.mark.parametrize("go", TOLD)
def test_what_is_not_counted_is_told(go: Any) -> None:
    found = alive.census(Odd(go), data())
    assert found.unseen or any(layer.unknown for layer in found.layers)
    assert not any(layer.units.dead or layer.units.nonlinear for layer in found.layers if layer.noun != "unit")


def later(m, x):
    z = m.encoder(x)
    values, ids = z.topk(5)
    return m.decoded(put(z, ids, (values - 3.0).relu()))  # zero from 3 on, and not from 0 on


@pytest.mark.parametrize("order", [1, -1], ids=["seen late", "seen first"])
def test_every_batch_is_checked(order: int) -> None:
    """That some of the chosen are set to zero shows in one batch only."""
    model, x = Odd(later), torch.rand(20, WIDTH)
    with torch.no_grad():
        model.before[0].weight.copy_(torch.eye(WIDTH))
        model.encoder.weight.copy_(torch.rand(MANY, WIDTH) + 1)
    batches = [10 * x[:10], 0.1 * x[10:]][::order]
    h = [model.encoder(model.before(batch)).topk(5).values > 3 for batch in batches]
    assert {bool(each.all()) for each in h} == {True, False}
    found = alive.census(model, batches)
    assert found.unseen
    assert not any(layer.units.dead or layer.units.nonlinear for layer in found.layers if layer.noun != "unit")


# No units


def spread(m, x):
    z = m.encoder(x)
    return (z / (z - z.max(-1, keepdim=True).values).exp().sum(-1, keepdim=True)) @ m.table


def scaled_by_the_largest(m, x):
    z = m.encoder(x)
    return (z * (1 / z.abs().max(-1, keepdim=True).values)) @ m.table


def pairs_sorted(m, x):
    return m.encoder(x).view(len(x), -1, 2).sort(-1).values.flatten(1) @ m.table


def largest_of_pairs(m, x):
    return m.encoder(x).view(len(x), -1, 2).max(-1).values @ m.table[::2]


@pytest.mark.parametrize("go", [spread, scaled_by_the_largest, pairs_sorted, largest_of_pairs])
def test_the_largest_value_alone_chooses_nobody(go: Any) -> None:
    found = alive.census(Odd(go), data())
    assert [layer.noun for layer in found.layers] == ["unit"]
    assert not found.unseen


# The penalty


def test_the_penalty_asks_for_the_ranks_that_are_used() -> None:
    """Of a top-3 of which two are used, what is to be reached is the second largest, in every pass."""
    model, x = Odd(second_best_for_the_load), data()[0]
    z = model.gate(model.before(x)) + model.order[:EXPERTS]
    others = [[sorted(row[:j] + row[j + 1 :])[-2] for j in range(len(row))] for row in z.tolist()]
    wanted = torch.relu(1 - (z - torch.tensor(others)).amax(0)).square().mean()
    (weight,) = torch.autograd.grad(wanted, model.gate.weight)
    with alive.Jumpstart(model, 1.0, mode="U", against="death", layers=["topk"]) as keep:
        for _ in range(3):
            model.zero_grad()
            model(x)
            penalty = keep.penalty()
            penalty.backward()
            assert penalty.item() == pytest.approx(wanted.item(), rel=1e-5)
            assert torch.allclose(model.gate.weight.grad, weight, atol=1e-6)


def detached(m, x):
    z = m.encoder(x)
    return m.decoded(z * torch.zeros_like(z).scatter(-1, z.detach().topk(5).indices, 1.0))


def without_gradient(m, x):
    z = m.encoder(x)
    with torch.no_grad():
        mask = torch.zeros_like(z).scatter(-1, z.topk(5).indices, 1.0)
    return m.decoded(z * mask)


@pytest.mark.parametrize("go", [detached, without_gradient])
def test_a_penalty_that_moves_nothing_is_told(go: Any) -> None:
    model, x = Odd(go), data()[0]
    with alive.Jumpstart(model, 1.0, mode="U", against="death", layers=["topk"]) as keep:
        with pytest.warns(UserWarning, match=r"topk is not penalised: its scores are detached"):
            model(x)
        assert keep.penalty() == 0
