"""The patients: networks that do not train as their owner has them, each for a reason of its own."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache

import torch
from torch import Tensor, nn

from alive.cures.jumpstart import Weighed
from alive.nn import Rectangular, RectangularConv

from . import samples
from .case import Case, train
from .samples import Encoder, Reader, Sample, plain

Make = Callable[[int], Case]


@dataclass(frozen=True, slots=True)
class Patient:
    """A kind of broken network.

    ward    what went wrong with it, a heading of the table
    kind    dense, convolution, text or regression
    cause   why it does not train, in words
    finding what a census finds in it first
    make    the case as its owner has it, from a seed
    trained the owner looks at it after it was trained in vain, not before
    """

    name: str
    ward: str
    kind: str
    cause: str
    finding: str
    make: Make
    trained: bool = False

    @property
    def sample(self) -> Sample:
        """Its data."""
        return _sample(self)

    def case(self, seed: int) -> Case:
        """The case of one seed: made with that seed and no other chance, whatever was drawn before."""
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            return self.make(seed)


@cache
def _sample(patient: Patient) -> Sample:
    return patient.case(0).sample


DEEP, STARTED, FED, TRAINED = "Too deep for its start", "Started wrong", "Fed wrong", "Trained wrong"
PATIENTS: dict[str, Patient] = {}


def patient(ward: str, kind: str, finding: str, *, trained: bool = False) -> Callable[[Make], Make]:
    """A patient by the function that makes it: its name is that of the function, its cause the docstring."""

    def add(make: Make) -> Make:
        name, cause = make.__name__.replace("_", "-"), (make.__doc__ or "").rstrip(".")
        PATIENTS[name] = Patient(name, ward, kind, cause, finding, make, trained)
        return make

    return add


# Too deep for their start: points merge, gradients vanish.


@patient(DEEP, "dense", "the signal is gone")
def thin_deep(seed: int) -> Case:
    """30 layers of 16 units, PyTorch's start: points merge."""
    return Case(plain(2, *[16] * 30, 1), samples.moons(), lr=1e-2, epochs=20, batch_size=128, seed=seed)


@patient(DEEP, "dense", "dead at the start")
def born_dead(seed: int) -> Case:
    """50 layers of 4 units, Glorot: born dead."""
    chance = torch.Generator().manual_seed(seed)
    return Case(Rectangular(2, 1, depth=50, width=4, generator=chance), samples.moons(), lr=1e-2, epochs=25, seed=seed)


@patient(DEEP, "convolution", "the signal is gone")
def deep_conv(seed: int) -> Case:
    """30 convolutions of 8 channels, PyTorch's start: points merge."""
    model = RectangularConv(1, 10, depth=30, width=8, init="torch", generator=torch.Generator().manual_seed(seed))
    return Case(model, samples.digits(), lr=2e-3, epochs=8, batch_size=128, seed=seed)


@patient(DEEP, "text", "the signal is gone")
def deep_text(seed: int) -> Case:
    """30 layers of 16 units over embeddings, PyTorch's start."""
    return Case(Reader(*[16] * 30), samples.reviews(), lr=5e-3, epochs=12, batch_size=128, seed=seed)


@patient(DEEP, "regression", "the signal is gone")
def deep_regression(seed: int) -> Case:
    """25 layers of 20 units, PyTorch's start."""
    return Case(plain(10, *[20] * 25, 1), samples.friedman(), lr=1e-2, epochs=15, batch_size=128, seed=seed)


@patient(DEEP, "dense", "the signal is gone")
def deep_gelu(seed: int) -> Case:
    """30 layers of 16 GELUs, PyTorch's start."""
    return Case(
        plain(64, *[16] * 30, 10, activation=nn.GELU),
        samples.flat_digits(),
        lr=3e-3,
        epochs=9,
        batch_size=128,
        seed=seed,
    )


# Started wrong.


def _digits(seed: int, depth: int, change: Callable[[nn.Linear], object]) -> Case:
    """Digits and hidden layers of 64 units, every layer changed by hand before training."""
    model = plain(64, *[64] * depth, 10)
    for layer in model:
        if isinstance(layer, nn.Linear):
            change(layer)
    return Case(model, samples.flat_digits(), epochs=12, seed=seed)


@patient(STARTED, "dense", "dead at the start")
def negative_bias(seed: int) -> Case:
    """every bias starts at -3: born dead."""
    return _digits(seed, 4, lambda layer: nn.init.constant_(layer.bias, -3.0))


@patient(STARTED, "dense", "dead at the start")
def zeros(seed: int) -> Case:
    """every weight and bias starts at 0."""
    return _digits(seed, 4, lambda layer: (nn.init.zeros_(layer.weight), nn.init.zeros_(layer.bias)))


@patient(STARTED, "dense", "units alike")
def constant(seed: int) -> Case:
    """every weight starts at 0.02: all units alike."""
    return _digits(seed, 4, lambda layer: (nn.init.constant_(layer.weight, 0.02), nn.init.zeros_(layer.bias)))


@patient(STARTED, "dense", "explodes")
def unit_normal(seed: int) -> Case:
    """20 layers, weights drawn with spread 1: explodes."""
    return _digits(seed, 20, lambda layer: nn.init.normal_(layer.weight)).but(batch_size=128)


