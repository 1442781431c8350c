"""Beasts that spell ReLU in another way, or hide it: each beside a ReLU that is seen."""

from __future__ import annotations

import warnings
from math import inf

import torch
import torch.nn.functional as F
from case import Layer, along, case, lean, leaning
from notebook import Made, note, noted, plant
from torch import Tensor, nn
from torch.func import functional_call
from torch.utils.checkpoint import checkpoint


def beside_a_relu(spelled, n=6, c=6, **layer):
    """A dense net of three layers: a plain ReLU, the one spelled out, and a plain ReLU again."""

    def go(m, x):
        h = note(m.a(x)).relu()
        z = m.b(h)
        note(z.clone(), **layer)  # a copy, for it may change in place
        h = m.spelled(z)
        return note(m.c(h)).relu()

    a, b, last = nn.Linear(3, c), nn.Linear(c, c), nn.Linear(c, c)
    lean(a, b)
    b.weight.data[::2] *= -1
    plant(b, dead=(1,), by=20.0)
    plant(last, dead=(1,), linear=(0,), by=20.0)
    return Made(go, a=a, b=b, c=last, spelled=spelled), leaning(n, 3)


def spelling(name, spelled, kind="spellings", **layer):
    case(name, kind, truth=noted)(lambda: beside_a_relu(spelled, **layer))


spelling("F.relu", F.relu)
spelling("F.relu_ in place", F.relu_)
spelling("torch.where(x > 0, x, 0)", lambda z: torch.where(z > 0, z, 0))
spelling("torch.where(x > 0, x, zeros)", lambda z: torch.where(z > 0, z, torch.zeros_like(z)))
spelling("torch.where(x <= 0, 0, x)", lambda z: torch.where(z <= 0, 0.0, z))
spelling("x.where(x > 0, 0)", lambda z: z.where(z > 0, torch.tensor(0.0)))
spelling("x * (x > 0)", lambda z: z * (z > 0))
spelling("(x > 0) * x", lambda z: (z > 0) * z)
spelling("x * (x > 0).float()", lambda z: z * (z > 0).float())
spelling("x * x.gt(0).type_as(x)", lambda z: z * z.gt(0).type_as(z))
spelling("x * (x.sign() > 0)", lambda z: z * (z.sign() > 0).to(z.dtype))
spelling("x * torch.heaviside(x, 0)", lambda z: z * torch.heaviside(z.detach(), torch.tensor(0.0)))
spelling("torch.maximum(x, 0)", lambda z: torch.maximum(z, torch.tensor(0.0)))
spelling("torch.max(x, zeros)", lambda z: torch.max(z, torch.zeros_like(z)))
spelling("x.max(zeros), as a method", lambda z: z.max(torch.zeros_like(z)))
spelling("torch.fmax(x, 0)", lambda z: torch.fmax(z, torch.zeros(())))
spelling("-torch.minimum(-x, 0)", lambda z: -torch.minimum(-z, torch.zeros(())))
spelling("clamp(min=0)", lambda z: z.clamp(min=0))
spelling("clamp(min=tensor)", lambda z: torch.clamp(z, min=torch.tensor(0.0)))
spelling("clamp_min_(0) in place", lambda z: z.clamp_min_(0))
spelling("clamp(0, 1)", lambda z: z.clamp(0, 1), ceiling=1.0)
spelling("hardtanh(0, 1)", lambda z: F.hardtanh(z, 0.0, 1.0), ceiling=1.0)
spelling("hardtanh", F.hardtanh, cutoff=-1.0, ceiling=1.0)
spelling("relu6", F.relu6, ceiling=6.0)
spelling("threshold(x, 0.5, 0)", lambda z: F.threshold(z, 0.5, 0.0), cutoff=0.5)
spelling("(x + x.abs()) / 2", lambda z: (z + z.abs()) / 2)
spelling("0.5 * (x.abs() + x)", lambda z: 0.5 * (z.abs() + z))
spelling("x - x.clamp(max=0)", lambda z: z - z.clamp(max=0))
spelling("torch.stack((x, zeros)).amax(0)", lambda z: torch.stack((z, torch.zeros_like(z))).amax(0))
spelling("torch.ops.aten.relu", torch.ops.aten.relu)
spelling("torch.ops.aten.clamp_min", lambda z: torch.ops.aten.clamp_min(z, 0))
spelling("torch._VF.relu", torch._VF.relu)
spelling("LeakyReLU of slope 0", lambda z: F.leaky_relu(z, 0.0))
spelling("x.masked_fill(x < 0, 0)", lambda z: z.masked_fill(z < 0, 0.0))
spelling("the root of a ReLU squared", lambda z: (F.relu(z) ** 2 + 0.01).sqrt())
spelling("squared ReLU", lambda z: F.relu(z).square())


