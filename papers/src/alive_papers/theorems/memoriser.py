"""A residual network that knows any labelling of its sample by heart (Theorem 3.2 of 003), built without training."""

from __future__ import annotations

import math
from copy import deepcopy
from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Generator, Tensor, nn

from alive.errors import AliveError, expect

REDRAWS = 8  # random maps tried at one width before it grows
EXACT = 1e-6  # largest error of an output that counts as exact in float64
LEAST_GAP = 10 * torch.finfo(torch.float64).eps / EXACT  # below it, ten roundings of a unit may be more than that
NAMED = 3  # pairs of points named in a refusal


@dataclass(frozen=True, slots=True)
class Memorised:
    """What was built, measured on the sample itself.

    `smallest_gap` is how far every point stands out from all others in the direction of its unit; errors are the
    largest difference of an output from its one-hot label. `theorem` is n ln n + r², the order of the paper's count.
    """

    points: int
    classes: int
    k: int
    layers: int
    draws: int
    smallest_gap: float
    float64_error: float
    float32_error: float
    float32_accuracy: float
    parameters: int
    theorem: float


class Block(nn.Module):
    """One residual block with one ReLU: h + V relu(U h + s) (3.1)."""

    def __init__(self, k: int) -> None:
        super().__init__()
        self.u, self.relu, self.v = nn.Linear(k, k), nn.ReLU(), nn.Linear(k, k, bias=False)

    def forward(self, h: Tensor) -> Tensor:
        """Map [N, k] to [N, k]."""
        moved: Tensor = self.v(self.relu(self.u(h)))
        return h + moved


class Memoriser(nn.Module):
    """Points [N, ...] to one-hot labels [N, r]: a linear map to R^(k-1), a lift to the unit sphere, blocks, a head.

    The lift puts a coordinate 1 behind the others and divides by the norm, so that distinct points stay distinct and
    all have unit norm, as the theorem assumes.
    """

    def __init__(self, centre: Tensor, embed: nn.Linear, blocks: list[Block], head: nn.Sequential) -> None:
        super().__init__()
        self.register_buffer("centre", centre)  # taken off first: single precision would lose it in a bias
        self.embed, self.blocks, self.head = embed, nn.Sequential(*blocks), head
        self.record: Memorised

    def forward(self, x: Tensor) -> Tensor:
        """The label of each point [N, r], nearly one-hot on the sample."""
        x = x.flatten(1).to(self.embed.weight.dtype) - self.get_buffer("centre")
        return self.head(self.blocks(_lift(self.embed(x))))  # type: ignore[no-any-return]


@torch.no_grad()
def memorise(X: Tensor, labels: Tensor, k: int | None = None, *, generator: Generator | None = None) -> Memoriser:
    """Build a residual network of about n/k blocks that classifies all n points X [n, ...] as labelled [n]; float64.

    k is the width, by default 4 ln n and at most one more than the features. Where rounding makes two points
    inseparable the random map is drawn again, and an automatic k grows up to that most. Equal points must have equal
    labels. What was built is measured in `.record`; `.float()` gives the network in single precision.

    Single precision is off by up to about 30 roundings (of 1e-7) over the smallest gap, more where the points lie
    further from zero than from one another; `.record` has the error itself.

    Differs from the paper: thresholds come from the data instead of the constants of Lemmas B.1 and B.2, which are
    wrong as printed; units lean away from the nearest other point; points are normalised after the random map, not
    before, so that no draw spoils the norms; and the head has no skip, since R^k and R^r differ.

    >>> x = torch.randn(40, 5, generator=torch.Generator().manual_seed(0))
    >>> network = memorise(x, torch.arange(40) % 3, generator=torch.Generator().manual_seed(0))
    >>> network(x).argmax(1).tolist() == [i % 3 for i in range(40)], network.record.layers
    (True, 7)
    """
    points, kept = _expect_sample(X, labels, k)
    centre = points[kept].mean(0)
    distinct, targets, classes = points[kept] - centre, labels[kept].long(), int(labels.max()) + 1
    draws, reason = 0, ""
    for width in _widths(k, *points.shape):
        for _ in range(REDRAWS):
            draws += 1
            embed = _embedding(distinct, width, generator)
            built = _build(_lift(embed(distinct)), targets, classes, generator)
            if isinstance(built, str):
                reason = built
                continue
            blocks, head, gap = built
            network = Memoriser(centre, embed, blocks, head)
            network.record = _measure(network, X, labels, draws, gap)
            if network.record.float64_error <= EXACT:
                return network
            reason = f"an output is off by {network.record.float64_error:.1g}"
    raise _inseparable(distinct, kept, k, draws, reason)


