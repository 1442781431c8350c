"""Ideas of whole programs: heads by data, by an integer or by turns; experts; state; inputs beside x."""

from __future__ import annotations

from whole_draft import Draft, idea

LISTS = (
    "plain",
    "plain",
    "W[k]",
    "W[k] + B[k] @ A[k]",
    "weight_norm",
    "spectral_norm",
    "unbind",
    "index_select",
    "slice",
    "by name",
)


def _head(d: Draft, count: int, c: int, k: str = "k") -> str:
    """One of so many heads by a Python integer: the expression of its z."""
    f, form = d.f, d.one_of(LISTS)
    if form in ("plain", "weight_norm", "spectral_norm"):
        made = f"dense({f}, {c})"
        if form != "plain":
            made = f"torch.nn.utils.parametrizations.{form}({made})"
        heads = d.part("heads", f"nn.ModuleList({made} for _ in range({count}))")
        return f"{heads}[{k}](h)"
    if form == "by name":
        heads = d.part("heads", f"nn.ModuleDict({{f'task {{e}}': dense({f}, {c}) for e in range({count})}})")
        return f"{heads}[f'task {{{k}}}'](h)"
    w, b = d.part("w", f"weight({count}, {f}, {c})"), d.part("b", f"bias({count}, {c})")
    if form == "W[k] + B[k] @ A[k]":
        u, v = d.part("u", f"weight({count}, {f}, 1)"), d.part("v", f"weight({count}, 1, {c})")
        shared = f"{d.part('w', f'weight({f}, {c})')}" if d.maybe() else f"{w}[{k}]"
        return f"h @ ({shared} + {u}[{k}] @ {v}[{k}]) + {b}[{k}]"
    one = {
        "W[k]": f"{w}[{k}]",
        "unbind": f"{w}.unbind()[{k}]",
        "index_select": f"{w}.index_select(0, torch.tensor([{k}]))[0]",
        "slice": f"{w}[{k} : {k} + 1].squeeze(0)",
    }[form]
    return f"h @ {one} + {b}[{k}]"


@idea("a head by an integer", 3.0)
def by_integer(d: Draft) -> None:
    count, c = d.one_of((2, 3)), d.width()
    ways = (
        "len(h) % {count}",
        "int(h.sum() > 0)",
        "int(h[0].argmax()) % {count}",
        "s.calls % {count}",
        "s.calls % {count}",
        "{number}",
        "int(torch.randint({count}, ()))",
        "(h[:, 0] > 0).sum().item() % {count}",
    )
    way = d.one_of(ways)
    if way.startswith("s.calls"):
        d.parts.setdefault("calls", "0")
        d.do("s.calls += 1")
    if way == "{number}":
        way = d.input("k", d.one_of((f"i % {count}", f"torch.tensor(i % {count})")))
        way = f"int({way})"
    d.do(f"k = {way.format(count=count)}")
    d.layer(_head(d, count, c), c, what="head {k}")


@idea("all heads, one after the other", outer=True)
def all_heads(d: Draft) -> None:
    count, c = d.one_of((2, 3)), d.width()
    expression = _head(d, count, c)
    d.do("out = []")
    with d.inside(f"for k in range({count}):"):
        d.do(f"z = {expression}")
        d.see(what="head {k}")
        d.do(f"out.append({d.relu()})")
    d.do("h = torch.stack(out).mean(0)")
    d.f = c


@idea("experts", 2.0, outer=True)
def experts(d: Draft) -> None:
    count, f = d.one_of((2, 3)), d.f
    heads, c = d.part("heads", f"several(dense, {count}, {f}, {f})"), f
    g = d.part("g", f"dense({f}, {count})")
    kind = d.one_of(("loop", "unique", "top 2", "sorted", "mask"))
    if kind == "top 2":
        d.do(f"w, q = {g}(h).softmax(-1).topk(2, -1)", f"u = h.new_zeros(len(h), {c})")
        with d.inside(f"for k in range({count}):"):
            d.do("rows, slot = (q == k).nonzero(as_tuple=True)", f"z = {heads}[k](h[rows])")
            d.do("~t = p[rows]", "~if len(rows):")
            d.depth += 1
            d.see(p="t", what="expert {k}")
            d.depth -= 1
            d.do(f"u = u.index_add(0, rows, {d.relu()} * w[rows, slot, None])")
        d.do("h = u")
        return
    d.do(f"q = {g}(h).argmax(-1)")
    if kind == "sorted":
        d.do("rows = q.argsort(stable=True)", "u, start = [], 0")
        with d.inside(f"for k, m in enumerate(q.bincount(minlength={count}).tolist()):"):
            d.do(f"z = {heads}[k](h[rows[start : start + m]])", "~if m:")
            d.depth += 1
            d.see(p="p[rows[start : start + m]]", what="expert {k}")
            d.depth -= 1
            d.do(f"u.append({d.relu()})", "start += m")
        d.do("h = torch.cat(u)[rows.argsort()]")
        return
    loop = "for k in q.unique().tolist():" if kind == "unique" else f"for k in range({count}):"
    rows = "q == k" if kind == "mask" else "(q == k).nonzero()[:, 0]"
    d.do("u = torch.zeros_like(h)")
    with d.inside(loop):
        d.do(f"rows = {rows}", f"z = {heads}[k](h[rows])", "~if z.numel():")
        d.depth += 1
        d.see(p="p[rows]", what="expert {k}")
        d.depth -= 1
        d.do(f"u[rows] = {d.relu()}")
    d.do("h = u")


