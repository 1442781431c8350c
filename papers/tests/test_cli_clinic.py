"""The command of the clinic: what it lists, what it keeps, what it refuses."""

from __future__ import annotations

from pathlib import Path

import pytest

from alive_papers.clinic import PATIENTS, Trial, Trials


def test_without_a_patient_it_lists_all_and_the_recorded_table(alive) -> None:
    code, out, _ = alive("clinic")
    assert code == 0
    for name in PATIENTS:
        assert name in out
    assert "Measured" in out


def rows(path: Path) -> list[Trial]:
    with Trials(path, create=False) as store:
        return store.all()


def test_it_treats_a_patient_and_goes_on_from_what_is_kept(alive) -> None:
    words = ("clinic", "zeros", "--cure", "kaiming", "--cure", "as it is", "--seeds", "1", "--rows", "mine.sqlite")
    code, out, err = alive(*words)
    assert code == 0, err
    kept = rows(Path("mine.sqlite"))
    assert [row.cure for row in kept] == ["healthy", "kaiming", "as it is"]
    assert all(f"{row.score:.2f}" in out for row in kept)
    again = alive(*words)[1]
    assert rows(Path("mine.sqlite")) == kept
    assert again == out


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("zeroes",), "did you mean 'zeros'"),
        (("zeros", "--cure", "mirror"), "did you mean 'mirrored'"),
        (("zeros", "--all"), "not both"),
        (("--cure", "kaiming"), "--cure needs a patient"),
        (("zeros", "--rows", "nowhere/rows.sqlite"), "nowhere"),
        (("zeros", "--seeds", "0"), "seeds"),
    ],
)
def test_what_it_cannot_do_is_said_in_one_line(alive, words: tuple[str, ...], said: str) -> None:
    code, _, err = alive("clinic", *words)
    assert code == 2
    assert said in err
    assert err.count("\n") == 1
