"""Ideas of whole programs: what torch offers around a layer, and weights and rows that are put together of parts."""

from __future__ import annotations

from whole_draft import Draft, idea


@idea("a part without gradients", 0.7)
def without_gradients(d: Draft) -> None:
    c = d.width()
    a = d.part("a", f"dense({d.f}, {c})")
    with d.inside("with torch.no_grad():"):
        d.layer(f"{a}(h)", c)


@idea("called with other weights")
def functional(d: Draft) -> None:
    c = d.width()
    a = d.part("a", f"dense({d.f}, {c})")
    ways = (
        f"dict({a}.named_parameters())",
        f"{{'weight': 1.5 * {a}.weight, 'bias': {a}.bias - 0.1}}",
        f"{{'weight': {a}.weight.detach().clone()}}",
    )
    d.layer(f"torch.func.functional_call({a}, {d.one_of(ways)}, (h,))", c)


@idea("a module of modules", 1.5)
def modules(d: Draft) -> None:
    """Activations inside modules of torch; the truth runs their parts by itself."""
    c, o = d.width(), d.width()
    m = d.part("m", f"nn.Sequential(dense({d.f}, {c}), nn.ReLU(), nn.Sequential(dense({c}, {o}), nn.ReLU()))")
    d.do(f"~z = {m}[0](h)")
    d.see()
    d.do(f"~z = {m}[2][0](F.relu(z))")
    d.see()
    d.do(f"h = {m}(h)" if d.maybe(0.7) else f"h = checkpoint({m}, h, use_reentrant=False)")
    d.f = o


@idea("a layer of a transformer")
def transformer(d: Draft) -> None:
    t, c, o = d.one_of((2, 3)), d.one_of((2, 4)), d.one_of((3, 4))
    a = d.part("a", f"dense({d.f}, {t * c})")
    first = d.maybe()
    made = f"nn.TransformerEncoderLayer({c}, 2, {o}, dropout=0.0, batch_first=True, norm_first={first})"
    m = d.part("m", made)
    d.do(f"q = {a}(h).view(len(h), {t}, {c})")
    if first:
        d.do(f"~u = {m}.norm1(q)", f"~u = {m}.norm2(q + {m}.self_attn(u, u, u)[0])")
    else:
        d.do(f"~u = {m}.norm1(q + {m}.self_attn(q, q, q)[0])")
    d.do(f"~z = {m}.linear1(u)")
    d.see()
    d.do(f"h = {m}(q).mean(1)")
    d.f = c


@idea("packed", moves=True)
def packed(d: Draft) -> None:
    """A packed sequence: its rows lie step by step, the longest first."""
    t, c, o = d.one_of((2, 3)), d.width(), d.width()
    a, b = d.part("a", f"dense({d.f}, {t * c})"), d.part("b", f"dense({c}, {o})")
    long = d.one_of((f"[1 + r % {t} for r in range(len(h))]", f"[min(1 + (v > 0), {t}) for v in h[:, 0].tolist()]"))
    d.do(f"lengths = torch.tensor({long})", f"q = {a}(h).view(len(h), {t}, {c})")
    pack = "nn.utils.rnn.pack_padded_sequence({}, lengths, batch_first=True, enforce_sorted=False)"
    d.do(f"rows = {pack.format('q')}", f"z = {b}(rows.data)")
    d.see(p=pack.format(f"p[:, None].expand(-1, {t})") + ".data")
    d.do(
        f"rows = nn.utils.rnn.PackedSequence({d.relu()}, rows.batch_sizes, rows.sorted_indices, rows.unsorted_indices)",
        "h = nn.utils.rnn.pad_packed_sequence(rows, batch_first=True)[0].mean(1)",
    )
    d.f = o


@idea("a recurrence over what is packed", 0.7, moves=True)
def packed_lstm(d: Draft) -> None:
    c, o = d.one_of((2, 3)), d.width()
    g, a = d.part("g", f"nn.LSTM({d.f}, {c}, batch_first=True)"), d.part("a", f"dense({c}, {o})")
    pack = "nn.utils.rnn.pack_padded_sequence({}, torch.tensor([1 + r % 2 for r in range(len(h))]), batch_first=True, "
    d.do(f"rows = {pack.format('torch.stack([h, -h], 1)')}enforce_sorted=False)", f"u = {g}(rows)[1][0][-1]")
    d.layer(f"{a}(u)", o)


