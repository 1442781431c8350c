"""Lay out one member: its arenas, its start as alive.nn makes it, and its settings as the kernels read them."""

from __future__ import annotations

from typing import cast

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Generator, Tensor, nn

from ...data import Data
from ...nn import AnnealedDropout, Rectangular, initialise_
from ...nn.rectangular import NORM_EPS, NORM_MOMENTUM
from ...penalties import Schedule
from ...penalties.multipliers import KI, KP, NU, TOL, TOP, WEIGHT
from .arena import Floats, Gates, Norm, Prices, signals, size_of, views, weight_shapes
from .member import Member
from .plan import FARKAS, NO_SKIP, SHARED, SKIP, UNTIED, VAN, Arenas, Course, Plan, Points, Room, Rule

RULE = Rule(KI, KP, NU, TOL, TOP)
SKIPS = {"plain": NO_SKIP, "farkas": NO_SKIP, "residual": SKIP, "van": VAN}


def positions_of(member: Member) -> int:
    """Positions of a map: two for the convolution of the heat maps, else one."""
    return 2 if member.architecture == "keras_same" else 1


def batch_of(member: Member, points: int) -> int:
    """Points in a step."""
    return member.batch_size or points


def plan_of(member: Member, points: int, record_every: int) -> Plan:
    """Settings as plain numbers."""
    kind, batch = member.kind, batch_of(member, points)
    tie = SHARED if member.architecture == "keras_same" else FARKAS if kind.block == "farkas" else UNTIED
    whole = batch == points and not member.shuffle
    return Plan(
        positions=positions_of(member),
        batch=batch,
        record_every=record_every,
        epochs=member.epochs,
        norm=kind.batch_norm,
        skip=SKIPS[kind.block],
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
        still=whole and not kind.batch_norm and member.dropout is None,
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
    return Course(
        lr=np.array([member.lr * member.schedule(epoch, member.epochs) for epoch in range(changes)]),
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
    positions, norm = positions_of(member), member.kind.batch_norm
    shapes = weight_shapes(
        member.depth, member.width * positions, data.inputs, data.outputs, norm=member.width if norm else 0
    )
    free = _start(member, data)
    tied = member.architecture == "keras_same" or member.kind.block == "farkas"
    index = _shared(member, shapes) if member.architecture == "keras_same" else np.zeros(0, np.int32)
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
        w=views(flat, shapes),
        g=views(flat_slope, shapes),
        norm=Norm(np.zeros(channels, np.float32), np.ones(channels, np.float32)),
        gates=_gates(member, member.width * positions),
        prices=_prices(member),
        top=np.zeros((member.depth, member.width), np.float32),
        bottom=np.zeros((member.depth, member.width), np.float32),
    )


def _gates(member: Member, rows: int) -> Gates:
    shape = (member.depth, rows) if SKIPS[member.kind.block] else (0, rows)
    first = np.full(shape, member.gate.start, np.float32)
    return Gates(np.zeros(shape, np.float32), first, np.zeros(shape, np.float32))


def _prices(member: Member) -> Prices:
    shape = (member.depth, 3)
    return Prices(np.ones(shape), np.ones(shape), np.full(shape, np.nan))


def torch_start(member: Member, inputs: int, outputs: int) -> nn.Module:
    """The network of alive.nn that a dense member starts as."""
    net = Rectangular(
        inputs,
        outputs,
        depth=member.depth,
        width=member.width,
        batch_norm=member.kind.batch_norm,
        init=member.init,
        generator=Generator().manual_seed(member.seed),
    )
    if member.noise is not None:
        chance = Generator().manual_seed(member.seed)
        initialise_(net, "mirrored", generator=chance, output="output", noise=member.noise)
    return net


def same_conv(member: Member, outputs: int) -> nn.Module:
    """The convolution over two positions that a keras_same member starts as."""
    sizes = {"depth": member.depth, "width": member.width, "seed": member.seed}
    return SameConv(outputs, batch_norm=member.kind.batch_norm, init=member.init, **sizes)


class SameConv(nn.Module):
    """The network of the published heat maps: kernels (2, 1) over two positions, the second padded with zero.

    Points [N, 2] are read as maps [N, 1, 2, 1]; the head reads position by position.
    """

    def __init__(self, outputs: int, *, depth: int, width: int, batch_norm: bool, init: str, seed: int) -> None:
        super().__init__()
        with torch.random.fork_rng(devices=[]):
            layers: list[nn.Module] = []
            for level in range(depth):
                layers += [nn.ZeroPad2d((0, 0, 0, 1)), nn.Conv2d(width if level else 1, width, (2, 1))]
                layers += [nn.BatchNorm2d(width, momentum=NORM_MOMENTUM, eps=NORM_EPS)] if batch_norm else []
                layers.append(nn.ReLU())
            self.hidden = nn.Sequential(*layers)
            self.output = nn.Linear(2 * width, outputs)
        initialise_(self, init, generator=Generator().manual_seed(seed), output="output")

    def forward(self, x: Tensor) -> Tensor:
        """Map points [N, 2] to logits [N, outputs]."""
        z = self.hidden(x.reshape(len(x), 1, 2, 1))  # [N, C, 2, 1]
        return self.output(z.permute(0, 2, 3, 1).flatten(1))  # type: ignore[no-any-return]


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


def _start(member: Member, data: Data) -> Floats:
    """What is trained, flat."""
    shared = member.architecture == "keras_same"
    net = same_conv(member, data.outputs) if shared else torch_start(member, data.inputs, data.outputs)
    flat: Floats = torch.cat([part.detach().flatten() for part in parts_of(net)]).float().numpy()
    return flat


def _shared(member: Member, shapes: dict[str, tuple[int, ...]]) -> NDArray[np.int32]:
    """Which number of the kernels each connection is: out₀ = k₀x₀ + k₁x₁, out₁ = k₀x₁, nothing from x₀ to out₁."""
    depth, width = member.depth, member.width
    count = 0

    def numbers(*shape: int) -> NDArray[np.int32]:
        nonlocal count
        count += int(np.prod(shape))
        return np.arange(count - int(np.prod(shape)), count, dtype=np.int32).reshape(shape)

    def matrix(kernel: NDArray[np.int32]) -> NDArray[np.int32]:  # [out, in, 2] -> [2 out, 2 in]
        near, far = kernel[..., 0], kernel[..., 1]
        return np.block([[near, far], [np.full_like(near, -1), near]])

    index = np.full(size_of(shapes), -1, np.int32)
    ends = np.cumsum([int(np.prod(shape)) for shape in shapes.values()])[:-1]
    first, inner, bias, *rest = np.split(index, ends)
    first[:] = matrix(numbers(width, 1, 2)).ravel()
    inner[:] = np.concatenate([matrix(numbers(width, width, 2)).ravel() for _ in range(depth - 1)] or [inner])
    bias[:] = np.tile(numbers(depth, width), 2).ravel()
    for part in rest:
        part[:] = numbers(part.size)
    return index


def room_of(member: Member, data: Data) -> Room:
    """Traces of training batches and of test points."""
    points = len(data.train_y)
    tested = 1 if data.test_y is None else len(data.test_y)
    batch = batch_of(member, points)
    sizes = (member.depth, member.width, positions_of(member), data.inputs, data.outputs)
    norm = member.kind.batch_norm
    return Room(signals(*sizes, batch, norm=norm), signals(*sizes, min(batch, tested), norm=norm))


def points_of(data: Data) -> Points:
    """Points as rows of features, in float32."""
    x, y = _rows(data.pixels(data.train_x)), data.train_y.numpy().astype(np.int32)
    if data.test_x is None or data.test_y is None:
        return Points(x, y, x[:, :0].copy(), y[:0].copy(), np.arange(len(y)))
    test_y = data.test_y.numpy().astype(np.int32)
    return Points(x, y, _rows(data.pixels(data.test_x)), test_y, np.arange(max(len(y), len(test_y))))


def _rows(x: Tensor) -> Floats:
    return np.ascontiguousarray(x.detach().cpu().flatten(1).T.float().numpy())


def order_of(member: Member, points: int, first: int, last: int) -> NDArray[np.int64]:
    """The order of the points in some epochs, by the rule of train.loop: it follows from seed and epoch alone."""
    if not member.shuffle:
        return np.arange(points)[None]
    rows = []
    for epoch in range(first, last):
        seed = int(np.random.SeedSequence((member.seed, epoch)).generate_state(1, np.uint64)[0] >> 1)
        rows.append(torch.randperm(points, generator=Generator().manual_seed(seed)).numpy())
    return np.stack(rows)
