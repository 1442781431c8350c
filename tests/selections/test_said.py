"""What a model says (words, classes, actions) and what it only arranges (points, places) is no unit; routers and
codebooks beside them are counted as brute force counts. The penalty is as if nothing of the former were there.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

import alive

WORDS, WIDTH, STEPS = 11, 6, 3


class Model(nn.Module):
    """go(model, *inputs) is its forward; where `asked`, it keeps in `chosen` who was [rows, C], of each choice."""

    def __init__(self, go: Callable[..., Any], **parts: Any) -> None:
        super().__init__()
        self.go, self.asked = go, False
        self.chosen: list[Tensor] = []
        self.hidden, self.cell, self.head = nn.Linear(5, WIDTH), nn.Linear(2 * WIDTH, WIDTH), nn.Linear(WIDTH, WORDS)
        self.words, self.last = nn.Embedding(WORDS, WIDTH), nn.Linear(WIDTH, 4)
        self.first = nn.Parameter(torch.randn(WIDTH))
        for name, part in parts.items():
            if isinstance(part, Tensor) and not isinstance(part, nn.Parameter):
                self.register_buffer(name, part)
            else:
                setattr(self, name, part)

    def forward(self, *inputs: Any) -> Any:
        return self.go(self, *inputs)

    def chose(self, ids: Tensor, count: int) -> None:
        """Keep who was chosen, told by ids [rows, k]."""
        if self.asked:
            self.chosen.append((ids[..., None] == torch.arange(count)).flatten(1, -2).any(1))


def rows(n: int = 8, *shape: int) -> Tensor:
    return torch.randn(n, *shape, 5)


def run(model: nn.Module, inputs: Any) -> Any:
    return model(*inputs)


def looked_at(make: Callable[[], tuple[Model, Any]]) -> tuple[Model, Any]:
    torch.manual_seed(3)
    model, inputs = make()
    return model, inputs if isinstance(inputs, tuple) else (inputs,)


def census(make: Callable[[], tuple[Model, Any]]) -> Any:
    model, inputs = looked_at(make)
    return alive.census(model, [inputs, inputs], forward=run)


def penalty(make: Callable[[], tuple[Model, Any]], **options: Any) -> float:
    model, inputs = looked_at(make)
    with warnings.catch_warnings(), alive.Jumpstart(model, **options) as keep:
        warnings.simplefilter("ignore")
        for _ in range(2):
            torch.manual_seed(5)
            run(model, inputs)
        return keep.penalty().item()


# Words


Pick = Callable[[Tensor], Tensor]


def greedy(z: Tensor) -> Tensor:
    return z.argmax(-1)


def most_likely(z: Tensor) -> Tensor:
    return z.softmax(-1).max(-1).indices


def best_of_one(z: Tensor) -> Tensor:
    return z.topk(1).indices[:, 0]


def drawn(z: Tensor) -> Tensor:
    return torch.multinomial(z.softmax(-1), 1)[:, 0]


def drawn_by_distribution(z: Tensor) -> Tensor:
    return torch.distributions.Categorical(logits=z).sample()


def drawn_by_noise(z: Tensor) -> Tensor:
    return (z - torch.log(-torch.log(torch.rand_like(z)))).argmax(-1)


def drawn_by_waiting_times(z: Tensor) -> Tensor:
    return (z.softmax(-1) / torch.empty_like(z).exponential_(1)).argmax(-1)


def among_the_best(z: Tensor) -> Tensor:
    kth = torch.topk(z, 3).values[:, [-1]]
    return drawn(z.masked_fill(z < kth, -float("inf")))


def among_the_best_in_place(z: Tensor) -> Tensor:
    z = z / 0.8
    z[z < torch.topk(z, 3).values[:, [-1]]] = -float("inf")
    return drawn(z)


def among_the_best_by_where(z: Tensor) -> Tensor:
    return drawn(torch.where(z < z.topk(3).values[:, -1:], torch.full_like(z, -1e9), z))


def among_the_best_scattered(z: Tensor) -> Tensor:
    values, ids = z.topk(3)
    return torch.full_like(z, -float("inf")).scatter_(-1, ids, values).softmax(-1).argmax(-1)


def among_the_best_gathered(z: Tensor) -> Tensor:
    values, ids = z.topk(3)
    return ids.gather(-1, torch.multinomial(values.softmax(-1), 1))[:, 0]


def among_the_best_of_probabilities(z: Tensor) -> Tensor:
    p = z.softmax(-1)
    p = torch.where(p < p.topk(3).values[:, -1:], torch.zeros_like(p), p)
    return torch.multinomial(p / p.sum(-1, keepdim=True), 1)[:, 0]


def nucleus(z: Tensor) -> Tensor:
    best, ids = z.sort(descending=True)
    late = best.softmax(-1).cumsum(-1) > 0.8
    late[:, 1:], late[:, 0] = late[:, :-1].clone(), False
    return drawn(z.masked_fill(late.scatter(1, ids, late), -float("inf")))


PICKS: list[Pick] = [greedy, most_likely, best_of_one, drawn, drawn_by_distribution, drawn_by_noise]
PICKS += [drawn_by_waiting_times, among_the_best, among_the_best_in_place, among_the_best_by_where]
PICKS += [among_the_best_scattered, among_the_best_gathered, among_the_best_of_probabilities, nucleus]


def decoder(pick: Pick, *, begins: str = "token", tied: bool = False, returns: str = "state") -> Any:
    """Words one after the other, each fed back."""

    def go(m: Any, x: Tensor) -> Any:
        h, said = m.hidden(x), []
        e = m.words(torch.zeros(len(x), dtype=torch.long)) if begins == "token" else m.first.expand(len(x), -1)
        for _ in range(STEPS):
            h = m.cell(torch.cat([h, e], -1)).relu()
            said.append(h @ m.words.weight.t() if tied else m.head(h))
            e = m.words(pick(said[-1]))
        return torch.stack(said, 1) if returns == "scores" else h

    return lambda: (Model(go), rows())


def from_a_prompt(m, ids):
    for _ in range(STEPS):
        z = m.head(m.words(ids).cumsum(1).relu())[:, -1]
        ids = torch.cat([ids, drawn(z)[:, None]], 1)
    return ids


def several_words_at_once(m, ids):  # a table of words for each of two voices, in one parameter
    voices = torch.arange(2)
    for _ in range(STEPS):
        h = m.last(m.voices[voices, ids].sum(1)).relu()
        ids = m.both(h).view(len(ids), 2, WORDS).argmax(-1)
    return h


def until_all_have_ended(m, ids):
    for _ in range(STEPS):
        z = m.head(m.words(ids).cumsum(1).relu())[:, -1]
        token = z.argmax(-1)
        if token.tolist() == [0] * len(ids) or token[0].item() == WORDS:
            break
        ids = torch.cat([ids, token[:, None]], 1)
    return ids


def teacher_and_own(m, ids):
    h, token, said = m.first.expand(len(ids), -1), ids[:, 0], []
    for t in range(STEPS):
        h = m.cell(torch.cat([h, m.words(token)], -1)).relu()
        said.append(m.head(h))
        token = torch.where(torch.arange(len(ids)) % 2 > 0, ids[:, t + 1], said[-1].argmax(-1))
    return torch.stack(said, 1)


def loss_of_what_is_said(m, x, y):
    h, e, loss = m.hidden(x), m.first.expand(len(x), -1), 0
    for t in range(STEPS):
        h = m.cell(torch.cat([h, e], -1)).relu()
        z = m.head(h)
        loss = loss + F.cross_entropy(z, y[:, t])
        e = m.words(z.argmax(-1))
    return loss


def filled_in(m, ids):  # the surest words stay, the others are masked again
    z = m.head(m.words(ids).relu())
    sure, best = z.softmax(-1).max(-1)
    keep = sure.topk(2, 1).indices
    again = torch.full_like(ids, WORDS - 1).scatter(1, keep, best.gather(1, keep))
    return m.head(m.words(again).relu())


def only_filtered(m, ids):
    z = m.head(m.words(ids).relu())
    return z.masked_fill(z < z.topk(3).values[..., -1:], -torch.inf).softmax(-1)


def soft_words(m, ids):
    z = m.head(m.words(ids).relu())
    p = z.masked_fill(z < z.topk(3).values[..., -1:], -torch.inf).softmax(-1)
    return m.last(p @ m.words.weight).relu()


def class_and_what_depends_on_it(m, x):
    h = m.hidden(x).relu()
    z = m.head(h)
    return z, m.last(m.words(z.argmax(-1)) * h).relu()


def weight_of_the_class(m, x):
    z = m.head(m.hidden(x).relu())
    return z * m.each[z.argmax(-1)][:, None]


def confusion(m, x, y):
    z = m.head(m.hidden(x).relu())
    p = z.argmax(-1)
    m.table.index_put_((y, p), torch.ones(len(x)), accumulate=True)
    return z, torch.bincount(y * WORDS + p, minlength=WORDS**2)


def confusion_in_place(m, x, y):
    z = m.head(m.hidden(x).relu())
    m.table[y, z.argmax(-1)] += 1
    return z


def value_of_the_best_action(m, x):
    h = m.hidden(x).relu()
    return m.head(h).gather(1, m.other(h).argmax(-1, keepdim=True))


def value_of_the_best_action_by_mask(m, x):
    h = m.hidden(x).relu()
    return (m.head(h) * F.one_hot(m.other(h).argmax(-1), WORDS)).sum(-1)


def out_where_sure(m, x):
    h = m.hidden(x).relu()
    z = m.head(h)
    unsure = z.softmax(-1).max(-1).values < 0.3
    out = m.last(h)
    out[unsure] = m.last(m.cell(torch.cat([h[unsure], h[unsure]], -1)).relu())
    return out, z


def only_the_foreground(m, x):
    h = m.hidden(x).relu()
    thing = m.head(h).argmax(-1) > 3
    return m.last(h[thing]).relu()


def labels_of_its_own(m, x):
    h = m.hidden(x).relu()
    z = m.head(h)
    sure = z.softmax(-1).max(-1).values > 0.1
    return m.last(h).relu(), (F.cross_entropy(z, z.argmax(-1), reduction="none") * sure).mean()


def ids_of_one_hot_inputs(m, x):
    return m.last(m.words(x.argmax(-1))).relu()


def ids(*shape: int) -> Tensor:
    return torch.randint(WORDS - 1, shape)


def of(go: Callable[..., Any], *inputs: Callable[[], Tensor], **parts: Callable[[], Any]) -> Any:
    def make() -> tuple[Model, Any]:
        return Model(go, **{name: part() for name, part in parts.items()}), tuple(make() for make in inputs)

    return make


def words(n: int = 8, t: int = 4) -> Callable[[], Tensor]:
    return lambda: ids(n, t)


SAID = {pick.__name__: decoder(pick) for pick in PICKS} | {
    "scores come out": decoder(greedy, begins="state", returns="scores"),
    "scores come out, drawn": decoder(among_the_best, begins="state", returns="scores"),
    "tied": decoder(greedy, tied=True),
    "from a prompt": of(from_a_prompt, words()),
    "until all have ended": of(until_all_have_ended, words()),
    "several words at once": of(
        several_words_at_once,
        lambda: ids(8, 2),
        voices=lambda: nn.Parameter(torch.randn(2, WORDS, WIDTH)),
        both=lambda: nn.Linear(4, 2 * WORDS),
    ),
    "out where it is sure": of(out_where_sure, rows),
    "labels of its own": of(labels_of_its_own, rows),
    "only what is no background": of(only_the_foreground, rows),
    "teacher and own words": of(teacher_and_own, words()),
    "loss of what is said": of(loss_of_what_is_said, rows, words()),
    "filled in": of(filled_in, words()),
    "only filtered": of(only_filtered, words()),
    "soft words": of(soft_words, words()),
    "a class, and what depends on it": of(class_and_what_depends_on_it, rows),
    "weight of the class": of(weight_of_the_class, rows, each=lambda: torch.rand(WORDS)),
    "confusion": of(confusion, rows, lambda: ids(8), table=lambda: torch.zeros(WORDS, WORDS)),
    "confusion in place": of(confusion_in_place, rows, lambda: ids(8), table=lambda: torch.zeros(WORDS, WORDS)),
    "value of the best action": of(value_of_the_best_action, rows, other=lambda: nn.Linear(WIDTH, WORDS)),
    "the same by a mask": of(value_of_the_best_action_by_mask, rows, other=lambda: nn.Linear(WIDTH, WORDS)),
    "one-hot inputs": of(ids_of_one_hot_inputs, lambda: F.one_hot(ids(8), WORDS).float()),
}


# Points and places


def anchors_and_classes(m, x):
    h = m.conv(x).relu()
    n, scores, boxes = len(x), m.classes(h), m.boxes(h)
    scores = scores.view(n, 2, 3, 4, 4).permute(0, 3, 4, 1, 2).reshape(n, -1, 3).sigmoid()
    boxes = boxes.view(n, 2, 4, 4, 4).permute(0, 3, 4, 1, 2).reshape(n, -1, 4)
    best, at = scores.flatten(1).topk(5)
    return best, at % 3, boxes.gather(1, (at // 3)[..., None].expand(-1, -1, 4))


def regions(m, x):
    h = m.conv(x).relu()
    n, scores = len(x), m.anchors(h).permute(0, 2, 3, 1).flatten(1)
    boxes = m.boxes(h).view(n, 2, 4, 4, 4).permute(0, 3, 4, 1, 2).reshape(n, -1, 4)
    at = scores.topk(5, dim=1).indices
    return m.refine(boxes[torch.arange(n)[:, None], at]).relu()


def queries_and_classes(m, x):
    h = m.hidden(x).relu()
    scores, boxes = m.head(h).sigmoid(), m.last(h)
    best, at = scores.view(len(x), -1).topk(4, 1)
    return best, boxes.gather(1, (at // WORDS)[..., None].repeat(1, 1, 4)), at % WORDS


def heads_and_classes(m, x):
    h = m.hidden(x).relu()
    scores, boxes = m.scores(h).view(len(x), 7, 3), m.places(h).view(len(x), 7, 4)
    at = scores.flatten(1).topk(4, 1).indices
    return m.refine(boxes.gather(1, (at // 3)[..., None].repeat(1, 1, 4))).relu()


def merged_tokens(m, x):
    h = m.hidden(x).relu()
    k = m.last(h)
    near, to = (k[:, ::2] @ k[:, 1::2].mT).max(-1)
    order = near.argsort(dim=-1, descending=True)[..., None]
    stay, go, n = order[:, 2:], order[:, :2], len(x)
    a, b = h[:, ::2], h[:, 1::2]
    to = to[..., None].gather(-2, go).expand(n, 2, WIDTH)
    b = b.scatter_reduce(-2, to, a.gather(-2, go.expand(n, 2, WIDTH)), reduce="mean")
    return m.last(torch.cat([a.gather(-2, stay.expand(n, -1, WIDTH)), b], 1)).relu()


def merged_by_a_matrix(m, x):
    h = m.hidden(x).relu()
    to = (h[:, ::2] @ h[:, 1::2].mT).max(-1).indices
    return m.last(h[:, 1::2] + torch.eye(4)[to].mT @ h[:, ::2]).relu() + m.last(m.words.weight[:4][to]).relu()


def best_paths(m, x):
    n, k = len(x), 2
    h = m.hidden(x).relu()
    z = m.head(h + m.words(torch.zeros(n, dtype=torch.long))).log_softmax(-1)
    score, token = z.topk(k, -1)
    h = h[:, None].expand(-1, k, -1)
    for _ in range(2):
        h = m.cell(torch.cat([h, m.words(token)], -1)).relu()
        z = m.head(h).log_softmax(-1) + score[..., None]
        score, at = z.view(n, -1).topk(k, -1)
        h, token = h.gather(1, (at // WORDS)[..., None].expand(-1, -1, WIDTH)), at % WORDS
    return score, token


def neighbours_in_a_set(m, x):
    h = m.hidden(x).relu()
    near, n = torch.cdist(h, h).topk(3, largest=False).indices, torch.arange(len(x))[:, None, None]
    return m.last((h[n, near] - h[:, :, None]).amax(2)).relu()


def attention_to_the_best(m, x):
    h = m.hidden(x).relu()
    s = h @ h.mT
    values, at = s.topk(2, -1)
    return m.last(torch.full_like(s, -torch.inf).scatter(-1, at, values).softmax(-1) @ h).relu()


def pooled_and_back(m, x):
    h, at = F.max_pool2d(m.conv(x).relu(), 2, return_indices=True)
    return m.classes(F.max_unpool2d(h, at, 2)).relu()


def suppressed(m, x):
    h = m.hidden(x).relu()
    order = m.last(h)[..., 0].argsort(descending=True)
    h = h.gather(1, order[..., None].expand_as(h))
    hidden_by = (torch.cdist(h, h) < 0.1).triu(1).any(1)
    return m.last(h * ~hidden_by[..., None]).relu()


def maps() -> Tensor:
    return torch.randn(3, 2, 4, 4)


VISION = {
    "conv": lambda: nn.Conv2d(2, 4, 3, padding=1),
    "classes": lambda: nn.Conv2d(4, 6, 1),
    "boxes": lambda: nn.Conv2d(4, 8, 1),
    "anchors": lambda: nn.Conv2d(4, 2, 1),
    "refine": lambda: nn.Linear(4, 5),
}
ARRANGED = {
    "anchors and classes": of(anchors_and_classes, maps, **VISION),
    "regions": of(regions, maps, **VISION),
    "queries and classes": of(queries_and_classes, lambda: rows(4, 7)),
    "heads and classes": of(
        heads_and_classes,
        rows,
        scores=lambda: nn.Linear(WIDTH, 21),
        places=lambda: nn.Linear(WIDTH, 28),
        refine=lambda: nn.Linear(4, 3),
    ),
    "merged tokens": of(merged_tokens, lambda: rows(3, 8)),
    "tokens merged by a matrix": of(merged_by_a_matrix, lambda: rows(5, 8)),
    "best paths": of(best_paths, rows),
    "neighbours in a set": of(neighbours_in_a_set, lambda: rows(3, 8)),
    "attention to the best": of(attention_to_the_best, lambda: rows(3, 8)),
    "pooled and back": of(pooled_and_back, maps, **VISION),
    "suppressed": of(suppressed, lambda: rows(3, 8)),
}


@pytest.mark.parametrize("make", [*SAID.values(), *ARRANGED.values()], ids=[*SAID, *ARRANGED])
def test_what_is_said_or_arranged_is_no_unit(make: Any) -> None:
    found = census(make)
    assert [(layer.name, layer.noun) for layer in found.layers if layer.noun != "unit"] == []
    assert not found.unseen
    assert penalty(make) == pytest.approx(penalty(make, selections=False), rel=1e-6)


# Told: nothing shows whether it is said


def action_looked_up(m, x):
    h = m.hidden(x).relu()
    return m.last(h * m.words(m.head(h).argmax(-1)).relu())


def action_as_one_hot(m, x):
    h = m.hidden(x).relu()
    return m.last(m.both(torch.cat([h, F.one_hot(m.head(h).argmax(-1), WORDS).float()], -1)).relu())


def buckets_by_rotations(m, x):  # as attention does that looks for neighbours in buckets
    h = m.hidden(x).relu()
    turned = h @ m.rotation
    order = torch.cat([turned, -turned], -1).argmax(-1).argsort(-1)
    return m.last(h.gather(1, order[..., None].expand_as(h))).relu()


def product_keys(m, x):
    q = m.hidden(x).view(len(x), 2, 3)
    values, at = torch.einsum("nhd,hkd->nhk", q, m.keys).topk(2, -1)
    both = (values[:, 0, :, None] + values[:, 1, None]).flatten(1)
    rows = (at[:, 0, :, None] * 4 + at[:, 1, None]).flatten(1)
    weights, best = both.topk(2, -1)
    return m.last((m.memory(rows.gather(-1, best)) * weights.softmax(-1)[..., None]).sum(1).relu())


def product_of_two_codes(m, x):
    q = m.hidden(x).relu().view(len(x), 2, 3)
    at = torch.einsum("nhd,hkd->nhk", q, m.keys).argmax(-1)
    return m.last(m.memory(at[:, 0] * 4 + at[:, 1]).relu())


MEMORY = {"keys": lambda: nn.Parameter(torch.randn(2, 4, 3)), "memory": lambda: nn.Embedding(16, 4)}
MEMORY["last"] = lambda: nn.Linear(4, 2)
TOLD = {
    "nothing given, nothing returned": decoder(greedy, begins="state"),
    "tied, and the scores come out": decoder(greedy, begins="state", tied=True, returns="scores"),
    "an action that is looked up": of(action_looked_up, rows),
    "an action as one-hot": of(action_as_one_hot, rows, both=lambda: nn.Linear(WIDTH + WORDS, WIDTH)),
    "buckets by rotations": of(buckets_by_rotations, lambda: rows(3, 8), rotation=lambda: torch.randn(WIDTH, 2)),
    "product keys": of(product_keys, rows, **MEMORY),
    "a row by two codes": of(product_of_two_codes, rows, **MEMORY),
}


@pytest.mark.parametrize("make", TOLD.values(), ids=TOLD)
def test_what_may_be_said_is_told(make: Any) -> None:
    found = census(make)
    assert [(layer.name, layer.noun) for layer in found.layers if layer.noun != "unit"] == []
    assert "never chosen is not counted" in found.unseen[0].why
    assert penalty(make) == pytest.approx(penalty(make, selections=False), rel=1e-6)


# Counted


def experts(count: int = 6) -> nn.ModuleList:
    return nn.ModuleList(nn.Linear(5, 5) for _ in range(count))


def gate(count: int = 6, *, collapsed: bool = True) -> nn.Linear:
    """One that sends all to the same two experts, in one order or the other; or one that is as it comes."""
    layer = nn.Linear(5, count)
    if collapsed:
        with torch.no_grad():
            layer.bias.zero_()[1:3] = 30.0
    return layer


def by_slots(m, x):
    share, at = m.gate(x).softmax(-1).topk(2, -1)
    m.chose(at, 6)
    out = torch.zeros_like(x)
    for e, expert in enumerate(m.experts):
        rows, slot = (at == e).nonzero(as_tuple=True)
        if len(rows):
            out.index_add_(0, rows, expert(x[rows]).relu() * share[rows, slot, None])
    return out


def by_where(m, x):
    share, at = m.gate(x).softmax(-1).topk(2, -1)
    m.chose(at, 6)
    out = torch.zeros_like(x)
    for e, expert in enumerate(m.experts):
        rows, slot = torch.where(at == e)
        out[rows] += expert(x[rows]).relu() * share[rows, slot, None]
    return out


def by_permuted_mask(m, x):  # as Mixtral does
    share, at = m.gate(x).softmax(-1).topk(2, -1)
    m.chose(at, 6)
    mask, out = F.one_hot(at, 6).permute(2, 1, 0), torch.zeros_like(x)
    for e, expert in enumerate(m.experts):
        slot, rows = torch.where(mask[e])
        out.index_add_(0, rows, expert(x[None, rows].reshape(-1, 5)).relu() * share[rows, slot, None])
    return out


def with_a_bias_for_the_load(m, x):  # as DeepSeek-V3 does
    score = m.gate(x).sigmoid()
    at = (score + m.load).topk(2, -1).indices
    m.chose(at, 6)
    share, out = score.gather(1, at), torch.zeros_like(x)
    for e, expert in enumerate(m.experts):
        rows, slot = torch.where(at == e)
        if len(rows):
            out[rows] += expert(x[rows]).relu() * share[rows, slot, None]
    return out


def limited_to_groups(m, x):
    score = m.gate(x).sigmoid() + m.load
    groups = score.view(len(x), 2, 3).topk(2, -1).values.sum(-1)
    mask = torch.zeros_like(groups).scatter_(1, groups.topk(1, -1).indices, 1)
    allowed = mask[..., None].expand(len(x), 2, 3).reshape(len(x), -1).bool()
    at = score.masked_fill(~allowed, 0.0).topk(2, -1).indices
    m.chose(at, 6)
    out = torch.zeros_like(x)
    for e, expert in enumerate(m.experts):
        rows = (at == e).any(-1).nonzero()[:, 0]
        if len(rows):
            out[rows] += expert(x[rows]).relu()
    return out


def sorted_by_expert(m, x):
    share, at = m.gate(x).softmax(-1).topk(2, -1)
    m.chose(at, 6)
    order = at.flatten().argsort(stable=True)
    parts = x[order // 2].split(torch.bincount(at.flatten(), minlength=6).tolist())
    out = torch.cat([expert(part).relu() for expert, part in zip(m.experts, parts, strict=True)])
    back = torch.empty_like(out)
    back[order] = out
    return (back.view(len(x), 2, 5) * share[..., None]).sum(1)


def with_capacity(m, x):
    share, at = m.gate(x).softmax(-1).max(-1)
    m.chose(at[:, None], 6)
    one_hot = F.one_hot(at, 6)
    slot = (one_hot.cumsum(0) * one_hot).sum(-1) - 1
    kept = slot < 3
    buffers = torch.zeros(6, 3, 5)
    buffers[at[kept], slot[kept]] = x[kept]
    out = torch.bmm(torch.bmm(buffers, m.up).relu(), m.down)
    back = torch.zeros_like(x)
    back[kept] = out[at[kept], slot[kept]] * share[kept, None]
    return x + back


def with_shared_experts(m, x):  # the last one is everybody's
    share, at = m.gate(x)[:, :5].softmax(-1).topk(1, -1)
    m.chose(at, 5)
    at = torch.cat([at, torch.full((len(x), 1), 5)], -1)
    h = torch.einsum("nd,nkdf->nkf", x, m.up[at]).relu()
    return torch.einsum("nkf,nkfd->nd", h, m.down[at]) * share


def with_scores_beside(m, x):
    return by_slots(m, x), m.gate(x)


def straight_through(m, x):
    soft = m.gate(x).softmax(-1)
    at = soft.argmax(-1)
    m.chose(at[:, None], 6)
    hard = F.one_hot(at, 6).float()
    return m.out(((hard + soft - soft.detach()) @ m.table).relu()), soft


def hard_rows_of_maps(m, x):  # as a discrete autoencoder of images does, whose scores come out for their loss
    z = m.classes(m.conv(x).relu())
    hard = F.one_hot(z.argmax(1), 6).permute(0, 3, 1, 2).float()
    m.chose(z.argmax(1).flatten()[:, None], 6)
    soft = z.softmax(1)
    return torch.einsum("nchw,cd->ndhw", hard + soft - soft.detach(), m.table).relu(), z


def nearest_and_a_word(m, x):  # codes, and a second model that reads them as words
    z = m.hidden(x)
    at = torch.cdist(z, m.codes).argmin(-1)
    m.chose(at.flatten()[:, None], 6)
    before = torch.cat([torch.zeros(len(x), 1, dtype=torch.long), at[:, :-1]], 1)
    return m.last(m.codes[at]).relu(), m.head(m.words(before)).relu()


def channels(m, x):
    h = m.conv(x).relu()
    best = h.mean((2, 3)).topk(2, 1).indices
    m.chose(best, 4)
    mask = torch.zeros(len(x), 4).scatter(1, best, 1.0)
    return m.classes(h * mask[:, :, None, None]).relu()


ROUTED = {"gate": gate, "experts": experts, "load": lambda: torch.rand(6)}
FREE = ROUTED | {"gate": lambda: gate(collapsed=False)}
STACKED = FREE | {"up": lambda: nn.Parameter(torch.randn(6, 5, 4)), "down": lambda: nn.Parameter(torch.randn(6, 4, 5))}
ROUTERS = [by_slots, by_where, by_permuted_mask, with_a_bias_for_the_load, limited_to_groups, sorted_by_expert]
ROUTERS += [with_scores_beside]
COUNTED: dict[str, tuple[str, Any]] = {
    **{f"{go.__name__}, collapsed": ("expert", of(go, rows, **ROUTED)) for go in ROUTERS},
    **{f"{go.__name__}, free": ("expert", of(go, lambda: rows(3), **FREE)) for go in ROUTERS},
    "with a shared expert": ("expert", of(with_shared_experts, lambda: rows(3), **STACKED)),
    "with capacity": ("expert", of(with_capacity, rows, **STACKED)),
    "straight through": (
        "code",
        of(straight_through, rows, table=lambda: nn.Parameter(torch.randn(6, 4)), out=lambda: nn.Linear(4, 2), **FREE),
    ),
    "rows of maps": ("code", of(hard_rows_of_maps, maps, table=lambda: nn.Parameter(torch.randn(6, 4)), **VISION)),
    "codes that are words too": (
        "code",
        of(nearest_and_a_word, lambda: rows(2, 3), codes=lambda: nn.Parameter(torch.randn(6, WIDTH))),
    ),
    "channels": ("latent", of(channels, maps, **VISION)),
}


@pytest.mark.parametrize(("noun", "make"), COUNTED.values(), ids=COUNTED)
def test_who_is_chosen(noun: str, make: Any) -> None:
    model, inputs = looked_at(make)
    model.asked = True
    with torch.no_grad():
        model.eval()(*inputs)
    (chosen,) = model.chosen
    states = [0 if each.any() and not each.all() else 1 if not each.any() else 2 for each in chosen.t()]
    (layer,) = [layer for layer in census(make).layers if layer.noun != "unit"]
    assert (layer.noun, layer.states.tolist()) == (noun, states)


def test_a_collapsed_router_has_experts_that_are_always_chosen() -> None:
    (layer,) = [one for one in census(COUNTED["by_slots, collapsed"][1]).layers if one.noun == "expert"]
    assert (layer.units.dead, layer.units.linear, layer.units.nonlinear) == (4, 2, 0)