@idea("groups of features as rows", 1.5)
def folded(d: Draft) -> None:
    """n (g c) -> (n g) c or (g n) c, through a layer, and back."""
    g, c, o = d.one_of((2, 3)), d.one_of((1, 2)), d.width()
    t, a = d.part("t", f"dense({d.f}, {g * c})"), d.part("a", f"dense({c}, {o})")
    if d.maybe():
        d.do(f"z = {a}({t}(h).view(len(h), {g}, {c}).permute(1, 0, 2).reshape(-1, {c}))")
        d.see(p=f"p.repeat({g})")
        d.do(f"h = {d.relu()}.view({g}, -1, {o}).permute(1, 0, 2).flatten(1)")
    else:
        d.do(f"z = {a}({t}(h).reshape(-1, {c}))")
        d.see(p=f"p.repeat_interleave({g})")
        d.do(f"h = {d.relu()}.reshape(-1, {g * o})")
    d.f = g * o


@idea("rows scattered", moves=True)
def scattered(d: Draft) -> None:
    c = d.width()
    a, to = d.part("a", f"dense({d.f}, {c})"), d.name("to")
    d.do(f"{to} = {d.one_of(('torch.randperm(len(h))', 'torch.arange(len(h)).roll(1)', 'h[:, 0].argsort()'))}")
    ways = (
        f"torch.zeros_like(h).scatter(0, {to}[:, None].expand_as(h), h)",
        f"torch.zeros_like(h).index_copy(0, {to}, h)",
        f"torch.zeros_like(h).index_add(0, {to}, h)",
        f"torch.empty_like(h).index_put(({to},), h)",
    )
    d.do(f"h = {d.one_of(ways)}", f"~p = p[{to}.argsort()]")
    d.moved = True
    d.layer(f"{a}(h)", c)


@idea("rows summed in buckets", moves=True)
def buckets(d: Draft) -> None:
    """As many as there are rows, or fewer: a sum is of the only one that is in it, or of nobody."""
    c = d.width()
    a, to = d.part("a", f"dense({d.f}, {c})"), d.name("to")
    ways = (
        "torch.randint(len(h), (len(h),))",
        "(torch.randperm(len(h)) * 2 + 1) % len(h)",
        "torch.arange(len(h)) // 2",
        "(h[:, 0] > 0).long()",
        "torch.tensor([round(v) % len(h) for v in h[:, 0].tolist()])",
        "(h[:, 0].argsort() + 1) % len(h)",
    )
    count = d.one_of(("len(h)", "len(h)", "len(h) + 1"))
    d.do(f"{to} = {d.one_of(ways)}")
    sums = (
        f"h.new_zeros({count}, {d.f}).index_add(0, {to}, h)",
        f"h.new_zeros({count}, {d.f}).scatter_add(0, {to}[:, None].expand_as(h), h)",
        f"torch.zeros({count}, {d.f}).index_put(({to},), h, accumulate=True)",
    )
    d.do(
        f"h = {d.one_of(sums)}", f"~p = torch.cat([met(p, torch.arange(len(p)), {to}), torch.full((1,), -1)])[: len(h)]"
    )
    d.moved = True
    d.layer(f"{a}(h)", c)


@idea("units gathered, others in each row")
def gathered(d: Draft) -> None:
    c = d.one_of((3, 4))
    a = d.part("a", f"dense({d.f}, {c})")
    ways = (f"torch.rand(len(h), {c}).argsort(1)[:, :2]", f"(torch.arange(len(h))[:, None] + torch.arange(2)) % {c}")
    d.do(f"q = {d.one_of(ways)}", f"z = {a}(h)")
    d.do(f"z = {d.one_of(('z.gather(1, q)', 'torch.take_along_dim(z, q, 1)', 'z[torch.arange(len(h))[:, None], q]'))}")
    d.see(unit="q")
    d.do(f"h = {d.relu()}")
    d.f = 2


