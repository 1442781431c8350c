"""Choices that wait for the end of a pass, and what they turn out to be: counted, or why not."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor

from ..provenance import Owners, Tracker
from ..provenance.choices import (
    LOOKS_UP,
    ODD,
    READ,
    SENDS,
    STACKED,
    STRAIGHT,
    VALUES,
    Decoded,
)
from ..provenance.owners import LOST, has_names, names_of, shares_units, spread, varying
from .selections import CODE, DECLARE, EXPERT, LATENT, SORTS, Choice, Selection, noun_of
from .trace import Mark

READ_BY_PYTHON = f"chooses among units, and Python reads which: who is never chosen is not counted; {DECLARE[EXPERT]}"
CHANGED = (
    "chooses among latents, and sets some of the chosen to zero in a way that is not followed: who is never on is not "
    f"counted; {DECLARE[LATENT]}"
)
LOOKS_ELSEWHERE = (
    "chooses rows of a table that has another number of them: who is never chosen is not counted; " + DECLARE[CODE]
)
SORTED = (
    "sorts scores, of which some are taken: who never is, is not counted; write topk, argmax or argmin, or "
    f"{DECLARE[LATENT]}"
)
PARTLY = (
    "chooses among units, and of the chosen only some are used, others for other points: who is never chosen is not "
    f"counted; {DECLARE[EXPERT]}"
)
APART = (
    "chooses for some of the points at a time, in several calls: who is never chosen in any of them is not counted; "
    "choose for all points in one call"
)
UNCLEAR = (
    "chooses by scores of other weights than those that are chosen: whether these are units of the model, or what it "
    "says (words, classes, actions), is not known, and who is never chosen is not counted; if they are units, "
    f"{DECLARE[CODE]}"
)
TOGETHER = f"chooses among several scores of each unit at once: who is never chosen is not counted; {DECLARE[EXPERT]}"
OF_CHOSEN = "gets only values that the data chose, and what they were chosen of is not counted"
SEVERAL = "which of several codebooks a code is of cannot be told"


class Waiting(NamedTuple):
    """A choice whose meaning is not known yet: where it happened, its bit, and the owners of its scores."""

    choice: Choice
    base: str
    number: int
    bit: int
    owners: Owners
    mark: Mark | None
    where: str
    slot: Any
    path: str


def meaning(each: Waiting, tracker: Tracker, said: Sequence[Owners]) -> tuple[str, str]:
    """What the candidates of a choice are, or why they are not counted; both empty where they are no units.

    said   the owners of what the model returned
    """
    choices, bit, sorts = tracker.choices, each.bit, each.choice.name == SORTS
    uses = choices.uses(bit)
    units, near = has_units(each.owners, each.choice.dim), choices.is_near(bit)
    if (SENDS not in uses and choices.is_a_word(bit)) or (units and _is_given(each, tracker)):
        return "", ""
    noun = noun_of(uses, several=each.choice.several)
    if not units:  # rows of a table are codes, whatever made their scores
        noun = CODE if choices.made_of(bit) and noun and (LOOKS_UP in uses or STACKED in uses) else ""
    is_said = units and choices.is_said(bit, said)
    if noun == LATENT and set(uses) <= {VALUES, READ} and not _comes_out(each, said):
        noun = ""
    if not noun and ODD in uses and (units or near):
        return "", "" if is_said and not near else LOOKS_ELSEWHERE
    if not noun:
        told = units and READ in uses and not sorts and not each.owners.choice  # else what it chose among is told
        return "", READ_BY_PYTHON if told else ""
    if sorts:
        return "", SORTED
    if noun == EXPERT and not choices.made_of(bit) & tracker.families.storages:  # as by a random rotation
        return "", UNCLEAR
    return _judge(noun, each, uses, is_said, near)


def _judge(noun: str, each: Waiting, uses: Collection[str], is_said: bool, near: bool) -> tuple[str, str]:
    """What looks like units by what became of a choice: whether it is, by how the choice was made."""
    if noun == LATENT:
        return noun, ""
    if _is_repeated(each.owners.unit, each.choice.dim):  # of each unit several, as of a class at every position
        return "", TOGETHER if each.choice.dim in varying(each.owners.point) else ""
    if noun == EXPERT and SENDS in uses:
        return noun, ""
    if noun == CODE and (STRAIGHT in uses or each.choice.name == "gumbel" or (near and not is_said)):
        return noun, ""
    if noun == EXPERT and not is_said:
        return noun, ""
    return "", "" if is_said and not near and noun == CODE else UNCLEAR


def _is_given(each: Waiting, tracker: Tracker) -> bool:
    """Whether the scores came with the batch."""
    family = tracker.family(each.owners)
    return family is not None and family.made_by == "input"


def _comes_out(each: Waiting, said: Sequence[Owners]) -> bool:
    """Whether the model returns values of the candidates, of which those that were not chosen are zero."""
    return any(o.choice and shares_units(each.owners.unit, o.unit) for o in said)


def _is_repeated(owner: Tensor, dim: int) -> bool:
    """Whether some unit, or point, lies more than once along an axis."""
    rows = owner.movedim(dim, -1).reshape(-1, owner.shape[dim]).sort(-1).values
    return bool(((rows[:, 1:] == rows[:, :-1]) & (rows[:, 1:] >= 0) & (rows[:, 1:] != LOST)).any())


def apart_of(waiting: Sequence[Waiting], tracker: Tracker) -> set[int]:
    """The bits of choices that are made by several calls, each for other points, as in a loop over them."""
    alike: dict[Any, list[Waiting]] = {}
    for each in waiting:
        family = tracker.family(each.owners)
        made_by = "" if family is None else family.named(each.owners.unit)
        alike.setdefault((each.base, each.choice.size, made_by), []).append(each)
    found = set()
    for calls in alike.values():
        points = [names_of(each.owners.point) for each in calls]
        if len(calls) > 1 and all(map(len, points)) and len(torch.cat(points).unique()) == sum(map(len, points)):
            found |= {each.bit for each in calls}
    return found


def is_as_decoded(selection: Selection, decoded: Decoded | None, dim: int) -> bool:
    """Whether what met the weights was not 0 where the selection says that it is on; of several, at least there."""
    if decoded is None or selection.noun == EXPERT:
        return True
    ways = [selection.on.flatten(), selection.on.movedim(dim, -1).flatten()]  # as it is, or the candidates last
    if decoded.alone:
        return any(torch.equal(on, decoded.on) for on in ways)
    return any(not bool((on & ~decoded.on).any()) for on in ways)


def ranks_of(taken: Tensor, choice: Choice) -> tuple[int, ...] | None:
    """Which of the chosen are used, the same for all points: None for all of them, () where points differ."""
    if bool(taken.all()):
        return None
    if choice.ids.ndim != choice.z.ndim:
        return ()
    rows = taken.movedim(choice.dim, -1).flatten(0, -2)
    same = len(rows) and bool((rows == rows[:1]).all())
    return tuple(rows[0].nonzero().flatten().tolist()) if same else ()


def taken_of(ranks: tuple[int, ...] | None, choice: Choice) -> Tensor | None:
    """Which of the ids are used, by their ranks."""
    if ranks is None:
        return None
    shape = [1] * choice.ids.ndim
    shape[choice.dim] = -1
    taken = torch.zeros(choice.ids.shape[choice.dim], dtype=torch.bool)
    taken[list(ranks)] = True
    return taken.view(shape)


def has_units(owners: Owners, dim: int) -> bool:
    """Whether different units lie along an axis; not those of points, of which each is there once."""
    of_points = dim in varying(owners.point) and not _is_repeated(owners.point, dim)
    return dim in spread(owners.unit) and has_names(owners.unit) and not of_points


def by_axis(each: Waiting, table: tuple[int, ...], tracker: Tracker) -> Owners:
    """The owners of scores whose candidates are the rows of a table, made by no weights: a code is an index.

    A table [H, C, D] has codes of its own for each of H heads, which lie on an axis of that size.
    """
    z, dim, owners = each.choice.z, each.choice.dim, each.owners
    rows = varying(owners.point)
    if dim in rows:
        return owners
    heads = [n for n in table[:-2] if n > 1] if len(table) > 2 else []
    free = [d for d in range(z.ndim) if d != dim and d not in rows and heads and z.shape[d] == heads[0]]
    if heads and (len(heads) > 1 or len(free) != 1):
        return owners._replace(why=SEVERAL)
    count = each.choice.size * (heads[0] if heads else 1)
    start = tracker.families.claim(each.path, count, key=(each.base, each.number))
    names = torch.arange(start, start + count, dtype=torch.int32)
    shape = [z.shape[d] if d == dim or d in free else 1 for d in range(z.ndim)]
    if free and free[0] > dim:
        names = names.view(heads[0], -1).t()
    return owners._replace(unit=names.reshape(shape), picked=False)
