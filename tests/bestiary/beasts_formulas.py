"""Beasts that spell an activation out as a formula: it is the activation that it equals, whatever it is made of."""

from __future__ import annotations

import math

import torch
import torch.nn.functional as F
from beasts_spellings import beside_a_relu
from case import case, lean, leaning
from notebook import Made, note, noted, plant
from torch import nn

LOW = math.log(0.1 / 0.9)  # where the slope of a softplus falls to 0.1
ELU = math.log(0.1)


def formula(name, spelled, **layer):
    case(name, "formulas", truth=noted)(lambda: beside_a_relu(spelled, n=24, **layer))


def written(change):
    """A function that writes into a copy of z, or into zeros, what `change` says."""

    def spelled(z):
        out = z.clone()
        change(out, z)
        return out

    return spelled


def leaks(out, z):
    out[z < 0] *= 0.1


def in_zeros(z):
    out = torch.zeros_like(z)
    out[z > 0] = z[z > 0]
    return out


def in_empty(z):
    out = torch.empty_like(z)
    out[z > 0], out[z <= 0] = z[z > 0], 0.2 * z[z <= 0]
    return out


def erf_in_place(z):
    return z.mul_(torch.erf(z / math.sqrt(2.0)).add_(1.0)).mul_(0.5)


def mask_before(z):
    on = z > 0
    z.neg_()
    return -(z * on)


def mask_after_shift(z):
    on = z > 0
    z.add_(1.0)
    return (z - 1.0) * on


def leaks_in_place(z):
    z[z < 0] *= 0.1
    return z


def softplus_in_place(z):
    return z.exp_().log1p()


def gpt2(z):
    return 0.5 * z * (1.0 + torch.tanh(math.sqrt(2.0 / math.pi) * (z + 0.044715 * torch.pow(z, 3.0))))


def log_sum(z):
    return torch.clamp(z, min=0) + torch.log1p(torch.exp(-torch.abs(z)))


# What is counted is not what is there
formula("z * relu6(z + 3) / 6", lambda z: z * F.relu6(z + 3) / 6)
formula("z * (relu6(z + 3) / 6)", lambda z: z * (F.relu6(z + 3.0) / 6.0))
formula("z * hardsigmoid(z)", lambda z: z * F.hardsigmoid(z))
formula("z * (z + 3).clamp(0, 6) / 6", lambda z: z * (z + 3).clamp(0, 6) / 6)
formula("z * tanh(softplus(z))", lambda z: z * torch.tanh(F.softplus(z)))
formula("z * tanh(log(1 + exp(z)))", lambda z: z * torch.tanh(torch.log(1 + torch.exp(z))))
formula("(z > 0) * z ** 2", lambda z: (z > 0).float() * z**2)
formula("z.square() * (z > 0)", lambda z: z.square() * (z > 0))
formula("z * relu(z)", lambda z: z * F.relu(z))
formula("softplus less log 2", lambda z: F.softplus(z) - math.log(2.0), cutoff=LOW)
formula("log(0.5 exp(z) + 0.5)", lambda z: torch.log(0.5 * torch.exp(z) + 0.5), cutoff=LOW)

# Assignments and changes in place
formula("out[z > 0] = z[z > 0]", in_zeros)
formula("out[z < 0] *= 0.1", written(leaks))
formula("z[z < 0] *= 0.1", leaks_in_place)
formula("out[z > 0] = z[z > 0], the rest 0.2 z", in_empty)
formula("masked_scatter", lambda z: torch.zeros_like(z).masked_scatter(z > 0, z[z > 0]))
formula("masked_scatter of masked_select", lambda z: torch.zeros_like(z).masked_scatter_(z > 0, z.masked_select(z > 0)))
formula("GELU by erf, in place", erf_in_place)
formula("z.abs().add_(z).mul_(.5)", lambda z: z.abs().add_(z).mul_(0.5))
formula("a mask taken before z changes its sign in place", mask_before)
formula("a mask taken before z is shifted in place", mask_after_shift)
formula("softplus of what exp_ overwrites", softplus_in_place, cutoff=LOW)

