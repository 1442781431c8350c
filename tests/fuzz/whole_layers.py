"""Ideas of whole programs: one layer, its weights in many forms; sums, gates and branches of two."""

from __future__ import annotations

from whole_draft import Draft, drawn, idea


@idea("linear", 2.0)
def linear(d: Draft) -> None:
    c = d.width()
    a = d.part("a", f"dense({d.f}, {c})")
    d.layer(f"{a}(h)", c)


@idea("weights by formula")
def formula(d: Draft) -> None:
    c = d.width()
    w, b = d.part("w", f"weight({d.f}, {c})"), d.part("b", f"bias({c})")
    ways = (
        f"h @ {w} + {b}",
        f"torch.addmm({b}, h, {w})",
        f"F.linear(h, {w}.t(), {b})",
        f'torch.einsum("nf,fc->nc", h, {w}) + {b}',
        f"(h[:, :, None] * {w}).sum(1) + {b}",
        f"h.matmul({w}).add({b})",
        f"({w}.t() @ h.t()).t() + {b}",
        f"torch.tensordot(h, {w}, 1) + {b}",
    )
    d.layer(d.one_of(ways), c)


@idea("a weight copied over the points", 1.5)
def copied(d: Draft) -> None:
    c = d.width()
    w, b = d.part("w", f"weight({d.f}, {c})"), d.part("b", f"bias({c})")
    copies = (
        f"{w}.expand(len(h), -1, -1)",
        f"{w}.unsqueeze(0).repeat(len(h), 1, 1)",
        f"{w}.expand(len(h), {d.f}, {c}).contiguous()",
        f"torch.stack([{w}] * len(h))",
        f"torch.cat([{w}] * len(h)).view(len(h), {d.f}, {c})",
        f"{w}[None][torch.zeros(len(h), dtype=torch.long)]",
        f"{w}.tile(len(h), 1, 1)",
        f"({w} * h.new_ones(len(h), 1, 1))",
    )
    product = d.one_of(
        ("torch.bmm(h[:, None], {})[:, 0]", 'torch.einsum("nf,nfc->nc", h, {})', "(h[:, None] @ {}).squeeze(1)")
    )
    d.layer(f"{product.format(d.one_of(copies))} + {b}", c)


@idea("weights stacked and gathered", 1.5)
def gathered(d: Draft) -> None:
    """Each row has weights of its own choice: by data, by position, or by an index that comes with the batch."""
    c, e = d.width(), d.one_of((2, 3, 4))
    w, b = d.part("w", f"weight({e}, {d.f}, {c})"), d.part("b", f"bias({e}, {c})")
    kind = d.one_of(("data", "place", "random"))
    if kind == "data":
        d.do(f"q = h[:, :1].gt({d.one_of((0.0, 0.3))}).long().squeeze(1)")
    elif kind == "place":
        d.do(f"q = torch.arange(len(h)) % {e}")
    else:
        d.do(f"q = torch.randint({e}, (len(h),))")
    way = d.one_of((f"{w}[q]", f"{w}.index_select(0, q)", f"torch.stack([{w}[k] for k in q.tolist()])"))
    d.layer(f"torch.bmm(h[:, None], {way})[:, 0] + {b}[q]", c, unit=f"q[:, None] * {c} + torch.arange({c})")


@idea("weights in buffers")
def buffers(d: Draft) -> None:
    c = d.width()
    kind = d.one_of(("buffer", "int8", "random features"))
    b = d.part("b", f"bias({c})")
    if kind == "int8":
        w = d.part("w", f"nn.Buffer((40 * weight({d.f}, {c})).to(torch.int8))")
        d.layer(f"h @ ({w}.float() / 40) + {b}", c)
    elif kind == "buffer":
        w = d.part("w", f"nn.Buffer(weight({d.f}, {c}).detach())")
        d.layer(f"F.linear(h, {w}.t(), {b})", c)
    else:
        w = d.part("w", f"weight({d.f}, {c}).detach()")
        d.layer(f"h @ {w} + {b}", c)