def _build(
    h: Tensor, targets: Tensor, classes: int, generator: Generator | None
) -> tuple[list[Block], nn.Sequential, float] | str:
    """Blocks and head for points h [n, k] of unit norm, with the smallest gap; or why they fail."""
    k = h.shape[1]
    codes = torch.randn(classes, k, dtype=torch.float64, generator=generator)
    codes = codes / codes.norm(dim=1, keepdim=True)  # q_c, where the points of class c go
    blocks, smallest = [], math.inf
    for chunk in torch.arange(len(h)).split(k):
        stand = _stand(h, chunk)
        smallest = min(smallest, float(stand.gaps.min()))
        if smallest < LEAST_GAP:
            return f"with k = {k} a point stands out from the others by {smallest:.1g} only"
        blocks.append(_block(h[chunk], codes[targets[chunk]], stand, k))
        h = blocks[-1](h)
    stand = _stand(codes, torch.arange(classes))
    smallest = min(smallest, float(stand.gaps.min()))
    return (blocks, _head(stand), smallest) if smallest >= LEAST_GAP else f"with k = {k} two classes share a direction"


class _Stand(NamedTuple):
    """How chosen vectors stand out: a direction u_i [m, k], how far it goes <u_i, h_i>, and the next one's distance."""

    directions: Tensor
    own: Tensor
    gaps: Tensor

    @property
    def thresholds(self) -> Tensor:
        """Half way between the vector and whichever comes next."""
        return self.own - self.gaps / 2


def _stand(h: Tensor, chosen: Tensor) -> _Stand:
    """Directions in which the chosen of the unit vectors h [n, k] go further than all others.

    In its own direction h_i leads a neighbour at distance d by d²/2 only. Leaning away from the nearest, by a quarter
    of the distance to the second, raises that to the order of d, and leaves all others behind as well.
    """
    picked = h[chosen]
    if len(h) == 1:
        return _Stand(picked, picked.square().sum(1), torch.ones(1, dtype=h.dtype))
    rows = torch.arange(len(chosen))
    inner = picked @ h.T
    inner[rows, chosen] = -math.inf
    nearest = inner.topk(min(2, len(h) - 1)).indices
    away, second = picked - h[nearest[:, 0]], (picked - h[nearest[:, -1]]).norm(dim=1, keepdim=True)
    directions = picked + second / 4 * nn.functional.normalize(away)
    inner = directions @ h.T
    own = inner[rows, chosen].clone()
    inner[rows, chosen] = -math.inf
    return _Stand(directions, own, own - inner.amax(1))


def _block(h: Tensor, goals: Tensor, stand: _Stand, k: int) -> Block:
    """Move each h_i [<= k] to its goal and nothing else: only h_i passes the threshold of unit i."""
    block = _blank(k)
    used = len(h)
    block.u.weight[:used] = stand.directions
    block.u.bias[:used] = -stand.thresholds
    block.v.weight[:, :used] = ((goals - h) / (stand.gaps / 2)[:, None]).T
    return block


def _blank(k: int) -> Block:
    """A block whose units are all off."""
    with torch.random.fork_rng(devices=[]):  # the draws of the layers are overwritten
        block = Block(k).double()
    nn.init.zeros_(block.u.weight)
    nn.init.constant_(block.u.bias, -1)
    nn.init.zeros_(block.v.weight)
    return block


def _head(stand: _Stand) -> nn.Sequential:
    """From q_c to the c-th unit vector, by the same thresholds."""
    first = _linear(stand.directions, -stand.thresholds)
    return nn.Sequential(first, nn.ReLU(), _linear(torch.diag(2 / stand.gaps)))


def _linear(weight: Tensor, bias: Tensor | None = None) -> nn.Linear:
    with torch.random.fork_rng(devices=[]):
        layer = nn.Linear(weight.shape[1], weight.shape[0], bias=bias is not None, dtype=torch.float64)
    layer.weight.data.copy_(weight)
    if bias is not None:
        layer.bias.data.copy_(bias)
    return layer


def _embedding(points: Tensor, k: int, generator: Generator | None) -> nn.Linear:
    """A map to R^(k-1) that gives the points a mean norm of 1.

    It is the identity or an isometry where there is room, a normal matrix otherwise.
    """
    features = points.shape[1]
    matrix = torch.eye(features, dtype=torch.float64)
    if k - 1 != features:
        matrix = torch.randn(k - 1, features, dtype=torch.float64, generator=generator)
        matrix = torch.linalg.qr(matrix).Q if k - 1 > features else matrix
    size = _size(points)  # squares of very large or small numbers would be lost
    return _linear(matrix / (float((points / size @ matrix.T).norm(dim=1).mean()) or 1.0) / size)


