"""Ideas of whole programs: heads of attention, maps of images, pairs of features, layers that are mapped over."""

from __future__ import annotations

from whole_draft import Draft, idea


@idea("heads of attention", 1.5)
def heads(d: Draft) -> None:
    """[rows, T, H · D] in heads; then a layer on what they found, or a ReLU on each head's own features."""
    t, count, each = d.one_of((2, 3)), d.one_of((1, 2, 3)), d.one_of((1, 2))
    c, o = count * each, d.width()
    a, q, k, v = (
        d.part(s, f"dense({i}, {w})") for s, i, w in (("a", d.f, t * c), ("q", c, c), ("k", c, c), ("v", c, c))
    )
    d.do(f"u = {a}(h).view(len(h), {t}, {c})")
    split = f"view(len(h), {t}, {count}, {each}).transpose(1, 2)"
    d.do(f"q, k, v = (part(u).{split} for part in ({q}, {k}, {v}))")
    kind = d.one_of(("plain", "by hand", "relu of heads", "feature map", "gqa"))
    if kind == "gqa":
        d.do("k, v = k[:, :1], v[:, :1]", "u = F.scaled_dot_product_attention(q, k, v, enable_gqa=True)")
    elif kind == "plain":
        d.do("u = F.scaled_dot_product_attention(q, k, v)")
    elif kind == "by hand":
        d.do(f"u = (q @ k.transpose(-1, -2) / {each} ** 0.5).softmax(-1) @ v")
    elif kind == "relu of heads":
        d.do("z = v")
        d.see(unit=f"torch.arange({c}).view(1, {count}, 1, {each})")
        d.do(f"u = (q @ k.transpose(-1, -2)).softmax(-1) @ {d.relu()}")
    else:
        d.do("z = q")
        d.see(unit=f"torch.arange({c}).view(1, {count}, 1, {each})")
        d.do(f"u = ({d.relu()} + 0.1) @ (k.transpose(-1, -2) @ v)")
    d.do(f"u = u.transpose(1, 2).reshape(len(h), {t}, {c})")
    d.layer(f"{d.part('o', f'dense({c}, {o})')}(u)", o)
    d.do("h = h.mean(1)")


@idea("maps", 1.5)
def maps(d: Draft) -> None:
    """[rows, C, H, W] made of h, and convolutions of many kinds."""
    c, o = d.one_of((1, 2, 4)), d.one_of((2, 4))
    d.do(f"u = {d.part('a', f'dense({d.f}, {c * 16})')}(h).view(len(h), {c}, 4, 4)")
    kind = d.one_of(
        ("plain", "strided", "depthwise", "transposed", "shuffled", "cat", "norm", "permuted", "pooled", "1x1")
    )
    k3 = "nn.Conv2d, kernel_size=3, padding=1"
    if kind in ("plain", "pooled", "norm"):
        u = {"plain": "u", "pooled": "F.max_pool2d(u, 2)", "norm": "u"}[kind]
        k = d.part("k", f"conv({c}, {o}, {k3})")
        d.do(f"z = {d.part('n', f'nn.BatchNorm2d({o})')}({k}({u}))" if kind == "norm" else f"z = {k}({u})")
    elif kind == "strided":
        d.do(f"z = {d.part('k', f'conv({c}, {o}, {k3}, stride=2)')}(u)")
    elif kind == "depthwise":
        o = 2 * c
        d.do(f"z = {d.part('k', f'conv({c}, {o}, {k3}, groups={c})')}(u)")
    elif kind == "transposed":
        d.do(f"z = {d.part('k', f'conv({c}, {o}, nn.ConvTranspose2d, kernel_size=2)')}(u)")
    elif kind == "shuffled":
        k = d.part("k", f"conv({c}, 4, {k3})")
        d.do(f"z = {k}(u)", "u = F.pixel_shuffle(z, 2)")
        d.see("u", unit="torch.arange(4).view(2, 2).repeat(4, 4)")
        d.do(f"h = {d.relu('u')}.mean((2, 3))")
        d.f = 1
        return
    elif kind == "cat":
        k, m = d.part("k", f"conv({c}, {o}, {k3})"), d.part("m", f"conv({c}, {o}, nn.Conv2d, kernel_size=1)")
        d.do(f"z = torch.cat([{k}(u), {m}(u)], 1)")
        o *= 2
    elif kind == "1x1":
        d.do(f"z = {d.part('b', f'dense({c}, {o})')}(u.permute(0, 2, 3, 1)).permute(0, 3, 1, 2)")
    else:
        k = d.part("k", f"conv({c}, {o}, {k3})")
        d.do(f"z = {k}(u).transpose(2, 3).flip(3)")
    d.see(units=1)
    d.do(f"h = {d.relu()}.mean((2, 3))")
    d.f = o


