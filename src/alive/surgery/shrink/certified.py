"""What every channel can do over a box: proved by intervals, substitution, branch and bound."""

from __future__ import annotations

import operator
from dataclasses import dataclass
from time import monotonic
from typing import Any, cast

import torch
from torch import Tensor, fx

from ...torch_private import tree_leaves, tree_map
from ..graph.channels import BENT, CATS, KINDS, NORM, SUMS, TIES, Layout, Reading, cat_axis, name_of
from ..graph.pieces import Pieces
from .bounds import OUTWARD, Form, Range, Variables, through, weighted
from .boxes import Box
from .branches import side
from .observed import Ends
from .record import Proofs

MOST = 20_000_000  # numbers in the factors of one value; where there would be more, intervals are all there is
RISING = ("sigmoid", "tanh", "elu", "celu", "selu", "softplus", "hardsigmoid", "exp")
DROPOUTS = ("dropout", "feature_dropout", "alpha_dropout")  # in eval mode nothing happens there
METHODS = ("intervals", "substitution", "branches", "bent", "undecided")


@dataclass(slots=True, eq=False)
class Value:
    """What is known of a value over the box: its range, and its form; None where that is not known."""

    range: Range
    form: Form | None = None


UNKNOWN = object()  # a value of which nothing is known


def certify_units(reading: Reading, box: Box, seen: Ends, time_limit: float) -> tuple[Ends, Proofs]:
    """Bounds [C] of every value with channels over the whole box, and how units were judged.

    `seen` are extremes over points of the box: what bends there needs no proof.
    """
    began = monotonic()
    one = Reading(reading.model, box.given(box.lo[None]))
    prover = Prover(one, box, {node.name: ends for node, ends in seen.items()}, began + time_limit)
    found = prover.run()
    ends = {node: found[node.name] for node in seen if node.name in found}
    unknown = {
        node: (torch.full_like(lo, -torch.inf), torch.full_like(lo, torch.inf)) for node, (lo, _) in seen.items()
    }
    return unknown | ends, Proofs(str(box), **prover.counts, seconds=monotonic() - began)