@idea("weights normalised", 1.5)
def normalised(d: Draft) -> None:
    c = d.width(2)
    kind = d.one_of(("weight_norm", "old weight_norm", "spectral_norm", "old spectral_norm", "by hand", "orthogonal"))
    if kind == "by hand":
        w, g, b = (
            d.part("w", f"weight({d.f}, {c})"),
            d.part("g", f"nn.Parameter(1 + torch.rand({c}))"),
            d.part("b", f"bias({c})"),
        )
        d.layer(f"h @ ({g} * {w} / {w}.norm(dim=0)) + {b}", c)
        return
    wrapped = {
        "weight_norm": "torch.nn.utils.parametrizations.weight_norm(dense({}, {}))",
        "old weight_norm": "old_weight_norm(dense({}, {}))",
        "spectral_norm": "torch.nn.utils.parametrizations.spectral_norm(dense({}, {}))",
        "old spectral_norm": "torch.nn.utils.spectral_norm(dense({}, {}))",
        "orthogonal": "torch.nn.utils.parametrizations.orthogonal(dense({}, {}))",
    }[kind]
    a = d.part("a", wrapped.format(d.f, c))
    d.layer(f"{a}(h)", c)


@idea("noisy weights")
def noisy(d: Draft) -> None:
    """Weights that are drawn anew, or masked, in every pass; a teacher that follows slowly."""
    c = d.width()
    w, b = d.part("w", f"weight({d.f}, {c})"), d.part("b", f"bias({c})")
    kind = d.one_of(("noise", "spread", "dropped", "teacher", "cosine"))
    if kind == "noise":
        d.layer(f"h @ ({w} + 0.1 * torch.randn_like({w})) + {b}", c)
    elif kind == "spread":
        v = d.part("v", f"nn.Parameter(torch.full(({d.f}, {c}), -2.0))")
        d.layer(f"h @ torch.normal({w}, {v}.exp()) + {b}", c) if d.maybe(0.3) else d.layer(
            f"h @ ({w} + {v}.exp() * torch.randn({d.f}, {c})) + {b}", c
        )
    elif kind == "dropped":
        d.layer(f"h @ F.dropout({w}, 0.3) + {b}", c)
    elif kind == "cosine":
        d.layer(f"F.normalize(h, dim=1) @ F.normalize({w}, dim=0) + {b}", c)
    else:
        t = d.part("t", f"nn.Buffer(weight({d.f}, {c}).detach())")
        d.do(f"{t}.lerp_({w}.detach(), 0.5)", f"u = (h @ {t}).detach()")
        d.layer(f"h @ {w} + 0.3 * u + {b}", c)


@idea("modulated", beside=True, whole=True)
def modulated(d: Draft) -> None:
    """Scales and shifts from a second input of the batch, or from the data."""
    c = d.width()
    a, g, b = d.part("a", f"dense({d.f}, {c})"), d.part("g", f"dense(2, {c})"), d.part("b", f"dense(2, {c})")
    y = d.input("y", "leaning(n, 2)")
    d.layer(
        d.one_of((f"{a}(h) * (1 + {g}({y})) + {b}({y})", f"{a}(h) * {g}({y}).sigmoid()", f"{a}(h) + {b}({y}).tanh()")),
        c,
    )


@idea("low rank")
def low_rank(d: Draft) -> None:
    c, r = d.width(2), d.one_of((1, 2))
    u, v, b = d.part("u", f"weight({d.f}, {r})"), d.part("v", f"weight({r}, {c})"), d.part("b", f"bias({c})")
    w = d.part("w", f"weight({d.f}, {c})")
    ways = (
        f"h @ ({u} @ {v}) + {b}",
        f"h @ {u} @ {v} + {b}",
        f"h @ {w} + (h @ {u}) @ {v} + {b}",
        f"F.linear(h, ({w} + {u} @ {v}).t(), {b})",
        f"h @ ({w} * ({u} @ {v}).sigmoid()) + {b}",
    )
    d.layer(d.one_of(ways), c)


@idea("normalised activations")
def norms(d: Draft) -> None:
    c = d.width(3)
    a = d.part("a", f"dense({d.f}, {c})")
    kind = d.one_of(("batch", "batch", "layer", "group", "by hand"))
    if kind == "by hand":
        d.do(f"q = {a}(h)")
        d.layer("(q - q.mean(1, keepdim=True)) / (q.std(1, keepdim=True) + 0.1)", c)
        return
    made = {
        "batch": f"nn.BatchNorm1d({c}, eps=0.1)",
        "layer": f"nn.LayerNorm({c}, eps=0.1)",
        "group": f"nn.GroupNorm(1, {c}, eps=0.1)",
    }[kind]
    n = d.part("n", made)
    d.layer(f"{n}({a}(h))", c)


