"""Beasts with ids that the data tell: places between edges, the different values there are, words that are drawn."""

from __future__ import annotations

import torch
from case import along, case, lean, leaning
from notebook import Made, note, noted, plant
from torch import nn

MANY = torch.tensor(-1)


def table(rows, width=3):
    """An embedding whose rows grow from negative to positive."""
    embedding = nn.Embedding(rows, width)
    with torch.no_grad():
        embedding.weight.copy_(torch.linspace(-2, 2, rows)[:, None] + 0.3 * torch.randn(rows, width))
    return embedding


def last(inputs, units=4):
    layer = nn.Linear(inputs, units)
    lean(layer)
    plant(layer, dead=(1,), by=20.0)
    return layer


EDGES = torch.tensor([-1.0, 0.0, 0.5, 1.0])


def bucketed(m, x):
    return note(m.last(m.table(torch.bucketize(x, EDGES)).flatten(1))).relu()


@case("columns in buckets, embedded", "ids", truth=noted)
def buckets():
    return Made(bucketed, table=table(5), last=last(15)), leaning(8, 5)


@case("columns in buckets, as many points as units", "ids", truth=noted)
def buckets_alike():
    return Made(bucketed, table=table(5), last=last(15)), leaning(4, 5)


@case("features in buckets behind a layer, by searchsorted, sequences", "ids", truth=noted)
def searched():
    def go(m, x):
        at = torch.searchsorted(EDGES, note(m.first(x)).relu())
        return note(m.last(m.table(at).flatten(2)), points=0).relu()

    return Made(go, first=last(5, 3), table=table(5), last=last(9)), leaning(6, 3, 5)


def ids(n, *shape, words=7):
    """Sequences of words, of which the first hold small ids and the last large ones."""
    low = torch.linspace(0, words - 3, n).long().view(-1, *[1] * len(shape))
    return low + torch.randint(3, (n, *shape))


def told_once(m, ids):
    values, at = torch.unique(ids, return_inverse=True)
    return note(m.last(m.table(values)[at].flatten(1))).relu()


@case("each word embedded once, by unique", "ids", truth=noted)
def words_once():
    return Made(told_once, table=table(7), last=last(12)), ids(8, 4)


@case("each word embedded once, in batches of several lengths", "ids", truth=noted)
def words_once_in_batches():
    x = ids(12, 4)
    return Made(told_once, table=table(7), last=last(12)), [x[:3], x[3:8], x[8:]]


@case("each word once through a layer, then back to its places", "ids", truth=noted)
def layer_once():
    def go(m, ids):
        values, at = torch.unique(ids, return_inverse=True)
        h = note(m.first(m.table(values)), point=MANY).relu()  # a row is of all points with that word
        return note(m.last(h[at].flatten(1)), points=0).relu()

    return Made(go, first=last(3, 3), table=table(7), last=last(12)), ids(8, 4)


@case("rows that are there several times go through a layer once", "ids", truth=noted)
def rows_once():
    def go(m, ids):
        values, at = torch.unique(ids, dim=0, return_inverse=True)
        h = note(m.first(m.table(values).flatten(1)), point=MANY).relu()
        return note(m.last(h[at]), points=0).relu()

    return Made(go, first=last(6, 3), table=table(4), last=last(3)), ids(12, 2, words=4)


@case("rows once, back by index_select", "ids", truth=noted)
def rows_once_selected():
    def go(m, ids):
        values, at = torch.unique(ids, return_inverse=True)
        return note(m.last(m.table(values).index_select(0, at.flatten())), points=0).relu()

    return Made(go, table=table(7), last=last(3)), ids(8, 1)


@case("words divided by how often they are there", "ids", truth=noted)
def by_count():
    def go(m, ids):
        _, at, count = torch.unique(ids, return_inverse=True, return_counts=True)
        return note(m.last((m.table(ids) / count[at][..., None]).sum(1))).relu()

    return Made(go, table=table(7), last=last(3)), ids(8, 4)


def certain(z):
    """Probabilities of 1 for the largest: what is drawn is then no chance."""
    return nn.functional.one_hot(z.argmax(-1), z.shape[-1]).float() + 0 * z


def draw(p):
    with torch.random.fork_rng():  # a beast leaves no trace of chance
        return torch.multinomial(p, 1)


@case("a word is drawn and embedded", "ids", truth=noted)
def drawn():
    def go(m, x):
        z = m.first(note(m.before(x)).relu())
        word = draw(certain(z))[:, 0]
        return z, note(m.last(m.table(word)), points=0).relu()

    return Made(go, before=last(5, 4), first=nn.Linear(4, 7), table=table(7), last=last(3)), leaning(8, 5)


@case("words of sequences are drawn from rows and embedded", "ids", truth=noted)
def drawn_sequences():
    def go(m, x):
        z = m.first(note(m.before(x)).relu())
        word = draw(certain(z).view(-1, 7)).view(x.shape[:2])
        return z, note(m.last(m.table(word)), points=0).relu()

    return Made(go, before=last(5, 4), first=nn.Linear(4, 7), table=table(7), last=last(3)), leaning(6, 3, 5)


@case("a word is drawn by its cumulated probabilities", "ids", truth=noted)
def drawn_by_sums():
    def go(m, x):
        z = m.first(note(m.before(x)).relu())
        word = torch.searchsorted(certain(z).cumsum(-1), torch.full((len(x), 1), 0.5))[:, 0]
        return z, note(m.last(m.table(word)), points=0).relu()

    return Made(go, before=last(5, 4), first=nn.Linear(4, 7), table=table(7), last=last(3)), leaning(8, 5)


@case("greedy decoding, each word fed back", "ids", truth=noted)
def fed_back():
    def go(m, x):
        h, word, out = m.before(x), torch.zeros(len(x), dtype=torch.long), []
        for _ in range(3):
            h = note(m.cell(torch.cat([h, m.table(word)], -1)), point=along(h, 0)).relu()
            out.append(m.first(h))
            word = out[-1].argmax(-1)
        return torch.stack(out, 1)

    parts = {"before": last(5, 4), "cell": last(7, 4), "first": nn.Linear(4, 7), "table": table(7)}
    return Made(go, **parts), leaning(8, 5)
