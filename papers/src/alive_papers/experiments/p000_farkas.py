"""The experiments of 000: residual networks in stages, with Farkas blocks and without."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from alive.data import Augment
from alive.train import LrSchedule, Settings

from ..net import Net, Options
from .cell import Cell, Row
from .keras_grids import learnt
from .measure import Where, error_percent, mean, share, where
from .spec import Claim, Experiment, Figure, Measured

LEARNING = "Test accuracy over epochs: seeds, and as a strong line their mean; a line that ends early broke down"
CURVES = "Best test accuracy against depth; bars are standard deviations over seeds"
PAPER = Settings(
    epochs=200,
    batch_size=128,
    optimiser="sgd",
    lr=0.01,
    weight_decay=5e-4,
    decay_biases=False,
    shuffle=True,
    schedule=LrSchedule("step", milestones=(60, 120, 160), factor=0.2),
    augment=Augment(crop=4, flip=True, cutout=16, fill="mean"),
    running=True,
    channels_last=True,
)
QUICK = Settings(
    epochs=30, batch_size=64, optimiser="sgd", lr=0.01, weight_decay=5e-4, decay_biases=False, shuffle=True,
    running=True, channels_last=True,
)  # fmt: skip
RELEASED: Options = (("variant", "grow"), ("aggregation", "sum"), ("bias_mode", "paper"))


def _rate(settings: Settings, lr: float) -> Settings:
    return replace(settings, lr=lr)


def _paper_net(network: str, depth: int, method: str, seed: int, *, norm: bool, lr: float, more: Options = ()) -> Net:
    own: Options = () if network == "fixup" else (("batch_norm", norm), *(RELEASED if network == "farkas" else ()))
    options = _merged((("preset", str(depth)), *own), more)
    return Net(network, depth, 16 if depth < 50 else 64, method, seed, options, training=_rate(PAPER, lr))


def _quick_net(network: str, blocks: int, method: str, seed: int, *, norm: bool, lr: float = 0.01) -> Net:
    """Two stages of `blocks` blocks, 8 and 16 wide, for images of 8x8; Farkas blocks as the authors released them."""
    own: Options = () if network == "fixup" else (("batch_norm", norm), *(RELEASED if network == "farkas" else ()))
    options: Options = (("stages", 2), *own)
    return Net(network, blocks, 8, method, seed, options, training=_rate(QUICK, lr))


PAIR = (("ResNet", "resnet"), ("FarkasNet", "farkas"))
RELEASED_18 = "ResNet + BN, as released"
QUICK_BLOCKS = (2, 8, 16)


def _on_mnist(network: str, name: str, seed: int) -> Cell:
    """Sixteen blocks on a few larger images, for few epochs."""
    net = _quick_net(network, 8, name, seed, norm=False)
    return Cell(replace(net, training=replace(net.training, epochs=4)), "mnist", points=2000, test_points=1000)


def _compared(data: str, depths: Sequence[int]) -> Callable[[str, str, int], list[Cell]]:
    """ResNet and FarkasNet, with batch norm at lr .1, without at lr .01; quick: digits, ever more blocks, MNIST.

    The quick scale has one rate for both, which is fair to neither, and no claim: `farkas-why` races them.
    """

    def grid(scale: str, architecture: str, seed: int) -> list[Cell]:
        if scale != "paper":
            digits = [
                Cell(_quick_net(network, blocks, name, seed, norm=False), "digits")
                for name, network in PAIR
                for blocks in QUICK_BLOCKS
            ]
            return digits + [_on_mnist(network, name, seed) for name, network in PAIR]
        nets = [
            _paper_net(network, depth, name + " + BN" * norm, seed, norm=norm, lr=0.1 if norm else 0.01)
            for name, network in PAIR
            for norm in (True, False)
            for depth in depths
        ]
        if 18 in depths:
            more: Options = (("preset", "authors18"), ("authors_head", True))
            nets.append(_paper_net("resnet", 18, RELEASED_18, seed, norm=True, lr=0.1, more=more))
        return [Cell(net, data, unscaled=True) for net in nets]

    return grid


def _learning(method: str, depth: int) -> Where:
    """The runs that learn: the paper leaves failed ones out."""
    return lambda row: where(method, depths=(depth,))(row) and learnt(row)


def _errors(published: dict[str, Sequence[float]], depths: Sequence[int], width: float) -> tuple[Claim, ...]:
    return tuple(
        Claim(
            f"{method}-{depth}",
            f"{method}, {depth} layers: test error in percent, runs that fail left out",
            error_percent(_learning(method, depth)),
            band=(value - width, value + width),
            published=value,
            scale="paper",
        )
        for method, values in published.items()
        for depth, value in zip(depths, values, strict=True)
    )


def _first_lead(rows: Sequence[Row]) -> Measured | None:
    """How much further a FarkasNet without norm is after the first epoch, in test accuracy: mean over depths, seeds."""
    first = {
        (row.cell.label, row.member.depth, row.member.seed): next(iter(row.trace["test_accuracy"]), 0.0)
        for row in rows
        if row.cell.label in ("ResNet", "FarkasNet")
    }
    ours = {at[1:]: value for at, value in first.items() if at[0] == "FarkasNet"}
    return mean([value - first["ResNet", *at] for at, value in ours.items() if ("ResNet", *at) in first])


TABLE1_000 = Experiment(
    name="000-T1",
    title="ResNets and FarkasNets on CIFAR-10, with and without batch norm",
    paper="000 Farkas layers, Table 1 and Figure 4",
    grid=_compared("cifar10", (18, 34, 50, 101)),
    claims=(
        *_errors(
            {
                "ResNet + BN": (7.01, 6.79, 5.04, 4.95),
                "FarkasNet + BN": (6.87, 6.50, 5.03, 4.98),
                "ResNet": (12.51, 9.90, 24.53, 25.25),
                "FarkasNet": (10.83, 9.45, 19.84, 15.38),
            },
            (18, 34, 50, 101),
            1.0,
        ),
        Claim(
            "first-epoch",
            "Without norm FarkasNets are ahead after the first epoch: lead in test accuracy (Figure 4)",
            _first_lead,
            band=(0.0, 1.0),
            scale="paper",
        ),
        Claim(
            "released-18",
            "The ResNet of the released code, [2, 2, 2, 2] blocks and batch norm on the logits: test error in percent",
            error_percent(_learning(RELEASED_18, 18)),
            band=(6.01, 8.01),
            published=7.01,
            scale="paper",
        ),
    ),
    figures=(Figure("curves", "curves", CURVES), Figure("learning", "learning", LEARNING)),
)

TABLE2_000 = Experiment(
    name="000-T2",
    title="ResNets and FarkasNets on CIFAR-100, with and without batch norm",
    paper="000 Farkas layers, Table 2 and Figure 6",
    grid=_compared("cifar100", (34, 50, 101)),
    claims=_errors(
        {
            "ResNet + BN": (30.95, 23.43, 22.90),
            "FarkasNet + BN": (30.34, 23.88, 23.22),
            "ResNet": (40.10, 55.05, 54.02),
            "FarkasNet": (34.70, 43.93, 42.94),
        },
        (34, 50, 101),
        2.0,
    ),
    figures=(Figure("learning", "learning", LEARNING),),
)

STARTS = (  # Table 4: name, network, batch norm, learning rate, published error
    ("ResNet + BN", "resnet", True, 0.1, 6.77),
    ("ResNet", "resnet", False, 0.01, 9.18),
    ("FixUp", "fixup", False, 0.01, 7.49),
    ("FarkasNet, zero last", "farkas", False, 0.05, 7.12),
)


def _starts(scale: str, architecture: str, seed: int) -> list[Cell]:
    cells = []
    for name, network, norm, lr, _ in STARTS:
        more: Options = (("aggregation", "mean"), ("zero_last", True)) if network == "farkas" else ()
        if scale == "paper":
            cells.append(
                Cell(_paper_net(network, 34, name, seed, norm=norm, lr=lr, more=more), "cifar10", unscaled=True)
            )
        else:
            net = _quick_net(network, 8, name, seed, norm=norm, lr=lr)
            cells.append(Cell(_with(net, more), "digits"))
    return cells


def _with(net: Net, more: Options) -> Net:
    return replace(net, options=_merged(net.options, more))


def _merged(options: Options, more: Options) -> Options:
    """Keywords, the later of a name in the place of the earlier."""
    return tuple((dict(options) | dict(more)).items())


TABLE4_000 = Experiment(
    name="000-T4",
    title="Networks of 34 layers: batch norm, none, FixUp, Farkas with a zero start",
    paper="000 Farkas layers, Table 4 and Figure 3",
    grid=_starts,
    claims=tuple(
        Claim(
            f"{name}-34",
            f"{name}, 34 layers: test error in percent",
            error_percent(_learning(name, 34)),
            band=(value - 1, value + 1),
            published=value,
            scale="paper",
        )
        for name, *_, value in STARTS
    ),
    figures=(Figure("learning", "learning", LEARNING),),
)


def _large_rate(scale: str, architecture: str, seed: int) -> list[Cell]:
    more: Options = (("aggregation", "mean"),)
    if scale == "paper":
        return [
            Cell(_paper_net(network, 101, name, seed, norm=False, lr=0.1, more=own), "cifar10", unscaled=True)
            for name, network, own in (("FarkasNet", "farkas", more), ("ResNet", "resnet", ()))
        ]
    return [
        Cell(_with(_quick_net(network, 16, name, seed, norm=False, lr=0.1), own), "digits")
        for name, network, own in (("FarkasNet", "farkas", more), ("ResNet", "resnet", ()))
    ]


FIG5_000 = Experiment(
    name="000-Fig5",
    title="The large rate of .1 without norm: FarkasNet of 101 layers, and a ResNet as control",
    paper="000 Farkas layers, Figure 5",
    grid=_large_rate,
    claims=(
        Claim(
            "farkas-learns",
            "FarkasNet without norm learns at the rate .1: share of runs",
            share(where("FarkasNet"), learnt),
            (1, 1),
            1,
        ),
        Claim(
            "resnet-fails",
            "The ResNet without norm does not learn at the rate .1: share of runs that learn",
            share(where("ResNet"), learnt),
            (0, 0),
            0,
        ),
    ),
    figures=(Figure("learning", "learning", LEARNING),),
)
