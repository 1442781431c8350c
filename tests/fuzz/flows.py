"""Control flow: branches that the data decide, experts, loops over time and over parts of the batch."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from case import Layer
from owners import both, one
from steps import Before, Draw, Known, Maker, Owners, Run, Step, Who, is_raw, seen_as
from torch import Tensor, nn
from weighted import along, spread


def branch(draw: Draw, h: Known, before: Before) -> Step:
    """One of two layers, by the sign of the mean."""
    out = draw.size()
    first, second = (draw.with_weights(nn.Linear(h.shape[-1], out)) for _ in range(2))
    units = draw.units(out, 0), draw.units(out, 1)

    def who(me: Step, h: Known, before: Before) -> Owners:
        return along(-1, units[0 if bool(h.value.mean() > 0) else 1])(me, h, before)

    def run(me: Step, h: Tensor, before: object) -> Tensor:
        return me.first(h) if h.mean().item() > 0 else me.second(h)

    return Step(f"(Linear_a if h.mean() > 0 else Linear_b)({h.shape[-1]}, {out})", run, who, first=first, second=second)


class Inner(Step):
    """A step with activations inside, which it lays out itself, by name."""

    def __init__(self, text: str, run: Run, who: Who, inside: Callable[[Step, Known], dict[int, Known]], **parts: Any):
        super().__init__(text, run, who, **parts)
        self.inside = inside

    def track(self, h: Known, before: Before, seen: list[Layer]) -> Known:
        for name, known in self.inside(self, h).items():
            seen += seen_as(f"{self.number}/{name}", known)
        return super().track(h, before, seen)


def experts(draw: Draw, h: Known, before: Before) -> Step | None:
    """Every row goes to the expert that its largest feature names; experts that nobody asks for do not run."""
    if h.ndim != 2 or h.shape[1] < 2 or is_raw(h):
        return None
    count, out = h.shape[1], draw.size()
    layers = nn.ModuleList(draw.with_weights(nn.Linear(h.shape[1], out)) for _ in range(count))
    units = np.stack([draw.units(out, k) for k in range(count)])

    def run(me: Step, h: Tensor, before: object) -> Tensor:
        choice = h.argmax(1)
        result = h.new_zeros(len(h), out)
        for k in choice.unique().tolist():
            rows = (choice == k).nonzero()[:, 0]
            result = result.index_add(0, rows, F.relu(me.layers[k](h[rows])))
        return result

    def inside(me: Step, h: Known) -> dict[int, Known]:
        choice = h.value.argmax(1)
        found = {}
        for k in choice.unique().tolist():
            rows = (choice == k).numpy()
            part = Known(h.value[choice == k], h.point[rows], h.unit[rows])
            point, unit = along(-1, units[k])(me, part, [])
            found[k] = Known(me.layers[k](part.value), point, unit)
        return found

    def who(me: Step, h: Known, before: Before) -> Owners:
        choice = h.value.argmax(1).numpy()
        point = np.broadcast_to(one(h.point, 1, True), (len(choice), out))
        return point, units[choice]

    return Inner(f"experts {count} x Linear({count}, {out}) + F.relu", run, who, inside, layers=layers)


def loop(draw: Draw, h: Known, before: Before) -> Step | None:
    """A recurrent net by hand: one Linear and one ReLU, again and again, along an axis."""
    if h.ndim != 3 or is_raw(h):
        return None
    time, out = draw.one_of([0, 1]), draw.size()
    layer, back = draw.with_weights(nn.Linear(h.shape[2], out)), draw.with_weights(nn.Linear(out, out, bias=False))
    units = draw.units(out)

    def run(me: Step, h: Tensor, before: object) -> Tensor:
        state = h.new_zeros(())
        for now in h.unbind(time):
            z = me.layer(now) + (me.back(state) if state.ndim else 0.0)
            state = F.relu(z)
        return state

    def inside(me: Step, h: Known) -> dict[int, Known]:
        found: dict[int, Known] = {}
        for t, now in enumerate(h.value.unbind(time)):
            point, unit = along(-1, units)(me, Known(now, np.take(h.point, t, time), np.take(h.unit, t, time)), [])
            z = me.layer(now)
            if found:
                z = z + me.back(F.relu(found[t - 1].value))
                point = both(point, found[t - 1].point)
            found[t] = Known(z, point, unit)
        return found

    def who(me: Step, h: Known, before: Before) -> Owners:
        last = inside(me, h)[h.shape[time] - 1]
        return last.point, spread(units, last.point.shape, -1)

    return Inner(f"relu(Linear(h_t) + back(state)) along {time}, to {out}", run, who, inside, layer=layer, back=back)


def in_parts(draw: Draw, h: Known, before: Before) -> Step | None:
    """A layer that takes its input in chunks."""
    if is_raw(h) or h.ndim < 2:
        return None
    axis, out = draw.axis(h.ndim - 1), draw.size()
    layer = draw.with_weights(nn.Linear(h.shape[-1], out))
    units = draw.units(out)

    def run(me: Step, h: Tensor, before: object) -> Tensor:
        return torch.cat([F.relu(me.layer(part)) for part in h.chunk(2, axis)], axis)

    def inside(me: Step, h: Known) -> dict[int, Known]:
        size = -(-h.shape[axis] // 2)
        parts = zip(
            *(np.split(labels, range(size, h.shape[axis], size), axis) for labels in (h.point, h.unit)), strict=True
        )
        found = {}
        for k, (value, (point, unit)) in enumerate(zip(h.value.chunk(2, axis), parts, strict=True)):
            found[k] = Known(me.layer(value), *along(-1, units)(me, Known(value, point, unit), []))
        if len(found) == 2 and set(found[0].point.flat).isdisjoint(found[1].point.flat):  # one layer of more points
            value = torch.cat([part.value for part in found.values()], axis)
            labels = ([getattr(part, name) for part in found.values()] for name in ("point", "unit"))
            return {0: Known(value, *(np.concatenate(both, axis) for both in labels))}
        return found

    text = f"cat([relu(Linear(part)) for part in chunk(2, {axis})]), to {out}"
    return Inner(text, run, along(-1, units), inside, layer=layer)


FLOWS: dict[str, tuple[Maker, int]] = {
    "branch by data": (branch, 3),
    "experts": (experts, 2),
    "loop over time": (loop, 2),
    "forward in chunks": (in_parts, 2),
}