@idea("a running buffer", 1.5)
def running(d: Draft) -> None:
    f = d.f
    m = d.part("m", d.one_of((f"nn.Buffer(torch.zeros({f}))", f"torch.zeros({f})")))
    way = d.one_of(
        (
            "{m} = 0.5 * {m} + 0.5 * h.detach().mean(0)",
            "{m}.mul_(0.5).add_(0.5 * h.detach().mean(0))",
            "{m}.lerp_(h.detach().mean(0), 0.5)",
            "{m}.copy_(h.detach().amax(0))",
        )
    )
    c = d.width()
    a = d.part("a", f"dense({f}, {c})")
    before = d.maybe()
    if before:
        d.do(way.format(m=m))
    d.layer(f"{a}(h - {m.replace('s.', 's.')}{'.clone()' if not before else ''})", c)
    if not before:
        d.do(
            way.format(m=m).replace("h.", f"{m}.new_ones(1, {f}).")
            if d.maybe(0.3)
            else f"{m} = {m} + 0.3"
            if d.maybe()
            else f"{m}.add_(0.3)"
        )


@idea("state that grows", 1.5)
def grown(d: Draft) -> None:
    c = d.width()
    a = d.part("a", f"dense({d.f}, {c})")
    h = d.part("state", d.one_of(("nn.Buffer(torch.zeros(()))", "torch.zeros(())", "0.0")))
    d.do(f"{h} = {h} + {d.one_of((1, -1, 0.5))}")
    d.layer(f"{a}(h) + {h}", c)


@idea("truncated backpropagation", 1.5)
def truncated(d: Draft) -> None:
    c = d.width()
    a, b = d.part("a", f"dense({d.f}, {c})"), d.part("b", f"dense({c}, {c}, bias=False)")
    if d.moved or d.maybe():
        m = d.part("m", f"nn.Buffer(torch.zeros(1, {c}))")
        d.layer(f"{a}(h) + {b}({m})", c)
        kept = ("h.detach().mean(0, keepdim=True)", "h.detach()[:1].tanh()", "h.mean(0, keepdim=True).detach() + 0.1")
        d.do(f"{m} = {d.one_of(kept)}")
    else:
        m = d.part("m", f"torch.zeros(MOST_POINTS, {c})")
        d.layer(f"{a}(h) + {b}({m}[: len(h)])", c)
        d.do(f"{m} = torch.cat([h.detach(), {m}[len(h) :]])")


@idea("memory of earlier batches")
def bank(d: Draft) -> None:
    c, size = d.width(), d.one_of((3, 4, 6))
    m, a = d.part("m", f"torch.randn({size}, {d.f})"), d.part("a", f"dense({d.f}, {c})")
    d.do("q = h", f"g = (h @ {m}.t()).softmax(-1)")
    d.layer(f"{a}(h + g @ {m})", c)
    d.do(f"{m} = torch.cat([{m}, q.detach()])[-{size}:]")


@idea("a second input of the batch", whole=True, beside=True)
def second(d: Draft) -> None:
    c, e = d.width(), d.width()
    y, a = d.input("y", f"leaning(n, {e})"), d.part("a", f"dense({d.f + e}, {c})")
    d.layer(f"{a}(torch.cat([h, {y}], 1))", c)


COUNTS = ("n", "n", "4", "n + 1", "3 + i % 2")  # the first axis of an input that is no batch: now and then that of x


