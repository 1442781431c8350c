"""Ideas of whole programs: ways to call a layer (functions, threads, types, buckets), and what is looked up or kept."""

from __future__ import annotations

from whole_draft import Draft, idea


@idea("checkpointed", outer=True)
def checkpointed(d: Draft) -> None:
    c = d.width()
    a, g = d.part("a", f"dense({d.f}, {c})"), d.name("block")
    with d.inside(f"def {g}(h):"):
        d.do(f"z = {a}(h)")
        d.see()
        d.do(f"return {d.relu()}")
    kind = d.one_of(("plain", "checkpoint", "checkpoint"))
    d.do(f"h = {g}(h)" if kind == "plain" else f"h = checkpoint({g}, h, use_reentrant=False)")
    d.f = c


@idea("in threads", 0.5, outer=True)
def threads(d: Draft) -> None:
    """Two layers at once; what they see is noted by the truth, one after the other."""
    c = d.width()
    a, b = d.part("a", f"dense({d.f}, {c})"), d.part("b", f"dense({d.f}, {c})")
    d.do(f"~z = {a}(h)")
    d.see(what="left")
    d.do(f"~z = {b}(h)")
    d.see(what="right")
    d.do(
        "with ThreadPoolExecutor(2) as pool:",
        f"    h = sum(pool.map(lambda part: F.relu(part(h)), [{a}, {b}]))",
    )
    d.f = c


@idea("another type")
def other_type(d: Draft) -> None:
    c = d.width()
    d.layer(f"{d.part('a', f'dense({d.f}, {c}).double()')}(h.double())", c)
    d.do("h = h.float()")


@idea("transposed", 1.5)
def transposed(d: Draft) -> None:
    """Units first, points last; the two may be as many."""
    c = d.width()
    w, b = d.part("w", f"weight({d.f}, {c})"), d.part("b", f"bias({c}, 1)")
    d.do(f"z = {w}.t() @ h.t() + {b}")
    d.see(points=1, units=0)
    d.do(f"h = {d.relu()}.t()")
    d.f = c


@idea("a table of weights by an integer")
def table(d: Draft) -> None:
    """A shift for each batch, or for each row, that is looked up: no weights that make units."""
    c, e = d.width(), d.one_of((3, 4))
    a, t = d.part("a", f"dense({d.f}, {c})"), d.part("e", f"nn.Embedding({e}, {c})")
    kind = d.one_of(("batch", "rows", "input", "weight"))
    if kind == "batch":
        d.layer(f"{a}(h) + {t}(torch.tensor(len(h) % {e}))", c)
    elif kind == "rows":
        d.layer(f"{a}(h) + {t}((h[:, 0] > 0).long())", c)
    elif kind == "input" and not d.moved:
        k = d.input("k", f"torch.randint({e}, (n,))")
        d.layer(f"{a}(h) + {t}({k})", c)
    else:
        d.layer(f"{a}(h) * {t}.weight[len(h) % {e}].exp()", c)


@idea("a hypernetwork")
def hyper(d: Draft) -> None:
    """Weights that a layer makes for the whole batch: one layer, or one for each of its inputs."""
    c, f = d.width(), d.f
    g, t, b = d.part("g", f"dense(2, {f * c})"), d.part("e", "nn.Embedding(3, 2)"), d.part("b", f"bias({c})")
    k = d.one_of(("0", "len(h) % 3", "int(h.sum() > 0)"))
    d.do(f"k = {k}", f"w = {g}({t}(torch.tensor(k))).view({f}, {c})")
    d.layer(f"h @ w + {b}", c, what=f"{{k if {d.reading('hyper', False, True)} else ''}}")


@idea("noise made in forward")
def noise(d: Draft) -> None:
    """A generator: its rows are points if one likes, or nobody's."""
    c = d.width()
    a, b = d.part("a", f"dense(3, {c})"), d.part("b", f"dense({d.f} + {c}, {c})")
    r = d.reading("noise", True, False)
    d.do("z = " + f"{a}(torch.randn(len(h), 3))")
    d.see(p=f"p if {r} else torch.full_like(p, -1)")
    d.do(f"u = {d.relu()}")
    d.layer(f"{b}(torch.cat([h, u], 1))", c)


@idea("buckets in Python", 1.5, moves=True)
def buckets(d: Draft) -> None:
    """Rows by a key in a dict, each bucket by itself, and back in order: one layer."""
    c = d.width()
    a = d.part("a", f"dense({d.f}, {c})")
    key = d.one_of(("v > 0", "round(v) % 2", "r % 2", "(r + len(h)) % 2"))
    d.do("groups = {}")
    with d.inside("for r, v in enumerate(h[:, 0].tolist()):"):
        d.do(f"groups.setdefault({key}, []).append(r)")
    d.do(
        "rows = [r for group in groups.values() for r in group]",
        "z = torch.cat([h[group] for group in groups.values()])",
    )
    d.do(f"z = {a}(z)")
    d.see(p="p[rows]")
    d.do(f"h = {d.relu()}[torch.tensor(rows).argsort()]")
    d.f = c