@idea("each feature by itself")
def by_feature(d: Draft) -> None:
    """x[..., None] * w + b: units are pairs of a feature and a column."""
    c, f = d.one_of((2, 3)), d.f
    w, b = d.part("w", f"weight({f}, {c})"), d.part("b", f"bias({f}, {c})")
    d.do(f"z = h[..., None] * {w} + {b}")
    d.see(unit=f"torch.arange({f})[:, None] * {c} + torch.arange({c})")
    d.do(f"h = {d.relu()}.sum(2)")


@idea("an ensemble", 1.5)
def ensemble(d: Draft) -> None:
    """Several layers at once, as one stack of weights."""
    c, e = d.width(), d.one_of((2, 3, 4))
    w, b = d.part("w", f"weight({e}, {d.f}, {c})"), d.part("b", f"bias({e}, 1, {c})")
    ways = (
        f"torch.baddbmm({b}, h.expand({e}, -1, -1), {w})",
        f"torch.matmul(h, {w}) + {b}",
        f'torch.einsum("nf,efc->enc", h, {w}) + {b}',
        f"torch.stack([h @ one for one in {w}]) + {b}",
        f"torch.vmap(lambda w, b: h @ w + b)({w}, {b})",
        f"torch.bmm(h.repeat({e}, 1, 1), {w}) + {b}",
    )
    d.do(f"z = {d.one_of(ways)}")
    d.see(points=1, unit=f"torch.arange({e})[:, None, None] * {c} + torch.arange({c})")
    d.do(f"h = {d.relu()}.mean(0)")
    d.f = c


@idea("mapped over the points")
def mapped(d: Draft) -> None:
    c = d.width()
    a = d.part("a", f"dense({d.f}, {c})")
    d.do(f"z = torch.vmap({a})(h)")
    d.see()
    d.do(f"h = {d.relu()}")
    d.f = c


@idea("a cell of torch")
def cell(d: Draft) -> None:
    c, o = d.one_of((2, 3)), d.width()
    kind = d.one_of(("GRUCell", "LSTMCell", "GRU"))
    g, a = (
        d.part("g", f"nn.{kind}({d.f}, {c}{', batch_first=True' * (kind == 'GRU')})"),
        d.part("a", f"dense({c}, {o})"),
    )
    out = {"GRUCell": f"{g}(h)", "LSTMCell": f"{g}(h)[0]", "GRU": f"{g}(torch.stack([h, -h], 1))[0][:, -1]"}[kind]
    d.layer(f"{a}({out})", o)


@idea("learned queries")
def queries(d: Draft) -> None:
    """Parameters that look at the features of each point."""
    c, o = d.one_of((2, 3)), d.width()
    q, t, a = d.part("q", f"weight(3, {c})"), d.part("t", f"dense({d.f}, {2 * c})"), d.part("a", f"dense({c}, {o})")
    d.do(f"u = {t}(h).view(len(h), 2, {c})", f"u = ({q} @ u.transpose(1, 2)).softmax(-1) @ u")
    d.layer(f"{a}(u)", o)
    d.do("h = h.mean(1)")


@idea("frozen")
def frozen(d: Draft) -> None:
    """A layer that is not trained: its weights ask for no gradient, or h is cut off."""
    c = d.width()
    a = d.part("a", f"dense({d.f}, {c})" + d.one_of(("", ".requires_grad_(False)")))
    d.layer(f"{a}({d.one_of(('h', 'h.detach()'))})", c)


@idea("larger of two layers")
def maxout(d: Draft) -> None:
    """Rows of one layer or another, by a mask that is the same for all units."""
    c = d.width()
    a, b = d.part("a", f"dense({d.f}, {c})"), d.part("b", f"dense({d.f}, {c})")
    d.do(f"u, v = {a}(h), {b}(h)")
    d.see("u")
    d.see("v")
    d.do(f"h = torch.where(h[:, :1] > 0, F.relu(u), {d.relu('v')})")
    d.f = c


@idea("pairs of points", 1.0, whole=True, outer=True)
def pairs(d: Draft) -> None:
    """Differences of all pairs, [N, N, F]: nobody's, of two; then the sum of each row, read either way."""
    c = d.width()
    a, b = d.part("a", f"dense({d.f}, {c})"), d.part("b", f"dense({c}, {c})")
    r = d.reading("pair", True, False)
    d.do(f"z = {a}(h[:, None] - h)")
    d.see(p="torch.full((len(h), 1, 1), -1 if len(h) > 1 else int(p))")
    d.do(f"h = {d.relu()}.mean(1)", f"~p = p if {r} or len(h) == 1 else torch.full_like(p, -1)")
    d.f, d.moved = c, True
    d.layer(f"{b}(h)", c)
