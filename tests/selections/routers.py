"""Codebooks, experts, and choices that are of no units, as people spell them; each keeps which were chosen in `hit`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

CODES, EXPERTS, WIDTH = 16, 6, 8


class Model(nn.Module):
    """go(model, x) is its forward."""

    def __init__(self, go: Callable[[Any, Tensor], Any], **parts: Any) -> None:
        super().__init__()
        self.go, self.hit = go, set()
        for name, part in parts.items():
            if isinstance(part, Tensor) and not isinstance(part, nn.Parameter):
                self.register_buffer(name, part)
            else:
                setattr(self, name, part)

    def forward(self, x: Tensor) -> Any:
        return self.go(self, x)


# Codebooks: each gives the rows and the ids of the codes nearest to z


def squares(z: Tensor, table: Tensor) -> Tensor:
    return z.pow(2).sum(-1, keepdim=True) + table.pow(2).sum(-1) - 2 * z @ table.t()


def by_distance(z, table):
    ids = torch.cdist(z, table).argmin(-1)
    return table[ids], ids


def by_squares(z, table):
    ids = torch.argmin(squares(z, table), dim=1)
    return F.embedding(ids, table), ids


def by_one_hot(z, table):
    ids = squares(z, table).argmin(1)
    return F.one_hot(ids, CODES).to(z.dtype) @ table, ids


def by_scatter(z, table):
    ids = squares(z, table).argmin(1).unsqueeze(1)
    rows = torch.zeros(len(ids), CODES)
    rows.scatter_(1, ids, 1)
    return torch.matmul(rows, table), ids


def by_addmm(z, table):
    lengths = table.pow(2).sum(1) + z.pow(2).sum(1, keepdim=True)
    _, ids = torch.min(torch.addmm(lengths, z, table.t(), alpha=-2.0), dim=1)
    return table.index_select(0, ids), ids


def by_difference(z, table):
    ids = (z[:, None] - table[None]).norm(dim=-1).argmin(-1)
    return table[ids], ids


def by_angle(z, table):
    ids = (F.normalize(z, dim=-1) @ F.normalize(table, dim=-1).t()).max(-1).indices
    return table[ids], ids


def by_top_one(z, table):
    ids = (-torch.cdist(z, table)).topk(1, -1).indices
    return table[ids[:, 0]], ids


def by_gumbel(z, table):
    rows = F.gumbel_softmax(-1e6 * torch.cdist(z, table), hard=True)
    return rows @ table, rows.argmax(-1)


def mean_of_three(z, table):
    ids = torch.cdist(z, table).topk(3, largest=False).indices
    return table[ids].mean(1), ids


LOOKUPS = [by_distance, by_squares, by_one_hot, by_scatter, by_addmm]
LOOKUPS += [by_difference, by_angle, by_top_one, by_gumbel, mean_of_three]
TABLES = {
    "parameter": lambda: nn.Parameter(torch.randn(CODES, WIDTH)),
    "buffer": lambda: torch.randn(CODES, WIDTH),
    "embedding": lambda: nn.Embedding(CODES, WIDTH),
}


def codebook(look_up: Callable[[Tensor, Tensor], tuple[Tensor, Tensor]], table: str) -> Model:
    def go(m, x):
        z = m.encode(x)
        q, ids = look_up(z, m.table.weight if isinstance(m.table, nn.Embedding) else m.table)
        m.hit = set(ids.flatten().tolist())
        return m.decode(z + (q - z).detach()).relu()

    return Model(go, encode=nn.Linear(6, WIDTH), decode=nn.Linear(WIDTH, 4), table=TABLES[table]())


# Experts


def expert_modules() -> nn.ModuleList:
    return nn.ModuleList(nn.Sequential(nn.Linear(6, 8), nn.ReLU(), nn.Linear(8, 6)) for _ in range(EXPERTS))


ROUTERS: dict[str, Callable[[Any, Tensor], Tensor]] = {}


def router(go: Callable[[Any, Tensor], Tensor]) -> Callable[[Any, Tensor], Tensor]:
    ROUTERS[go.__name__] = go
    return go


def routed(go: Callable[[Any, Tensor], Tensor]) -> Model:
    experts = nn.Parameter(torch.randn(EXPERTS, 6, 6))
    return Model(go, gate=nn.Linear(6, EXPERTS), noise=nn.Linear(6, EXPERTS), experts=expert_modules(), weights=experts)


@router
def all_run_and_few_count(m, x):
    p = m.gate(x).softmax(-1)
    values, ids = p.topk(2)
    m.hit = set(ids.flatten().tolist())
    share = torch.zeros_like(p).scatter(-1, ids, values)
    return (torch.stack([e(x) for e in m.experts], 1) * share[..., None]).sum(1)


@router
def all_run_summed_by_einsum(m, x):
    p = m.gate(x).softmax(-1)
    values, ids = p.topk(2)
    m.hit = set(ids.flatten().tolist())
    share = torch.zeros_like(p).scatter(-1, ids, values)
    return torch.einsum("ne,ned->nd", share, torch.stack([e(x) for e in m.experts], 1))


@router
def softmax_over_the_chosen(m, x):
    z = m.gate(x)
    values, ids = z.topk(2)
    m.hit = set(ids.flatten().tolist())
    share = torch.full_like(z, float("-inf")).scatter(-1, ids, values).softmax(-1)
    out = torch.zeros_like(x)
    for number, expert in enumerate(m.experts):
        rows = (ids == number).any(-1)
        if rows.any():
            out[rows] += expert(x[rows]) * share[rows, number][:, None]
    return out


@router
def sorted_by_expert(m, x):
    z = m.gate(x) + 0 * F.softplus(m.noise(x))
    values, ids = z.topk(2, dim=1)
    m.hit = set(ids.flatten().tolist())
    gates = torch.zeros_like(z).scatter(1, ids, values.softmax(1))
    pairs, order = torch.nonzero(gates).sort(0)
    rows = torch.nonzero(gates)[order[:, 1], 0]
    parts = torch.split(x[rows], (gates > 0).sum(0).tolist())
    out = torch.cat([expert(part) for expert, part in zip(m.experts, parts, strict=True)])
    return torch.zeros_like(x).index_add(0, rows, out * gates[rows].gather(1, pairs[:, 1:]))


@router
def dispatched_by_einsum(m, x):
    share, ids = m.gate(x).softmax(-1).max(-1)
    m.hit = set(ids.tolist())
    one_hot = F.one_hot(ids, EXPERTS).float()
    slot = ((one_hot.cumsum(0) * one_hot).sum(-1) - 1).long()
    sent = one_hot[..., None] * F.one_hot(slot, len(x)).float()[:, None]
    inside = torch.einsum("nes,nd->esd", sent, x)
    out = torch.stack([expert(inside[e]) for e, expert in enumerate(m.experts)])
    return torch.einsum("nes,esd->nd", sent * share[:, None, None], out)


@router
def weights_gathered(m, x):
    ids = m.gate(x).argmax(-1)
    m.hit = set(ids.tolist())
    return torch.bmm(x[:, None], m.weights[ids])[:, 0].relu()


# Choices of no units

OTHERS: dict[str, Callable[[], tuple[Model, Tensor]]] = {}


def other(make: Callable[[], tuple[Model, Tensor]]) -> Callable[[], tuple[Model, Tensor]]:
    OTHERS[make.__name__] = make
    return make


def heads() -> dict[str, nn.Module]:
    return {name: nn.Linear(6, 8) for name in "qkv"} | {"out": nn.Linear(8, 4)}


@other
def a_prediction():
    def go(m, x):
        y = m.b(m.a(x).relu())
        return y, y.argmax(-1)

    return Model(go, a=nn.Linear(6, 8), b=nn.Linear(8, 4)), torch.randn(20, 6)


@other
def an_accuracy():
    def go(m, x):
        y = m.b(m.a(x).relu())
        m.accuracy = (y.argmax(-1) == 0).float().mean().item()
        return y

    return Model(go, a=nn.Linear(6, 8), b=nn.Linear(8, 4)), torch.randn(20, 6)


@other
def hard_attention():
    def go(m, x):
        v, ids = m.v(x), (m.q(x) @ m.k(x).mT).argmax(-1)
        return m.out(v.gather(1, ids[..., None].expand_as(v)).relu())

    return Model(go, **heads()), torch.randn(20, 5, 6)


@other
def attention_to_a_few():
    def go(m, x):
        s = m.q(x) @ m.k(x).mT
        s = s.masked_fill(s < s.topk(2, -1).values[..., -1:], -1e9)
        return m.out((s.softmax(-1) @ m.v(x)).relu())

    return Model(go, **heads()), torch.randn(20, 5, 6)


@other
def neighbours():
    def go(m, x):
        h = m.q(x)
        near = torch.cdist(h, h).topk(3, largest=False).indices
        return m.out(torch.stack([h[b][near[b]].mean(1) for b in range(len(h))]).relu())

    return Model(go, **heads()), torch.randn(10, 5, 6)


@other
def largest_over_time():
    def go(m, x):
        return m.last(m.q(x).topk(3, 1).values.relu().flatten(1))

    return Model(go, **heads(), last=nn.Linear(24, 4)), torch.randn(10, 5, 6)


@other
def tokens_dropped():
    def go(m, x):
        ids = m.score(x)[..., 0].topk(3, 1).indices
        return m.out(m.q(x.gather(1, ids[..., None].expand(-1, -1, 6))).relu())

    return Model(go, **heads(), score=nn.Linear(6, 1)), torch.randn(10, 5, 6)


@other
def padding_masked():
    def go(m, x):
        h = m.q(x)
        there = (x.abs().sum(-1) > 3)[..., None].expand_as(h)
        return m.out((h * there).relu())

    return Model(go, **heads()), torch.randn(10, 5, 6)


@other
def dropped_by_hand():
    def go(m, x):
        h = m.q(x)
        return m.out((h * (torch.rand_like(h) > 0.5)).relu())

    return Model(go, **heads()), torch.randn(10, 6)