@idea("residual", 1.5)
def residual(d: Draft) -> None:
    a, b = d.part("a", f"dense({d.f}, {d.f})"), d.part("b", f"dense({d.f}, {d.f})")
    kind = d.one_of(("after", "sum", "two", "twice"))
    if kind == "after":
        d.do(f"z = {a}(h)")
        d.see()
        d.do(f"h = h + {d.relu()}")
    elif kind == "sum":
        c = d.width()
        d.layer(f"{d.part('a', f'dense({d.f}, {c})')}(h) + {d.part('b', f'dense({d.f}, {c})')}(h)", c)
    elif kind == "two":
        c, e = d.width(), d.part("e", f"dense({d.f}, {d.f})")
        d.do(f"r = {a}(h)", f"z = {b}(h)")
        d.see()
        d.do(f"z = r + {e}({d.relu()})")
        d.see()
        d.do(f"h = {d.relu()}")
    else:
        d.do(f"z = {a}(h)")
        d.see()
        d.do(f"h = h + {b}({d.relu()})")


@idea("two layers and their sum", 1.5)
def summed(d: Draft) -> None:
    c = d.width()
    d.do(f"u = {d.part('a', f'dense({d.f}, {c})')}(h)", f"v = {d.part('b', f'dense({d.f}, {c})')}(h)")
    kind = d.one_of(("gate", "stack", "product", "difference", "sum after"))
    if kind == "stack":
        unit = f"torch.arange(2)[:, None] * {c} + torch.arange({c})"
        d.do("g = (u + v).sigmoid()", "z = torch.stack([u, v], 1)")
        d.see(unit=unit)
        d.do(f"h = ({d.relu()} * g[:, None]).flatten(1)")
        d.f = 2 * c
    elif kind == "gate":
        d.do("g = (u + v).tanh()")
        d.see("u")
        d.do(f"h = {d.relu('u')} * g")
        d.f = c
    elif kind == "product":
        d.see("u")
        d.see("v")
        d.do("h = F.relu(u) * F.relu(v)")
        d.f = c
    elif kind == "difference":
        d.do("g = torch.exp(-((u - v) ** 2))", "z = torch.cat([u, v], 1)")
        d.see()
        d.do(f"h = {d.relu()} * torch.cat([g, g], 1)")
        d.f = 2 * c
    else:
        d.see("u")
        d.do("h = F.relu(u) + (u + v).tanh()")
        d.f = c


@idea("gate")
def gate(d: Draft) -> None:
    c = d.width()
    a, b = d.part("a", f"dense({d.f}, {c})"), d.part("b", f"dense({d.f}, {c})")
    kind = d.one_of(("after", "before", "highway", "glu"))
    if kind == "glu":
        e = d.part("e", f"dense({d.f}, {2 * c})")
        d.layer(f"F.glu({e}(h), 1)", c)
    elif kind == "after":
        d.do(f"z = {a}(h)")
        d.see()
        d.do(f"h = {d.relu()} * {b}(h).sigmoid()")
    elif kind == "before":
        d.layer(f"{a}(h) * {b}(h).sigmoid()", c)
    else:
        d.do(f"g = {b}(h).sigmoid()", f"z = {a}(h)")
        d.see()
        d.do(f"h = g * {d.relu()} + (1 - g) * {d.part('k', f'dense({d.f}, {c})')}(h)")
    d.f = c


@idea("squeeze and excite")
def excited(d: Draft) -> None:
    c = d.width(2)
    a, b = d.part("a", f"dense({d.f}, {c})"), d.part("b", f"dense({c}, {d.f})")
    d.do(f"z = {a}(h)")
    d.see()
    d.do(f"h = h * {b}({d.relu()}).sigmoid()")


