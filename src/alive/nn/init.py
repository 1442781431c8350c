"""How the weights of dense and convolutional layers start: one function a name, one line in the registry."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from types import EllipsisType

import torch
from torch import Generator, Tensor, nn

from ..errors import AliveError, expect, expect_one_of, near
from ..registry import Registry
from ..torch_private import BatchNorm
from .orthogonal import Fill, delta_orthogonal_, deterministic_, mean_orthogonal_, orthogonal_, uniform_orthogonal_

Layer = nn.Linear | nn.Conv1d | nn.Conv2d | nn.Conv3d
Initialiser = Callable[[Sequence[Layer], Layer, Generator | None, float], None]

# On MOONS without a penalty, 50x4 to 1000x4, more networks reach 0.99 with this than with 0 (21 and 4 of 48).
# It does not cure every start: with a penalty, 200x4 did no better with it than without.
MIRROR_NOISE = 1.0


def glorot_(hidden: Sequence[Layer], output: Layer, generator: Generator | None, noise: float) -> None:
    """Draw uniform weights of variance 2 / (fan_in + fan_out); biases zero."""
    for layer in (*hidden, output):
        nn.init.xavier_uniform_(layer.weight, generator=generator)
        _zero_bias_(layer)


def kaiming_(hidden: Sequence[Layer], output: Layer, generator: Generator | None, noise: float) -> None:
    """Draw normal weights of variance 2 / fan_in; biases zero."""
    for layer in (*hidden, output):
        nn.init.kaiming_normal_(layer.weight, nonlinearity="relu", generator=generator)
        _zero_bias_(layer)


def torch_(hidden: Sequence[Layer], output: Layer, generator: Generator | None, noise: float) -> None:
    """Draw weights and biases uniform within 1/sqrt(fan_in), as PyTorch does when it builds a layer."""
    for layer in (*hidden, output):
        bound = 1 / math.sqrt(layer.weight[0].numel())
        nn.init.uniform_(layer.weight, -bound, bound, generator=generator)
        if layer.bias is not None:
            nn.init.uniform_(layer.bias, -bound, bound, generator=generator)


def zeros_(hidden: Sequence[Layer], output: Layer, generator: Generator | None, noise: float) -> None:
    """Set hidden weights and biases to zero; the output layer is Glorot, or no gradient would ever pass (001, 4.2)."""
    for layer in hidden:
        nn.init.zeros_(layer.weight)
        _zero_bias_(layer)
    glorot_((), output, generator, noise)


def mirrored_(hidden: Sequence[Layer], output: Layer, generator: Generator | None, noise: float) -> None:
    """Start as a linear network: units in pairs that see u and -u, so that relu(u) - relu(-u) = u at every depth.

    With width w and h = w // 2: first layer [A; -A] with A [h, inputs] the identity or orthogonal, hidden layers
    [[I, -I], [-I, I]], output [C, -C] with C Glorot. Kernels hold these at their centre tap. The unit left over by
    an odd width sees a Glorot mixture of the pairs and no unit reads it yet. `noise` adds to every weight a
    normal number of noise/sqrt(layers) Glorot deviations, so that the sum over all layers is the same at any depth.
    """
    _expect_chain(hidden, output)
    share = noise / math.sqrt(len(hidden) + 1)
    sources: int | None = None
    for layer in (*hidden, output):
        _mirror_(layer, sources, generator, last=layer is output)
        _zero_bias_(layer)
        if share:
            deviation = share * _glorot_deviation(layer.weight)
            layer.weight.add_(torch.empty_like(layer.weight).normal_(0, deviation, generator=generator))
        sources = layer.weight.shape[0]


def looks_linear_(hidden: Sequence[Layer], output: Layer, generator: Generator | None, noise: float) -> None:
    """Start as a linear network of random orthogonal layers M, by units in pairs: hidden layers [[M, -M], [-M, M]].

    Balduzzi and others (2017) put it on concatenated ReLUs, Burkholz and Dubatovka (2019) on plain ones, as here.
    `mirrored` differs in that M is the identity and every weight gets some noise. An odd width is treated alike.
    """
    _expect_chain(hidden, output, "looks-linear")
    sources: int | None = None
    for layer in (*hidden, output):
        _mirror_(layer, sources, generator, last=layer is output, turned=True)
        _zero_bias_(layer)
        sources = layer.weight.shape[0]


def near_identity_(hidden: Sequence[Layer], output: Layer, generator: Generator | None, noise: float) -> None:
    """Draw normal weights of deviation 1/(k²c), the first layer's 1/(k√c), k the kernel and c the units (003, 4.1).

    For residual networks, whose blocks then start close to the identity: a plain chain lets nothing through. The output
    is uniform with variance 1/inputs; biases zero.
    """
    for layer in hidden:
        taps, units = layer.weight[0, 0].numel(), len(layer.weight)
        deviation = 1 / math.sqrt(taps * units) if layer is hidden[0] else 1 / (taps * units)
        nn.init.normal_(layer.weight, 0.0, deviation, generator=generator)
    bound = math.sqrt(3 / output.weight[0].numel())
    nn.init.uniform_(output.weight, -bound, bound, generator=generator)
    for layer in (*hidden, output):
        _zero_bias_(layer)


def layer_by_layer(fill: Fill, *, hidden_gain: float = 1.0) -> Initialiser:
    """A start that fills the weight of every layer by itself, hidden ones with a gain; biases zero."""

    def start(hidden: Sequence[Layer], output: Layer, generator: Generator | None, noise: float) -> None:
        for layer in (*hidden, output):
            fill(layer.weight, 1.0 if layer is output else hidden_gain, generator)
            _zero_bias_(layer)

    return start


ALIASES = {"he": "kaiming", "xavier": "glorot", "lecun": "torch", "default": "torch"}  # what others call them
RELU = math.sqrt(2)  # makes up for the half that a ReLU takes away
PAIRED = ("mirrored", "looks-linear")  # need a plain chain of two units or more

INITIALISERS: Registry[Initialiser] = Registry(
    "alive.starts",
    "start",
    {
        "glorot": glorot_,
        "kaiming": kaiming_,
        "torch": torch_,
        "zeros": zeros_,
        "mirrored": mirrored_,
        "looks-linear": looks_linear_,
        "near-identity": near_identity_,
        "orthogonal": layer_by_layer(orthogonal_, hidden_gain=RELU),
        "delta-orthogonal": layer_by_layer(delta_orthogonal_, hidden_gain=RELU),
        "uniform-orthogonal": layer_by_layer(uniform_orthogonal_),
        "mean-orthogonal": layer_by_layer(mean_orthogonal_),
        "deterministic": layer_by_layer(deterministic_),
    },
    fault=lambda name, thing: "" if callable(thing) else f"it is {type(thing).__name__}, which starts no layers",
)


@torch.no_grad()
def initialise_(
    model: nn.Module,
    name: str,
    *,
    generator: Generator | None = None,
    output: str | None = None,
    noise: float | None = None,
) -> None:
    """Start all dense and convolutional layers of a model, in the order of definition; batch norms are reset.

    `output` is the path of the output layer, by default the last nn.Linear. `noise` belongs to `mirrored`.

    >>> model = nn.Sequential(nn.Linear(2, 4), nn.ReLU(), nn.Linear(4, 1))
    >>> initialise_(model, "mirrored", noise=0)
    >>> model[0].weight.int().tolist()
    [[1, 0], [0, 1], [-1, 0], [0, -1]]
    """
    expect_one_of("initialiser", name, INITIALISERS, ALIASES)
    if noise is not None and name != "mirrored":
        raise AliveError(f"noise belongs to the initialiser 'mirrored', not to {name!r}", "Leave noise out")
    noise = MIRROR_NOISE if noise is None else noise
    expect([(math.isfinite(noise) and noise >= 0, f"noise must be finite and at least 0, got {noise}")])
    hidden, last = hidden_and_output(model, output)
    INITIALISERS[name](hidden, last, generator, noise)
    for module in model.modules():
        if isinstance(module, BatchNorm):
            module.reset_parameters()


def starts_for(model: nn.Module) -> tuple[str, ...]:
    """The names of our own starts that `initialise_` would not refuse for a model; nothing is changed.

    >>> one_unit = nn.Sequential(nn.Linear(2, 1), nn.ReLU(), nn.Linear(1, 1))
    >>> "glorot" in starts_for(one_unit), "mirrored" in starts_for(one_unit)
    (True, False)
    """
    try:
        hidden, last = hidden_and_output(model, None)
    except AliveError:
        return ()
    if any(isinstance(layer.weight, nn.UninitializedParameter) for layer in (*hidden, last)):
        return ()
    try:
        _expect_chain(hidden, last)
    except AliveError:
        return tuple(name for name in INITIALISERS.own if name not in PAIRED)
    return tuple(INITIALISERS.own)


def hidden_and_output(model: nn.Module, output: str | None) -> tuple[list[Layer], Layer]:
    """All layers but the output, and the output."""
    layers = {path: module for path, module in model.named_modules() if isinstance(module, Layer)}
    if not layers:
        raise AliveError(
            f"{type(model).__name__} has no dense or convolutional layer", "There is nothing to initialise"
        )
    if output is not None and output not in layers:
        raise AliveError(f"{type(model).__name__} has no layer {output!r}", near(output, layers))
    computed = [path for path, layer in layers.items() if "weight" not in dict(layer.named_parameters(recurse=False))]
    if computed:
        raise AliveError(
            f"the weight of {computed[0]} is computed from others, as by weight_norm, and cannot be started itself",
            "Initialise before such a parametrization is put on",
        )
    dense = [path for path, layer in layers.items() if isinstance(layer, nn.Linear)]
    last = output or (dense or list(layers))[-1]
    return [layer for path, layer in layers.items() if path != last], layers[last]


def _zero_bias_(layer: Layer) -> None:
    if layer.bias is not None:
        nn.init.zeros_(layer.bias)


def _glorot_deviation(weight: Tensor) -> float:
    """Root of 2 / (fan_in + fan_out)."""
    taps = weight[0, 0].numel()
    return math.sqrt(2 / ((weight.shape[0] + weight.shape[1]) * taps))


def _expect_chain(hidden: Sequence[Layer], output: Layer, name: str = "mirrored") -> None:
    """Refuse what cannot be mirrored: a lone unit, grouped kernels, layers that do not feed one another."""
    chain = [*hidden, output]
    widths = [layer.weight.shape[0] for layer in hidden]
    if 1 in widths:
        raise AliveError(
            f"the initialiser {name!r} needs width 2 or more: one unit cannot carry both u and -u",
            "Choose a larger width or another initialiser",
        )
    grouped = any(getattr(layer, "groups", 1) > 1 for layer in chain)
    broken = any(after.weight.shape[1] % width for width, after in zip(widths, chain[1:], strict=True))
    if grouped or broken:
        raise AliveError(
            f"the initialiser {name!r} needs a plain chain, each layer reading all units of the one before",
            "Choose another initialiser for this model",
        )


def _mirror_(
    layer: Layer, sources: int | None, generator: Generator | None, *, last: bool, turned: bool = False
) -> None:
    """Write one mirrored layer that reads `sources` mirrored units (None: it reads the data itself)."""
    out, columns = layer.weight.shape[:2]
    carried = columns if sources is None else columns // sources * (sources // 2)
    core = _core(
        layer.weight.new_empty(out if last else out // 2, carried), generator, last=last, turned=turned
    )  # [rows, u]
    if not last:
        spare = layer.weight.new_empty(out % 2, carried)
        if len(spare):
            nn.init.xavier_uniform_(spare, generator=generator)
        core = torch.cat([core, -core, spare])  # [out, u]
    nn.init.zeros_(layer.weight)
    centre: list[int | EllipsisType] = [size // 2 for size in layer.weight.shape[2:]]
    layer.weight[(..., *centre)] = core if sources is None else _read_pairs(core, sources)


def _core(empty: Tensor, generator: Generator | None, *, last: bool, turned: bool) -> Tensor:
    """C Glorot for the output; elsewhere the identity, or an orthogonal matrix where that is not square or is asked."""
    if last:
        return nn.init.xavier_uniform_(empty, generator=generator)
    if empty.shape[0] == empty.shape[1] and not turned:
        return nn.init.eye_(empty)
    return nn.init.orthogonal_(empty, generator=generator)


def _read_pairs(core: Tensor, sources: int) -> Tensor:
    """Columns that turn `core` u into a sum over relu(u), relu(-u) and, for odd widths, an unread last unit.

    A unit that was flattened over positions owns as many neighbouring columns as it has positions.
    """
    spread = core.reshape(len(core), sources // 2, -1)  # [rows, u, positions]
    unread = spread.new_zeros(len(core), sources % 2, spread.shape[2])
    return torch.cat([spread, -spread, unread], dim=1).flatten(1)