def assigned(z):
    z = z.clone()
    z[z < 0] = 0
    return z


spelling("z[z < 0] = 0", assigned)


def _quiet(scripted):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return scripted()


def _relu(z: Tensor) -> Tensor:
    return torch.relu(z)


def _written_out(z: Tensor) -> Tensor:
    return z * (z > 0).float()


class _Module(nn.Module):
    def forward(self, z: Tensor) -> Tensor:
        return torch.relu(z)


scripted, scripted_out, traced = _quiet(
    lambda: (
        torch.jit.script(_relu),
        torch.jit.script(_written_out),
        torch.jit.trace(_relu, torch.randn(2, 3)),
    )
)
spelling("a scripted function", scripted)
spelling("a scripted function that spells it out", scripted_out)
spelling("a traced function", traced)


@case("a scripted submodule", "spellings", truth=noted)
def scripted_module():
    return beside_a_relu(_quiet(lambda: torch.jit.script(_Module())))


@torch.library.custom_op("bestiary::relu", mutates_args=())
def custom_relu(z: Tensor) -> Tensor:
    return z.clamp(min=0).clone()


custom_relu.register_autograd(
    lambda ctx, grad: grad * ctx.saved_tensors[0],
    setup_context=lambda ctx, inputs, output: ctx.save_for_backward((inputs[0] > 0).to(output.dtype)),
)
spelling("a custom operator", custom_relu)


class OwnReLU(torch.autograd.Function):
    """A ReLU with a derivative of its own."""

    @staticmethod
    def forward(ctx, z):
        ctx.save_for_backward(z)
        return z.clamp(min=0)

    @staticmethod
    def backward(ctx, grad):
        return grad * (ctx.saved_tensors[0] > 0)


class OwnMask(torch.autograd.Function):
    """A ReLU spelled out, with a derivative of its own."""

    @staticmethod
    def forward(ctx, z):
        ctx.on = z > 0
        return z * ctx.on

    @staticmethod
    def backward(ctx, grad):
        return grad * ctx.on


spelling("an autograd.Function of its own", OwnReLU.apply)
spelling("an autograd.Function of its own, spelled out", OwnMask.apply)


def with_rnn(make, run):
    """A ReLU, and a recurrent layer that holds its own."""

    def truth(model, batch):
        first = model.a(batch)
        h = first.relu()
        cell, state, seen = model.rnn, torch.zeros(len(batch), 4), []
        names = [n for n, _ in cell.named_parameters()]
        w_in, w_state, b_in, b_state = (getattr(cell, n) for n in names)
        for step in h.unbind(1):
            z = step @ w_in.t() + b_in + state @ w_state.t() + b_state
            seen.append(z)
            state = z.relu()
        last = model.c(state)
        z = torch.stack(seen, 1)
        return [Layer(each, along(each, 0), along(each, -1)) for each in (first, z, last)]

    def build():
        a, last = nn.Linear(3, 4), nn.Linear(4, 4)
        lean(a, last)
        plant(a, dead=(1,))

        def go(m, x):
            return m.c(run(m.rnn, m.a(x).relu())).relu()

        return Made(go, a=a, rnn=make(), c=last), leaning(6, 5, 3)

    return truth, build


def _cells(cell, x):
    state = x.new_zeros(len(x), 4)
    for step in x.unbind(1):
        state = cell(step, state)
    return state


_truth, _build = with_rnn(lambda: nn.RNN(4, 4, nonlinearity="relu", batch_first=True), lambda rnn, x: rnn(x)[0][:, -1])
case("nn.RNN with ReLU", "spellings", truth=_truth)(_build)
_truth, _build = with_rnn(lambda: nn.RNNCell(4, 4, nonlinearity="relu"), _cells)
case("nn.RNNCell with ReLU", "spellings", truth=_truth)(_build)