@idea("windows of a sequence")
def windows(d: Draft) -> None:
    c, o = d.one_of((1, 2)), d.width()
    a, t = d.part("a", f"dense({2 * c}, {o})"), d.part("t", f"dense({d.f}, {4 * c})")
    d.do(f"q = {t}(h).view(len(h), 4, {c})")
    kind = d.one_of(("unfold", "pairs", "cumsum"))
    if kind == "unfold":
        d.layer(f"{a}(q.unfold(1, 2, 1).flatten(2))", o)
    elif kind == "pairs":
        d.layer(f"{a}(torch.cat([q[:, :-1], q[:, 1:]], 2))", o)
    else:
        d.layer(f"{a}(torch.cat([q, q.cumsum(1)], 2))", o)
    d.do("h = h.mean(1)")


@idea("written into a buffer", 1.0, outer=True)
def written(d: Draft) -> None:
    """Results that are written row by row, or part by part, into a new tensor, and then seen."""
    c = d.width()
    a = d.part("a", f"dense({d.f}, {c})")
    kind = d.one_of(("rows", "halves", "columns", "copy"))
    d.do(f"z = h.new_zeros(len(h), {c})")
    if kind == "rows":
        with d.inside("for r in range(len(h)):"):
            d.do(f"z[r] = {a}(h[r])")
    elif kind == "halves":
        d.do(f"z[: len(h) // 2] = {a}(h[: len(h) // 2])", f"z[len(h) // 2 :] = {a}(h[len(h) // 2 :])")
    elif kind == "columns":
        d.do(f"u = {a}(h)")
        with d.inside(f"for k in range({c}):"):
            d.do("z[:, k] = u[:, k]")
    else:
        d.do(f"z.copy_({a}(h))")
    d.see()
    d.do(f"h = {d.relu()}")
    d.f = c


@idea("expert choice", 1.0, outer=True)
def expert_choice(d: Draft) -> None:
    """Each expert takes the rows that like it most: a row may have several, or none."""
    count, f = d.one_of((2, 3)), d.f
    heads, g = d.part("heads", f"several(dense, {count}, {f}, {f})"), d.part("g", f"dense({f}, {count})")
    d.do(f"w, q = {g}(h).softmax(-1).topk(len(h) // 2 + 1, 0)", "u = torch.zeros_like(h)")
    with d.inside(f"for k in range({count}):"):
        d.do(f"z = {heads}[k](h[q[:, k]])")
        d.see(p="p[q[:, k]]", what="expert {k}")
        d.do(f"u = u.index_add(0, q[:, k], {d.relu()} * w[:, k, None])")
    d.do("h = u")


@idea("a mask of weights that changes")
def pruned(d: Draft) -> None:
    c = d.width(2)
    w, b = d.part("w", f"weight({d.f}, {c})"), d.part("b", f"bias({c})")
    m = d.part("mask", f"nn.Buffer(torch.ones({d.f}, {c}))")
    way = d.one_of(
        ("{m} = (torch.rand_like({m}) > 0.3).float()", "{m}[0] = 1 - {m}[0]", "{m}.mul_(0.9)", "{m} = {m}.roll(1, 1)")
    )
    d.do(way.format(m=m))
    d.layer(f"h @ ({w} * {m}) + {b}", c)


@idea("an early exit", outer=True)
def early(d: Draft) -> None:
    c = d.f
    a, b = d.part("a", f"dense({c}, {c})"), d.part("b", f"dense({c}, {c})")
    test = d.one_of(("h.max() > 1.0", "len(h) < 4", "s.calls % 2"))
    if "calls" in test:
        d.parts.setdefault("calls", "0")
        d.do("s.calls += 1")
    d.layer(f"{a}(h)", c, what="first")
    with d.inside(f"if {test}:"):
        d.layer(f"{b}(h)", c, what="second")


@idea("a list of states", 1.0)
def listed(d: Draft) -> None:
    """What earlier batches left in a list or a dict; with nothing there yet it is the same layer, or another."""
    c = d.width()
    a, b = d.part("a", f"dense({d.f}, {c})"), d.part("b", f"dense({c}, {c}, bias=False)")
    kept = d.part("kept", d.one_of(("[]", "{}")))
    what = f"{{'first' if {d.reading('apart', True, False)} and r is None else ''}}"
    if d.parts[kept.removeprefix("s.")] == "[]":
        d.do(f"r = {kept}[-1] if {kept} else None", f"z = {a}(h) + ({b}(r) if {kept} else 0.0)")
        d.see(what=what)
        d.do(f"h = {d.relu()}", f"{kept}.append(h.detach().mean(0))")
    else:
        d.do(f"r = {kept}.get(len(h))", f"z = {a}(h) if r is None else {a}(h) + {b}(r)")
        d.see(what=what)
        d.do(f"h = {d.relu()}", f"{kept}[len(h)] = h.detach()[0]")
    d.f = c
