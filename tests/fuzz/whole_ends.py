"""Openings and endings of whole programs: what comes in, heads, and losses inside forward."""

from __future__ import annotations

from whole_draft import ENDINGS, OPENINGS, Draft, idea


def _first(d: Draft, expression: str) -> None:
    """The first layer, which every point goes through."""
    c = d.width(2)
    a = d.part("a", f"dense({d.f}, {c})")
    d.layer(f"{a}({expression})", c)


@idea("table", 3.0, among=OPENINGS)
def table(d: Draft) -> None:
    d.f = d.width(2)
    d.x = f"leaning(n, {d.f})"
    d.do("~p = torch.arange(len(x))")
    _first(d, "x")


@idea("x changed in place", among=OPENINGS)
def changed(d: Draft) -> None:
    d.f = d.width(2)
    d.x = f"leaning(n, {d.f})"
    d.do("~p = torch.arange(len(x))")
    d.do(d.one_of(("x -= x.mean()", "x.sub_(x.mean(0))", "x += 0.3", "x[0] = 0.0", "x.mul_(0.7)")))
    _first(d, "x")


@idea("images", among=OPENINGS)
def images(d: Draft) -> None:
    c, o = d.one_of((1, 2, 3)), d.width(2)
    d.x = f"leaning(n, {c}, 4, 4)"
    k = d.part("k", f"conv({c}, {o}, nn.Conv2d, kernel_size=3)")
    d.do("~p = torch.arange(len(x))", f"z = {k}(x)")
    d.see(units=1)
    d.do(f"h = {d.relu()}.mean((2, 3))")
    d.f = o


@idea("kernels as groups", 0.5, among=OPENINGS)
def groups(d: Draft) -> None:
    c, o = d.one_of((1, 2)), d.width(2)
    d.x = f"leaning(n, {c}, 4, 4)"
    w, b = d.part("w", f"nn.Parameter(0.7 * torch.randn({o}, {c}, 3, 3))"), d.part("b", f"bias({o})")
    copies = d.one_of(
        (
            f"{w}.repeat(len(x), 1, 1, 1)",
            f"{w}.expand(len(x), {o}, {c}, 3, 3).reshape(-1, {c}, 3, 3)",
            f"torch.cat([{w}] * len(x))",
        )
    )
    d.do("~p = torch.arange(len(x))", f"z = F.conv2d(x.reshape(1, -1, 4, 4), {copies}, groups=len(x))")
    d.do(f"z = z.view(len(x), {o}, 2, 2) + {b}[:, None, None]")
    d.see(units=1)
    d.do(f"h = {d.relu()}.mean((2, 3))")
    d.f = o


@idea("sequences", among=OPENINGS)
def sequences(d: Draft) -> None:
    d.f = d.width(2)
    d.x = f"leaning(n, {d.one_of(('3', 'n', '2 + i % 3'))}, {d.f})"
    d.do("~p = torch.arange(len(x))")
    _first(d, "x")
    d.do(d.one_of(("h = h.mean(1)", "h = h[:, -1]", "h = h.amax(1)")))


@idea("time first", 0.7, among=OPENINGS)
def time_first(d: Draft) -> None:
    """[T, N, C], with point_axis=1."""
    d.f, d.point_axis, d.moved = d.width(2), 1, True
    d.x = f"leaning(n, {d.one_of(('3', 'n', '2 + i % 3'))}, {d.f}).transpose(0, 1)"
    c = d.width(2)
    d.do("~p = torch.arange(x.shape[1])", f"z = {d.part('a', f'dense({d.f}, {c})')}(x)")
    d.see(points=1)
    d.do(f"h = {d.relu()}", d.one_of(("h = h.mean(0)", "h = h[-1]")))
    d.f = c


@idea("tokens", among=OPENINGS)
def tokens(d: Draft) -> None:
    d.f = d.width(2)
    d.x = f"torch.randint(9, (n, {d.one_of(('3', 'n', '2 + i % 3'))}))"
    e = d.part("e", f"nn.Embedding(9, {d.f})")
    d.do("~p = torch.arange(len(x))")
    _first(d, f"{e}(x)")
    d.do("h = h.mean(1)")


@idea("plain", 3.0, among=ENDINGS)
def plain(d: Draft) -> None:
    d.do("return 0.01 * h")


@idea("head", 2.0, among=ENDINGS)
def head(d: Draft) -> None:
    d.do(f"return 0.01 * {d.part('o', f'dense({d.f}, 2)')}(h)")


def _score(d: Draft) -> None:
    d.do(f"u = 0.01 * {d.part('o', f'dense({d.f}, 1)')}(h)")


@idea("mean", among=ENDINGS)
def mean(d: Draft) -> None:
    _score(d)
    d.do(d.one_of(("return u.mean()", "return u.squeeze(-1).sum()", "return u.max()", "return u[0, 0]")))


@idea("hinge", among=ENDINGS)
def hinge(d: Draft) -> None:
    """A hinge is part of a loss, no layer."""
    _score(d)
    y = "1 - 2 * (torch.arange(len(u)) % 2)"
    d.do(
        d.one_of(
            (
                "return 0.1 * F.relu(1 - u.mean())",
                f"return 0.1 * F.relu(1 - ({y}) * u[:, 0]).mean()",
                "return 0.1 * (1 - u[:, 0]).clamp(min=0).sum()",
                "return 0.1 * (F.relu(1 - u) + F.relu(1 + u)).mean()",
            )
        )
    )


@idea("squared error", among=ENDINGS)
def squared(d: Draft) -> None:
    _score(d)
    y = d.input("target", "torch.randn(n)") if not d.moved and d.maybe() else "u.detach()[:, 0] + 0.5"
    d.do(f"return ((u[:, 0] - {y}) ** 2).mean()" if d.maybe() else f"return F.mse_loss(u[:, 0], {y})")


@idea("cross entropy", among=ENDINGS)
def entropy(d: Draft) -> None:
    _score(d)
    d.do("y = (torch.arange(len(u)) % 2).float()")
    d.do(
        d.one_of(
            (
                "return 0.1 * F.binary_cross_entropy_with_logits(u[:, 0], y)",
                "return -0.1 * (y * u[:, 0].sigmoid().log() + (1 - y) * (1 - u[:, 0].sigmoid()).log()).mean()",
                "return 0.1 * (u[:, 0].clamp(min=0) - u[:, 0] * y + torch.log1p(torch.exp(-u[:, 0].abs()))).mean()",
            )
        )
    )


@idea("two outputs", among=ENDINGS)
def two(d: Draft) -> None:
    _score(d)
    d.do("return 0.01 * h.sum(1) + u.mean()")