@idea("memory slots", 1.5, beside=True)
def slots(d: Draft) -> None:
    c = d.width()
    m, a = d.input("slots", f"torch.randn({d.one_of(COUNTS)}, {d.f})"), d.part("a", f"dense({d.f}, {c})")
    kind = d.one_of(("attention", "nearest", "mean", "lookup"))
    if kind == "attention":
        d.layer(f"{a}((h @ {m}.t()).softmax(-1) @ {m})", c)
    elif kind == "nearest":
        d.layer(f"{a}(h - {m}.mean(0))", c)
    elif kind == "mean":
        k = d.part("k", f"dense({d.f}, {d.f})")
        d.layer(f"{a}(h + {k}({m}).sigmoid().mean(0))", c)
    else:
        d.layer(f"{a}(h + {m}[torch.arange(len(h)) % len({m})])", c)


@idea("a support set", 1.0, beside=True)
def support(d: Draft) -> None:
    """Prototypes: a layer on what is no batch, which has no points of ours."""
    c = d.width()
    m, a = d.input("support", f"torch.randn({d.one_of(COUNTS)}, {d.f})"), d.part("a", f"dense({d.f}, {c})")
    d.layer(f"{a}(h)", c)
    d.do(f"z = {a}({m}).tanh()", "h = h + (h @ z.t()).softmax(-1) @ z")


@idea("edges", 1.5, whole=True, outer=True, beside=True)
def edges(d: Draft) -> None:
    """Messages in a graph: where they meet, the node is the point, or he whose messages alone meet there, or nobody."""
    count = d.one_of(("n", "n", "2 * n", "n + 1"))
    axis = d.one_of(("[2, E]", "[E, 2]"))
    e = d.input("edges", f"edges_of(n, {count})" + (".t()" if axis == "[E, 2]" else ""))
    d.do(f"src, dst = {e}" if axis == "[2, E]" else f"src, dst = {e}.unbind(1)")
    c = d.width()
    a, b = d.part("a", f"dense({d.f}, {c})"), d.part("b", f"dense({c}, {c})")
    r = d.reading("node", "node", "met", "nobody")
    d.do(f"z = {a}(h[src])")
    d.see(p="p[src]")
    d.do(
        f"h = h.new_zeros(len(h), {c}).index_add(0, dst, {d.relu()})",
        f"~p = p if {r} == 'node' else met(p, src, dst) if {r} == 'met' else torch.full_like(p, -1)",
    )
    d.f, d.moved = c, True
    d.layer(f"{b}(h)", c)


@idea("a time grid", beside=True)
def grid(d: Draft) -> None:
    c, e = d.width(), d.one_of((2, 3))
    t = d.input("grid", f"torch.linspace(0, 1, {d.one_of(COUNTS)})")
    a = d.part("a", f"dense({d.f} + {e}, {c})")
    f = d.part("f", f"torch.randn({e})")
    kind = d.one_of(("each", "mean", "euler"))
    if kind == "mean" or d.depth:
        d.layer(f"{a}(torch.cat([h, ({t}[:, None] * {f}).cos().mean(0).expand(len(h), {e})], 1))", c)
    elif kind == "each":
        d.do(
            f"q = ({t}[:, None] * {f}).cos()",
            f"q = torch.cat([h[:, None].expand(-1, len({t}), -1), q.expand(len(h), -1, -1)], 2)",
        )
        d.layer(f"{a}(q)", c)
        d.do("h = h.mean(1)")
    else:
        b, g = d.part("b", f"dense({d.f} + 1, {d.f})"), d.name("t")
        with d.inside(f"for k, {g} in enumerate({t}[:3]):"):
            d.do(f"z = {b}(torch.cat([h, {g}.expand(len(h), 1)], 1))")
            d.see(what="step {k}")
            d.do(f"h = h + 0.3 * {d.relu()}")


@idea("time by batch, as long as it", whole=True, beside=True)
def time_first(d: Draft) -> None:
    """[T, N, C] of which a sum over all is taken: nobody's, whichever axis holds the points."""
    c, o = d.width(), d.width()
    y, a = d.input("y", f"leaning({d.one_of(('3', '2 + i % 2'))}, n, {c})"), d.part("a", f"dense({c}, {o})")
    d.do(f"q = {y}.mean(0)", f"z = {a}(q)")
    b = d.part("b", f"dense({d.f}, {o})")
    d.layer(f"{b}(h) + q.sum() * 0.1", o)


@idea("normalised over the batch")
def centred(d: Draft) -> None:
    """A statistic over all points takes nothing from whose entry it is."""
    c = d.width()
    a = d.part("a", f"dense({d.f}, {c})")
    less = ("h - h.mean(0)", "(h - h.mean(0)) / (h.var(0, unbiased=False) + 0.1).sqrt()", "h - h.detach().amax(0)")
    d.layer(f"{a}({d.one_of(less)})", c)
