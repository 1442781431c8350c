"""Lay out one member: its arenas, its start as alive.nn makes it, and its settings as the kernels read them."""

from __future__ import annotations

from typing import cast

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Generator, Tensor, nn

from alive.data import Augment, Data
from alive.data.augment import Moves
from alive.nn import FITTED, AnnealedDropout
from alive.penalties import Schedule
from alive.penalties.multipliers import KI, KP, NU, TOL, TOP, WEIGHT
from alive.train.settings import chance

from .architecture import Follows, batch_of
from .arena import Floats, Gates, Norm, Prices, size_of, views
from .doubled import kept
from .member import Member
from .plan import FARKAS, NO_SKIP, SCALED, SHARED, SKIP, UNTIED, VAN, Arenas, Course, Order, Plan, Rule

RULE = Rule(KI, KP, NU, TOL, TOP)
SKIPS = {"residual": SKIP, "van": VAN, "rezero": SKIP, "fixup": SKIP}
BRANCHES = {"rezero": 0.0, "fixup": 1.0}  # what a branch is multiplied by at first; it is trained
TIES = {"farkas": FARKAS, **dict.fromkeys(BRANCHES, SCALED)}
OWN = Follows(np.zeros(0, np.int32), np.zeros(0, np.float32))  # each connection is its own


def plan_of(member: Member, data: Data, record_every: int, net: Arenas) -> Plan:
    """Settings as plain numbers."""
    kind, points = member.kind, len(data.train_y)
    batch = batch_of(member, points)
    tie = SHARED if net.sharing.size else TIES.get(kind.block, UNTIED)
    whole = batch == points and not member.shuffle
    extent = member.form.extent(member, tuple(data.train_x.shape[1:]))
    return Plan(
        **extent._asdict(),
        keep=bool(kind.axes) and extent.by_position,
        batch=batch,
        record_every=record_every,
        epochs=member.epochs,
        norm=kind.batch_norm,
        skip=SKIPS.get(kind.block, NO_SKIP),
        tie=tie,
        units="U" in kind.axes,
        points="P" in kind.axes,
        layer="L" in kind.axes,
        squared=member.aggregate != "sum",
        mean=member.aggregate == "meansq",
        auto=member.weight == "auto",
        rule=RULE,
        plus=np.float32(member.balance),
        minus=np.float32(1 - member.balance),
        margin=np.float32(member.margin),
        adam=member.optimiser == "adam",
        momentum=np.float32(member.momentum),
        eps=np.float32(member.eps),
        eta=np.float32(member.gate.eta),
        ratio=np.float32(member.gate.ratio),
        task=member.task,
        running=member.running,
        cutout=0 if member.augment is None else member.augment.cutout,
        mean_fill=member.augment is not None and member.augment.fill == "mean",
        still=whole and extent.side == 1 and not kind.batch_norm and member.dropout is None,
        seed=np.uint64(member.seed),
    )


