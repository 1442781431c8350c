"""Ideas of whole programs: rows that move, part, meet or are left out; sequences; forwards in chunks and loops."""

from __future__ import annotations

from whole_draft import Draft, idea


def _layer(d: Draft, p: str = "p", what: str = "") -> None:
    c = d.width()
    a = d.part("a", f"dense({d.f}, {c})")
    d.layer(f"{a}(h)", c, p, what)


@idea("rows in another order", 2.0, moves=True)
def ordered(d: Draft) -> None:
    ways = (
        "torch.randperm(len(h))",
        "torch.arange(len(h)).flip(0)",
        "torch.arange(len(h)).roll(1)",
        "h[:, 0].argsort()",
        "torch.tensor(sorted(range(len(h)), key=h[:, 0].tolist().__getitem__))",
        "torch.tensor(sorted(range(len(h)), key=lambda r: -float(h[r].sum())))",
        "torch.arange(len(h)).roll(int(h[0, 0] > 0))",
    )
    order = d.name("order")
    take = d.one_of(
        (
            f"h[{order}]",
            f"h.index_select(0, {order})",
            f"h[{order}.tolist()]",
            f"torch.stack([h[r] for r in {order}.tolist()])",
        )
    )
    d.do(f"{order} = {d.one_of(ways)}", f"h = {take}", f"~p = p[{order}]")
    _layer(d)
    if d.maybe():
        d.do(f"h = h[{order}.argsort()]", f"~p = p[{order}.argsort()]")
    else:
        d.moved = True


@idea("rows chosen", 1.5, moves=True)
def chosen(d: Draft) -> None:
    ways = (
        "torch.randint(len(h), (len(h),))",
        "torch.randint(len(h), (3,))",
        "torch.randperm(len(h))[: len(h) // 2 + 1]",
        "h[:, 0].topk(len(h) // 2 + 1).indices",
        "torch.arange(len(h) % 2, len(h), 2) if len(h) > 1 else torch.arange(1)",
        "torch.tensor([r for r, v in enumerate(h[:, 0].tolist()) if v >= min(h[:, 0].tolist(), key=abs)])",
    )
    order = d.name("order")
    d.do(f"{order} = {d.one_of(ways)}", f"h = h[{order}]", f"~p = p[{order}]")
    d.moved = True
    _layer(d)


@idea("rows by a mask", moves=True)
def by_mask(d: Draft) -> None:
    """Some rows go through a layer, and back to their places."""
    f = d.f
    a, keep = d.part("a", f"dense({f}, {f})"), d.name("keep")
    ways = ("h[:, 0] > h[:, 0].median() - 0.1", "torch.arange(len(h)) % 2 == 0", "torch.rand(len(h)) > -0.5")
    d.do(f"{keep} = {d.one_of(ways)}")
    d.do(f"z = {a}(h[{keep}])")
    d.see(p=f"p[{keep}]")
    kind = d.one_of(("write", "masked_scatter", "index_put"))
    if kind == "write":
        d.do("h = h.clone()", f"h[{keep}] = {d.relu()}")
    elif kind == "masked_scatter":
        d.do(f"h = h.masked_scatter({keep}[:, None], {d.relu()})")
    else:
        d.do(f"h = h.index_put(({keep},), {d.relu()})")


@idea("two views of every point", moves=True)
def views(d: Draft) -> None:
    kind = d.one_of(("cat", "stack", "interleave"))
    if kind == "cat":
        d.do("h = torch.cat([h, 0.7 * h - 0.2])", "~p = torch.cat([p, p])")
    elif kind == "stack":
        d.do("h = torch.stack([h, -h], 1).flatten(0, 1)", "~p = p.repeat_interleave(2)")
    else:
        d.do(
            "h = h.repeat_interleave(2, 0) + 0.3 * torch.arange(2).repeat(len(h))[:, None]",
            "~p = p.repeat_interleave(2)",
        )
    _layer(d)
    if kind == "cat":
        d.do("h = h.chunk(2)[0] + h.chunk(2)[1]", "~p = p.chunk(2)[0]")
    else:
        d.do("h = h[::2] - h[1::2]", "~p = p[::2]")


def _sequence(d: Draft) -> tuple[str, int]:
    """q [rows, T, C] from h, or an input of that shape beside it; T may be another one in each batch."""
    c = d.width()
    if not d.moved and d.maybe(0.4):
        t = d.one_of(("2", "3", "n", "2 + i % 2"))
        y, a = d.input("y", f"leaning(n, {t}, {c})"), d.part("a", f"dense({d.f}, {c})")
        d.do(f"{y} = {y} + {a}(h)[:, None]")
        return y, c
    t = d.one_of((2, 3))
    d.do(f"q = {d.part('t', f'dense({d.f}, {t * c})')}(h).view(len(h), {t}, {c})")
    return "q", c