@idea("weights of parts", 1.5)
def of_parts(d: Draft) -> None:
    """A weight that is cut from another, put together of several, or made by an index."""
    f, c = d.f, d.width(2)
    b = d.part("b", f"bias({c})")
    kind = d.one_of(("slice", "cat", "circulant", "kron", "flipped", "rows", "symmetric"))
    if kind == "slice":
        w = d.part("w", f"weight({f + c}, {c + 2})")
        expression = f"h @ {w}[:{f}, 1 : {c + 1}] + {b}"
    elif kind == "cat":
        u, v = d.part("u", f"weight({f}, 1)"), d.part("v", f"weight({f}, {c - 1})")
        expression = f"h @ torch.cat([{u}, {v}], 1) + {b}"
    elif kind == "circulant":
        w = d.part("w", f"nn.Parameter(torch.randn({max(f, c)}))")
        index = f"(torch.arange({f})[:, None] - torch.arange({c})) % {max(f, c)}"
        expression = f"h @ {w}[{index}] + {b}"
    elif kind == "kron":
        u, v = d.part("u", "weight(1, 1)"), d.part("v", f"weight({f}, {c})")
        expression = f"h @ torch.kron({u}, {v}) + {b}"
    elif kind == "flipped":
        expression = f"h @ {d.part('w', f'weight({f}, {c})')}.flip(1).roll(1, 0) + {b}"
    elif kind == "rows":
        u, v = d.part("u", f"weight(1, {c})"), d.part("v", f"weight({f}, {c})")
        expression = f"h @ torch.cat([{u}, {v}])[1:] + {b}"
    else:
        w = d.part("w", f"weight({f}, {f})")
        expression, c, b = f"h @ ({w} + {w}.t())", f, ""
    d.layer(expression, c)


@idea("several layers from one product")
def fused(d: Draft) -> None:
    c = d.width()
    kind = d.one_of(("chunk", "split", "unbind", "slices"))
    a = d.part("a", f"dense({d.f}, {2 * c})")
    cut = {
        "chunk": f"{a}(h).chunk(2, 1)",
        "split": f"{a}(h).split({c}, 1)",
        "unbind": f"{a}(h).view(len(h), 2, {c}).unbind(1)",
        "slices": f"(lambda z: (z[:, :{c}], z[:, {c}:]))({a}(h))",
    }[kind]
    d.do(f"u, v = {cut}")
    d.see("u")
    d.do(f"h = {d.relu('u')} * v.tanh()")
    d.f = c


@idea("rows beside learned ones", moves=True)
def beside(d: Draft) -> None:
    """Learned rows, which are of no point, go through the layer too, and are left out again, or not."""
    c = d.width()
    m, a = d.part("m", f"nn.Parameter(torch.randn(2, {d.f}))"), d.part("a", f"dense({d.f}, {c})")
    d.do(f"z = {a}(torch.cat([{m}, h]))")
    d.see(p="torch.cat([torch.full((2,), -1), p])")
    d.do(f"h = {d.relu()}[2:]")
    d.f = c


@idea("two layers for two parts of the rows", moves=True, outer=True)
def two_parts(d: Draft) -> None:
    c = d.width()
    a, b = d.part("a", f"dense({d.f}, {c})"), d.part("b", f"dense({d.f}, {c})")
    m = d.one_of(("len(h) // 2", "1", "len(h) % 3"))
    d.do(f"m = {m}", f"z = torch.cat([{a}(h[:m]), {b}(h[m:])])")
    d.see(unit=f"(torch.arange(len(h)) >= m)[:, None] * {c} + torch.arange({c})")
    d.do(f"h = {d.relu()}")
    d.f = c


@idea("a neighbour in the batch", whole=True, outer=True)
def neighbour(d: Draft) -> None:
    """Each row with another: of two points, or of the one whose row it is."""
    c = d.width()
    a, b = d.part("a", f"dense({d.f}, {c})"), d.part("b", f"dense({d.f}, {c})")
    r = d.reading("pair", True, False)
    ways = ("h.roll(1, 0)", "h.flip(0)", "h[torch.arange(len(h)).roll(1)]", "h.cumsum(0)", "h.sort(0).values")
    d.do(f"~p = p if {r} or len(h) == 1 else torch.full_like(p, -1)")
    d.layer(f"{a}(h) + {b}({d.one_of(ways)})", c)
    d.moved = True


@idea("as many steps as the data say", 1.5, outer=True)
def steps(d: Draft) -> None:
    f = d.f
    a = d.part("a", f"dense({f}, {f})")
    count = d.one_of(("1 + int(h.sum() > 0)", "1 + len(h) % 3", "1 + (h[:, 0] > 0).sum().item() % 3"))
    with d.inside(f"for t in range({count}):"):
        d.layer(f"{a}(h)", f, what="step {t}")