# Softplus and its kin
formula("logaddexp(z, 0)", lambda z: torch.logaddexp(z, torch.tensor(0.0)), cutoff=LOW)
formula("logaddexp(z, zeros)", lambda z: torch.logaddexp(z, torch.zeros_like(z)), cutoff=LOW)
formula("-logsigmoid(-z)", lambda z: -F.logsigmoid(-z), cutoff=LOW)
formula("log1p(exp(z))", lambda z: torch.log1p(torch.exp(z)), cutoff=LOW)
formula("z.exp().log1p()", lambda z: z.exp().log1p(), cutoff=LOW)
formula("log(1 + exp(z))", lambda z: torch.log(1 + torch.exp(z)), cutoff=LOW)
formula("log(1 + exp(2 z)) / 2", lambda z: torch.log(1 + torch.exp(2 * z)) / 2, cutoff=LOW / 2)
formula("0.5 * softplus by log1p(exp(2 z))", lambda z: 0.5 * (2 * z).exp().log1p(), cutoff=LOW / 2)
formula("max(z, 0) + log1p(exp(-|z|))", log_sum, cutoff=LOW)
formula("-log(sigmoid(-z))", lambda z: -torch.log(torch.sigmoid(-z)), cutoff=LOW)
formula("squareplus", lambda z: (z + torch.sqrt(z * z + 4.0)) / 2, cutoff=-8 / 3)
formula("squareplus of b = 1", lambda z: 0.5 * (z + (z.pow(2) + 1.0).sqrt()), cutoff=-4 / 3)

# Clamps
formula("z.clamp(-1, 1)", lambda z: z.clamp(-1, 1), cutoff=-1.0, ceiling=1.0)
formula("torch.clamp(z, min=-2.0, max=1.5)", lambda z: torch.clamp(z, min=-2.0, max=1.5), cutoff=-2.0, ceiling=1.5)
formula("z.clamp(min=-1)", lambda z: z.clamp(min=-1), cutoff=-1.0)
formula(
    "minimum(maximum(z, -1), 1)", lambda z: z.maximum(-torch.ones(())).minimum(torch.ones(())), cutoff=-1.0, ceiling=1.0
)
formula("relu(z) - relu(z - 1)", lambda z: F.relu(z) - F.relu(z - 1), ceiling=1.0)
formula("clamp_(-1, 1) in place", lambda z: z.clamp_(-1, 1), cutoff=-1.0, ceiling=1.0)

# Off in between
formula("softshrink", F.softshrink)
formula("hardshrink", F.hardshrink)
formula("z.sign() * relu(|z| - 0.5)", lambda z: z.sign() * F.relu(z.abs() - 0.5))
formula("z * (|z| > 0.5)", lambda z: z * (z.abs() > 0.5))
formula("where(|z| > 0.5, z, 0)", lambda z: torch.where(z.abs() > 0.5, z, 0.0))

# Smooth ones
formula("GELU as GPT-2 writes it", gpt2)
formula("GELU by erf", lambda z: 0.5 * z * (1 + torch.erf(z / math.sqrt(2.0))))
formula("GELU by erf, z * 0.5 * (1 + ...)", lambda z: z * 0.5 * (1.0 + torch.erf(z / 1.41421)))
formula("z * ndtr(z)", lambda z: z * torch.special.ndtr(z))
formula("z * sigmoid(1.702 z)", lambda z: z * torch.sigmoid(1.702 * z))
formula("z * sigmoid(z)", lambda z: z * torch.sigmoid(z))
formula("z / (1 + exp(-z))", lambda z: z / (1 + torch.exp(-z)))
formula("0.5 z (1 + tanh(z / 2))", lambda z: 0.5 * z * (1 + torch.tanh(z / 2)))
formula("z * tanh(exp(z))", lambda z: z * torch.tanh(torch.exp(z)))

# Leaky ones and ELU
formula("where(z > 0, z, 0.1 z)", lambda z: torch.where(z > 0, z, 0.1 * z))
formula("maximum(z, 0.1 z)", lambda z: torch.maximum(z, 0.1 * z))
formula("relu(z) - 0.1 relu(-z)", lambda z: F.relu(z) - 0.1 * F.relu(-z))
formula("clamp(min=0) + 0.1 clamp(max=0)", lambda z: z.clamp(min=0) + 0.1 * z.clamp(max=0))
formula("0.55 z + 0.45 |z|", lambda z: 0.55 * z + 0.45 * z.abs())
formula("z * where(z > 0, 1, 0.1)", lambda z: z * torch.where(z > 0, 1.0, 0.1))
formula("z * ((z > 0) + 0.1 * (z <= 0))", lambda z: z * ((z > 0) + 0.1 * (z <= 0)))
formula("where(z > 0, z, exp(z) - 1)", lambda z: torch.where(z > 0, z, torch.exp(z) - 1), cutoff=ELU)
formula("where(z > 0, z, 0.5 expm1(z))", lambda z: torch.where(z > 0, z, 0.5 * torch.expm1(z)), cutoff=math.log(0.2))
formula("relu(z) + expm1(min(z, 0))", lambda z: F.relu(z) + torch.expm1(z.clamp(max=0)), cutoff=ELU)
formula("elu(z) + 1, as where(z > 0, z + 1, exp(z))", lambda z: torch.where(z > 0, z + 1, torch.exp(z)), cutoff=ELU)


