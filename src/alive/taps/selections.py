"""Selections: where a few of many are chosen, and a unit is a latent, a code or an expert.

One line a kind says which calls choose; `Choice` is one such call, `Selection` what it means for the units: which are
on, and what each had to reach.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from ..errors import expect_one_of
from ..provenance.choices import LOOKS_UP, SENDS, SUMS, VALUES, WEIGHS

SORTS = "sort"  # of which some may be taken: how many, no call says
UNIT, LATENT, CODE, EXPERT = "unit", "latent", "code", "expert"
NOUNS = (LATENT, CODE, EXPERT)
DECLARE = {
    noun: f"declare the module that chooses: declared=alive.Declared(selects={{{known}}})"
    for noun, known in (
        (LATENT, "MyTopK: alive.Selects('latent')"),
        (CODE, "MyQuantiser: alive.Selects('code', count=512)"),
        (EXPERT, "MyRouter: alive.Selects('expert', count=8)"),
    )
}


@dataclass(frozen=True, slots=True)
class Selects:
    """What a module of the user's own chooses from, where that cannot be followed; `count` where it returns indices.

    A module that returns real numbers chooses those that are not 0, along the last axis. One that returns indices
    (its first integer tensor) chooses among so many.

    >>> Selects("latent"), Selects("code", count=512)
    (Selects(noun='latent', count=0), Selects(noun='code', count=512))
    """

    noun: str
    count: int = 0

    def __post_init__(self) -> None:
        expect_one_of("noun", self.noun, NOUNS)


@dataclass(frozen=True, slots=True)
class Implicit(Selects):
    """Codes that are no rows of a table, of which a known module returns indices: a column for each codebook."""

    codebooks: int = 1


# Quantisers whose codes are all that their rounding can make; by name, so that their package need not be there.
IMPLICIT = {
    "vector_quantize_pytorch.finite_scalar_quantization.FSQ",
    "vector_quantize_pytorch.lookup_free_quantization.LFQ",
}


def implicit_codes(kind: type[nn.Module], module: nn.Module) -> Implicit | None:
    """The codes of a known quantiser, or of a class derived from one; none are counted where another forward runs."""
    known = next((base for base in kind.__mro__ if f"{base.__module__}.{base.__qualname__}" in IMPLICIT), None)
    if known is None:
        return None
    count = getattr(module, "codebook_size", 0) if kind.forward is vars(known).get("forward") else 0
    return Implicit(CODE, count, getattr(module, "num_codebooks", 1))


class Selection(NamedTuple):
    """Of scores z: which are on, and what they had to reach (broadcastable to z); smaller is better where sign is −1.

    scored   whether z are scores that a penalty can move
    """

    noun: str
    on: Tensor
    reach: Tensor
    sign: int = 1
    scored: bool = True

    def margins(self, z: Tensor) -> Tensor:
        """By how much each was chosen, or missed it: z less the k-th largest of the others, which is taken as given."""
        return self.sign * z - self.reach

    def signed(self, z: Tensor) -> Tensor:
        """The same, positive where it is on and nowhere else, also where several are equal; NaN where z is."""
        margins = self.margins(z.detach())
        limits = torch.finfo(margins.dtype)
        on = torch.where(self.on, margins.clamp(min=limits.tiny), margins.clamp(max=0.0)).clamp(limits.min, limits.max)
        return on.masked_fill_(z.detach().isnan(), torch.nan)


class Choice(NamedTuple):
    """One call that chooses: scores z, the axis of the candidates, the ids of the chosen, and whether large is good."""

    name: str
    z: Tensor
    dim: int
    ids: Tensor
    values: Tensor | None
    largest: bool = True
    several: bool = True  # whether it may choose more than one
    result: Tensor | None = None  # what else holds who was chosen
    taken: Tensor | None = None  # which of the ids are used; all, without it

    @property
    def size(self) -> int:
        """How many candidates there are."""
        return self.z.shape[self.dim]

    def chosen(self) -> Tensor:
        """Which were chosen: bool, in the shape of z."""
        whole = self.ids.ndim == self.z.ndim
        ids = self.ids if whole else self.ids.unsqueeze(self.dim)
        none = torch.zeros_like(self.z, dtype=torch.bool)
        if self.taken is None:
            return none.scatter_(self.dim, ids, True)
        taken = self.taken.to(ids.device)
        taken = (taken if whole else taken.unsqueeze(self.dim)).expand_as(ids)
        return none.int().scatter_add_(self.dim, ids, taken.int()) > 0

    def selection(self, noun: str, floor: float | None) -> Selection:
        """What it means for units; values at or below the floor are set to zero afterwards, where there is one."""
        z, sign = self.z.detach(), 1 if self.largest else -1
        chosen, scores = self.chosen(), sign * z
        reach = _kth_of_others(scores, chosen, self.dim)
        if noun != LATENT:
            return Selection(noun, chosen, reach, sign)
        on = chosen & (z != 0 if floor is None else z > floor)
        return Selection(noun, on, reach if floor is None or sign < 0 else reach.clamp(min=floor), sign)


def _kth_of_others(scores: Tensor, chosen: Tensor, dim: int) -> Tensor:
    """What each must exceed to be chosen: the least that was, or, of those that were, the largest that was not."""
    least = scores.masked_fill(~chosen, torch.inf).amin(dim, keepdim=True)
    best = scores.masked_fill(chosen, -torch.inf).amax(dim, keepdim=True)
    return torch.where(chosen, best.clamp(min=torch.finfo(scores.dtype).min / 4), least)


Chooses = Callable[..., tuple[Tensor, int | None, bool, bool]]


def _topk(input: Tensor, k: int, dim: int = -1, largest: bool = True, *_: Any, **__: Any) -> Any:
    return input, dim, largest, k > 1


def _largest(input: Tensor, dim: Any = None, *_: Any, **__: Any) -> Any:
    return input, dim, True, False


def _smallest(input: Tensor, dim: Any = None, *_: Any, **__: Any) -> Any:
    return input, dim, False, False


def _draw(input: Tensor, num_samples: int, *_: Any, **__: Any) -> Any:
    return input, -1, True, num_samples > 1


def _sort(input: Tensor, dim: Any = -1, *_: Any, **__: Any) -> Any:
    return input, dim, True, True


def _hard(logits: Tensor, tau: float = 1, hard: bool = False, eps: float = 1e-10, dim: int = -1) -> Any:
    return logits, dim if hard else None, True, False


TOPK = (torch.topk, Tensor.topk)
# Which calls choose: their scores, the axis, whether large is good, whether several are chosen.
CHOOSERS: dict[Callable[..., Any], Chooses] = {
    **dict.fromkeys(TOPK, _topk),
    **dict.fromkeys((torch.argmax, Tensor.argmax, torch.max, Tensor.max), _largest),
    **dict.fromkeys((torch.argmin, Tensor.argmin, torch.min, Tensor.min), _smallest),
    **dict.fromkeys((torch.multinomial, Tensor.multinomial), _draw),
    **dict.fromkeys((torch.sort, Tensor.sort, torch.argsort, Tensor.argsort), _sort),
    F.gumbel_softmax: _hard,
}
READS = (Tensor.tolist, Tensor.numpy, Tensor.__array__)  # after these only Python knows what becomes of it
NAMES = dict.fromkeys(TOPK, "topk") | {F.gumbel_softmax: "gumbel"}
NAMES |= dict.fromkeys((torch.multinomial, Tensor.multinomial), "multinomial")


def chosen_by(func: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any], out: Any) -> Choice | None:
    """The choice that a call made; None where it chose along no axis, or among no real numbers."""
    z, dim, largest, several = CHOOSERS[func](*args, **kwargs)
    if not isinstance(z, Tensor) or not z.is_floating_point() or type(z) is nn.Parameter or not z.numel():
        return None
    if dim is None and z.ndim == 1:
        dim = 0
    if not isinstance(dim, int) or not z.ndim or z.shape[dim] < 2:
        return None
    values, index = (out[0], out[1]) if isinstance(out, tuple) else (None, out)
    result = None
    if func is F.gumbel_softmax:
        result, index = out, out.argmax(dim)
    if not isinstance(index, Tensor) or index.dtype != torch.long:
        return None
    name = NAMES.get(func) or f"arg{getattr(func, '__name__', 'max').removeprefix('arg')}"
    name = SORTS if name == "argsort" else name
    values = None if name == SORTS else values
    return Choice(name, z, dim % z.ndim, index, values, largest, several, result)


def noun_of(uses: Collection[str], *, several: bool) -> str:
    """What the candidates of a choice are, from what became of it; empty where they are no units.

    >>> noun_of(["looks up"], several=False), noun_of(["sends", "values"], several=True), noun_of([], several=True)
    ('code', 'expert', '')
    """
    if SENDS in uses:
        return EXPERT
    if LOOKS_UP in uses and VALUES not in uses:
        return CODE
    if SUMS in uses and not {VALUES, WEIGHS} <= set(uses):
        return EXPERT
    if VALUES in uses or (several and WEIGHS in uses):
        return LATENT
    return CODE if WEIGHS in uses else ""