class Prover:
    """Goes through the graph once, with a range and a form for every value."""

    def __init__(self, reading: Reading, box: Box, seen: dict[str, tuple[Tensor, Tensor]], deadline: float) -> None:
        self.reading, self.box, self.seen, self.deadline = reading, box, seen, deadline
        self.variables = Variables(box.lo, box.hi)
        self.values: dict[fx.Node, Any] = {}
        self.counts = dict.fromkeys(METHODS, 0)

    def run(self) -> dict[str, tuple[Tensor, Tensor]]:
        """The least and largest number that each channel can have, by the name of the node."""
        found = {}
        given = self.reading.given(self.box.given(self.box.lo[None]))
        numbers = iter(given)
        for node in self.reading.nodes:
            if node.op == "placeholder":
                number = next(numbers)
                self.values[node] = self._input() if node.name in self.reading.inputs else _exact(number)
            elif node.op == "call_function":
                self.values[node] = self._step(node)
            layout, value = self.reading.layouts.get(node), self.values.get(node)
            if layout is not None and isinstance(value, Value):
                found[node.name] = (layout.extremes(value.range.lo)[0], layout.extremes(value.range.hi)[1])
        return found

    def _input(self) -> Value:
        lo, hi = self.box.lo[None], self.box.hi[None]
        if lo.numel() ** 2 > MOST:
            return Value(Range(lo, hi))
        eye = torch.eye(lo.numel(), dtype=torch.float64)
        return Value(Range(lo, hi), Form(eye.reshape(-1, *lo.shape), torch.zeros_like(lo)))

    def _step(self, node: fx.Node) -> Any:
        name, target = name_of(node), cast(Any, node.target)
        kind = KINDS.get(name)
        args, kwargs = tree_map(
            lambda leaf: self.values.get(leaf, leaf) if isinstance(leaf, fx.Node) else leaf,
            (list(node.args), dict(node.kwargs)),
        )
        if node.target is operator.getitem and isinstance(args[0], tuple):
            return args[0][args[1]]
        leaves = tree_leaves((args, kwargs))
        known = [leaf for leaf in leaves if isinstance(leaf, Value)]
        if not known and not any(leaf is UNKNOWN for leaf in leaves):
            return self._constant(target, args, kwargs)
        if name in ("softmax", "_softmax"):
            nothing = torch.zeros(node.meta["val"].shape, dtype=torch.float64)
            return self._in_a_box(Range(nothing, nothing + 1))  # whatever it reads
        if any(leaf is UNKNOWN for leaf in leaves):
            return (UNKNOWN,) * 3 if name == NORM else UNKNOWN
        if name in CATS:
            return self._cat(args[0], cat_axis(node))
        x = known[0]
        if x is not args[0]:
            return UNKNOWN
        if name in ("add", "sub") and len(known) == 2 and not kwargs:
            other = (known[1].range.lo, known[1].range.hi)[:: 1 if name == "add" else -1]
            ends = _outward(target(x.range.lo, other[0]), target(x.range.hi, other[1]))
            return self._with_form(Range(*ends), target, known)
        if len(known) > 1:
            return UNKNOWN
        if name in SUMS:
            return self._sum(x, target, args, kwargs)
        if kind == "bent":
            return self._bend(node, x)
        if name in DROPOUTS:
            return x
        if kind == "same":
            kwargs = {key: v for key, v in kwargs.items() if key != "dtype"}

        def step(v: Tensor) -> Any:
            return target(v, *args[1:], **kwargs)

        if name == NORM:
            return (self._rising(x, lambda v: step(v)[0], affine=True), UNKNOWN, UNKNOWN)
        if name == "batch_norm" or (name in TIES and not kwargs):
            return self._rising(x, step, affine=True)
        if kind == "same":  # linear, with factors that are not negative
            return self._with_form(Range(step(x.range.lo), step(x.range.hi)), step, known)
        if kind == "mean":
            return self._with_form(Range(*_outward(step(x.range.lo), step(x.range.hi))), step, known)
        if kind == "max":
            return self._in_a_box(Range(step(x.range.lo), step(x.range.hi)))
        return self._in_a_box(self._rising(x, step, affine=False).range) if name in RISING else UNKNOWN

    def _constant(self, target: Any, args: list[Any], kwargs: dict[str, Any]) -> Any:
        try:
            return tree_map(_exact, target(*args, **kwargs))
        except RuntimeError:
            return UNKNOWN  # some step that wants single precision, or nothing that is followed

    def _sum(self, x: Value, target: Any, args: list[Any], kwargs: dict[str, Any]) -> Any:
        weight, bias, more = args[1], args[2] if len(args) > 2 else kwargs.get("bias"), args[3:]
        ends = weighted(lambda v, w, b: target(v, w, b, *more), x.range, weight, bias)
        return self._with_form(ends, lambda v: target(v, weight, bias, *more), [x])

    def _cat(self, parts: list[Any], axis: int) -> Value:
        """Values, and constants among them, one behind the other."""
        known = [part for part in parts if isinstance(part, Value)]

        def step(*values: Tensor) -> Tensor:
            left = iter(values)
            return torch.cat([next(left) if isinstance(part, Value) else part for part in parts], axis)

        ends = Range(step(*(value.range.lo for value in known)), step(*(value.range.hi for value in known)))
        return self._with_form(ends, step, known)

    def _rising(self, x: Value, step: Any, *, affine: bool) -> Value:
        """A step on every entry by itself that rises or falls all the way."""
        ends = torch.stack([step(x.range.lo), step(x.range.hi)])
        made = Range(*_outward(ends.amin(0), ends.amax(0)))
        return self._with_form(made, step, [x]) if affine else Value(made)

    def _with_form(self, ends: Range, step: Any, given: list[Value]) -> Value:
        """A value with its form, if all it comes from have one and it does not become too large."""
        forms: list[Form | Tensor] = [value.form for value in given if value.form is not None]
        if len(forms) < len(given) or len(self.variables) * ends.lo.numel() > MOST:
            return Value(ends)
        form = through(step, forms, len(self.variables))
        return Value(_where_still(form, ends), form)

    def _in_a_box(self, found: Range) -> Value:
        """A value of which only the range is known, as new variables."""
        count = found.lo.numel()
        if (len(self.variables) + count) * count > MOST:
            return Value(found)
        group = self.variables.add(found.lo.flatten(), found.hi.flatten(), None, None, None)
        factors = torch.zeros(len(self.variables), count, dtype=torch.float64)
        factors[group.start + torch.arange(count), torch.arange(count)] = 1.0
        return Value(found, Form(factors.reshape(-1, *found.lo.shape), torch.zeros_like(found.lo)))

    # Activations.

    def _bend(self, node: fx.Node, x: Value) -> Value:
        """What an activation makes of a value, once all is proved of it that can be."""
        source = cast(fx.Node, node.args[0])
        pieces, layout = self.reading.pieces(node), self.reading.layouts.get(source)
        plain = found = x.range
        if x.form is not None:
            better = self.variables.range(x.form.widened(len(self.variables)).flatten(1), x.form.constant.flatten())
            found = plain.meet(Range(better.lo.reshape(plain.lo.shape), better.hi.reshape(plain.lo.shape)))
        if layout is not None:
            self._judge(node, x, pieces, layout, plain, found)
            x.range = found
        slopes = _lay_out(pieces.slopes, layout, found.lo)
        tops = [_apply(pieces, slopes, end) for end in (found.lo, found.hi)]
        for knot in pieces.knots:
            inside = (found.lo < knot) & (found.hi > knot)
            tops.append(torch.where(inside, _apply(pieces, slopes, torch.full_like(found.lo, knot)), tops[0]))
        ends = torch.stack(tops)
        made = Range(ends.amin(0), ends.amax(0))
        return Value(made) if x.form is None else self._formed_bent(pieces, slopes, found, x.form, made)

    def _judge(self, node: fx.Node, x: Value, pieces: Pieces, layout: Layout, plain: Range, found: Range) -> None:
        """Prove what can be, which makes the range found smaller; count how each unit was judged."""
        source: Any = node.args[0]
        sure = [pieces.within(layout.extremes(r.lo)[0], layout.extremes(r.hi)[1]) >= 0 for r in (plain, found)]
        seen = self.seen.get(source.name)
        maybe = torch.full((layout.channels,), -1) if seen is None else pieces.within(*seen)
        self.counts["intervals"] += int(sure[0].sum())
        self.counts["substitution"] += int((sure[1] & ~sure[0]).sum())
        self.counts["bent"] += int((~sure[1] & (maybe < 0)).sum())
        open_ = (~sure[1] & (maybe >= 0)).nonzero()[:, 0].tolist()
        may_go = any(not space.fixed for space in self.reading.spaces_of(source))
        ahead = [n for n in self.reading.nodes if name_of(n) in BENT]
        until = monotonic() + (self.deadline - monotonic()) / (len(ahead) - ahead.index(node))  # each has its share
        for done, channel in enumerate(open_):
            how = "undecided"
            if x.form is not None and may_go and monotonic() < self.deadline:
                share = monotonic() + (until - monotonic()) / (len(open_) - done)
                how = self._prove_by_branches(x.form, found, pieces, layout, channel, int(maybe[channel]), share)
            self.counts[how] += 1

    def _prove_by_branches(
        self, form: Form, found: Range, pieces: Pieces, layout: Layout, channel: int, piece: int, until: float
    ) -> str:
        """Prove by branches that a channel stays in a piece at all its positions; then its range is that piece."""
        ends = (-torch.inf, *pieces.knots, torch.inf)
        factors, constant = form.widened(len(self.variables)).flatten(1), form.constant.flatten()
        lo, hi = found.lo.flatten().clone(), found.hi.flatten().clone()
        numbers = torch.arange(len(lo)).reshape(*found.lo.shape[: layout.axis], layout.channels, -1)
        for place in numbers.movedim(layout.axis, 0)[channel].flatten().tolist():
            for sign, end, bound in ((1.0, ends[piece + 1], hi), (-1.0, ends[piece], lo)):
                if sign * float(bound[place]) > sign * end:
                    column, base = sign * factors[:, place, None], sign * constant[place, None]
                    proved = side(self.variables, column, base, sign * end, until)
                    if proved != "below":
                        return "bent" if proved == "above" else "undecided"
                    bound[place] = end
        found.lo, found.hi = lo.reshape(found.lo.shape), hi.reshape(found.hi.shape)
        return "branches"

    def _formed_bent(self, pieces: Pieces, slopes: list[Tensor], z: Range, form: Form, found: Range) -> Value:
        """f(z) = slope z + offset + jumps times max(0, z - knot), with a new variable for each that may bend."""
        shape, count = z.lo.shape, z.lo.numel()
        open_ = [((z.lo < knot) & (z.hi > knot)).flatten().nonzero()[:, 0] for knot in pieces.knots]
        total = len(self.variables) + sum(map(len, open_))
        if total * count > MOST:
            return Value(found)
        first = form.widened(len(self.variables)).flatten(1)
        base = form.constant.flatten()
        factors = torch.cat([slopes[0].flatten() * first, first.new_zeros(total - len(first), count)])
        constant = slopes[0].flatten() * base + pieces.offsets[0]
        for number, (knot, bent) in enumerate(zip(pieces.knots, open_, strict=True)):
            jump = (slopes[number + 1] - slopes[number]).flatten()
            on = jump * (z.lo >= knot).flatten()
            factors[: len(first)] += on * first
            constant = constant + on * (base - knot)
            if len(bent):
                lo, hi = (end.flatten()[bent] - knot for end in (z.lo, z.hi))
                rows = first[:, bent].T.contiguous()
                group = self.variables.add(torch.zeros_like(hi), hi, rows, base[bent] - knot, Range(lo, hi))
                factors[torch.arange(group.start, group.stop), bent] += jump[bent]
        made = Form(factors.reshape(-1, *shape), constant.reshape(shape))
        return Value(_where_still(made, found), made)


