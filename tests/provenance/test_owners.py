"""What sums, views and meetings make of owners, against brute force over every entry."""

from __future__ import annotations

from math import prod

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from alive.provenance.owners import (
    LOST,
    MANY,
    NONE,
    compact,
    joined,
    reduced,
    refined,
    regrouped,
    shares_units,
    varying,
)

SMALL = st.integers(1, 4)
CODES = st.sampled_from([NONE, MANY, LOST, 0, 0, 1, 1, 2])


@st.composite
def owners(draw, ndim: int | None = None) -> Tensor:
    shape = draw(st.lists(SMALL, min_size=ndim or 1, max_size=ndim or 3))
    values = draw(st.lists(CODES, min_size=prod(shape), max_size=prod(shape)))
    return torch.tensor(values, dtype=torch.int32).view(shape)


def meet(a: int, b: int) -> int:
    """The owner of a sum of two entries, case by case."""
    if LOST in (a, b):
        return LOST
    if a >= 0 and b >= 0:
        return a if a == b else LOST
    return max(a, b)  # an owner before a statistic before a constant


@pytest.mark.law
@given(owners(2), owners(2))
def test_constants_and_statistics_give_way_and_two_owners_are_lost(a: Tensor, b: Tensor) -> None:
    if any(m != n and 1 not in (m, n) for m, n in zip(a.shape, b.shape, strict=True)):
        return
    found = joined(a, b)
    left, right = torch.broadcast_tensors(a, b)
    assert found.flatten().tolist() == [
        meet(x, y) for x, y in zip(left.flatten().tolist(), right.flatten().tolist(), strict=True)
    ]


@pytest.mark.law
@given(owners(2))
def test_a_sum_over_an_axis_is_of_its_one_owner_or_a_statistic(owner: Tensor) -> None:
    for row, found in zip(owner.tolist(), reduced(owner, [1]).flatten().tolist(), strict=True):
        named = {x for x in row if x >= 0 and x != LOST}
        if LOST in row:
            assert found == LOST
        elif len(named) == 1:
            assert found == named.pop()
        else:
            assert found == (MANY if named else max(row))


@pytest.mark.law
@given(owners(), st.data())
def test_a_view_moves_owners_as_it_moves_entries(owner: Tensor, data: st.DataObject) -> None:
    sizes = [n if n > 1 else data.draw(SMALL) for n in owner.shape]  # what does not vary stands for any size
    whole = owner.expand(sizes)
    numbers = [n for n in range(1, prod(sizes) + 1) if prod(sizes) % n == 0]
    first = data.draw(st.sampled_from(numbers))
    for new in ([prod(sizes)], [first, prod(sizes) // first], [1, first, 1, prod(sizes) // first]):
        found = regrouped(owner, sizes, new)
        assert torch.equal(found.expand(new), whole.reshape(new))


@pytest.mark.law
@given(owners())
def test_compact_owners_say_the_same_with_no_axis_that_does_not_vary(owner: Tensor) -> None:
    small = compact(owner)
    assert torch.equal(small.expand(owner.shape), owner)
    assert [d for d in range(small.ndim) if small.shape[d] > 1] == varying(owner)


def units(*values: int) -> Tensor:
    return torch.tensor(values, dtype=torch.int32)


def test_units_side_by_side_are_summed() -> None:
    pairs: list[list[list[list[int]]]] = []

    def summed(chosen: Tensor, other: Tensor) -> Tensor:
        pairs.append([chosen.tolist(), other.tolist()])
        return chosen + 10

    assert refined(units(0, 1, 2)[None], units(7, 8, 9)[None]).tolist() == [[7, 8, 9]]
    assert refined(units(0, 1, 2)[None], units(7, 8, 9)[None], summed).tolist() == [[17, 18, 19]]
    assert pairs == [[[[7, 8, 9]], [[0, 1, 2]]]]


def test_a_gate_of_one_unit_gives_way_and_an_outer_sum_is_lost() -> None:
    assert refined(units(0, 1, 2)[None], units(7)[None]).tolist() == [[0, 1, 2]]
    outer = refined(units(0, 1)[:, None], units(7, 8)[None])
    assert (outer == LOST).all()


def test_units_that_only_partly_overlap_are_lost() -> None:
    assert (refined(units(0, 1, 1), units(5, 5, 6)) == LOST).all()


@pytest.mark.law
@given(owners(), owners())
def test_owners_share_units_however_they_lie(a: Tensor, b: Tensor) -> None:
    both = {u for u in a.flatten().tolist() if 0 <= u < LOST} & set(b.flatten().tolist())
    axes = list(range(a.ndim))[::-1]
    assert shares_units(a.permute(axes), b.mT if b.ndim > 1 else b) == bool(both)
