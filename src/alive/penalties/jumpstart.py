"""Jumpstart: separation constraints attached to any model, as one scalar for the loss."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from inspect import signature
from math import inf
from typing import Any, Literal, Never, Self

import torch
from torch import Tensor, nn

from ..errors import AliveError, expect, expect_one_of
from ..functional import AGGREGATES, Separation
from ..functional.separation import Means
from ..taps import UNDECLARED, Declared, watchers
from ..world import Group
from .multipliers import WEIGHT, Keys, Multipliers
from .passes import Passes
from .recorder import Recorder
from .saturation import Saturation, declaring
from .schedule import Schedule


class Jumpstart:
    """Keeps every unit and point of a model alive and nonlinear while it trains.

    Attached on creation. Add `penalty()` to the loss after each forward pass; leave the `with` block, or call
    `detach()`, and the model is exactly as before.

    >>> import torch
    >>> model = nn.Sequential(nn.Linear(2, 4), nn.ReLU(), nn.Linear(4, 1))
    >>> with Jumpstart(model) as keep:
    ...     loss = model(torch.randn(8, 2)).square().mean() + keep.penalty()
    ...     loss.backward()

    weight          λ: a number, or a Schedule moved by `set_progress`. The default fits every network, with the default
                    aggregate; the papers' aggregates grow with the network and need a weight of their own. {"U": .3,
                    "P": .1}: a weight for units and one for points, of the default aggregate. "auto": one
                    multiplier a layer and axis, which begins as the default, rises while the layer's constraints are
                    violated and falls when they are not (`multipliers`); it moves with every penalty()
    mode            U: units, P: points, UP: both, L: one pair of extremes a layer
    conv            channel: a unit is a channel and a point a sample; position: each position counts on its own
    against         both, or only death, or only linearity
    balance         β, the share of ξ⁺ (on for some) when against both; the rest is that of ξ⁻ (off for some)
    pos_margin, neg_margin   by how much a unit or point is to be on for some, and off for some
    ties            split: equal extremes share the gradient; single: the first gets it, as it does on every device but
                    a CPU, and in half precision, where sharing would take a second reading
    aggregate       meansq: means over units or points, and over layers, which stay as they are at every depth, width
                    and batch; the papers': sumsq | sum | norm | mean | balanced, see `functional.aggregate`
    include_output  also ask it of the model's output, as the Jumpstart paper's CIFAR runs did
    layers          patterns of tap names to keep to, such as "features.*"
    point_axis      the axis of the points in the inputs (1 for [T, N, C]); None: each input tensor is one point
    declared        what you know of the model that it does not show, see `alive.Declared`
    selections      also keep alive what is chosen from: latents of a top-k or a JumpReLU, codes, experts. Of these only
                    death is asked about, in modes U and UP: the batch's largest margin to being chosen (the score less
                    the k-th largest of the others, or the threshold, taken as given) is to reach pos_margin
    every           k: take the penalty in the first of k steps, k times as heavy. In the others penalty() is zero, and
                    the model runs as if nothing were attached. A step lies between two calls of penalty(); where that
                    call is compiled itself, every step has its penalty
    ceiling         also keep the largest z of every unit and point below this number: what 004 leaves to future work
    two_sided       also ask it of nn.Tanh and nn.Sigmoid: no unit or point is to be saturated at one end everywhere;
                    the margins are measured from both ends. This and the ceiling go with the default aggregate, and
                    count the points of each rank by themselves
    across_ranks    where torch.distributed runs on several ranks, take extremes over the batch of all of them (of
                    `process_group`), so that penalty and gradient are those of one process, however many ranks there
                    are. Every rank must call penalty() alike, and gradients are to be averaged, as
                    DistributedDataParallel does. False: each rank by its own points
    """

    def __init__(
        self,
        model: nn.Module,
        weight: float | Schedule | Mapping[str, float] | Literal["auto"] | None = None,
        *,
        mode: str = "UP",
        conv: str = "channel",
        against: str = "both",
        balance: float = 0.5,
        pos_margin: float = 1.0,
        neg_margin: float = 1.0,
        ties: str = "split",
        aggregate: str = "meansq",
        include_output: bool = False,
        layers: Sequence[str] = (),
        point_axis: int | None = 0,
        declared: Declared = UNDECLARED,
        selections: bool = True,
        every: int = 1,
        ceiling: float | None = None,
        two_sided: bool = False,
        across_ranks: bool = True,
        process_group: Group = None,
        **unknown: Never,
    ) -> None:
        for option in unknown:
            expect_one_of("option", option, OPTIONS)
        expect_one_of("aggregate", aggregate, AGGREGATES)
        self.rule = Separation(mode, conv, against, balance, pos_margin, neg_margin, ties)
        self._by_axis = _by_axis(weight, self.rule, aggregate)
        self.schedule = _schedule(1.0 if isinstance(weight, Mapping) else weight, aggregate)
        self._multipliers = Multipliers() if weight == "auto" else None
        expect([(isinstance(every, int) and every >= 1, f"every is a whole number of steps from 1 on, got {every!r}")])
        self._every = every
        self._step = 0  # of `every`
        self._said = False  # that multipliers stand still
        self.set_progress(0.0)
        if is_kept(model):
            raise AliveError(
                "a Jumpstart is attached to this model, or a part of it, already", "Call its detach() first, or use it"
            )
        alone = "" if across_ranks else ", across_ranks=False"
        rarely = "" if every == 1 else f", every={every}"
        self._options = f"{aggregate}, include_output={include_output}{alone}{rarely}"
        further = ceiling is not None or two_sided
        expect(
            [
                (not further or aggregate == "meansq", f"ceiling and two_sided go with 'meansq', not {aggregate!r}"),
                (ceiling is None or 0 < ceiling < inf, f"ceiling must be finite and above 0, got {ceiling}"),
            ]
        )
        self._recorder = Recorder(
            model,
            self.rule,
            aggregate,
            include_output=include_output,
            across_ranks=across_ranks,
            group=process_group,
            layers=layers,
            point_axis=point_axis,
            declared=declaring(declared, two_sided=two_sided),
            selections=selections,
        )

        self._saturation = self._recorder.beside = (
            Saturation(self.rule, ceiling=ceiling, two_sided=two_sided) if further else None
        )
        self._options += f", ceiling={ceiling}, two_sided={two_sided}" if further else ""

    def __repr__(self) -> str:
        weight = self._by_axis or (self.schedule if self._multipliers is None else "auto")
        return f"Jumpstart({weight}, {self.rule}, {self._options})"

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.detach()

    def detach(self) -> None:
        """Let go of the model: hooks, state and outputs are exactly as before."""
        self._recorder.detach()

    def set_progress(self, fraction: float) -> None:
        """Tell the schedule how much of training is done, from 0 to 1."""
        self._progress = fraction
        self.weight = self.schedule(fraction)

    def penalty(self) -> Tensor:
        """λ·A over the forward passes since the last call; zero after passes in eval mode or under no_grad,
        which is said once where gradients are on.

        With `every`, k·λ·A in the first of k steps, and zero in the others.
        """
        if self._every == 1 or torch.compiler.is_compiling():
            return self.weight * self._total()
        if self._step:
            self.forget()  # a compiled model is watched all the same
            penalty = self._recorder.nothing()
        else:
            penalty = self._every * self.weight * self._total()
        self._go_to((self._step + 1) % self._every)
        return penalty

    def _total(self) -> Tensor:
        if self._saturation is None:
            return self._separation()
        try:
            total = self._separation()
        except AliveError:  # nothing one-sided, and yet there is what is two-sided
            if not self._saturation.has_met:
                raise
            total = self._recorder.nothing()
        return total + self._saturation.total(total)

    def _separation(self) -> Tensor:
        return self._recorder.total(self._weigh if self._multipliers is not None or self._by_axis else None)

    def _go_to(self, step: int) -> None:
        """Go on to a step of `every`."""
        if bool(step) != bool(self._step):
            self._recorder.rest(step > 0)
        self._step = step

    def forget(self) -> None:
        """Drop the forward passes since the last penalty(): their step will not be made."""
        self._recorder.passes = Passes()
        if self._saturation is not None:
            self._saturation.forget()

    @property
    def multipliers(self) -> dict[str, dict[str, float]]:
        """With weight="auto": by axis and tap, by how much a layer is weighted above the default, or below."""
        return {} if self._multipliers is None else self._multipliers.values()

    def state_dict(self) -> dict[str, Any]:
        """All that a resumed run needs beside the settings, as plain numbers: progress, and multipliers if any."""
        multipliers = {} if self._multipliers is None else {"multipliers": self._multipliers.state()}
        step = {} if self._every == 1 else {"step": self._step}
        return {"progress": self._progress, **multipliers, **step}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Go on from where `state_dict` was taken."""
        wanted = set(self.state_dict())
        if set(state) != wanted:
            told = " and ".join(sorted(wanted, reverse=True))
            raise AliveError(
                f"the state of this Jumpstart is its {told}, got {sorted(state)}",
                "Give the weight that the saved run had (multipliers belong to weight='auto'), and its every",
            )
        if self._multipliers is not None:
            self._multipliers.load(state["multipliers"])
        if self._every > 1:
            self._go_to(int(state["step"]) % self._every)
        self.set_progress(float(state["progress"]))

    def _weigh(self, keys: Keys, found: tuple[Means, ...], whole: bool) -> Tensor:
        if self._multipliers is None:
            axes = list(dict.fromkeys(axis for axis, _ in keys))
            return torch.stack([self._by_axis[axis] * of.average() for axis, of in zip(axes, found, strict=True)]).sum()
        if not whole and not self._said:
            self._said = True
            warnings.warn(
                "inside a transform of torch.func, or a tracer, weight='auto' is read and does not move", stacklevel=4
            )
        return self._multipliers.weigh(keys, found, moves=whole)