def _where_still(form: Form, ends: Range) -> Range:
    """A range, and the one number that a form without factors has."""
    still = (form.factors == 0).all(0)
    return Range(torch.where(still, form.constant, ends.lo), torch.where(still, form.constant, ends.hi))


def _exact(number: Any) -> Any:
    return number.detach().double().cpu() if isinstance(number, Tensor) and number.is_floating_point() else number


def _outward(lo: Tensor, hi: Tensor) -> tuple[Tensor, Tensor]:
    """A range moved outward by more than rounding, unless it is one number."""
    slack = torch.where(lo < hi, OUTWARD * torch.maximum(lo.abs(), hi.abs()), 0.0)
    return lo - slack, hi + slack


def _lay_out(slopes: Tensor, layout: Layout | None, like: Tensor) -> list[Tensor]:
    """The slope of every entry in each piece."""
    if slopes.shape[1] == 1 or layout is None:
        return [slope.expand(like.shape) for slope in slopes[:, 0]]
    shape = [1] * like.ndim
    shape[layout.axis] = -1
    return [slope.repeat_interleave(layout.block).reshape(shape).expand(like.shape) for slope in slopes]


def _apply(pieces: Pieces, slopes: list[Tensor], z: Tensor) -> Tensor:
    made = slopes[0] * z + pieces.offsets[0]
    for number, knot in enumerate(pieces.knots):
        made = torch.where(z >= knot, slopes[number + 1] * z + pieces.offsets[number + 1], made)
    return made
