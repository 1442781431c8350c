"""What every channel can do over a box: proved by intervals, substitution, branch and bound."""

from __future__ import annotations

import operator
from dataclasses import dataclass
from time import monotonic
from typing import Any

import torch
from torch import Tensor, fx

from ...torch_private import tree_map
from ..graph.channels import (
    BENT,
    CATS,
    MEANS,
    NORM,
    ORDERS,
    SAME,
    SHAPES,
    SUMS,
    TOPS,
    Layout,
    Reading,
    cat_axis,
    name_of,
)
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
    """What is known of a value over the box: its range, and its form; None where it is not known."""

    range: Range | None = None
    form: Form | None = None


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
            if layout is not None and isinstance(value, Value) and value.range is not None:
                found[node.name] = (layout.extremes(value.range.lo)[0], layout.extremes(value.range.hi)[1])
        return found

    def _input(self) -> Value:
        lo, hi = self.box.lo[None], self.box.hi[None]
        eye = torch.eye(lo.numel(), dtype=torch.float64) if lo.numel() ** 2 <= MOST else None
        form = None if eye is None else Form(eye.reshape(-1, *lo.shape), torch.zeros_like(lo))
        return Value(Range(lo, hi), form)

    def _step(self, node: fx.Node) -> Any:
        name = name_of(node)
        args = [self._known(arg) for arg in node.args]
        kwargs = {key: self._known(arg) for key, arg in node.kwargs.items()}
        values = [arg for arg in args if isinstance(arg, Value)]
        flat = [v for arg in args for v in (arg if isinstance(arg, list | tuple) else [arg]) if isinstance(v, Value)]
        if not flat and not any(isinstance(v, Value) for v in kwargs.values()):
            return self._constant(node, args, kwargs)
        if node.target is operator.getitem:
            return args[0][args[1]] if isinstance(args[0], tuple) else Value()
        if name in ("softmax", "_softmax"):
            nothing = torch.zeros(node.meta["val"].shape, dtype=torch.float64)
            return self._boxed(Range(nothing, nothing + 1))  # whatever it reads
        if name in CATS and all(v.range is not None for v in flat):
            return self._cat(args[0], cat_axis(node))
        if any(v.range is None for v in flat) or not values or values[0] is not args[0]:
            return (Value(), None, None) if name == NORM else Value()
        x = values[0]
        if name in BENT and len(values) == 1:
            return self._bend(node, x)
        target: Any = node.target
        if name == NORM:
            return (self._rising(x, lambda v: target(v, *args[1:], **kwargs)[0], affine=True), None, None)
        if name == "batch_norm":
            return self._rising(x, lambda v: target(v, *args[1:], **kwargs), affine=True)
        if name in DROPOUTS:
            return x
        if name in SUMS:
            return self._sum(x, target, args, kwargs)
        if name in (*SAME, *SHAPES, *ORDERS):
            kept = {key: v for key, v in kwargs.items() if key != "dtype"}
            return self._even(x, lambda v: target(v, *args[1:], **kept), exact=True)
        if name in (*MEANS, "mean"):
            return self._even(x, lambda v: target(v, *args[1:], **kwargs), exact=False)
        if name in ("add", "sub") and len(values) == 2 and not kwargs:
            return self._both(x, values[1], target, sign=1 if name == "add" else -1)
        if name in ("add", "sub", "mul", "div") and len(values) == 1 and not kwargs:
            return self._rising(x, lambda v: target(v, *args[1:]), affine=True)
        if name in TOPS:
            return self._boxed(Range(target(x.range.lo, *args[1:]), target(x.range.hi, *args[1:])))
        if name in RISING:
            return self._boxed(self._rising(x, lambda v: target(v, *args[1:], **kwargs), affine=False).range)
        return Value()

    def _known(self, arg: Any) -> Any:
        return tree_map(lambda leaf: self.values.get(leaf, leaf) if isinstance(leaf, fx.Node) else leaf, arg)

    def _constant(self, node: fx.Node, args: list[Any], kwargs: dict[str, Any]) -> Any:
        target: Any = node.target
        try:
            return tree_map(_exact, target(*args, **kwargs))
        except RuntimeError:
            return Value()  # some step that wants single precision, or nothing that is followed

    def _sum(self, x: Value, target: Any, args: list[Any], kwargs: dict[str, Any]) -> Value:
        weight, bias, more = args[1], args[2] if len(args) > 2 else kwargs.get("bias"), args[3:]
        if not isinstance(weight, Tensor):
            return Value()
        assert x.range is not None

        def step(v: Tensor, w: Tensor, b: Tensor | None) -> Tensor:
            made: Tensor = target(v, w, b, *more)
            return made

        made = Value(weighted(step, x.range, weight, bias))
        return self._formed(made, lambda v: step(v, weight, bias), [x])

    def _even(self, x: Value, step: Any, *, exact: bool) -> Value:
        """A step that is linear with factors that are not negative."""
        assert x.range is not None
        lo, hi = step(x.range.lo), step(x.range.hi)
        if not exact:
            lo, hi = _outward(lo, hi)
        return self._formed(Value(Range(lo, hi)), step, [x])

    def _both(self, x: Value, y: Value, target: Any, *, sign: int) -> Value:
        assert x.range is not None
        assert y.range is not None
        other = (y.range.lo, y.range.hi)[::sign]
        lo, hi = _outward(target(x.range.lo, other[0]), target(x.range.hi, other[1]))
        return self._formed(Value(Range(lo, hi)), target, [x, y])

    def _cat(self, parts: list[Any], axis: int) -> Value:
        """Values, and constants among them, one behind the other."""
        known = [part for part in parts if isinstance(part, Value)]

        def step(*values: Tensor) -> Tensor:
            left = iter(values)
            return torch.cat([next(left) if isinstance(part, Value) else part for part in parts], axis)

        ranges = [value.range for value in known if value.range is not None]
        made = Value(Range(step(*(found.lo for found in ranges)), step(*(found.hi for found in ranges))))
        return self._formed(made, step, known)

    def _rising(self, x: Value, step: Any, *, affine: bool) -> Value:
        """A step on every entry by itself that rises or falls all the way."""
        assert x.range is not None
        ends = torch.stack([step(x.range.lo), step(x.range.hi)])
        made = Value(Range(*_outward(ends.amin(0), ends.amax(0))))
        return self._formed(made, step, [x]) if affine else made

    def _formed(self, made: Value, step: Any, given: list[Value]) -> Value:
        """Give a value its form, if all it comes from have one and it does not become too large."""
        assert made.range is not None
        if all(value.form is not None for value in given) and len(self.variables) * made.range.lo.numel() <= MOST:
            made.form = through(step, [value.form for value in given if value.form is not None], len(self.variables))
            still = (made.form.factors == 0).all(0)
            made.range = Range(
                torch.where(still, made.form.constant, made.range.lo),
                torch.where(still, made.form.constant, made.range.hi),
            )
        return made

    def _boxed(self, found: Range | None) -> Value:
        """A value of which only the range is known, as new variables."""
        assert found is not None
        count = found.lo.numel()
        if (len(self.variables) + count) * count > MOST:
            return Value(found)
        group = self.variables.add(found.lo.flatten(), found.hi.flatten(), None, None, None)
        factors = torch.zeros(len(self.variables), count, dtype=torch.float64)
        factors[group.start + torch.arange(count), torch.arange(count)] = 1.0
        return Value(found, Form(factors.reshape(-1, *found.lo.shape), torch.zeros_like(found.lo)))

    # Activations.

    def _bend(self, node: fx.Node, x: Value) -> Value:
        assert x.range is not None
        assert isinstance(node.args[0], fx.Node)
        pieces, layout = self.reading.pieces(node), self.reading.layouts.get(node.args[0])
        plain = x.range
        found = plain
        if x.form is not None:
            shape = plain.lo.shape
            better = self.variables.range(x.form.widened(len(self.variables)).flatten(1), x.form.constant.flatten())
            found = plain.meet(Range(better.lo.reshape(shape), better.hi.reshape(shape)))
        if layout is not None:
            found = self._judged(node, x, pieces, layout, (plain, found))
            x.range = found
            self.values[node.args[0]] = x
        return self._bent(pieces, layout, found, x.form)

    def _judged(self, node: fx.Node, x: Value, pieces: Pieces, layout: Layout, ranges: tuple[Range, Range]) -> Range:
        """The range once all is proved that can be; counts how each unit was judged."""
        plain, found = ranges
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
                how = self._split(x.form, found, pieces, layout, channel, int(maybe[channel]), share)
            self.counts[how] += 1
        return found

    def _split(
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

    def _bent(self, pieces: Pieces, layout: Layout | None, z: Range, form: Form | None) -> Value:
        """What an activation makes of a value."""
        slopes = _laid_out(pieces.slopes, layout, z.lo)
        tops = [_apply(pieces, slopes, end) for end in (z.lo, z.hi)]
        for knot in pieces.knots:
            inside = (z.lo < knot) & (z.hi > knot)
            tops.append(torch.where(inside, _apply(pieces, slopes, torch.full_like(z.lo, knot)), tops[0]))
        ends = torch.stack(tops)
        found = Range(ends.amin(0), ends.amax(0))
        if form is None:
            return Value(found)
        return self._formed_bent(pieces, slopes, z, form, found)

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
        still = (made.factors == 0).all(0)
        lo, hi = (torch.where(still, made.constant, end) for end in (found.lo, found.hi))
        return Value(Range(lo, hi), made)


def _exact(number: Any) -> Any:
    return number.detach().double().cpu() if isinstance(number, Tensor) and number.is_floating_point() else number


def _outward(lo: Tensor, hi: Tensor) -> tuple[Tensor, Tensor]:
    """A range moved outward by more than rounding, unless it is one number."""
    slack = torch.where(lo < hi, OUTWARD * torch.maximum(lo.abs(), hi.abs()), 0.0)
    return lo - slack, hi + slack


def _laid_out(slopes: Tensor, layout: Layout | None, like: Tensor) -> list[Tensor]:
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