def several(name, go, batches=3, **parts):
    """Batches of unequal sizes, so that the later ones are looked up."""

    @case(name, "formulas", truth=noted)
    def make():
        a, b = nn.Linear(3, 6), nn.Linear(6, 6)
        lean(a, b)
        b.weight.data[::2] *= -1
        plant(a, dead=(1,), by=20.0)
        plant(b, linear=(0,), by=20.0)
        made = {key: make_part() for key, make_part in parts.items()}
        return Made(go, a=a, b=b, **made), [leaning(n, 3) for n in (8, 12, 5, 8)[:batches]]


def halved(m, x):
    z = note(0.5 * m.a(x))
    h = note(m.b(z * torch.sigmoid(z)))
    return torch.where(h > 0, h, 0.1 * h)


several("formulas over several batches", halved)


def swiglu(m, x):
    gate = note(m.a(x))
    return note(m.b(gate * torch.sigmoid(gate) * m.c(x))).relu()


several("SwiGLU by formula", swiglu, c=lambda: nn.Linear(3, 6))


def plain_gate(m, x):
    h = note(m.a(x)).relu()
    return m.b(h) * torch.sigmoid(m.c(x))


several("a sigmoid that gates another layer", plain_gate, c=lambda: nn.Linear(3, 6))


def wide(m, x):
    h = note(m.a(x)).relu()
    mean, spread = m.b(h).chunk(2, -1)
    note(spread, cutoff=LOW)
    return m.c(mean * torch.log1p(spread.exp()))


several("a positive scale by log1p(exp(z)), beside a mean", wide, c=lambda: nn.Linear(3, 2))


def guarded(m, x):
    h = note(m.a(x)).relu()
    y = m.b(h)
    y = y / y.norm(dim=-1, keepdim=True).clamp(min=1e-6)
    p = torch.softmax(y, -1).clamp(1e-6, 1 - 1e-6)
    return p.log()


several("clamps that only guard a division and a logarithm", guarded)


def other_way(m, x):
    h = note(m.a(x)).relu()
    z = m.b(h)
    if len(x) == 5:  # the third batch
        return m.c(0.5 * note(z) * (1 + torch.erf(z / math.sqrt(2.0))))
    return m.c(z)


several("a GELU by formula in one batch alone", other_way, c=lambda: nn.Linear(6, 2))


def encoded(m, x):
    h = note(m.a(x)).relu()
    mean, spread = m.b(h).chunk(2, -1)
    z = mean + spread.clamp(-10, 10).mul(0.5).exp() * torch.linspace(-1, 1, 3)
    return note(m.c(z)).relu()


several("a VAE's log-variance, clamped before exp", encoded, c=lambda: nn.Linear(3, 6))


def through_indices(z):
    out = torch.zeros_like(z)
    which = (z > 0).nonzero(as_tuple=True)
    out[which] = z[which]
    return out


formula("out[i] = z[i] with i = (z > 0).nonzero()", through_indices)
formula("index_put where z > 0", lambda z: torch.zeros_like(z).index_put((z > 0,), z[z > 0]))
formula("lerp from 0 to z where z > 0", lambda z: torch.lerp(torch.zeros_like(z), z, (z > 0).float()))
formula("z + (relu(z) - z)", lambda z: z + (F.relu(z) - z))
formula("relu(z).clamp(max=1)", lambda z: F.relu(z).clamp(max=1), ceiling=1.0)
formula("z times the cdf of Normal(0, 1)", lambda z: z * torch.distributions.Normal(0.0, 1.0).cdf(z))


def residual(m, x):
    z = note(m.a(x))
    h = z + F.relu(z)
    return note(m.b(h)).relu()


several("h + relu(h)", residual)


# Terms of a loss


def paired(model, batch):
    return model(*batch)


