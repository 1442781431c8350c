"""Trials: kept as they finish, taken up again, and what the recorded ones say."""

from __future__ import annotations

import json
import statistics
from importlib.resources import files
from pathlib import Path

import pytest

from alive.cures import ORDER
from alive.errors import AliveError
from alive_papers.clinic import ADVICE, HEALTHY, PATIENTS, TRIED, Book, Trial, Trials, run, treat, trials
from alive_papers.clinic.evidence import ranking, shown_by, write_order
from alive_papers.clinic.round import advised
from alive_papers.clinic.tables import END, START, document, markdown
from alive_papers.clinic.trial import UNSEEN

DOCUMENT = Path(__file__).parents[3] / "docs" / "advice.md"
BOOK = Book.read()
QUICK = ("zeros", "large-inputs", "fast-sgd")
SEEDS = range(20, 23)
FIRST = SEEDS[0] + UNSEEN


def test_a_trial_can_be_repeated_to_the_bit() -> None:
    first, again = (treat(PATIENTS["off-centre"], "standardise", 1) for _ in range(2))
    assert first.score == again.score
    assert first.score != treat(PATIENTS["off-centre"], "standardise", 2).score


def test_a_cure_that_cannot_be_applied_says_why() -> None:
    row = treat(PATIENTS["deep-text"], "standardise", 0)
    assert row.score is None
    assert "real points" in row.note


def test_what_is_finished_is_kept_and_not_tried_again(tmp_path: Path) -> None:
    asked = trials(["zeros"], ["as it is", "rate/10"], range(1))
    assert asked == [("zeros", HEALTHY, 0), ("zeros", "as it is", 0), ("zeros", "rate/10", 0)]

    def stop(row: Trial) -> None:
        if row.cure == "as it is":
            raise KeyboardInterrupt

    with Trials(tmp_path / "rows.sqlite") as store:
        with pytest.raises(KeyboardInterrupt):
            run(asked, store, stop)
        kept = store.all()
        assert [row.cure for row in kept] == [HEALTHY, "as it is"]
        done = run(asked, store, lambda row: None)
        assert store.all() == done
        assert done[:2] == kept  # to the second: they were not tried again


def test_rows_of_another_version_do_not_count(tmp_path: Path) -> None:
    with Trials(tmp_path / "rows.sqlite") as store:
        store.add(Trial("zeros", HEALTHY, 0, 0.5, version="0.0.1"))
        (done,) = run([("zeros", HEALTHY, 0)], store, lambda row: None)
        assert done.score != 0.5
        assert len(store.all()) == 2


@pytest.mark.parametrize("text", ["no json", '{"patient": 3}\n{"what": 1}', "[1, 2]", "[" * 5000])
def test_a_file_without_trials_is_refused(tmp_path: Path, text: str) -> None:
    (tmp_path / "rows").write_text(text)
    with pytest.raises(AliveError, match="holds no trials"):
        Trials(tmp_path / "rows")
    assert [file.name for file in tmp_path.iterdir()] == ["rows"]
    with pytest.raises(AliveError, match="holds no trials"):
        Book.read(tmp_path / "rows")


def test_a_book_is_read_as_it_was_written(tmp_path: Path) -> None:
    BOOK.write(tmp_path / "book.json")
    assert Book.read(tmp_path / "book.json") == BOOK
    assert json.loads((tmp_path / "book.json").read_text())["command"] == BOOK.command


# The recorded trials.


def test_the_first_choice_is_judged_on_other_seeds_than_it_was_chosen_on() -> None:
    chosen = {row.seed for row in BOOK.rows if row.cure in TRIED}
    assert chosen.isdisjoint(row.seed for row in BOOK.rows if row.cure == ADVICE)


def test_every_cure_was_tried_on_every_patient_with_three_seeds() -> None:
    places = {(row.patient, row.cure, row.seed) for row in BOOK.rows}
    assert places == set(trials(list(PATIENTS), [*TRIED, ADVICE], SEEDS))
    assert len(BOOK.rows) == len(places)


@pytest.mark.parametrize("patient", PATIENTS)
def test_patients_do_not_train_as_they_are(patient: str) -> None:
    assert BOOK.summary(patient, "as it is").trains == 0
    scores = [row.score for row in BOOK.rows if (row.patient, row.cure) == (patient, HEALTHY)]
    chance = PATIENTS[patient].sample.chance
    assert BOOK.bar(patient) == pytest.approx((chance + statistics.fmean(scores)) / 2)
    assert min(scores) > BOOK.bar(patient)


def test_the_document_holds_the_recorded_numbers(tmp_path: Path) -> None:
    text = DOCUMENT.read_text()
    assert text.split(START)[1].split(END)[0].strip() == markdown(BOOK).strip()
    copy = tmp_path / "advice.md"
    copy.write_text(f"before\n{START}\nold\n{END}\nafter\n")
    document(BOOK, copy)
    assert copy.read_text() == f"before\n{START}\n\n{markdown(BOOK)}\n{END}\nafter\n"
    copy.write_text("no marks")
    with pytest.raises(AliveError, match="no place for the tables"):
        document(BOOK, copy)


@pytest.mark.parametrize("finding", ORDER)
def test_the_order_of_the_cures_is_that_of_the_table(finding: str) -> None:
    assert ORDER[finding] == ranking(BOOK, finding)
    first = ORDER[finding][0]
    trained = [BOOK.summary(patient, first).trains for patient in shown_by(finding)]
    assert sum(trained) >= 2 * len(trained)  # of three networks each


def test_the_order_is_written_as_the_file_of_the_cures_has_it(tmp_path: Path) -> None:
    write_order(BOOK, tmp_path / "order.json")
    assert (tmp_path / "order.json").read_bytes() == (files("alive.cures") / "order.json").read_bytes()


def test_the_first_choice_trains_most_patients() -> None:
    cured = [name for name in PATIENTS if BOOK.summary(name, ADVICE).trains == 3]
    assert len(cured) >= len(PATIENTS) * 10 / 12


@pytest.mark.parametrize("name", QUICK)
def test_the_first_choice_trains_a_patient_as_recorded(name: str) -> None:
    row = treat(PATIENTS[name], ADVICE, FIRST)
    (recorded,) = (each for each in BOOK.of(name, ADVICE) if each.seed == FIRST)
    assert (row.finding, row.note) == (recorded.finding, recorded.note)
    assert row.score == pytest.approx(recorded.score, abs=0.1)  # other machines round otherwise
    assert row.score >= BOOK.bar(name)


@pytest.mark.parametrize("name", PATIENTS)
def test_a_census_finds_what_ails_a_patient(name: str) -> None:
    finding, cure = advised(PATIENTS[name], SEEDS[0])
    assert finding == PATIENTS[name].finding
    assert cure.removeprefix("anew, ") == ORDER[finding][0]


@pytest.mark.slow
@pytest.mark.parametrize("name", PATIENTS)
def test_the_first_choice_does_as_recorded_on_fresh_seeds(name: str) -> None:
    told = BOOK.summary(name, ADVICE)
    scores = [treat(PATIENTS[name], ADVICE, seed).score for seed in (40, 41, 42)]
    trained = sum(score is not None and score >= BOOK.bar(name) for score in scores)
    assert abs(trained - told.trains) <= 1
