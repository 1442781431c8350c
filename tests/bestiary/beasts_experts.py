"""Beasts with experts: points that are sent to some of several layers, which are counted by who they are."""

from __future__ import annotations

import torch
from case import along, case, lean, leaning
from notebook import Made, note, noted, plant
from torch import nn

NOBODY = torch.tensor(-1)


def experts(count=3, inputs=4, units=4):
    """Dense layers with one dead unit each, in different places."""
    layers = [nn.Linear(inputs, units) for _ in range(count)]
    for number, layer in enumerate(layers):
        lean(layer)
        plant(layer, dead=(number % units,), by=20.0)
    return nn.ModuleList(layers)


def router(inputs=4, count=3):
    """A gate that sends negative points to the first expert and positive ones to the last."""
    gate = nn.Linear(inputs, count)
    with torch.no_grad():
        gate.weight.copy_(torch.linspace(-1, 1, count)[:, None].expand(count, inputs))
        gate.bias.copy_(0.7 - torch.linspace(-1, 1, count).abs())
    return gate


def hit_experts(m, x):
    """Mixtral's loop: only over the experts that some point was sent to."""
    weights, chosen = m.gate(x).softmax(-1).topk(1, -1)
    out = torch.zeros(len(x), 4)
    for e in chosen.unique().tolist():
        rows = (chosen[:, 0] == e).nonzero()[:, 0]
        h = m.activate(note(m.experts[e](x[rows]), point=rows[:, None], name=f"expert {e}"))
        out = out.index_add(0, rows, h * weights[rows])
    return note(m.last(out), name="last").relu()


def switch(go, n=8, **more):
    last = nn.Linear(4, 4)
    lean(last)
    parts = {"gate": router(), "experts": experts(), "activate": nn.ReLU(), "last": last}
    return Made(go, **(parts | more)), leaning(n, 4)


@case("experts in a loop, with one activation for all", "experts", truth=noted)
def looped():
    return switch(hit_experts)


@case("experts in a loop, of which one is not hit", "experts", truth=noted)
def one_not_hit():
    model, _ = switch(hit_experts)
    return model, leaning(6, 4, low=0.5, high=2.0)


@case("experts in a loop, other ones hit by other batches", "experts", truth=noted)
def other_batches():
    model, x = switch(hit_experts, n=12)
    return model, [x[:5], x[3:7], x[7:]]


class Expert(nn.Module):
    """An expert with an activation of its own."""

    def __init__(self, dense, number):
        super().__init__()
        self.dense, self.activate, self.number = dense, nn.ReLU(), number

    def forward(self, x, rows):
        return self.activate(note(self.dense(x), point=rows[:, None], name=f"expert {self.number}"))


def own_activations(m, x):
    chosen = m.gate(x).argmax(-1)
    out = torch.zeros(len(x), 4)
    for e, expert in enumerate(m.experts):
        rows = (chosen == e).nonzero()[:, 0]
        if len(rows):
            out[rows] = expert(x[rows], rows)
    return note(m.last(out), name="last").relu()


@case("experts with an activation each, other ones hit by other batches", "experts", truth=noted)
def own():
    model, x = switch(own_activations, n=12, experts=nn.ModuleList(map(Expert, experts(), range(3))))
    return model, [x[:5], x[3:7], x[7:]]


def empty_too(m, x):
    chosen = m.gate(x).argmax(-1)
    out = torch.zeros(len(x), 4)
    for e, expert in enumerate(m.experts):
        rows = (chosen == e).nonzero()[:, 0]
        z = expert(x[rows])
        if len(rows):
            note(z, point=rows[:, None], name=f"expert {e}")
        out[rows] = z.relu()
    return note(m.last(out), name="last").relu()


@case("experts that are run on no point at all", "experts", truth=noted)
def empty():
    model, _ = switch(empty_too)
    return model, leaning(6, 4, low=0.5, high=2.0)


def top_two(m, x):
    weights, chosen = m.gate(x).softmax(-1).topk(2, -1)
    out = torch.zeros(len(x), 4)
    for e in chosen.unique().tolist():
        rows, place = (chosen == e).nonzero(as_tuple=True)
        h = note(m.experts[e](x[rows]), point=rows[:, None], name=f"expert {e}").relu()
        out = out.index_add(0, rows, h * weights[rows, place, None])
    return note(m.last(out), name="last").relu()