def course_of(member: Member, points: int) -> Course:
    """Learning rate and dropout rate by epoch, weight of the penalty by step."""
    steps = member.epochs * -(-points // batch_of(member, points))
    weight = WEIGHT if member.weight == "auto" else member.weight
    if not isinstance(weight, Schedule):
        weight = Schedule(cast(float, weight))
    if not member.kind.axes:
        weight = Schedule(0.0)
    moving = weight.end is not None
    changes = 1 if member.schedule.shape == "constant" else member.epochs
    shape = [member.schedule(epoch, member.epochs) for epoch in range(changes)]
    output = member.lr if member.output_lr is None else member.output_lr
    return Course(
        lr=np.array([member.lr * factor for factor in shape]),
        output_lr=np.array([output * factor for factor in shape]),
        weight=np.array([weight(step / steps) for step in range(steps if moving else 1)]),
        rate=_rates(member),
    )


def _rates(member: Member) -> NDArray[np.float64]:
    if member.dropout is None:
        return np.zeros(1)
    fade = member.dropout
    rule = AnnealedDropout(fade.p0, fade.epochs, first_epoch_p=fade.first_epoch_p)
    rates = []
    for epoch in range(min(fade.epochs + 1, member.epochs)):  # zero from there on
        rule.set_epoch(epoch)
        rates.append(rule.p)
    return np.array(rates)


def arenas_of(member: Member, data: Data) -> Arenas:
    """The network as it starts. Torch's own random state is read and put back: not for two threads at once."""
    form, shape, norm = member.form, tuple(data.train_x.shape[1:]), member.kind.batch_norm
    shapes = form.shapes(member, shape, data.outputs)
    free, shared = _start(member, data), form.sharing(member, shapes)
    index, factor = shared or OWN
    tied = shared is not None or member.kind.block in TIES
    flat = np.zeros(size_of(shapes), np.float32) if tied else free
    slope = np.zeros_like(free)
    flat_slope = np.zeros_like(flat) if tied else slope
    channels = (member.depth if norm else 0, member.width)
    return Arenas(
        free=free,
        slope=slope,
        first_moment=np.zeros_like(free),
        second_moment=np.zeros_like(free),
        flat=flat,
        flat_slope=flat_slope,
        sharing=index,
        factor=factor,
        w=views(flat, shapes),
        g=views(flat_slope, shapes),
        norm=Norm(np.zeros(channels, np.float32), np.ones(channels, np.float32)),
        gates=_gates(member, form.rows(member)),
        prices=_prices(member),
        top=np.zeros((member.depth, member.width), np.float32),
        bottom=np.zeros((member.depth, member.width), np.float32),
    )


def _start(member: Member, data: Data) -> Floats:
    """What is trained, flat."""
    net, block = member.form.twin(member, tuple(data.train_x.shape[1:]), data.outputs), member.kind.block
    if member.init in FITTED:
        drawn = Generator().manual_seed(member.seed)
        FITTED[member.init](net, member.form.shown(data), generator=drawn, output="output")
    branches = [torch.full((member.depth - 1,), BRANCHES[block])] if block in BRANCHES else []
    parts = [*kept(member, parts_of(net)), *branches]
    flat: Floats = torch.cat([part.detach().flatten() for part in parts]).float().numpy()
    return flat


def _gates(member: Member, rows: int) -> Gates:
    shape = (member.depth, rows) if member.kind.block in SKIPS else (0, rows)
    first = np.full(shape, member.gate.start, np.float32)
    return Gates(np.zeros(shape, np.float32), first, np.zeros(shape, np.float32))


def _prices(member: Member) -> Prices:
    shape = (member.depth, 3)
    return Prices(np.ones(shape), np.ones(shape), np.full(shape, np.nan))


def parts_of(net: nn.Module) -> list[Tensor]:
    """The parameters of a rectangle in the order of the arena: weights, biases, head, gains, shifts."""
    *hidden, head = (module for module in net.modules() if isinstance(module, nn.Linear | nn.Conv2d))
    norms = [module for module in net.modules() if isinstance(module, nn.BatchNorm1d | nn.BatchNorm2d)]
    return [
        *(layer.weight for layer in hidden),
        *(cast(Tensor, layer.bias) for layer in hidden),
        head.weight,
        cast(Tensor, head.bias),
        *(norm.weight for norm in norms),
        *(norm.bias for norm in norms),
    ]


def order_of(member: Member, data: Data, first: int, last: int) -> Order:
    """What the epochs from `first` to `last` show, by the rules of train.loop: it follows from seed and epoch alone."""
    count = len(data.train_y)
    points = [torch.arange(count)]
    if member.shuffle:
        points = [torch.randperm(count, generator=chance(member.seed, epoch)) for epoch in range(first, last)]
    moves = [torch.zeros(0, len(Moves._fields))]
    if member.augment is not None:
        moves = [_moves(member, member.augment, data, epoch) for epoch in range(first, last)]
    return Order(torch.stack(points).numpy(), torch.stack(moves).int().numpy())


def _moves(member: Member, augment: Augment, data: Data, epoch: int) -> Tensor:
    """How the images of one epoch are moved, step by step [N, 5]."""
    count = len(data.train_y)
    height, width = data.train_x.shape[2:]
    parts = torch.arange(count).split(batch_of(member, count))
    drawn = [augment.draw(len(part), (height, width), chance(member.seed, epoch, i)) for i, part in enumerate(parts)]
    return torch.cat([torch.stack(each, dim=1) for each in drawn])