@idea("a layer used twice", 1.5)
def twice(d: Draft) -> None:
    """The same weights meet the same points again: each use is a layer."""
    f = d.f
    a = d.part("a", f"dense({f}, {f})")
    kind = d.one_of(("row", "loop", "views", "siamese"))
    if kind == "row":
        d.layer(f"{a}(h)", f)
        d.layer(f"{a}(h)", f)
    elif kind == "loop":
        with d.inside(f"for t in range({d.one_of((2, 3))}):"):
            d.layer(f"{a}(h)", f, what="step {t}")
    elif kind == "views":
        d.do(f"z = {a}(h)")
        d.see()
        d.do(f"u = {d.relu()}", f"z = {a}(-h)")
        d.see()
        d.do(f"h = u + {d.relu()}")
    else:
        d.do(f"z = {a}(h)")
        d.see()
        d.do(f"u = {d.relu()}", f"z = {a}(h * 0.5 - 0.3)")
        d.see()
        d.do(f"h = torch.cat([u, {d.relu()}], 1)")
        d.f = 2 * f


@idea("tied weights")
def tied(d: Draft) -> None:
    c = d.width()
    a, b = d.part("a", f"dense({d.f}, {c})"), d.part("b", f"bias({d.f})")
    f = d.f
    d.layer(f"{a}(h)", c)
    d.layer(f"F.linear(h, {a}.weight.t(), {b})", f)


@idea("two branches", 1.5, outer=True)
def branches(d: Draft) -> None:
    """Two ideas side by side, put together in some way."""
    start, f = d.name("h"), d.f
    left = d.name("h")
    d.do(f"{start} = h")
    _nested(d)
    d.do(f"{left} = h", f"h = {start}")
    width, d.f = d.f, f
    _nested(d)
    ways = [f"torch.cat([{left}, h], 1)"]
    if d.f == width:
        ways += [f"{left} + h", f"{left} * h.sigmoid()", f"0.5 * ({left} - h)"]
    way = d.one_of(ways)
    d.do(f"h = {way}")
    d.f = width + d.f if way.startswith("torch.cat") else d.f


@idea("stochastic depth", outer=True)
def stochastic_depth(d: Draft) -> None:
    start, f = d.name("h"), d.f
    with d.inside(d.one_of(("if torch.rand(()) < 0.5:", "if len(h) % 2:", "if h.mean() > 0:"))):
        d.do(f"{start} = h")
        _nested(d)
        d.do(f"h = {start} + 0.5 * {d.part('k', f'dense({d.f}, {f})')}(h)")
        d.f = f


def _nested(d: Draft) -> None:
    d.write(drawn(d, still=True))


@idea("masks and where")
def masked(d: Draft) -> None:
    c = d.width()
    a, b = d.part("a", f"dense({d.f}, {c})"), d.part("b", f"dense({d.f}, {c})")
    kind = d.one_of(("fill", "rows", "rows by data", "dropout", "own dropout", "none"))
    d.do(f"z = {a}(h)")
    if kind == "fill":
        d.do(f"z = z.masked_fill({b}(h) > 1.0, -1.0)")
    elif kind == "rows":
        d.do("z = torch.where((torch.arange(len(h)) % 2 == 0)[:, None], z, z - 1.0)")
    elif kind == "rows by data":
        d.do("z = torch.where(h[:, :1] > 0, z, 0.5 * z)")
    elif kind == "dropout":
        d.do("z = F.dropout(z, 0.3)")
    elif kind == "own dropout":
        d.do("z = z * (torch.rand_like(z) > 0.3)")
    d.see()
    d.do(f"h = {d.relu()}")
    d.f = c


@idea("columns moved", 1.5)
def columns(d: Draft) -> None:
    """Some or all units of a layer, in another order, that is another one in each batch."""
    c = d.one_of((4, 5, 6))
    a = d.part("a", f"dense({d.f}, {c})")
    kind = d.one_of(
        ("slice by batch", "slice by number", "slice by state", "permuted", "rolled", "chosen", "dropped", "by data")
    )
    if kind == "slice by state":
        d.parts.setdefault("calls", "0")
        d.do("s.calls += 1", f"k = s.calls % {c - 1}")
    elif kind == "slice by number":
        d.do(f"k = {d.input('k', f'i % {c - 1}')}")
    elif kind == "slice by batch":
        d.do(f"k = len(h) % {c - 1}")
    d.do(f"z = {a}(h)")
    if kind.startswith("slice"):
        d.do("z = z[:, k : k + 2]", f"~q = torch.arange({c})[k : k + 2]")
        c = 2
    elif kind == "permuted":
        d.do(f"q = torch.randperm({c})", "z = z[:, q]")
    elif kind == "rolled":
        d.do("z = z.roll(len(h), 1)", f"~q = torch.arange({c}).roll(len(h))")
    elif kind == "chosen":
        d.do(f"q = torch.randperm({c})[:3].sort().values", "z = z.index_select(1, q)")
        c = 3
    else:
        d.do(f"q = [k for k in range({c}) if k != len(h) % {c}]", "z = z[:, q]", "~q = torch.tensor(q)")
        c -= 1
    d.see(unit="q")
    d.do(f"h = {d.relu()}")
    d.f = c