def beside_a_loss(name, loss, targets=None):
    """A dense layer, and a loss that is taken in forward; its terms are no layers."""
    by_pairs = {} if targets is None else {"forward": paired}

    @case(name, "formulas", truth=lambda model, batch: noted(model, batch, **by_pairs), **by_pairs)
    def make():
        def go(m, x, *y):
            return loss(m.b(note(m.a(x)).relu()), *y)

        a = nn.Linear(3, 6)
        lean(a)
        plant(a, dead=(1,), by=20.0)
        x = leaning(6, 3)
        return Made(go, a=a, b=nn.Linear(6, 4)), x if targets is None else [(x, targets)]


def log_probability(h):
    mean, log_std = h.chunk(2, -1)
    std = log_std.clamp(-20, 2).exp()
    u = mean + std * torch.linspace(-1, 1, 12).view(6, 2)
    log_p = -0.5 * ((u - mean) / std) ** 2 - log_std - 0.5 * math.log(2 * math.pi)
    return torch.tanh(u), (log_p - 2 * (math.log(2) - u - F.softplus(-2 * u))).sum(-1)


def log_probability_alone(h):
    mean, log_std = h.chunk(2, -1)
    std = (-5 + 3.5 * (torch.tanh(log_std) + 1)).exp()
    u = mean + std * torch.linspace(-1, 1, 12).view(6, 2)
    return torch.tanh(u), (2 * (math.log(2) - u - F.softplus(-2 * u))).sum(-1, keepdim=True)


def by_logits(h, y):
    z = h[:, 0]
    return h, F.relu(z) - z * y + torch.log1p(torch.exp(-z.abs()))


def by_logits_of_all(h, y):
    return (F.relu(h) - h * y + torch.log1p(torch.exp(-h.abs()))).mean(-1)


def by_softplus(h, y):
    return h, (F.softplus(h) - h * y).sum(-1)


def hinge(h, y):
    return h, F.relu(1 - (2 * y - 1) * h[:, 0])


def hinge_of_all(h, y):
    return F.relu(1 - (2 * y - 1) * h).mean(1)


def vicreg(h):
    spread = torch.sqrt(h.var(0) + 1e-4)
    return h, F.relu(1 - spread).mean()


def vicreg_by_unit(h):
    return h, F.relu(1 - torch.sqrt(h.var(dim=0) + 1e-4))


def ranked(h):
    return h, -F.logsigmoid(h[:, 0] - h[:, 1]).mean()


ONES = torch.tensor([0.0, 1, 1, 0, 1, 0])
TABLE = torch.tensor([[0.0, 1, 1, 0]] * 3 + [[1.0, 0, 1, 0]] * 3)
beside_a_loss("SAC's log-probability, with log_std clamped", log_probability)
beside_a_loss("SAC's log-probability", log_probability_alone)
beside_a_loss("BCE per point, by hand", by_logits, ONES)
beside_a_loss("BCE per point over labels, by hand", by_logits_of_all, TABLE)
beside_a_loss("BCE per point, by softplus", by_softplus, TABLE)
beside_a_loss("hinge per point", hinge, ONES)
beside_a_loss("hinge per point over labels", hinge_of_all, TABLE)
beside_a_loss("VICReg's variance", vicreg)
beside_a_loss("VICReg's variance by unit", vicreg_by_unit)
beside_a_loss("a ranking loss by logsigmoid", ranked)


# Moved by a number first, so that what is inside is always on, or at its ceiling


def moved(spelled):
    def go(m, x):
        return m.o(spelled(note(torch.relu(note(m.a(x))) @ m.b.weight.t() + 50.0)))

    first = nn.Linear(3, 5)
    plant(first, dead=(1,), linear=(2,))
    return Made(go, a=first, b=nn.Linear(5, 4, bias=False), o=nn.Linear(4, 2)), leaning(8, 3)


@case("z * relu6(z + 3) / 6 of z = h + 50", "formulas", truth=noted)
def moved_hard_swish():
    return moved(lambda z: z * F.relu6(z + 3) / 6)


@case("z * tanh(softplus(z)) of z = h + 50", "formulas", truth=noted)
def moved_mish():
    return moved(lambda z: z * torch.tanh(F.softplus(z)))


@case("GELU by erf of z = h + 50", "formulas", truth=noted)
def moved_gelu():
    return moved(lambda z: 0.5 * z * (1 + torch.erf(z / math.sqrt(2))))
