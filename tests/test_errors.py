"""Errors: one exception, worded with cause and cure, that survives a process boundary."""

from __future__ import annotations

import copy
import pickle

import pytest

from alive.errors import AliveError, expect, expect_one_of, near
from alive.functional import Separation


def test_an_error_says_cause_and_cure() -> None:
    error = AliveError("the data has no batch", "Pass a loader")
    assert str(error) == "the data has no batch. Pass a loader."
    assert str(AliveError("bad")) == "bad."
    assert isinstance(error, ValueError)


@pytest.mark.parametrize("again", [lambda e: pickle.loads(pickle.dumps(e)), copy.deepcopy, copy.copy])
def test_an_error_survives_pickle_and_copy(again) -> None:
    error = AliveError("cause", "cure")
    twin = again(error)
    assert type(twin) is AliveError
    assert (twin.cause, twin.cure, str(twin)) == (error.cause, error.cure, str(error))


def test_near_names_the_nearest_and_lists_all() -> None:
    assert near("chanel", ["channel", "position"]) == "did you mean 'channel'? Known: channel, position"
    assert near("zzz", ["channel", "position"]) == "Known: channel, position"
    assert near(None, ["a"]) == "Known: a"


def test_expect_one_of_passes_known_names_and_refuses_others() -> None:
    expect_one_of("mode", "U", ["U", "P"])
    with pytest.raises(AliveError, match=r"unknown mode 'Up'.*Known: UP"):
        expect_one_of("mode", "Up", ["UP"])


def test_expect_reports_all_faults_together_and_nothing_else() -> None:
    expect([(True, "never said")])
    with pytest.raises(AliveError) as caught:
        expect([(False, "first"), (True, "never said"), (False, "second")])
    assert str(caught.value) == "first; second."


def test_a_record_reports_all_its_faults_together() -> None:
    with pytest.raises(AliveError) as caught:
        Separation(
            mode="PU", conv="chanel", against="deth", ties="x", balance=2, pos_margin=-1, neg_margin=float("nan")
        )
    text = str(caught.value)
    for part in ("'PU'", "'channel'", "'death'", "'x'", "balance", "pos_margin", "neg_margin"):
        assert part in text


def test_a_list_as_a_mode_is_refused_like_any_unknown_mode() -> None:
    with pytest.raises(AliveError, match="unknown mode"):
        Separation(mode=["U", "P"])  # type: ignore[arg-type]
