"""One sink for numbers, with the real packages; what was logged is read back by each package itself."""

from __future__ import annotations

import csv
import json
import subprocess
import sys
import time

import pytest
import torch

from alive import AliveError, Jumpstart
from alive.data import moons
from alive.integrations.probe import Probe
from alive.integrations.sinks import CsvSink, MlflowSink, Rows, TensorBoardSink, TrackioSink, WandbSink
from alive.nn import Rectangular
from alive.train import Settings, train

LOGGED = [({"loss": 0.5, "alive/dead_units": 3}, 0), ({"loss": 0.25, "alive/dead_units": 0}, 7)]
pytestmark = pytest.mark.filterwarnings("ignore")


def log(sink):
    with sink:
        for numbers, step in LOGGED:
            sink.log(numbers, step)


def test_csv(tmp_path):
    log(CsvSink(tmp_path / "log.csv"))
    with (tmp_path / "log.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert [({k: float(v) for k, v in row.items() if k != "step"}, int(row["step"])) for row in rows] == LOGGED


def test_what_is_no_log_or_no_step_is_told_and_a_lost_file_is_written_whole(tmp_path):
    path = tmp_path / "log.csv"
    path.write_bytes(b"\xff\xfe\x00")
    with pytest.raises(AliveError, match="not a log of numbers"):
        CsvSink(path)
    path.unlink()
    sink = CsvSink(path)
    sink.log({"loss": 1.0}, 1)
    with pytest.raises(AliveError, match=r"a step is a whole number, got 1.5"):
        sink.log({"loss": 1.0}, 1.5)
    path.unlink()
    sink.log({"loss": 0.5}, 2)
    assert path.read_text().splitlines() == ["step,loss", "1,1.0", "2,0.5"]


def test_a_probe_is_checked_when_it_is_made(tmp_path):
    with pytest.raises(AliveError, match="did you mean 'gradient'"):
        Probe(torch.zeros(2, 2), gradeint=True)
    with pytest.raises(AliveError, match=r"every is a whole number from 1 on, got 1.5"):
        Probe(torch.zeros(2, 2), every=1.5)
    one = Probe(torch.randn(8, 2), sinks=CsvSink(tmp_path / "log.csv"))
    one.look(torch.nn.Sequential(torch.nn.Linear(2, 3), torch.nn.ReLU()), 1)
    assert (tmp_path / "log.csv").read_text().count("\n") == 2


def test_csv_goes_on_where_a_run_was_resumed(tmp_path):
    path = tmp_path / "log.csv"
    log(CsvSink(path))
    path.write_text(path.read_text() + "9,0.1")  # torn
    sink = CsvSink(path)
    sink.log({"loss": 1.0}, 3)
    sink.log({"new": float("nan")}, 4)
    assert path.read_text().splitlines() == ["step,loss,alive/dead_units,new", "0,0.5,3.0,", "3,1.0,,", "4,,,nan"]


def test_csv_refuses_other_files(tmp_path):
    (tmp_path / "mine.csv").write_text("a,b\n1,2\n")
    with pytest.raises(AliveError, match="is not a log of numbers"):
        CsvSink(tmp_path / "mine.csv")
    with pytest.raises(AliveError, match="cannot write"):
        CsvSink(tmp_path / "nowhere" / "log.csv")
    with pytest.raises(AliveError, match="'name' is 'x', and a log takes numbers"):
        CsvSink(tmp_path / "log.csv").log({"name": "x"}, 0)


def test_tensorboard(tmp_path):
    pytest.importorskip("tensorboard")
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    log(TensorBoardSink(tmp_path))
    read = EventAccumulator(str(tmp_path)).Reload()
    assert [(e.step, e.value) for e in read.Scalars("loss")] == [(0, 0.5), (7, 0.25)]
    assert [(e.step, e.value) for e in read.Scalars("alive/dead_units")] == [(0, 3.0), (7, 0.0)]


def test_mlflow(tmp_path, monkeypatch):
    pytest.importorskip("mlflow")
    from mlflow.tracking import MlflowClient

    monkeypatch.setenv("MLFLOW_ALLOW_FILE_STORE", "true")
    uri = (tmp_path / "runs").as_uri()
    sink = MlflowSink(uri)
    log(sink)
    client = MlflowClient(tracking_uri=uri)
    assert [(m.step, m.value) for m in client.get_metric_history(sink.run_id, "loss")] == [(0, 0.5), (7, 0.25)]
    assert client.get_run(sink.run_id).info.status == "FINISHED"
    again = MlflowSink(uri, run_id=sink.run_id)
    again.log({"loss": 0.125}, 8)
    assert len(client.get_metric_history(sink.run_id, "loss")) == 3


def test_wandb_offline(tmp_path):
    wandb = pytest.importorskip("wandb")
    sink = WandbSink(project="alive", mode="offline", dir=str(tmp_path), settings=wandb.Settings(silent=True))
    log(sink)
    wanted = (b"alive/dead_units", b"loss", b"0.5", b"0.25")
    file = next(tmp_path.rglob("*.wandb"))  # what `wandb sync` would send
    for _ in range(300):  # finish() returns before the service of wandb, a process of its own, has written all
        if all(text in file.read_bytes() for text in wanted):
            break
        time.sleep(0.1)
    assert all(text in file.read_bytes() for text in wanted)


def test_trackio(tmp_path, monkeypatch):
    pytest.importorskip("trackio", reason="trackio needs pillow<13, and our pins have 13; see docs/integrations.md")
    monkeypatch.setenv("TRACKIO_DIR", str(tmp_path))
    code = f"""
import json
from alive.integrations.sinks import TrackioSink
with TrackioSink(project="alive", name="run") as sink:
    for numbers, step in {LOGGED!r}:
        sink.log(numbers, step)
import trackio
from trackio.sqlite_storage import SQLiteStorage
rows = SQLiteStorage.get_logs("alive", "run")
names = ("loss", "alive/dead_units")
print("ROWS" + json.dumps([[{{k: row[k] for k in names}}, row["step"]] for row in rows]))
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False, timeout=120)
    assert done.returncode == 0, done.stderr
    rows = json.loads(done.stdout.split("ROWS")[1].splitlines()[0])
    assert [tuple(row) for row in rows] == [tuple(row) for row in LOGGED]


@pytest.mark.parametrize("kind", [WandbSink, MlflowSink, TrackioSink])
def test_a_package_that_is_missing_is_named(kind, monkeypatch):
    for name in ("wandb", "mlflow", "mlflow.tracking", "trackio"):
        monkeypatch.setitem(sys.modules, name, None)
    with pytest.raises(AliveError, match=r"is not installed.*pip install"):
        kind()


def test_our_own_loop_takes_a_sink(tmp_path):
    data, model = moons(), Rectangular(2, 1, depth=2, width=4)
    with Jumpstart(model) as keep:
        result = train(model, data, Settings(epochs=3), keep=keep, loggers=[Rows(CsvSink(tmp_path / "log.csv"))])
    with (tmp_path / "log.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert [float(row["penalty"]) for row in rows] == [row.penalty for row in result.rows]


def test_a_probe_looks_when_it_is_time():
    model = Rectangular(2, 1, depth=2, width=4)
    with pytest.raises(AliveError, match="every is a whole number"):
        Probe(torch.randn(5, 2), every=0)
    probe = Probe(torch.randn(5, 2), every=3)
    assert [bool(probe.look(model, step)) for step in range(1, 7)] == [False, False, True, False, False, True]
    assert probe.look(model, 4, always=True)["alive/units"] == 8