def to_beat(z, k, least=-inf):
    """For each entry, the k-th largest of the others in its row, and no less than that."""
    rows = z.detach().tolist()
    return torch.tensor([[max(sorted(row[:j] + row[j + 1 :])[-k], least) for j in range(len(row))] for row in rows])


@case("top-k: 8 of 512 latents, then ReLU", "spellings", truth=noted)
def top_k():
    def go(m, x):
        h = note(m.a(x)).relu()
        z = m.encode(h)
        values, index = z.topk(8, -1)
        kept = values.relu()
        chosen = torch.zeros(len(x), 512).scatter(-1, index, kept)
        note(z - to_beat(z, 8, least=0.0), noun="latent", on=chosen != 0)
        return m.decode(chosen)

    a = nn.Linear(3, 6)
    lean(a)
    return Made(go, a=a, encode=nn.Linear(6, 512), decode=nn.Linear(512, 3)), leaning(8, 3)


@case("ReLU, then top-k: 2 of 8 latents", "spellings", truth=noted)
def relu_top_k():
    def go(m, x):
        h = note(m.encode(x)).relu()
        values, index = h.topk(2, -1)
        chosen = torch.zeros_like(h).scatter(-1, index, values)
        note(h - to_beat(h, 2), noun="latent", on=chosen != 0)
        return m.decode(chosen)

    encode = nn.Linear(3, 8)
    plant(encode, dead=(1,), linear=(2,), by=20.0)
    return Made(go, encode=encode, decode=nn.Linear(8, 3)), leaning(8, 3)


@case("JumpReLU: x * (x > threshold), learned", "spellings", truth=noted)
def jump_relu():
    def go(m, x):
        h = note(m.a(x)).relu()
        z = m.b(h)
        level = m.log_threshold.exp().detach()
        note(z - level, noun="latent", on=z > level)
        return z * (z > m.log_threshold.exp())

    a, b = nn.Linear(3, 6), nn.Linear(6, 6)
    lean(a)
    plant(b, dead=(0,), by=20.0)
    return Made(go, a=a, b=b, log_threshold=nn.Parameter(torch.linspace(-2, 0, 6))), leaning(6, 3)


@case("under functional_call", "spellings", truth=noted)
def under_functional_call():
    def go(m, x):
        halved = {name: p * 0.5 for name, p in m.inner.named_parameters()}
        h = functional_call(m.inner, halved, (x,))
        return note(m.last(h)).relu()

    def inner(m, x):
        return note(m.a(x)).relu()

    a, last = nn.Linear(3, 6), nn.Linear(6, 6)
    lean(a, last)
    plant(a, dead=(2,))
    return Made(go, inner=Made(inner, a=a), last=last), leaning(6, 3)


@case("checkpointed", "spellings", truth=noted)
def checkpointed():
    def block(m, x):
        return note(m.a(x)).relu()

    def go(m, x):
        h = checkpoint(m.block, x, use_reentrant=False)
        return note(m.last(h)).relu()

    a, last = nn.Linear(3, 6), nn.Linear(6, 6)
    lean(a, last)
    plant(a, dead=(2,))
    return Made(go, block=Made(block, a=a), last=last), leaning(6, 3)


def module_spelling(name, activation, **layer):
    """An activation that is a module, in an nn.Sequential."""

    def truth(model, batch):
        z = model[0](batch)
        last = model[2](model[1](z.clone()))
        return [
            Layer(z, along(z, 0), along(z, -1), **layer),
            Layer(last, along(last, 0), along(last, -1)),
        ]

    def make():
        a, b = nn.Linear(3, 6), nn.Linear(6, 6)
        lean(a, b)
        plant(a, dead=(2,))
        return nn.Sequential(a, activation(), b, nn.ReLU()), leaning(6, 3)

    case(name, "spellings", truth=truth)(make)


module_spelling("nn.ReLU(inplace=True)", lambda: nn.ReLU(inplace=True))
module_spelling("nn.ReLU6", nn.ReLU6, ceiling=6.0)
module_spelling("nn.Hardtanh(0, 2)", lambda: nn.Hardtanh(0.0, 2.0), ceiling=2.0)
module_spelling("nn.PReLU with a slope for each unit", lambda: nn.PReLU(6))
module_spelling("nn.Threshold(0.3, 0.1)", lambda: nn.Threshold(0.3, 0.1), cutoff=0.3, ceiling=inf)
