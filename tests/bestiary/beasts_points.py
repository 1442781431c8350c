"""Beasts whose points move: folded, permuted, repeated, packed, mixed with others, or run one by one."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import torch
import torch.nn.functional as F
from case import Layer, along, case, lean, leaning
from notebook import Made, folded, interleaved, note, noted, noted_by, plant
from readings import read
from torch import nn
from torch.nn.utils import rnn

NOBODY = torch.tensor(-1)


def positive(inputs, outputs, dead=(), linear=()):
    """A dense layer whose units are on for positive inputs and off for negative ones."""
    layer = nn.Linear(inputs, outputs)
    lean(layer)
    plant(layer, dead=dead, linear=linear)
    return layer


@case("transpose(0, 1) between two layers", "points", truth=noted)
def transposed():
    def go(m, x):
        return note(m.b(m.a(x).transpose(0, 1)), points=1).relu()

    return Made(go, a=positive(3, 4), b=positive(4, 5, dead=(1,))), leaning(6, 7, 3)


@case("transpose(0, 1) between two layers, every point dead", "points", truth=noted)
def transposed_dead():
    def go(m, x):
        return note(m.b(m.a(x).transpose(0, 1)), points=1).relu()

    return Made(go, a=positive(3, 4), b=positive(4, 5)), leaning(6, 6, 3) - 9


@case("points and features change places: no entry is a point's", "points", truth=noted)
def mixed_over_points():
    def go(m, x):
        return note(m.b(m.a(x).transpose(0, 1)), point=NOBODY).relu()

    return Made(go, a=positive(3, 6), b=positive(6, 5, dead=(1,))), leaning(6, 3) - 1


@case("points and features change places, and back", "points", truth=noted)
def mixed_and_back():
    def go(m, x):
        h = note(m.a(x)).relu()
        return note(m.b(h.transpose(0, 1)).transpose(0, 1), point=NOBODY, units=0).relu()

    return Made(go, a=positive(6, 6, dead=(5,)), b=positive(6, 6, dead=(1,))), leaning(6, 6)


@case("two views, cat along the batch", "points", truth=noted)
def two_views():
    def go(m, x):
        views = torch.cat([x, -x])
        h = note(m.a(views), point=interleaved(12, 6)).relu()
        return note(m.b(h), point=interleaved(12, 6)).relu()

    return Made(go, a=positive(3, 4, dead=(0,)), b=positive(4, 6, dead=(1,))), leaning(6, 3)


@case("two views of which one is dead throughout", "points", truth=noted)
def two_views_dead():
    def go(m, x):
        return note(m.a(torch.cat([x, x - 9])), point=interleaved(12, 6)).relu()

    return Made(go, a=positive(3, 6)), leaning(6, 3)


@case("views stacked before the batch", "points", truth=noted)
def stacked_views():
    def go(m, x):
        return note(m.a(torch.stack([x, x + 1, x * 2])), points=1).relu()

    return Made(go, a=positive(3, 4, dead=(0,))), leaning(6, 3)


@case("as many views as points, stacked before the batch", "points", truth=noted)
def stacked_views_alike():
    def go(m, x):
        return note(m.a(torch.stack([x, x + 1, x * 2, x - 1])), points=1).relu()

    return Made(go, a=positive(4, 4, dead=(0,))), leaning(4, 4)


@case("views stacked after the batch, folded into it", "points", truth=noted)
def stacked_and_folded():
    def go(m, x):
        views = torch.stack([x, x + 1, x * 2], 1).flatten(0, 1)
        return note(m.a(views), point=folded(18, 3)).relu()

    return Made(go, a=positive(3, 4, dead=(0,))), leaning(6, 3)


@case("time folded into the batch, [N·T, C]", "points", truth=noted)
def folded_by_point():
    def go(m, x):
        n, t, c = x.shape
        return note(m.a(x.reshape(n * t, c)), point=folded(n * t, t)).relu().view(n, t, -1)

    return Made(go, a=positive(3, 4, dead=(0,))), leaning(6, 5, 3)


@case("time folded into the batch the other way, [T·N, C]", "points", truth=noted)
def folded_by_time():
    def go(m, x):
        n, t, c = x.shape
        return note(m.a(x.transpose(0, 1).reshape(t * n, c)), point=interleaved(t * n, n)).relu()

    return Made(go, a=positive(3, 4, dead=(0,))), leaning(6, 5, 3)


@case("time folded into the batch the other way, as long as the batch", "points", truth=noted)
def folded_by_time_alike():
    def go(m, x):
        n, t, c = x.shape
        return note(m.a(x.transpose(0, 1).reshape(t * n, c)), point=interleaved(t * n, n)).relu()

    return Made(go, a=positive(6, 6, dead=(0,))), leaning(6, 6, 6)


def in_chunks(name):
    def go(m, x):
        start, out = 0, []
        for part in x.chunk(2):
            z = m.a(part)
            out.append(note(z, point=along(z, 0) + start, name=name).relu())
            start += len(part)
        return torch.cat(out)

    def truth(model, batch):
        model.go = go
        return noted(model, batch)

    return go, truth


@case("a forward in two halves of the batch", "points", truth=in_chunks("")[1], others=(in_chunks("relu")[1],))
def chunks():
    return Made(in_chunks("")[0], a=positive(3, 4, dead=(0,))), leaning(6, 3)


@case("point_axis=1, [T, N, C]", "points", truth=noted, options={"point_axis": 1})
def time_first():
    def go(m, x):
        return note(m.a(x), points=1).relu()

    return Made(go, a=positive(3, 4, dead=(0,))), leaning(6, 5, 3).transpose(0, 1)


@case("point_axis=1, and the last step alone", "points", truth=noted, options={"point_axis": 1})
def time_first_last_step():
    def go(m, x):
        h = note(m.a(x), points=1).relu()
        return note(m.b(h[-1]), points=0).relu()

    return Made(go, a=positive(5, 5, dead=(0,)), b=positive(5, 5, dead=(1,))), leaning(6, 6, 5).transpose(0, 1)


def each(m, batch):
    return [m(x) for x in batch]


def each_called(name):
    """The truth of samples that are run one by one: calls of one layer, or, without a name, of several."""

    def truth(model, batch):
        return [Layer(model.a(x), torch.tensor(i), torch.arange(4), name=name) for i, x in enumerate(batch)]

    return truth


@case("a list of samples, run one by one", "points", forward=each, truth=each_called("relu"), others=(each_called(""),))
def samples():
    def go(m, x):
        return m.a(x).relu()

    return Made(go, a=positive(3, 4, dead=(0,))), [list(leaning(6, 3))]


def packed_points(packed):
    """The point of every row of a PackedSequence."""
    order = packed.sorted_indices if packed.sorted_indices is not None else torch.arange(int(packed.batch_sizes[0]))
    return torch.cat([order[:size] for size in packed.batch_sizes.tolist()])[:, None]


def run_packed(m, packed):
    return m(packed)


@case("a PackedSequence as the batch", "points", **noted_by(run_packed))
def packed_batch():
    def go(m, packed):
        return note(m.a(packed.data), point=packed_points(packed)).relu()

    lengths = (2, 4, 1, 3, 4)
    rows = leaning(5, 4, 3)
    packed = rnn.pack_sequence([row[:n] for row, n in zip(rows, lengths, strict=True)], enforce_sorted=False)
    return Made(go, a=positive(3, 4, dead=(0,))), [packed]


@case("a PackedSequence made inside", "points", truth=noted)
def packed_inside():
    def go(m, x):
        packed = rnn.pack_padded_sequence(x, m.lengths, batch_first=True, enforce_sorted=False)
        h = note(m.a(packed.data), point=packed_points(packed)).relu()
        back, _ = rnn.pad_packed_sequence(packed._replace(data=h), batch_first=True)
        return note(m.b(back)).relu()

    parts = {"a": positive(3, 4, dead=(0,)), "b": positive(4, 4, dead=(1,))}
    return Made(go, lengths=torch.tensor([2, 4, 1, 3, 4, 2]), **parts), leaning(6, 4, 3)


def edges():
    """A ring of six, with chords."""
    source = torch.tensor([0, 1, 2, 3, 4, 5, 0, 2, 4, 0, 1, 0])
    target = torch.tensor([1, 2, 3, 4, 5, 0, 2, 4, 0, 3, 4, 5])
    return {"source": source, "target": target}


@case("messages along the edges of a graph, x[source]", "points", truth=read(True), others=(read(False),))
def messages():
    def go(m, x):
        sent = note(m.a(x[m.source]), point=m.source[:, None]).relu()
        got = torch.zeros(len(x), 4).index_add(0, m.target, sent)
        point = along(got, 0) if m.reading else NOBODY  # a node is a point, or a mixture of several
        return note(m.b(got), point=point).relu()

    return Made(go, reading=True, a=positive(3, 4, dead=(0,)), b=positive(4, 4), **edges()), leaning(6, 3)


@case("edges made of two points, cat(x[source], x[target])", "points", truth=noted)
def edge_pairs():
    def go(m, x):
        h = note(m.a(x)).relu()
        return note(m.b(torch.cat([h[m.source], h[m.target]], -1)), point=NOBODY).relu()

    return Made(go, a=positive(3, 3, dead=(0,)), b=positive(6, 4, dead=(1,)), **edges()), leaning(6, 3)


@case("graph convolution with an adjacency matrix", "points", truth=read(True), others=(read(False),))
def graph_convolution():
    def go(m, x):
        h = note(m.a(x)).relu()
        z = m.adjacency @ m.b(h)
        return note(z, point=along(z, 0) if m.reading else NOBODY).relu()

    model = Made(go, reading=True, a=positive(6, 6, dead=(0,)), b=positive(6, 6, dead=(1,)))
    model.register_buffer("adjacency", torch.eye(6) + torch.eye(6).roll(1, 0))
    return model, leaning(6, 6)


@case("a permutation of the batch", "points", truth=noted)
def permuted():
    def go(m, x):
        h = note(m.a(x[m.order]), point=m.order[:, None]).relu()
        return note(m.b(h[m.order.argsort()])).relu()

    parts = {"a": positive(6, 4, dead=(0,)), "b": positive(4, 6, dead=(2,))}
    return Made(go, order=torch.tensor([3, 0, 5, 1, 4, 2]), **parts), leaning(6, 6)


@case("half of the batch, chosen by index", "points", truth=noted)
def chosen():
    def go(m, x):
        h = note(m.a(x)).relu()
        return note(m.b(h.index_select(0, m.order)), point=m.order[:, None]).relu()

    parts = {"a": positive(6, 4, dead=(0,)), "b": positive(4, 6, dead=(2,))}
    return Made(go, order=torch.tensor([3, 0, 5]), **parts), leaning(6, 6)


@case("flipped along the batch", "points", truth=noted)
def flipped():
    def go(m, x):
        h = note(m.a(x)).relu().flip(0)
        return note(m.b(h), point=torch.arange(6).flip(0)[:, None]).relu()

    return Made(go, a=positive(3, 6, dead=(0,)), b=positive(6, 6, dead=(2,))), leaning(6, 3)


@case("rolled along the batch", "points", truth=noted)
def rolled():
    def go(m, x):
        return note(m.a(x.roll(2, 0)), point=torch.arange(6).roll(2)[:, None]).relu()

    return Made(go, a=positive(3, 6, dead=(0,))), leaning(6, 3)


@case("every point repeated, repeat_interleave", "points", truth=noted)
def repeated():
    def go(m, x):
        return note(m.a(x.repeat_interleave(3, 0) + m.noise.repeat(6, 1)), point=folded(18, 3)).relu()

    model = Made(go, a=positive(3, 6, dead=(0,)))
    model.register_buffer("noise", torch.randn(3, 3))
    return model, leaning(6, 3)


@case("the batch repeated, x.repeat", "points", truth=noted)
def repeated_batch():
    def go(m, x):
        return note(m.a(x.repeat(3, 1) + m.noise.repeat_interleave(6, 0)), point=interleaved(18, 6)).relu()

    model = Made(go, a=positive(3, 6, dead=(0,)))
    model.register_buffer("noise", torch.randn(3, 3))
    return model, leaning(6, 3)


@case("negative sampling: every point beside another", "points", truth=read(True), others=(read(False),))
def negatives():
    def go(m, x):
        z = m.a(x) + m.b(x.roll(1, 0))
        return note(z, point=along(z, 0) if m.reading else NOBODY).relu()

    return Made(go, reading=True, a=positive(3, 6, dead=(0,)), b=positive(3, 6)), leaning(6, 3)


@case("pairwise distances through a ReLU", "points", truth=read(True), others=(read(False),))
def distances():
    def go(m, x):
        h = note(m.a(x)).relu()
        gap = 2 - (h[:, None] - h[None]).square().sum(-1)
        if m.reading:  # neither a unit nor a point has these, and they may be no layer at all
            note(gap, point=NOBODY, unit=NOBODY)
        return gap.relu()

    return Made(go, reading=True, a=positive(6, 6, dead=(0,))), leaning(6, 6)


@case("two towers, and their logits through a ReLU", "points", truth=read(True), others=(read(False),))
def towers():
    def go(m, x):
        left, right = note(m.a(x[:, 0])).relu(), note(m.b(x[:, 1])).relu()
        logits = m.c(left) @ m.d(right).t()
        if m.reading:
            note(logits, point=NOBODY, unit=NOBODY)
        return logits.relu()

    parts = {
        "a": positive(3, 6, dead=(0,)),
        "b": positive(3, 6, dead=(1, 2)),
        "c": nn.Linear(6, 6),
        "d": nn.Linear(6, 6),
    }
    return Made(go, reading=True, **parts), leaning(6, 2, 3)


@case("batch norm written out", "points", truth=noted)
def own_batch_norm():
    def go(m, x):
        h = m.a(x)
        h = (h - h.mean(0)) / (h.var(0, unbiased=False) + 1e-5).sqrt()
        return note(h * m.scale + m.shift).relu()

    model = Made(go, a=nn.Linear(3, 6))
    model.scale = nn.Parameter(torch.ones(6))
    model.shift = nn.Parameter(torch.tensor([9.0, 0.0, 0.0, -9.0, 0.0, 0.0]))
    return model, leaning(6, 3)


@case("the mean of the batch subtracted", "points", truth=noted)
def centred():
    def go(m, x):
        h = m.a(x)
        return note(h - h.mean(0, keepdim=True) - m.shift).relu()

    model = Made(go, a=positive(6, 6))
    model.shift = nn.Parameter(torch.tensor([0.1, 9.0, 0.1, 0.1, 0.1, 0.1]))
    return model, leaning(6, 6)


@case("a batch of one", "points", truth=noted)
def alone():
    def go(m, x):
        h = note(m.a(x)).relu()
        return note(m.b(h)).relu()

    return Made(go, a=nn.Linear(3, 6), b=positive(6, 6, dead=(2,))), leaning(1, 3, low=1.0)


@case("a memory bank beside the batch", "points", truth=noted)
def bank():
    def go(m, x):
        rows = torch.cat([x, m.bank])
        point = torch.cat([torch.arange(6), torch.full((6,), -1)])[:, None]
        return note(m.a(rows), point=point).relu()

    model = Made(go, a=positive(3, 6, dead=(0,)))
    model.register_buffer("bank", torch.randn(6, 3))
    return model, leaning(6, 3)


@case("patches folded into the batch", "points", truth=noted)
def patches():
    def go(m, x):
        cut = F.unfold(x, 2, stride=2).transpose(1, 2)  # [N, L, C·k·k]
        n, each, c = cut.shape
        return note(m.a(cut.reshape(n * each, c)), point=folded(n * each, each)).relu().view(n, each, -1)

    return Made(go, a=positive(12, 4, dead=(0,))), leaning(6, 3, 4, 4)


@case("sorted by what the points hold", "points", truth=noted)
def sorted_points():
    def go(m, x):
        order = x[:, 0].argsort(descending=True)
        return note(m.a(x[order]), point=order[:, None]).relu()

    return Made(go, a=positive(6, 6, dead=(0,))), leaning(6, 6)


@case("tokens chosen by a mask", "points", truth=noted)
def masked_tokens():
    def go(m, x):
        mask = x[..., 0] >= x[:, :1, 0]  # the first one always
        return note(m.a(x[mask]), point=mask.nonzero()[:, :1]).relu()

    return Made(go, a=positive(6, 6, dead=(0,))), leaning(6, 6, 6)


@case("the batch mixed with itself, mixup", "points", truth=read(True), others=(read(False),))
def mixup():
    def go(m, x):
        z = m.a(0.8 * x + 0.2 * x.flip(0))
        return note(z, point=along(z, 0) if m.reading else NOBODY).relu()

    return Made(go, reading=True, a=positive(6, 6, dead=(0,))), leaning(6, 6)


@case("attention over the points of the batch", "points", truth=read(True), others=(read(False),))
def attention_over_points():
    def go(m, x):
        weights = (m.q(x) @ m.k(x).t()).softmax(-1)
        z = m.a(x + weights @ m.v(x))
        return note(z, point=along(z, 0) if m.reading else NOBODY).relu()

    parts = {name: nn.Linear(6, 6) for name in "qkv"}
    return Made(go, reading=True, a=positive(6, 6, dead=(0,)), **parts), leaning(6, 6)


@case("the mean over the batch, through a layer", "points", truth=noted)
def mean_over_batch():
    def go(m, x):
        h = note(m.a(x)).relu()
        context = note(m.b(h.mean(0)), point=NOBODY).relu()
        return note(m.c(h + context)).relu()

    parts = {"a": positive(6, 6, dead=(0,)), "b": positive(6, 6, dead=(1,)), "c": positive(6, 6, dead=(2,))}
    return Made(go, **parts), leaning(6, 6)


@case("the sum of the points so far, cumsum along the batch", "points", truth=read(True), others=(read(False),))
def running_sum():
    def go(m, x):
        z = m.a(x.cumsum(0))
        return note(z, point=along(z, 0) if m.reading else NOBODY).relu()

    return Made(go, reading=True, a=positive(6, 6, dead=(0,))), leaning(6, 6, low=-2.0, high=3.0)


@case("each feature sorted along the batch", "points", truth=noted)
def sorted_features():
    def go(m, x):
        values, order = m.a(x).sort(0)
        return note(values, point=order).relu()

    return Made(go, a=positive(6, 6, dead=(0,))), leaning(6, 6)


@case("each feature sorted along the batch, then a layer: no entry is a point's", "points", truth=noted)
def sorted_then_layer():
    def go(m, x):
        return note(m.b(m.a(x).sort(0).values), point=NOBODY).relu()

    return Made(go, a=nn.Linear(6, 6), b=positive(6, 6, dead=(1,))), leaning(6, 6)


@case("graph convolution with a sparse adjacency matrix", "points", truth=read(True), others=(read(False),))
def sparse_graph():
    def go(m, x):
        z = torch.sparse.mm(m.adjacency, m.a(x))
        return note(z, point=along(z, 0) if m.reading else NOBODY).relu()

    model = Made(go, reading=True, a=positive(6, 6, dead=(0,)))
    model.adjacency = (torch.eye(6) + torch.eye(6).roll(1, 0)).to_sparse()
    return model, leaning(6, 6)


def by_column(z, other):
    return along(z, 1)


def by_layer(z, other):
    return along(z, 1) + z.shape[1] * other[:, None]


@case("rows written back from another layer", "points", truth=read(by_layer), others=(read(by_column),))
def written_back():
    def go(m, x):
        z = m.a(x)
        z[m.order] = m.b(x)[m.order]
        other = torch.zeros(6, dtype=torch.long)
        other[m.order] = 1
        return note(z, unit=m.reading(z, other)).relu()

    parts = {"a": positive(6, 6, dead=(0,)), "b": positive(6, 6, dead=(0, 1))}
    return Made(go, reading=by_column, order=torch.tensor([3, 0, 5]), **parts), leaning(6, 6)


@case(
    "half of the batch through another layer, joined again", "points", truth=read(by_layer), others=(read(by_column),)
)
def two_halves():
    def go(m, x):
        z = torch.cat([m.a(x[:3]), m.b(x[3:])])
        return note(z, unit=m.reading(z, torch.arange(6) // 3)).relu()

    parts = {"a": positive(6, 6, dead=(0,)), "b": positive(6, 6, dead=(0, 1))}
    return Made(go, reading=by_column, **parts), leaning(6, 6)


@case("even and odd points, interleaved again", "points", truth=noted)
def even_and_odd():
    def go(m, x):
        even, odd = m.a(x[::2]), m.a(x[1::2] + 1)
        z = torch.stack([odd, even], 1).flatten(0, 1)  # odd ones first
        return note(z, point=torch.tensor([1, 0, 3, 2, 5, 4])[:, None]).relu()

    return Made(go, a=positive(6, 6, dead=(0,))), leaning(6, 6)


@case("every point a bag of rows, as one long batch with offsets", "points", truth=noted)
def bags():
    def go(m, x):
        rows = torch.cat([one[:size] for one, size in zip(x, m.sizes, strict=True)])
        point = torch.arange(6).repeat_interleave(torch.tensor(m.sizes))[:, None]
        return note(m.a(rows), point=point).relu()

    return Made(go, sizes=[1, 3, 2, 4, 1, 1], a=positive(3, 4, dead=(0,))), leaning(6, 4, 3)


@case("a mapping as the batch", "points", truth=noted)
def mapping():
    def go(m, *, x, mask):
        return note(m.a(x * mask[..., None])).relu()

    mask = torch.tensor([[1.0, 1, 0], [1, 0, 0], [1, 1, 1], [1, 1, 1]])
    return Made(go, a=positive(4, 4, dead=(0,))), [{"x": leaning(4, 3, 4), "mask": mask}]


@case("a pair as the batch, of inputs and labels", "points", truth=noted)
def pair():
    def go(m, x):
        return note(m.a(x)).relu()

    return Made(go, a=positive(6, 6, dead=(0,))), [(leaning(6, 6), torch.arange(6))]


@case("three batches of different sizes", "points", truth=noted)
def batches():
    def go(m, x):
        return note(m.b(note(m.a(x)).relu())).relu()

    x = leaning(12, 3)
    return Made(go, a=positive(3, 6, dead=(0,)), b=positive(6, 4, dead=(1,))), [x[:6], x[6:10], x[10:]]


# Layers that no input reaches, or that run where nothing is seen


@case("a generator, fed with numbers drawn in the pass", "points", truth=noted)
def generator():
    def go(m, x):
        drawn = torch.randn(len(x), 3, generator=torch.Generator().manual_seed(0))
        made = m.b(note(m.a(drawn), point=NOBODY).relu())
        return note(m.c(torch.cat([x, made]))[: len(x)]).relu()

    return Made(go, a=positive(3, 4, dead=(0,)), b=positive(4, 3), c=positive(3, 4)), leaning(6, 3)


@case("a generator of maps, fed with noise as wide as one place", "points", truth=noted)
def convolutional_generator():
    def go(m, x):
        drawn = torch.randn(len(x), 3, 1, 1, generator=torch.Generator().manual_seed(0))
        return note(m.a(x)).relu(), note(m.b(drawn), units=1, point=NOBODY).relu()

    maps = nn.ConvTranspose2d(3, 4, 2)
    maps.bias.data[0] = -50.0
    return Made(go, a=positive(3, 4, dead=(0,)), b=maps), leaning(6, 3)


@case("layers in the threads of a pool", "points", truth=noted)
def pooled():
    def go(m, x):
        with ThreadPoolExecutor(1) as pool:
            h = pool.submit(lambda: F.relu(note(m.a(x)))).result()
        return note(m.b(h)).relu()

    return Made(go, a=positive(3, 4, dead=(0,)), b=positive(4, 4)), leaning(6, 3)


@case("messages summed over neighbours, beside each node's own", "points", truth=noted)
def summed_messages():
    def go(m, x):
        sent = note(m.a(x)).relu()[m.source]
        index = m.target[:, None].expand(-1, 4)
        return note(m.b(torch.zeros(len(x), 4).scatter_add(0, index, sent)) + m.c(x)).relu()

    parts = {"a": positive(3, 4, dead=(0,)), "b": positive(4, 4), "c": positive(3, 4, dead=(1,))}
    return Made(go, **parts, **edges()), leaning(6, 3)
