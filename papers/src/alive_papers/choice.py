"""Which engine trains a network: the fleet wherever it can express it, else the torch loop."""

from __future__ import annotations

from .fleet import Member
from .fleet.conv.network import CONVS, HEADS, KERNELS, MAX_CHANNELS
from .fleet.member import AGGREGATES
from .net import Net
from .network import Network

OPTIONS = {"head", "init", "batch_norm", "kernel"}
PENALTY = {"weight", "aggregate", "mode", "conv", "balance"}


def quickest(net: Net) -> Network:
    """The same network as a Member of the fleet, if it is a thin convolution that the fleet knows; else itself.

    >>> thin = Net("rectangle", 28, 4, "ReLU", options=(("head", "flatten"), ("init", "glorot")))
    >>> quickest(thin).engine, quickest(Net("rectangle", 28, 64, "ReLU", options=thin.options)).engine
    ('conv-fleet', 'loop')
    """
    options, penalty, training = dict(net.options), dict(net.separation or ()), net.training
    normed = bool(options.get("batch_norm", False))
    method = f"Sep-{penalty.get('mode', 'UP')}" if net.separation is not None else "ReLU+BN" if normed else "ReLU"
    known = (
        net.network == "rectangle"
        and options.keys() <= OPTIONS
        and options.get("head") in HEADS
        and options.get("kernel", 3) in KERNELS
        and net.width <= MAX_CHANNELS
        and net.gate is None
        and net.method == method
        and not (normed and net.separation is not None)
        and penalty.keys() <= PENALTY
        and penalty.get("aggregate", "meansq") in AGGREGATES
        and (penalty.get("aggregate", "meansq") == "meansq" or "weight" in penalty)
        and penalty.get("conv", "channel") in CONVS
        and not training.weight_decay
    )
    if not known:
        return net
    return Member(
        net.depth,
        net.width,
        method,
        net.seed,
        weight=penalty.get("weight"),
        aggregate=str(penalty.get("aggregate", "meansq")),
        balance=float(penalty.get("balance", 0.5)),
        architecture="conv",
        init=str(options.get("init", "torch")),
        epochs=training.epochs,
        batch_size=training.batch_size,
        shuffle=training.shuffle,
        optimiser=training.optimiser,
        lr=training.lr,
        schedule=training.schedule,
        momentum=training.momentum,
        eps=training.eps,
        head=str(options["head"]),
        kernel=int(options.get("kernel", 3)),
        conv=str(penalty.get("conv", "channel")),
        running=training.running,
        augment=training.augment,
        output_lr=training.output_lr,
    )
