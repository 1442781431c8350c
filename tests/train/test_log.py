import builtins
import csv
from pathlib import Path
from typing import Any

import pytest

from alive.errors import AliveError
from alive.screen import bars
from alive.train import CsvLogger, Epoch, TensorBoardLogger, progress_bar

ROWS = [Epoch(epoch, 1 / (epoch + 3), 0.1 * epoch, epoch / 7, None if epoch == 1 else 0.5) for epoch in range(4)]


def test_csv_keeps_every_digit(tmp_path: Path) -> None:
    log = CsvLogger(tmp_path / "rows.csv")
    for row in ROWS:
        log.row(row)
    log.close()
    with (tmp_path / "rows.csv").open(newline="") as file:
        lines = list(csv.DictReader(file))
    for line, row in zip(lines, ROWS, strict=True):
        assert (int(line["epoch"]), float(line["loss"]), float(line["penalty"])) == (row.epoch, row.loss, row.penalty)
        assert line["test_accuracy"] == ("" if row.test_accuracy is None else "0.5")


def test_csv_is_there_to_read_while_the_run_goes_on(tmp_path: Path) -> None:
    log = CsvLogger(tmp_path / "rows.csv")
    log.row(ROWS[0])
    assert len((tmp_path / "rows.csv").read_text().splitlines()) == 2
    log.close()


def test_a_new_run_replaces_an_old_log(tmp_path: Path) -> None:
    for rows in (ROWS, ROWS[:2]):
        log = CsvLogger(tmp_path / "rows.csv")
        for row in rows:
            log.row(row)
        log.close()
    assert len((tmp_path / "rows.csv").read_text().splitlines()) == 3


def test_a_torn_line_is_dropped(tmp_path: Path) -> None:
    log = CsvLogger(tmp_path / "rows.csv")
    log.row(ROWS[0])
    log.close()
    with (tmp_path / "rows.csv").open("a") as file:
        file.write("1,0.5")  # the beginning of epoch 1, or of epoch 10
    log = CsvLogger(tmp_path / "rows.csv")
    log.row(ROWS[3])
    log.close()
    assert [line.split(",")[0] for line in (tmp_path / "rows.csv").read_text().splitlines()] == ["epoch", "0", "3"]


def test_csv_refuses_other_files_and_places(tmp_path: Path) -> None:
    (tmp_path / "notes").write_text("dear diary\n")
    with pytest.raises(AliveError, match="is not a log"):
        CsvLogger(tmp_path / "notes")
    assert (tmp_path / "notes").read_text() == "dear diary\n"
    with pytest.raises(AliveError, match="cannot write"):
        CsvLogger(tmp_path / "no" / "rows.csv")
    with pytest.raises(AliveError, match="cannot write"):
        CsvLogger(tmp_path)
    CsvLogger(tmp_path / "new.csv")
    assert not (tmp_path / "new.csv").exists(), "a run that is refused later leaves no empty log"


def test_a_full_disk_is_said_in_one_sentence(tmp_path: Path) -> None:
    log = CsvLogger(tmp_path / "rows.csv")
    log.row(ROWS[0])
    log.close()
    log._file = open("/dev/full", "w")  # noqa: SIM115 - the log closes it; what the disk does when its last byte is written
    with pytest.raises(AliveError, match=r"cannot write .*rows.csv: No space left on device. Make room"):
        log.row(ROWS[1])
    log.close()


def test_tensorboard_refuses_a_place_before_training(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(AliveError, match="cannot write"):
        TensorBoardLogger(tmp_path / "file")


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_tensorboard_reads_back_what_was_logged(tmp_path: Path) -> None:
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    for rows in (ROWS, ROWS[2:]):  # a run, then one resumed from epoch 2
        log = TensorBoardLogger(tmp_path / "board")
        for row in rows:
            log.row(row)
        log.close()
    events = EventAccumulator(str(tmp_path / "board"))
    events.Reload()
    loss = events.Scalars("loss")
    assert [event.step for event in loss] == [0, 1, 2, 3]
    assert [event.value for event in loss] == pytest.approx([row.loss for row in ROWS])
    assert [event.step for event in events.Scalars("test_accuracy")] == [0, 2, 3]


def test_absent_tensorboard_says_how_to_get_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real = builtins.__import__

    def without(name: str, *rest: Any) -> Any:
        if "tensorboard" in name:
            raise ImportError(name)
        return real(name, *rest)

    monkeypatch.setattr(builtins, "__import__", without)
    with pytest.raises(AliveError, match=r'pip install "alive\[tensorboard\]"'):
        TensorBoardLogger(tmp_path)


def run_bar(show: bool | None) -> None:
    bar = progress_bar(show=show)
    bar.start(10, 6)
    for row in ROWS:
        bar.row(row)
    bar.close()


def test_a_short_run_is_quiet_off_the_terminal_unless_asked(capsys: pytest.CaptureFixture[str]) -> None:
    run_bar(None)
    run_bar(False)
    assert capsys.readouterr() == ("", "")
    run_bar(True)
    said = capsys.readouterr()
    assert said.out == ""
    for part in ("10/10", "loss 0.1667", "accuracy 0.429", "test 0.500"):
        assert part in said.err


def test_off_the_terminal_a_long_run_says_a_line_a_minute(capsys: pytest.CaptureFixture[str], monkeypatch) -> None:
    now = 0.0
    lines = bars("epoch")
    monkeypatch.setattr(lines, "get_time", lambda: now)
    lines._said = now
    task = lines.add_task("", total=None)
    lines.update(task, total=200, completed=20)
    for epoch in range(20, 101, 2):  # two epochs in 3 seconds
        now = 1.5 * (epoch - 20)
        lines.update(task, completed=epoch, description=f"loss {1 / epoch:.3f}")
    assert capsys.readouterr() == ("", "30.0 %, loss 0.017, 0:03:30 left\n50.0 %, loss 0.010, 0:02:30 left\n")


def test_a_run_that_has_hardly_begun_says_no_time_left(capsys: pytest.CaptureFixture[str], monkeypatch) -> None:
    """At this pace it would take longer than a machine can count the days of."""
    now = 0.0
    lines = bars("epoch")
    monkeypatch.setattr(lines, "get_time", lambda: now)
    lines._said = now
    task = lines.add_task("", total=1e9)
    for done in range(4):
        lines.update(task, completed=done * 1e-9, description="slow")
        now += 70
    lines.update(task, completed=2.1e8, description="faster")
    assert capsys.readouterr().err.splitlines() == ["0.0 %, slow"] * 3 + ["21.0 %, faster, 0:13:10 left"]


def test_the_time_left_does_not_jump_between_two_epochs(monkeypatch) -> None:
    """Ten minutes an epoch: what the last half minute saw is nothing, or a whole epoch."""
    now = 0.0
    lines = bars("epoch")
    monkeypatch.setattr(lines, "get_time", lambda: now)
    task = lines.add_task("", total=10)
    said = []
    for second in range(0, 3601, 10):
        now = float(second)
        lines.update(task, completed=second // 600)
        said.append(lines.tasks[0].time_remaining)
    assert all(2400 <= left <= 6000 for left in said[130:]), "four to ten epochs of ten minutes"
