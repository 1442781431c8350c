import os
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest
import torch
from torch import nn

from alive.data import Data, moons
from alive.nn import AnnealedDropout, Rectangular
from alive.train import CsvLogger, Settings, checkpoint, train

SETTINGS = Settings(epochs=60, batch_size=17, shuffle=True, lr=0.003)

CHILD = """
import signal, sys
sys.path.insert(0, sys.argv[2])
signal.signal(signal.SIGINT, signal.default_int_handler)
from test_interrupt import *
torch.set_num_threads(1)
train(build(), moons(), SETTINGS, checkpoint=sys.argv[1], on_epoch=lambda e, m: e == 2 and print("go", flush=True))
"""


def build() -> nn.Module:
    dropout = lambda: AnnealedDropout(0.3, 100)  # noqa: E731
    return Rectangular(
        2, 1, depth=8, width=6, batch_norm=True, dropout=dropout, generator=torch.Generator().manual_seed(4)
    )


def test_ctrl_c_in_a_real_process_then_resume_equals_the_uninterrupted_run(tmp_path: Path) -> None:
    path = tmp_path / "run"
    command = [sys.executable, "-c", CHILD, str(path), str(Path(__file__).parent)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as child:
        assert child.stdout is not None
        assert child.stdout.readline() == "go\n", child.communicate()[1]
        child.send_signal(signal.SIGINT)
        errors = child.communicate(timeout=60)[1]
    assert child.returncode in (-signal.SIGINT, 1)  # 1 where some installed package runs code while Python ends
    assert f"saved in {path}" in errors
    place = checkpoint.load(path).about["place"]
    assert 3 <= place["epoch"] < 60

    straight, resumed = build(), build()
    expected = train(straight, moons(), SETTINGS)
    result = train(resumed, moons(), SETTINGS, checkpoint=path, resume=True)
    assert result.rows == expected.rows
    for a, b in zip(straight.state_dict().values(), resumed.state_dict().values(), strict=True):
        assert torch.equal(a, b)


class Presses:
    """A keeper that presses Ctrl-C in the middle of chosen steps."""

    def __init__(self, *steps: int) -> None:
        self.steps, self.step = steps, -1

    def __repr__(self) -> str:
        return type(self).__name__

    def penalty(self) -> torch.Tensor:
        self.step += 1
        for _ in range(self.steps.count(self.step)):
            signal.raise_signal(signal.SIGINT)
        return torch.zeros(())

    def set_progress(self, fraction: float) -> None: ...


@pytest.fixture
def data() -> Data:
    signal.signal(signal.SIGINT, signal.default_int_handler)
    return moons()


def test_one_press_saves_after_the_step_in_flight(data: Data, tmp_path: Path) -> None:
    with pytest.raises(KeyboardInterrupt, match="epoch 1 after step 2"):
        train(build(), data, SETTINGS, keep=Presses(6), checkpoint=tmp_path / "run")
    place = checkpoint.load(tmp_path / "run").about["place"]
    assert (place["epoch"], place["step"]) == (1, 2), "step 6 of five an epoch was finished first"
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_a_second_press_acts_at_once(data: Data, tmp_path: Path) -> None:
    with pytest.raises(KeyboardInterrupt):
        train(build(), data, SETTINGS, keep=Presses(6, 6), checkpoint=tmp_path / "run")
    place = checkpoint.load(tmp_path / "run").about["place"]
    assert (place["epoch"], place["step"]) == (0, 0), "only the checkpoint of the start exists"
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_without_a_checkpoint_ctrl_c_is_left_alone(data: Data) -> None:
    keep = Presses(3)
    with pytest.raises(KeyboardInterrupt):
        train(build(), data, SETTINGS, keep=keep)
    assert keep.step == 3


def test_a_press_in_the_last_epoch_callback_still_ends_in_an_interrupt(data: Data, tmp_path: Path) -> None:
    def press(epoch: int, model: nn.Module) -> None:
        if epoch == 1:
            signal.raise_signal(signal.SIGINT)

    with pytest.raises(KeyboardInterrupt):
        train(build(), data, Settings(epochs=2), checkpoint=tmp_path / "run", on_epoch=press)
    assert len(checkpoint.load(tmp_path / "run").about["place"]["rows"]) == 2


def test_a_press_during_the_last_write_is_not_forgotten(
    data: Data, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write = checkpoint.save

    def press(kept: checkpoint.Checkpoint, path: Path) -> None:
        if len(kept.about["place"]["rows"]) == 2:
            signal.raise_signal(signal.SIGINT)
        write(kept, path)

    monkeypatch.setattr(checkpoint, "save", press)
    with pytest.raises(KeyboardInterrupt):
        train(build(), data, Settings(epochs=2), checkpoint=tmp_path / "run")
    assert len(checkpoint.load(tmp_path / "run").about["place"]["rows"]) == 2


def test_the_handler_returns_also_when_training_fails(data: Data, tmp_path: Path) -> None:
    def fail(epoch: int, model: nn.Module) -> None:
        raise RuntimeError("census failed")

    with pytest.raises(RuntimeError, match="census failed"):
        train(build(), data, SETTINGS, checkpoint=tmp_path / "run", on_epoch=fail)
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_ignored_interrupts_stay_ignored(data: Data, tmp_path: Path) -> None:
    try:
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        result = train(build(), data, Settings(epochs=2), keep=Presses(1), checkpoint=tmp_path / "run")
        assert len(result.rows) == 2
    finally:
        signal.signal(signal.SIGINT, signal.default_int_handler)


def test_other_threads_train_without_touching_signals(data: Data, tmp_path: Path) -> None:
    results = []
    settings = Settings(epochs=2)
    worker = threading.Thread(
        target=lambda: results.append(train(build(), data, settings, checkpoint=tmp_path / "run"))
    )
    worker.start()
    worker.join()
    assert len(results[0].rows) == 2


def test_the_log_of_a_resumed_run_has_every_epoch_once(data: Data, tmp_path: Path) -> None:
    path, log, settings = tmp_path / "run", tmp_path / "rows.csv", Settings(epochs=6, batch_size=17)
    quiet = Presses()
    expected = train(build(), data, settings, keep=quiet)
    with pytest.raises(KeyboardInterrupt):
        train(build(), data, settings, keep=Presses(13), checkpoint=path, loggers=[CsvLogger(log)])
    with log.open("a") as file:  # the process wrote further rows after its last checkpoint, then lost power in a line
        file.write("2,9,9,9,9\n3,9,9,9,9\n4,9,")
    train(build(), data, settings, keep=quiet, checkpoint=path, resume=True, loggers=[CsvLogger(log)])
    lines = [line.split(",") for line in log.read_text().splitlines()[1:]]
    assert [int(line[0]) for line in lines] == list(range(6))
    assert [float(line[1]) for line in lines] == [row.loss for row in expected.rows]
    assert os.listdir(tmp_path).count("rows.csv") == 1