@patient(STARTED, "dense", "infinite at the start")
def overflow(seed: int) -> Case:
    """60 layers, weights drawn with spread 1: infinite."""
    return _digits(seed, 60, lambda layer: nn.init.normal_(layer.weight)).but(epochs=8, batch_size=128)


class Block(nn.Module):
    """A residual block without any norm."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.wide, self.back = nn.Linear(width, width), nn.Linear(width, width)

    def forward(self, x: Tensor) -> Tensor:
        """x + back(relu(wide(x)))."""
        return x + self.back(torch.relu(self.wide(x)))  # type: ignore[no-any-return]


@patient(STARTED, "dense", "explodes along skips")
def residual(seed: int) -> Case:
    """40 residual blocks without a norm, Kaiming: explodes."""
    model = nn.Sequential(nn.Linear(64, 32), *(Block(32) for _ in range(40)), nn.Linear(32, 10))
    for layer in model.modules():
        if isinstance(layer, nn.Linear):
            nn.init.kaiming_normal_(layer.weight)
    return Case(model, samples.flat_digits(), epochs=8, batch_size=128, seed=seed)


# Fed wrong.


@patient(FED, "regression", "inputs badly scaled")
def large_inputs(seed: int) -> Case:
    """inputs from 0 to 10,000."""
    sample = samples.friedman().with_inputs("friedman, inputs of 0 to 10,000", lambda x: x * 1e4)
    return Case(plain(10, 32, 32, 32, 1), sample, epochs=25, seed=seed)


@patient(FED, "regression", "inputs badly scaled")
def off_centre(seed: int) -> Case:
    """inputs from 1000 to 1001."""
    sample = samples.friedman().with_inputs("friedman, inputs of 1000 to 1001", lambda x: x + 1000)
    return Case(plain(10, 32, 32, 32, 1), sample, epochs=25, seed=seed)


@patient(FED, "regression", "inputs badly scaled")
def mixed_columns(seed: int) -> Case:
    """columns of scale 0.01 to 10,000."""
    units = torch.logspace(-2, 4, 10)  # from hundredths to ten thousands; the first five columns tell
    sample = samples.friedman().with_inputs("friedman, columns of 0.01 to 10,000", lambda x: x * units)
    return Case(plain(10, 32, 32, 32, 1), sample, epochs=25, seed=seed)


# Trained wrong.


@patient(TRAINED, "dense", "dead after training")
def died(seed: int) -> Case:
    """trained three epochs with Adam at 1.0, then handed on."""
    case = Case(plain(64, *[64] * 4, 10), samples.flat_digits(), epochs=12, seed=seed)
    train(case.but(lr=1.0, epochs=3))
    return case


@patient(TRAINED, "regression", "dead after training")
def dead_code(seed: int) -> Case:
    """an autoencoder's code, killed by a sparsity term."""
    encoder, decoder = plain(64, 48, 12).append(nn.ReLU()), plain(12, 48, 64)
    case = Case(nn.Sequential(encoder, decoder), samples.pictures(), epochs=15, lr=2e-3, seed=seed)
    train(case.but(epochs=10, lr=1e-2, extra=lambda model, x: 10 * model[0](x).sum(1).mean()))
    return case


@patient(TRAINED, "dense", "dead after training", trained=True)
def fast_sgd(seed: int) -> Case:
    """SGD at a rate of 3.0."""
    return Case(plain(64, *[64] * 4, 10), samples.flat_digits(), lr=3.0, optimiser="sgd", epochs=12, seed=seed)


@patient(TRAINED, "regression", "infinite after training", trained=True)
def not_a_number(seed: int) -> Case:
    """SGD at a rate of 2.0: NaN."""
    return Case(plain(10, 32, 32, 32, 1), samples.friedman(), lr=2.0, optimiser="sgd", epochs=25, seed=seed)


@patient(TRAINED, "convolution", "dead after training", trained=True)
def fast_adam(seed: int) -> Case:
    """Adam at a rate of 0.1."""
    model = RectangularConv(1, 10, depth=4, width=8, init="torch", generator=torch.Generator().manual_seed(seed))
    return Case(model, samples.digits(), lr=0.1, epochs=8, seed=seed)


@patient(TRAINED, "text", "collapsed", trained=True)
def collapsed(seed: int) -> Case:
    """6 transformer layers, norms behind them, Adam at 0.01 without warm-up: one output for all."""
    return Case(Encoder(6), samples.reviews(), lr=1e-2, epochs=6, seed=seed)


@patient(TRAINED, "text", "collapsed", trained=True)
def deep_encoder(seed: int) -> Case:
    """12 transformer layers, norms behind them, Adam at 0.005 without warm-up."""
    return Case(Encoder(12), samples.reviews(), lr=5e-3, epochs=6, seed=seed)


@patient(TRAINED, "dense", "the penalty drowns the task", trained=True)
def drowned(seed: int) -> Case:
    """Jumpstart's sum of squares with a weight of 10."""
    case = Case(plain(64, *[32] * 6, 10), samples.flat_digits(), epochs=12, seed=seed)
    return case.but(penalty=Weighed("UP", "sumsq", 10.0))
