"""The zero start: zeros, a penalty that leans to life, and dropout that fades, as one thing (001, section 4.2)."""

from __future__ import annotations

from typing import Any, Literal

from torch import Generator, Tensor, nn
from torch.nn import functional as F

from ..errors import AliveError, expect
from ..nn import initialise_
from ..nn.init import hidden_and_output
from .jumpstart import Jumpstart
from .schedule import Schedule

WEIGHT = 1e-4  # of the sum of squares, as the paper has it
LEANS = 0.51  # β: a little more towards life, or zeros would be a place to stay


class ZeroStart(Jumpstart):
    """A Jumpstart whose model starts at zero, with dropout on what every hidden layer reads; see `zero_start`."""

    def __init__(
        self,
        model: nn.Module,
        *,
        dropout: float = 0.9,
        fades: float = 0.2,
        output: str | None = None,
        generator: Generator | None = None,
        balance: float = LEANS,
        weight: float | Schedule | Literal["auto"] | None = None,
        aggregate: str = "sumsq",
        **options: Any,
    ) -> None:
        expect(
            [
                (0 <= dropout < 1, f"dropout must be at least 0 and below 1, got {dropout}"),
                (0 < fades <= 1, f"fades is the part of training after which dropout is gone, got {fades}"),
            ]
        )
        hidden, _ = hidden_and_output(model, output)
        if not hidden:
            raise AliveError(
                f"{type(model).__name__} has no hidden layer: from zeros its only layer would not learn to differ",
                "A zero start is for networks of two layers or more",
            )
        self.dropout, self.fades = dropout, fades
        weight = WEIGHT if weight is None and aggregate == "sumsq" else weight
        super().__init__(model, weight, balance=balance, aggregate=aggregate, **options)
        initialise_(model, "zeros", generator=generator, output=output)
        self._hooks = [layer.register_forward_pre_hook(self._drop) for layer in hidden]

    def __repr__(self) -> str:
        return f"ZeroStart({super().__repr__()}, dropout={self.dropout}, fades={self.fades})"

    @property
    def p(self) -> float:
        """The rate of dropout where training stands."""
        return max(0.0, self.dropout * (1 - self._progress / self.fades))

    def _drop(self, layer: nn.Module, given: tuple[Tensor, ...]) -> tuple[Tensor, ...] | None:
        # also at rate 0, so that the model goes one way from the first step to the last
        return (F.dropout(given[0], self.p), *given[1:]) if layer.training else None

    def detach(self) -> None:
        """Let go of the model: no dropout, no penalty; what was learned stays."""
        for hook in self._hooks:
            hook.remove()
        super().detach()


def zero_start(model: nn.Module, **options: Any) -> ZeroStart:
    """Start a model at zero in place, and attach what lets it leave: the penalty with β = .51, and fading dropout.

    Hidden dense and convolutional layers become zero, the output Glorot, for else no gradient would ever pass. Add
    `penalty()` to the loss, and tell `set_progress(part of training done)`; `detach()` leaves the model as any other.

    dropout    its rate at first, on what each hidden layer reads, data included
    fades      the part of training after which it is gone
    output     the path of the output layer, by default the last nn.Linear
    generator  of the output's weights
    balance    β, above a half: at a half zeros are a place to stay
    others     as for `Jumpstart`: mode, declared, ... The weight is 1e-4 of the sum of squares, as in the paper: on
               MOONS, 5 and 20 layers of 8 units, three seeds each, 1.00 in all six, with Jumpstart's own .93 to 1.00

    >>> import torch
    >>> model = nn.Sequential(nn.Linear(2, 4), nn.ReLU(), nn.Linear(4, 4), nn.ReLU(), nn.Linear(4, 1))
    >>> with zero_start(model) as keep:
    ...     loss = model(torch.randn(8, 2)).square().mean() + keep.penalty()
    ...     model[2].weight.detach().abs().max().item(), keep.p
    (0.0, 0.9)
    """
    return ZeroStart(model, **options)