def _size(points: Tensor) -> float:
    """The largest coordinate, or 1 if all are 0."""
    return float(points.abs().amax()) or 1.0


def _lift(x: Tensor) -> Tensor:
    """Points [N, k-1] on the unit sphere of R^k."""
    return nn.functional.normalize(torch.cat([x, x.new_ones(len(x), 1)], dim=1))


def _widths(k: int | None, count: int, features: int) -> list[int]:
    """The widths to try: the one given, or from 4 ln n by halves more up to one more than the features."""
    if k is not None:
        return [k]
    widths, width = [], max(3, math.ceil(4 * math.log(max(count, 2))))
    while width < features + 1:
        widths.append(width)
        width = math.ceil(1.5 * width)
    return [*widths, features + 1]


def _measure(network: Memoriser, X: Tensor, labels: Tensor, draws: int, gap: float) -> Memorised:
    """Run the network on its sample in both precisions."""
    classes, k = int(labels.max()) + 1, network.embed.out_features + 1
    wanted = nn.functional.one_hot(labels.long(), classes).double()
    exact = (network(X) - wanted).abs().max()
    single = deepcopy(network).float()(X.float()).double()
    count, parameters = len(X), sum(p.numel() for p in network.parameters())
    return Memorised(
        points=count,
        classes=classes,
        k=k,
        layers=len(network.blocks),
        draws=draws,
        smallest_gap=gap,
        float64_error=float(exact),
        float32_error=float((single - wanted).abs().max()),
        float32_accuracy=float((single.argmax(1) == labels).double().mean()),
        parameters=parameters,
        theorem=count * math.log(max(count, 2)) + classes**2,
    )


def _expect_sample(X: Tensor, labels: Tensor, k: int | None) -> tuple[Tensor, Tensor]:
    """Points as float64 [n, d], and the places of the first of each distinct one."""
    count = len(X) if X.ndim else 0
    expect(
        [
            (X.ndim >= 2 and X.numel() > 0, f"expected points [n, ...], got {list(X.shape)}"),
            (not X.is_complex() and bool(X.isfinite().all()), "points must be real and finite"),
            (labels.shape == (count,), f"{count} points need labels [{count}], got {list(labels.shape)}"),
            (not labels.is_floating_point(), f"labels must be whole numbers, got {labels.dtype}"),
            (labels.numel() == 0 or int(labels.min()) >= 0, "labels must be at least 0"),
            (k is None or k >= 2, f"k must be at least 2, got {k}"),
        ]
    )
    points = X.detach().flatten(1).double()
    _, group = points.unique(dim=0, return_inverse=True)
    first = torch.full((int(group.max()) + 1,), count).scatter_reduce(0, group, torch.arange(count), "amin")
    twins = first[group]
    clash = (labels != labels[twins]).nonzero().flatten()
    if len(clash):
        named = ", ".join(f"{int(twins[i])} and {int(i)}" for i in clash[:NAMED])
        more = f" and {len(clash) - NAMED} more" if len(clash) > NAMED else ""
        raise AliveError(
            f"equal points have different labels: {named}{more}",
            "No function can tell them apart; remove one of each pair",
        )
    return points, first.sort().values


def _inseparable(points: Tensor, kept: Tensor, k: int | None, draws: int, reason: str) -> AliveError:
    """The refusal, with the pair of points that lie nearest to each other."""
    points = points / _size(points)
    apart, pair = math.inf, "the only ones"
    for start, chunk in zip(range(0, len(points), 512), points.split(512), strict=True):
        distance = torch.cdist(chunk, points, compute_mode="donot_use_mm_for_euclid_dist")
        distance.diagonal(start).fill_(math.inf)
        if float(distance.min()) < apart:
            apart = float(distance.min())
            row, column = divmod(int(distance.argmin()), len(points))
            pair = f"{int(kept[start + row])} and {int(kept[column])}"
    spread = float(points.norm(dim=1).mean()) or 1.0
    most = points.shape[1] + 1
    return AliveError(
        f"after {draws} draws no network was exact: {reason}; the nearest points are {pair}, "
        f"{apart / spread:.1g} of the spread apart",
        f"Give a larger k, up to {most}"
        if k is not None and k < most
        else "Remove one of the two, or points that lie far from all others",
    )