@idea("written by columns")
def by_columns(d: Draft) -> None:
    c = d.width(2)
    a, b = d.part("a", f"dense({d.f}, 1)"), d.part("b", f"dense({d.f}, {c - 1})")
    way = d.one_of(("z[:, :1], z[:, 1:] = {a}(h), {b}(h)", "z[:, -1:], z[:, :-1] = {a}(h), {b}(h)"))
    d.do(f"z = h.new_empty(len(h), {c})", way.format(a=a, b=b))
    d.see()
    d.do(f"h = {d.relu()}")
    d.f = c


@idea("centres")
def centres(d: Draft) -> None:
    c = d.width()
    w = d.part("w", f"nn.Parameter(torch.randn({c}, {d.f}))")
    ways = (
        f"2 - torch.cdist(h, {w})",
        f"2 - (h[:, None] - {w}).square().sum(-1)",
        f"2 - (h[:, None] - {w}).norm(dim=2)",
    )
    d.layer(d.one_of(ways), c)


@idea("one row of each of several equal ones", moves=True)
def once(d: Draft) -> None:
    """unique: what several points share is of none of them; each takes it again."""
    c = d.width()
    a = d.part("a", f"dense({d.f}, {c})")
    d.do("u, q = torch.unique(h.detach().round(), dim=0, return_inverse=True)", f"z = {a}(u)")
    d.do("~own = [set(p[q == k].tolist()) for k in range(len(u))]")
    r = d.reading("shared", True, False)
    d.see(p=f"torch.tensor([s.pop() if len(s) == 1 and {r} else -1 for s in own])")
    d.do(f"h = {d.relu()}[q]")
    d.f = c


@idea("inside vmap", 0.7)
def in_vmap(d: Draft) -> None:
    """The ReLU too; the truth runs it beside."""
    c, e = d.width(), d.one_of((2, 3))
    w = d.part("w", f"weight({e}, {d.f}, {c})")
    d.do(f"~z = torch.matmul(h, {w})")
    d.see(points=1, unit=f"torch.arange({e})[:, None, None] * {c} + torch.arange({c})")
    d.do(f"h = torch.vmap(lambda w: F.relu(h @ w))({w}).mean(0)")
    d.f = c


@idea("points as positions")
def positions(d: Draft) -> None:
    """A convolution of kernel 1 over rows that lie where pixels do."""
    c = d.width()
    k = d.part("k", f"conv({d.f}, {c}, kernel_size=1)")
    d.do(f"z = {k}(h.t()[None])")
    d.see(points=2, units=1)
    d.do(f"h = {d.relu()}[0].t()")
    d.f = c


@idea("weights for each point by the data", 0.7)
def dynamic(d: Draft) -> None:
    """A hypernetwork of its own for every row: units are columns, if one likes, or there are none."""
    c, f = d.width(), d.f
    g = d.part("g", f"dense({f}, {f * c})")
    d.do(f"w = {g}(h).view(len(h), {f}, {c})")
    d.layer("torch.bmm(h[:, None], w)[:, 0]", c)


@idea("rounded straight through")
def straight(d: Draft) -> None:
    c = d.width()
    a = d.part("a", f"dense({d.f}, {c})")
    d.do(d.one_of(("h = h + (h.round() - h).detach()", "h = h + (h.sign() - h).detach()")))
    d.layer(f"{a}(h)", c)


@idea("mixed by shares")
def mixed(d: Draft) -> None:
    """All heads run, and each point takes its share of each."""
    c, e = d.width(), d.one_of((2, 3))
    w, g = d.part("w", f"weight({e}, {d.f}, {c})"), d.part("g", f"dense({d.f}, {e})")
    d.do(f"g = {g}(h).softmax(-1)", f'z = torch.einsum("nf,efc->nec", h, {w})')
    d.see(unit=f"torch.arange({e})[:, None] * {c} + torch.arange({c})")
    d.do(f'h = torch.einsum("nec,ne->nc", {d.relu()}, g)')
    d.f = c


@idea("by a function of functions", outer=True)
def called(d: Draft) -> None:
    """The same block on several things, by map and partial."""
    c = d.width()
    a, g = d.part("a", f"dense({d.f}, {c})"), d.name("block")
    d.do("calls = []")
    with d.inside(f"def {g}(sign, h):"):
        d.do(f"z = {a}(sign * h)")
        d.do("calls.append(sign)")
        d.see(what="call {len(calls)}")
        d.do(f"return {d.relu()}")
    d.do(f"h = sum(map({g}, (1.0, -1.0), (h, h)))")
    d.f = c