@idea("sequence", 1.5)
def sequence(d: Draft) -> None:
    q, c = _sequence(d)
    o = d.width()
    a = d.part("a", f"dense({c}, {o})")
    kind = d.one_of(("plain", "folded", "time first", "conv", "attention"))
    if kind == "plain":
        d.layer(f"{a}({q})", o)
        d.do("h = h.mean(1)")
    elif kind == "folded":
        d.do(f"z = {a}({q}.reshape(-1, {c}))")
        d.see(p=f"p.repeat_interleave({q}.shape[1])")
        d.do(f"h = {d.relu()}.view({q}.shape[0], -1, {o}).sum(1)")
    elif kind == "time first":
        d.do(f"z = {a}({q}.transpose(0, 1).reshape(-1, {c}))")
        d.see(p=f"p.repeat({q}.shape[1])")
        d.do(f"h = {d.relu()}.view(-1, {q}.shape[0], {o}).mean(0)")
    elif kind == "conv":
        k = d.part("k", f"conv({c}, {o}, kernel_size=2, padding=1)")
        d.do(f"z = {k}({q}.transpose(1, 2))")
        d.see(units=1)
        d.do(f"h = {d.relu()}.mean(2)")
    else:
        d.do(f"g = (torch.einsum('ntc,nuc->ntu', {q}, {q}) / 2).softmax(-1)", f"z = {a}(g @ {q})")
        d.see()
        d.do(f"h = {d.relu()}[:, -1]")
    d.f = o


@idea("cut by lengths", 2.0, moves=True)
def lengths(d: Draft) -> None:
    """Rows of several lengths, with an equal total in batches of one size."""
    q, c = _sequence(d)
    if q != "q":
        d.do(f"q = {q}")
    o = d.width()
    a, long = d.part("a", f"dense({c}, {o})"), d.name("lengths")
    d.do(
        f"{long} = "
        + d.one_of(
            (
                f"lengths_of(len(q), q.shape[1], {d.input('i', 'i')})",
                "[min(1 + (v > 0), q.shape[1]) for v in q[:, 0, 0].tolist()]",
            )
        )
    )
    if d.maybe(0.7):
        d.do(f"h = torch.cat([r[:m] for r, m in zip(q, {long}, strict=True)])")
    else:
        d.do(f"h = q[torch.arange(q.shape[1]) < torch.tensor({long})[:, None]]")
    d.do(f"~p = p.repeat_interleave(torch.tensor({long}))")
    d.layer(f"{a}(h)", o)
    if d.maybe(0.6):
        d.do(f"h = torch.stack([part.mean(0) for part in h.split({long})])")
        d.do(f"~p = torch.stack([part[0] for part in p.split({long})])")
    else:
        d.moved = True


@idea("in chunks", 1.5, outer=True, whole=True)
def chunks(d: Draft) -> None:
    """The same weights meet other points, each once: one layer."""
    c = d.width()
    a = d.part("a", f"dense({d.f}, {c})")
    cut = d.one_of(("chunk(2)", "split(2)", "split(3)", "tensor_split(2)", "unbind()", "split([1, len(h) - 1])"))
    d.do("out = []", f"~ps = list(p.{cut})")
    with d.inside(f"for part in h.{cut}:"):
        d.do(f"z = {a}(part)", "~t = ps.pop(0)")
        d.see(p="t")
        d.do(f"out.append({d.relu()})")
    d.do(f"h = torch.{'stack' if cut == 'unbind()' else 'cat'}(out)")
    d.f = c


@idea("recurrence", 1.5, outer=True)
def recurrence(d: Draft) -> None:
    """The same weights meet the same points again: each step is a layer."""
    q, c = _sequence(d)
    o = d.width()
    a, b = d.part("a", f"dense({c}, {o})"), d.part("b", f"dense({o}, {o}, bias=False)")
    kind = d.one_of(("relu", "stacked", "none first", "by cell"))
    if kind == "stacked":
        d.do("u = []", f"r = {q}.new_zeros(len({q}), {o})")
        with d.inside(f"for t in range({q}.shape[1]):"):
            d.do(f"r = torch.tanh({a}({q}[:, t]) + {b}(r))", "u.append(r)")
        w = d.part("a", f"dense({o}, {o})")
        d.do("h = torch.stack(u, 1)")
        d.layer(f"{w}(h)", o)
        d.do("h = h.mean(1)")
        return
    d.do("r = None" if kind == "none first" else f"r = {q}.new_zeros(len({q}), {o})")
    with d.inside(f"for t in range({q}.shape[1]):"):
        plain = f"{a}({q}[:, t]) + {b}(r)"
        d.do(f"z = {a}({q}[:, t]) if r is None else {plain}" if kind == "none first" else f"z = {plain}")
        d.see(what="step {t}")
        d.do(f"r = {d.relu()}")
    d.do("h = r")
    d.f = o


@idea("each point by itself", outer=True, whole=True)
def alone(d: Draft) -> None:
    c = d.width()
    a = d.part("a", f"dense({d.f}, {c})")
    d.do("out = []")
    with d.inside("for r in range(len(h)):"):
        d.do(f"z = {a}(h[r])")
        d.see(p="p[r : r + 1]", points=-1, units=-1)
        d.do(f"out.append({d.relu()})")
    d.do("h = torch.stack(out)")
    d.f = c
