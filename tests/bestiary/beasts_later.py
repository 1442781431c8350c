"""Beasts whose later batches lie otherwise than the first, at equal sizes, and models that keep state."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from case import along, case, lean, leaning
from notebook import Made, note, noted, plant
from torch import Tensor, nn

N = 6


def layer(inputs: int = 3, units: int = 4) -> nn.Linear:
    """A layer with a dead and a linear unit, which switches some points off."""
    made = nn.Linear(inputs, units)
    plant(made, dead=(1,), linear=(2,))
    return made


def batches(*extra, inputs: int = 3, points: int = N) -> list[dict]:
    """One batch for each of the other arguments."""
    return [{"x": leaning(points, inputs), **more} for more in extra]


def chance() -> torch.Generator:
    return torch.Generator().manual_seed(3)


# Rows in another order in every batch


def reordered(order):
    """Two layers; before the second, rows are put in an order, which is another one in every batch."""

    def go(m, x, **more):
        h = F.relu(note(m.a(x)))
        rows = order(m, x, **more)
        rows, moved = rows if isinstance(rows, tuple) else (rows, h[rows])
        return m.o(
            F.relu(note(m.b(moved if isinstance(moved, Tensor) else moved(h)), point=torch.as_tensor(rows)[:, None]))
        )

    return Made(go, **apart(), o=nn.Linear(5, 2))


def apart() -> dict[str, nn.Module]:
    """Two layers: a point that is dead in the first is alive in the second, and the strongest are dead there."""
    a, b = nn.Linear(3, 4), nn.Linear(4, 5)
    lean(a)
    plant(a, dead=(1,))
    b.weight.data.abs_().neg_()
    b.bias.data.copy_(torch.tensor([0.3, 0.4, -50.0, 0.5, 0.2]))
    return {"a": a, "b": b}


@case("rows shuffled by randperm", "later", truth=noted)
def shuffled():
    model = reordered(lambda m, x: torch.randperm(len(x), generator=m.g))
    model.g = chance()
    return model, batches({}, {}, {})


@case("rows drawn with replacement", "later", truth=noted)
def bootstrap():
    model = reordered(lambda m, x: torch.randint(len(x), (len(x),), generator=m.g))
    model.g = chance()
    return model, batches({}, {}, {})


@case("rows sorted in Python by lengths of the batch", "later", truth=noted)
def sorted_in_python():
    def order(m, x, lengths):
        found = lengths.tolist()
        return sorted(range(len(x)), key=lambda i: found[i])

    lengths = [torch.tensor([3, 1, 2, 6, 5, 4]), torch.tensor([1, 2, 3, 4, 5, 6]), torch.tensor([6, 5, 4, 1, 2, 3])]
    return reordered(order), batches(*({"lengths": each} for each in lengths))


@case("rows looked up in a dictionary", "later", truth=noted)
def looked_up():
    def order(m, x, names):
        return torch.tensor([m.places[i] for i in names.tolist()])

    model = reordered(order)
    model.places = dict(enumerate([2, 0, 1, 4, 5, 3]))
    names = [torch.arange(6), torch.tensor([5, 4, 3, 2, 1, 0]), torch.tensor([1, 0, 3, 2, 5, 4])]
    return model, batches(*({"names": each} for each in names))


@case("rows rolled by a step that the model counts", "later", truth=noted)
def rolled():
    def order(m, x):
        m.step += 1
        rows = torch.arange(len(x)).roll(m.step)
        return rows, lambda h: h.roll(m.step, 0)

    model = reordered(order)
    model.step = 0
    return model, batches({}, {}, {}, {})


@case("sequences cut by lengths of an equal total, and turned", "later", truth=noted)
def cut_by_lengths():
    def order(m, x, lengths):
        rows = torch.cat([part.flip(0) for part in torch.arange(len(x)).split(lengths.tolist())])
        return rows, lambda h: torch.cat([part.flip(0) for part in h.split(lengths.tolist())])

    lengths = [torch.tensor([2, 4]), torch.tensor([3, 3]), torch.tensor([5, 1])]
    return reordered(order), batches(*({"lengths": each} for each in lengths))


@case("rows in an order that an attribute holds, and a new one in every batch", "later", truth=noted)
def order_of_an_attribute():
    def order(m, x):
        m.rows = m.rows.flip(0) if m.turns else m.rows
        m.turns = not m.turns
        return m.rows

    model = reordered(order)
    model.rows, model.turns = torch.tensor([1, 2, 0, 5, 4, 3]), False
    return model, batches({}, {}, {}, {})


@case("rows in an order that a buffer holds, which is changed in place", "later", truth=noted)
def order_of_a_buffer():
    def order(m, x):
        m.rows.copy_(m.rows.roll(1))
        return m.rows.clone()  # which backward keeps

    model = reordered(order)
    model.register_buffer("rows", torch.tensor([1, 2, 0, 5, 4, 3]))
    return model, batches({}, {}, {})


@case("rows swapped where Python finds them out of order", "later", truth=noted)
def swapped_by_python():
    def order(m, x):
        rows = list(range(len(x)))
        if float(x[0, 0]) > float(x[1, 0]):
            rows[0], rows[1] = 1, 0
        return rows

    return reordered(order), [{"x": x} for x in (leaning(N, 3), leaning(N, 3).flip(0), leaning(N, 3).roll(1, 0))]


# Units that move


@case("a window of units that moves", "later", truth=noted)
def moving_window():
    def go(m, x, k):
        k = int(k)
        z = m.a(x)[:, k : k + 3]
        return m.o(F.relu(note(z, unit=k + along(z, 1))))

    model = Made(go, a=layer(3, 6), o=nn.Linear(3, 2))
    return model, batches(*({"k": torch.tensor(k)} for k in (0, 2, 1, 3)))


@case("two layers that change places in a stack", "later", truth=noted)
def changing_places():
    def go(m, x, k):
        both = [m.a(x), m.b(x)]
        both = both[::-1] if int(k) else both
        unit = along(both[0], 1) + 4 * torch.tensor([1, 0] if int(k) else [0, 1])[:, None, None]
        return m.o(F.relu(note(torch.stack(both), 1, unit=unit))).sum(0)

    model = Made(go, a=layer(), b=layer(), o=nn.Linear(4, 2))
    return model, batches(*({"k": torch.tensor(k)} for k in (0, 1, 0, 1)))


# Heads that an integer of the batch chooses


def heads(weight, **parts):
    """A head of its own for each task; each is a layer."""

    def go(m, x, k):
        z = x @ weight(m, int(k)).t() + m.bias
        return m.o(F.relu(note(z, name=f"head {int(k)}")))

    model = Made(go, o=nn.Linear(4, 2), **parts)
    model.bias = nn.Parameter(torch.tensor([0.1, -50.0, 50.0, 0.0]))
    return model, batches(*({"k": torch.tensor(k)} for k in (0, 1, 2, 1, 0)))


@case("a head of plain layers by an integer of the batch", "later", truth=noted)
def plain_heads():
    def go(m, x, k):
        return m.o(F.relu(note(m.heads[int(k)](x), name=f"head {int(k)}")))

    model = Made(go, heads=nn.ModuleList(layer() for _ in range(3)), o=nn.Linear(4, 2))
    return model, batches(*({"k": torch.tensor(k)} for k in (0, 1, 2, 1, 0)))


@case("a head that is a slice of one weight", "later", truth=noted)
def heads_of_a_stack():
    return heads(lambda m, k: m.W[k], W=nn.Parameter(torch.randn(3, 4, 3)))


@case("heads of weight_norm", "later", truth=noted)
def heads_of_weight_norm():
    parts = nn.ModuleList(nn.utils.parametrizations.weight_norm(nn.Linear(3, 4)) for _ in range(3))
    return heads(lambda m, k: m.parts[k].weight, parts=parts)


@case("heads of a shared weight and a low rank each", "later", truth=noted)
def heads_of_low_rank():
    parts = {
        name: nn.Parameter(torch.randn(*size)) for name, size in (("W", (4, 3)), ("A", (3, 2, 3)), ("B", (3, 4, 2)))
    }
    return heads(lambda m, k: m.W + m.B[k] @ m.A[k], **parts)


# State that forward changes; the next batch does not fit


@case("a model that counts, and turns every other batch", "later", truth=noted)
def counts_and_turns():
    def go(m, x):
        m.step = m.step + 1
        h = F.relu(note(m.a(x)))
        h = h.flip(0) if int(m.step) % 2 == 0 else h
        rows = torch.arange(len(x))
        return m.o(F.relu(note(m.b(h), point=(rows.flip(0) if int(m.step) % 2 == 0 else rows)[:, None])))

    model = Made(go, **apart(), o=nn.Linear(5, 2))
    model.register_buffer("step", torch.zeros((), dtype=torch.long))
    return model, batches({}, {}, {}, {})


@case("a state that goes on from batch to batch, over chunks that change", "later", truth=noted)
def truncated_backpropagation():
    def go(m, x, steps):
        for part in x.split(int(steps), 1):
            z = m.a(torch.cat([part.mean(1), m.h], 1))
            m.h = F.relu(note(z)).detach()
        return m.o(m.h)

    model = Made(go, a=layer(5, 2 + 2), o=nn.Linear(4, 2))
    model.a = layer(7, 4)
    model.h = torch.zeros(N, 4)
    return model, [{"x": leaning(N, 6, 3), "steps": torch.tensor(k)} for k in (6, 6, 6)]


@case("inputs that forward changes in place, in an order of their own", "later", truth=noted)
def changed_inputs():
    def go(m, x):
        x -= x.mean(0)
        rows = torch.randperm(len(x), generator=m.g)
        h = F.relu(note(m.a(x)))[rows]
        return m.o(F.relu(note(m.b(h), point=rows[:, None])))

    model = Made(go, **apart(), o=nn.Linear(5, 2))
    model.g = chance()
    return model, batches({}, {})
