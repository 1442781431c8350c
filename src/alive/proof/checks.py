"""The eight questions to a cure, answered from what was seen step by step."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import median
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn
from torch.optim import Optimizer

from ..functional import State
from ..taps.selections import NOUNS
from .result import Check

if TYPE_CHECKING:
    from .plant import Planted
    from .trial import Seen

Pairs = dict[str, tuple[Tensor, Tensor]]
STALE, KEPT = 0.999, 0.3  # as alike, and at least as large, as what was there before
SELDOM = 0.25  # of an even share of the choices, or of all values: below it a revival may take a unit for dead
RISE, USUAL = 0.05, 5.0  # of the loss: its share, and times the usual change


def checks(seen: Sequence[Seen], planted: Planted, made: tuple[Any, ...]) -> tuple[Check, ...]:
    """The answers in order."""
    acts, came = _acts(seen, planted)
    jumps = [(each, each.jumped()) for each in seen]
    moments = [(each, own) for each, jump in jumps if len(own := planted.units[jump[planted.units]])]
    return (
        _gradient(seen, planted, came=came),
        acts,
        _stays(seen, planted, came=came),
        _follow("optimiser", [(each.state, own) for each, own in moments], any(isinstance(o, Optimizer) for o in made)),
        _follow("averages", [(each.beside, own) for each, own in moments], bool(planted.beside), planted.alive),
        _targets(seen, planted, moments, any(isinstance(o, nn.Module) for o in made[1:])),
        _harm(seen, planted, jumps),
        _loss(seen, [each for each, _ in moments]),
    )


def _gradient(seen: Sequence[Seen], planted: Planted, *, came: int) -> Check:
    heard = [each.gradient[planted.units] for each in seen if each.gradient is not None]
    if not heard:
        return Check(
            "gradient", "", f"no gradient reaches {', '.join(r.name for r in planted.own)}: none is trained by it"
        )
    reached = int((torch.stack(heard).amax(0) > 0).sum())
    told = f"at {reached} of {len(planted.units)}"
    if reached or came:
        return Check(
            "gradient", "yes" if reached else "no", told if reached else f"{told}, and the revival does without"
        )
    return Check("gradient", "no", f"{told}: whatever the loss adds for them is cut off from their weights", fault=True)


def _alive(seen: Sequence[Seen], units: Tensor) -> Tensor:
    """Whether units were alive after each step [steps, units]."""
    return torch.stack([each.units[1].states[units] != State.DEAD for each in seen])


def _acts(seen: Sequence[Seen], planted: Planted) -> tuple[Check, int]:
    alive = _alive(seen, planted.units)
    came, n = int(alive.any(0).sum()), len(planted.units)
    if came:
        first = int(alive.any(1).nonzero()[0]) + 1
        return Check("acts", "yes", f"{came} of {n} came back, the first after {first} step{'s' * (first > 1)}"), came
    jumped = any(bool(each.jumped()[planted.units].any()) for each in seen)
    why = "their weights were written anew, and they are dead all the same" if jumped else "nothing wrote to them"
    return Check("acts", "no", f"none of {n} came back in {len(seen)} steps; {why}", fault=True), 0


def _stays(seen: Sequence[Seen], planted: Planted, *, came: int) -> Check:
    if not came:
        return Check("stays", "", "none came back")
    alive = _alive(seen, planted.units)
    last = alive[-1] & alive.any(0)
    stayed = int(last.sum())
    told = f"{stayed} of {came} that came back are alive at the end"
    return Check("stays", "yes" if 2 * stayed >= came else "no", told, fault=2 * stayed < came)


def _follow(
    name: str,
    moments: Sequence[tuple[Pairs, Tensor]],
    kept: bool,
    alive: Tensor | None = None,
) -> Check:
    """Whether what is kept of units was written anew with them, and does not go on as if they were the old ones."""
    what = "moving average" if name == "averages" else "optimiser"
    if not kept:
        return Check(name, "", f"there is no {what}")
    pairs = [(key, old[own], new[own], new) for held, own in moments for key, (old, new) in held.items()]
    pairs = [pair for pair in pairs if bool((pair[1].norm(dim=1) > 1e-12).any())]
    if not pairs:
        return Check(name, "", f"nothing was written anew of which the {what} remembers anything")
    stale = [
        (key, int(old.sum()), len(old))
        for key, before, after, whole in pairs
        if bool((old := _stale(before, after, whole, alive)).any())
    ]
    if not stale:
        return Check(
            name, "yes", f"{', '.join(dict.fromkeys(key for key, *_ in pairs))} of what was written anew is new too"
        )
    key, number, of = stale[0]
    return Check(
        name, "no", f"{key} goes on from the old values at {number} of {of} that were written anew", fault=True
    )


def _stale(before: Tensor, after: Tensor, whole: Tensor, alive: Tensor | None) -> Tensor:
    """Which rows go on as they were; of single numbers, which stay far below those of the others."""
    if before.shape[1] == 1 and alive is not None:
        return torch.logical_and(after[:, 0] <= before[:, 0], after[:, 0].abs() < 0.02 * whole[alive, 0].abs().mean())
    had = before.norm(dim=1)
    same = torch.nn.functional.cosine_similarity(before, after, dim=1) > STALE
    return torch.stack([had > 1e-12, same, after.norm(dim=1) > KEPT * had]).all(0)


def _targets(seen: Sequence[Seen], planted: Planted, moments: Sequence[tuple[Seen, Tensor]], kept: bool) -> Check:
    if not kept or not any(each.target for each in seen):
        return Check("targets", "", "there is no target copy of these weights")
    if not moments:
        return Check("targets", "", "nothing was written anew")
    units = torch.cat([own for _, own in moments]).unique()
    first = next(number for number, each in enumerate(seen) if each is moments[0][0])
    for key in seen[-1].target:
        name = key.rpartition(" of ")[0]
        pairs = [(each.own[name][1], each.target[key][1]) for each in seen[first:]]
        apart = torch.stack([(own - copy).norm(dim=1) / own.norm(dim=1).clamp(min=1e-12) for own, copy in pairs])
        usual = apart[:, planted.alive].median(1).values
        nearest = (apart[:, units] - torch.maximum(5 * usual, torch.tensor(0.1))[:, None]).amin(0)
        if bool((nearest > 0).any()):
            told = (
                f"{int((nearest > 0).sum())} of {len(units)} written anew stay {float(apart[-1, units].median()):.2g}"
            )
            told += f" of their size away from their target, the others {float(usual[-1]):.2g}: copy them as well"
            return Check("targets", "no", told, fault=True)
    return Check("targets", "yes", f"the copies of all {len(units)} came as near as those of the others")


def _harm(seen: Sequence[Seen], planted: Planted, jumps: Sequence[tuple[Seen, Tensor]]) -> Check:
    moments = [
        (each.units[0], jump) for each, jump in jumps if bool((jump & (each.units[0].states == State.DEAD)).any())
    ]
    often = torch.zeros(len(seen[0].units[0].states), dtype=torch.float64)  # the most, of those that were written anew
    for was, jump in moments:
        often = torch.where(jump & (was.states != State.DEAD), torch.maximum(often, was.often), often)
    own, many = often[planted.alive], len(planted.alive)
    died = int((~_alive(seen, planted.alive)[-1]).sum())
    if not bool((own > 0).any()):
        told = f"none of {many} that were alive was written anew"
        return Check("harm", "yes", f"{told}; {died} of them are dead at the end" if died else told)
    share = "an even share" if planted.noun in NOUNS else "all values"
    busy = bool((own > SELDOM).any())
    told = f"{int((own > 0).sum())} of {many} that were alive were written anew too, "
    told += f"on for up to {float(own.max()):.2g} of {share}"
    return Check("harm", "no" if busy else "yes", told if busy else f"{told}: seldom used", fault=busy)


def _loss(seen: Sequence[Seen], moments: Sequence[Seen]) -> Check:
    known = [each for each in seen if None not in each.loss]
    if not known:
        return Check("loss", "", "step returns no number, or what it trains cannot be copied")
    if not moments:
        return Check("loss", "", "nothing was written anew")
    told = {id(each) for each in moments}
    usual = median([abs(_change(each)) for each in known if id(each) not in told] or [0.0])
    worst = max((each for each in moments if None not in each.loss), key=_change, default=None)
    if worst is None:
        return Check("loss", "", "it is not a number at that moment")
    rise, before = _change(worst), abs(worst.loss[0] or 0.0)
    seen_of = (
        f"from {worst.loss[0]:.4g} to {worst.loss[1]:.4g} on the first batch; in other steps it moves by {usual:.2g}"
    )
    bad = not rise <= RISE * before + USUAL * usual
    return Check("loss", "no" if bad else "yes", seen_of, fault=bad)


def _change(each: Seen) -> float:
    before, after = each.loss
    return float("nan") if before is None or after is None else after - before