@idea("columns by data")
def by_data(d: Draft) -> None:
    """Units of a layer that numbers of the data choose, the same for all points."""
    c = d.one_of((4, 5))
    a = d.part("a", f"dense({d.f}, {c})")
    ways = (
        "h.detach().sum(1).argsort()[:1] % 2 + torch.arange(2)",
        "h.detach().mean(0).argsort()[:2] % 3",
        "(h.detach().sum() > 0).long() + torch.arange(3)",
        "torch.tensor([int(h.sum() > 0), 3])",
        "z.detach().amax(0).argsort()[1:]",
    )
    d.do(f"z = {a}(h)", f"q = {d.one_of(ways)}", "z = z[:, q]")
    d.see(unit="q")
    d.do(f"h = {d.relu()}.sum(1, keepdim=True)")
    d.f = 1


@idea("a ReLU in other words")
def spelled(d: Draft) -> None:
    c = d.width()
    a = d.part("a", f"dense({d.f}, {c})")
    d.do(f"z = {a}(h)")
    d.see()
    d.do(
        *d.one_of(
            (
                ("h = (z + z.abs()) / 2",),
                ("h = z - z.clamp(max=0)",),
                ("h = torch.zeros_like(z)", "h[z > 0] = z[z > 0]"),
                ("h = z.clone()", "h[z < 0] = 0.0"),
                ("h = -torch.minimum(-z, torch.zeros_like(z))",),
                ("h = z.abs().add_(z).mul_(0.5)",),
                ("h = z * torch.heaviside(z, torch.zeros(()))",),
                ("h = torch.fmax(z, torch.zeros(()))",),
                ("h = torch.stack([z, torch.zeros_like(z)]).amax(0)",),
                ("h = z * (z.sign() + 1) / 2",),
                ("mask = z > 0", "h = torch.zeros_like(z).masked_scatter(mask, z[mask])"),
                ("h = z.where(z > 0, torch.zeros(()))",),
            )
        )
    )
    d.f = c


@idea("features before a layer, moved")
def features(d: Draft) -> None:
    """Columns that go into a layer: its units are its own, whatever they were."""
    c = d.width()
    kind = d.one_of(("slice", "number", "permuted", "sorted")) if d.f > 2 else "sorted"
    if kind == "slice":
        a = d.part("a", f"dense(2, {c})")
        d.do(f"k = len(h) % {d.f - 1}")
        d.layer(f"{a}(h[:, k : k + 2])", c)
    elif kind == "number":
        k, a = d.input("k", f"i % {d.f - 1}"), d.part("a", f"dense(2, {c})")
        d.layer(f"{a}(h[:, {k} : {k} + 2])", c)
    else:
        a = d.part("a", f"dense({d.f}, {c})")
        d.layer(f"{a}(h[:, torch.randperm({d.f})])" if kind == "permuted" else f"{a}(h.sort(1).values)", c)


@idea("in place")
def in_place(d: Draft) -> None:
    c = d.width()
    a = d.part("a", f"dense({d.f}, {c})")
    d.do(f"z = {a}(h)")
    kind = d.one_of(("shift", "mean", "row", "column"))
    if kind == "shift":
        d.do("z -= 0.3")
    elif kind == "mean":
        d.do("z -= z.mean(1, keepdim=True)")
    elif kind == "row":
        d.do("z[len(z) // 2 :] *= 0.5")
    else:
        d.do(f"z[:, len(z) % {c}] -= 1.0")
    d.see()
    d.do(f"h = {d.relu()}")
    d.f = c