def is_kept(model: nn.Module) -> bool:
    """Whether a Jumpstart is attached to a model, or to a part of it.

    >>> model = nn.Sequential(nn.Linear(2, 4), nn.ReLU())
    >>> with Jumpstart(model):
    ...     is_kept(model)
    True
    >>> is_kept(model)
    False
    """
    return any(isinstance(watcher, Recorder) for watcher in watchers(model))


def _by_axis(weight: object, rule: Separation, aggregate: str) -> dict[str, float]:
    """The weight of each axis, if they have weights of their own."""
    if not isinstance(weight, Mapping):
        return {}
    axes = " and ".join(rule.axes)
    expect(
        [
            (set(weight) == set(rule.axes), f"mode {rule.mode!r} has weights for {axes}, got {sorted(weight)}"),
            (aggregate == "meansq", f"a weight for each axis weighs means of squares, not the aggregate {aggregate!r}"),
        ]
    )
    return {axis: Schedule(weight[axis]).start for axis in rule.axes}


def _schedule(weight: float | Schedule | str | None, aggregate: str) -> Schedule:
    """The course of the weight; only the mean of squares has one that is right for every network."""
    if isinstance(weight, Schedule):
        return weight
    if isinstance(weight, str):
        expect(
            [
                (weight == "auto", f"weight is a number, a Schedule or 'auto', got {weight!r}"),
                (aggregate == "meansq", f"weight='auto' weighs means of squares, not the aggregate {aggregate!r}"),
            ]
        )
        return Schedule(WEIGHT)
    if weight is None and aggregate != "meansq":
        raise AliveError(
            f"the aggregate {aggregate!r} has no weight that fits every network",
            "Give a weight (the papers took 1e-4 with sumsq), or leave aggregate='meansq'",
        )
    return Schedule(WEIGHT if weight is None else weight)


OPTIONS = [name for name in signature(Jumpstart).parameters if name not in ("model", "unknown")]