@case("top-2 experts", "experts", truth=noted)
def two_each():
    return switch(top_two)


@case("top-2 experts, as many points as units", "experts", truth=noted)
def two_each_alike():
    return switch(top_two, n=4)


def tokens_top_one(m, x):
    n, t, c = x.shape
    flat = x.reshape(n * t, c)
    chosen = m.gate(flat).argmax(-1)
    out = torch.zeros(n * t, 4)
    for e in chosen.unique().tolist():
        rows = (chosen == e).nonzero()[:, 0]
        out[rows] = note(m.experts[e](flat[rows]), point=(rows // t)[:, None], name=f"expert {e}").relu()
    return note(m.last(out.view(n, t, 4)), name="last").relu()


@case("tokens of sequences sent to experts", "experts", truth=noted)
def tokens():
    model, _ = switch(tokens_top_one)
    return model, leaning(4, 4, 4)


def stacked(count=3, inputs=4, units=4):
    """The experts' weights as one parameter [E, F, C] and their biases [E, 1, C]."""
    layers = experts(count, inputs, units)
    weight = nn.Parameter(torch.stack([layer.weight.data.t() for layer in layers]))
    return {"weight": weight, "bias": nn.Parameter(torch.stack([layer.bias.data[None] for layer in layers]))}


def expert_and_feature(z, expert, feature):
    return along(z, expert) * z.shape[feature] + along(z, feature)


@case("experts as one parameter [E, F, C], by bmm", "experts", truth=noted)
def one_parameter():
    def go(m, x):
        z = torch.baddbmm(m.bias, x.expand(3, *x.shape), m.weight)
        h = note(z, points=1, unit=expert_and_feature(z, 0, 2)).relu()
        return (h * m.gate(x).softmax(-1).t()[..., None]).sum(0)

    return Made(go, gate=router(), **stacked()), leaning(4, 4)


@case("soft mixture by einsum, [E, N, C]", "experts", truth=noted)
def soft_mixture():
    def go(m, x):
        z = torch.einsum("nd,edf->enf", x, m.weight) + m.bias
        h = note(z, points=1, unit=expert_and_feature(z, 0, 2)).relu()
        return torch.einsum("enf,ne->nf", h, m.gate(x).softmax(-1))

    return Made(go, gate=router(), **stacked()), leaning(6, 4)


@case("soft mixture by einsum, [N, E, C]", "experts", truth=noted)
def soft_mixture_points_first():
    def go(m, x):
        z = torch.einsum("nd,edf->nef", x, m.weight) + m.bias[:, 0]
        h = note(z, unit=expert_and_feature(z, 1, 2)).relu()
        return torch.einsum("nef,ne->nf", h, m.gate(x).softmax(-1))

    return Made(go, gate=router(count=4), **stacked(count=4)), leaning(4, 4)


@case("tokens sorted by expert, in groups, with slices of one parameter", "experts", truth=noted)
def grouped():
    def go(m, x):
        chosen = m.gate(x).argmax(-1)
        order = chosen.argsort(stable=True)
        sent, out, start = x[order], [], 0
        for e, size in enumerate(chosen.bincount(minlength=3).tolist()):
            if size:
                z = sent[start : start + size] @ m.weight[e] + m.bias[e]
                rows = order[start : start + size, None]
                out.append(note(z, point=rows, name=f"expert {e}").relu())
            start += size
        return torch.cat(out)[order.argsort()]

    return Made(go, gate=router(), **stacked()), leaning(8, 4)


@case("experts' weights gathered for each point", "experts", truth=noted)
def gathered():
    def go(m, x):
        chosen = m.gate(x).argmax(-1)
        z = torch.bmm(x[:, None], m.weight[chosen]) + m.bias[chosen]  # [N, 1, C]
        unit = chosen[:, None, None] * 4 + along(z, 2)
        return note(z, unit=unit).relu()

    return Made(go, gate=router(), **stacked()), leaning(8, 4)


@case("Switch with capacity: points dispatched by a one-hot einsum", "experts", truth=noted)
def dispatched():
    def go(m, x):
        chosen = m.gate(x).argmax(-1)
        one_hot = torch.nn.functional.one_hot(chosen, 3)
        slot = (one_hot.cumsum(0) * one_hot).sum(-1) - 1  # the place of a point in the queue of its expert
        sent = one_hot[..., None] * torch.nn.functional.one_hot(slot, len(x))[:, None]  # [N, E, S]
        h = torch.einsum("nes,nd->esd", sent.float(), x)
        z = torch.baddbmm(m.bias, h, m.weight)
        point = torch.where(sent.any(0), sent.int().argmax(0), NOBODY)[..., None]  # an empty slot is nobody's
        h = note(z, point=point, unit=expert_and_feature(z, 0, 2)).relu()
        return torch.einsum("nes,esd->nd", sent.float(), h)

    return Made(go, gate=router(), **stacked()), leaning(6, 4)


def in_queues(chosen, count=3):
    """The place of each point in the queue of its expert."""
    one_hot = torch.nn.functional.one_hot(chosen, count)
    return (one_hot.cumsum(0) * one_hot).sum(-1) - 1


def buffered(go):
    last = nn.Linear(4, 4)
    lean(last)
    return Made(go, gate=router(), last=last, **stacked())


def with_capacity(m, x, room=3):
    weights, chosen = m.gate(x).softmax(-1).max(-1)
    slot = in_queues(chosen)
    kept = slot < room
    buffers, owner = torch.zeros(3, room, 4), torch.full((3, room), -1)
    buffers[chosen[kept], slot[kept]] = x[kept]
    owner[chosen[kept], slot[kept]] = kept.nonzero()[:, 0]  # by hand: an empty slot is nobody's
    z = torch.baddbmm(m.bias, buffers, m.weight)
    h = note(z, point=owner[..., None], unit=expert_and_feature(z, 0, 2)).relu()
    back = torch.zeros_like(x)
    back[kept] = h[chosen[kept], slot[kept]] * weights[kept, None]
    return note(m.last(x + back), name="last").relu()


@case("experts with buffers [E, S, C], points beyond capacity dropped", "experts", truth=noted)
def buffers():
    return buffered(with_capacity), leaning(9, 4)


@case("experts with buffers that are never full", "experts", truth=noted)
def roomy_buffers():
    return buffered(lambda m, x: with_capacity(m, x, room=9)), leaning(9, 4)


@case("experts with buffers, other ones filled by other batches", "experts", truth=noted)
def buffers_in_batches():
    x = leaning(15, 4)
    return buffered(with_capacity), [x[:5], x[5:9], x[9:]]


def with_flat_buffers(m, x, room=2):
    weights, chosen = m.gate(x).softmax(-1).topk(2, -1)
    flat = chosen.flatten()
    slot = in_queues(flat)
    kept = (slot < room).nonzero()[:, 0]
    at = flat[kept] * room + slot[kept]
    buffers = torch.zeros(3 * room, 4).index_copy(0, at, x[kept // 2])
    owner = torch.full((3 * room,), -1).index_copy(0, at, kept // 2)
    z = torch.bmm(buffers.view(3, room, 4), m.weight) + m.bias
    h = note(z, point=owner.view(3, room, 1), unit=expert_and_feature(z, 0, 2)).relu()
    back = h.flatten(0, 1)[at] * weights.flatten()[kept, None]
    return note(m.last(x.index_add(0, kept // 2, back)), name="last").relu()


@case("top-2 experts with buffers in a row [E·S, C]", "experts", truth=noted)
def flat_buffers():
    return buffered(with_flat_buffers), leaning(9, 4)


@case("experts' modules on buffers, one after the other", "experts", truth=noted)
def buffers_of_modules():
    def go(m, x):
        chosen = m.gate(x).argmax(-1)
        slot, out = in_queues(chosen), torch.zeros_like(x)
        for e, expert in enumerate(m.experts):
            rows = ((chosen == e) & (slot < 3)).nonzero()[:, 0]
            if len(rows):
                buffer = torch.zeros(3, 4)
                buffer[slot[rows]] = x[rows]
                owner = torch.full((3,), -1).index_copy(0, slot[rows], rows)
                h = note(expert(buffer), point=owner[:, None], name=f"expert {e}").relu()
                out[rows] = h[slot[rows]]
        return note(m.last(x + out), name="last").relu()

    return switch(go, n=9)


@case("points beyond capacity leave zeros behind", "experts", truth=noted)
def zeros_behind():
    def go(m, x):
        chosen = m.gate(x).argmax(-1)
        slot, out = in_queues(chosen), torch.zeros_like(x)
        for e, expert in enumerate(m.experts):
            rows = ((chosen == e) & (slot < 2)).nonzero()[:, 0]
            if len(rows):
                out[rows] = note(expert(x[rows]), point=rows[:, None], name=f"expert {e}").relu()
        return note(m.last(out), name="last").relu()

    return switch(go, n=9)


@case("experts' buffers dispatched by a one-hot einsum of floats, capacity 2", "experts", truth=noted)
def dispatched_floats():
    def go(m, x, room=2):
        chosen = m.gate(x).argmax(-1)
        one_hot = torch.nn.functional.one_hot(chosen, 3).float()
        slot = one_hot.cumsum(0) * one_hot - one_hot
        one_hot = one_hot * (slot < room).float()
        slots = torch.nn.functional.one_hot((slot * one_hot).sum(-1).long(), room).float()
        sent = one_hot[..., None] * slots[:, None]  # [N, E, S]
        z = torch.baddbmm(m.bias, torch.einsum("nes,nd->esd", sent, x), m.weight)
        point = torch.where(sent.bool().any(0), sent.argmax(0), NOBODY)[..., None]
        h = note(z, point=point, unit=expert_and_feature(z, 0, 2)).relu()
        return note(m.last(x + torch.einsum("nes,esd->nd", sent, h)), name="last").relu()

    return buffered(go), leaning(8, 4)


@case("buffers with room for all, and all points in the first", "experts", truth=noted)
def collapsed_buffers():
    return buffered(lambda m, x: with_capacity(m, x, room=7)), leaning(7, 4, low=-4.0, high=-1.0)


@case("top-2 experts dispatched and combined by one-hot einsums", "experts", truth=noted)
def dispatched_twice():
    def go(m, x, room=3):
        weights, chosen = m.gate(x).softmax(-1).topk(2, -1)
        sent, share = torch.zeros(len(x), 3, room), torch.zeros(len(x), 3, room)
        taken = torch.zeros(3)
        for k in range(2):  # all first choices have their slots before the second ones
            one_hot = torch.nn.functional.one_hot(chosen[:, k], 3).float()
            slot = (one_hot.cumsum(0) - 1 + taken) * one_hot
            taken = taken + one_hot.sum(0)
            one_hot = one_hot * (slot < room)
            slots = torch.nn.functional.one_hot(slot.sum(-1).long().clamp(max=room - 1), room).float()
            sent = sent + one_hot[..., None] * slots[:, None]
            share = share + weights[:, k, None, None] * one_hot[..., None] * slots[:, None]
        z = torch.baddbmm(m.bias, torch.einsum("nes,nd->esd", sent, x), m.weight)
        point = torch.where(sent.bool().any(0), sent.argmax(0), NOBODY)[..., None]
        h = note(z, point=point, unit=expert_and_feature(z, 0, 2)).relu()
        return note(m.last(x + torch.einsum("nes,esd->nd", share, h)), name="last").relu()

    return buffered(go), leaning(8, 4)


@case("one-hot dispatch in batches, to experts that are modules", "experts", truth=noted)
def dispatched_to_modules():
    def go(m, x):
        chosen = m.gate(x).argmax(-1)
        sent = torch.nn.functional.one_hot(chosen, 3).float()
        out = torch.zeros_like(x)
        for e, expert in enumerate(m.experts):
            rows = (chosen == e).nonzero()[:, 0]
            which = torch.nn.functional.one_hot(rows, len(x)).float() * sent[rows, e, None]
            if len(rows):
                h = note(expert(which @ x), point=rows[:, None], name=f"expert {e}").relu()
                out = out + which.t() @ h
        return note(m.last(x + out), name="last").relu()

    model, x = switch(go, n=12)
    return model, [x[:5], x[3:7], x[7:]]
