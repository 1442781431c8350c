"""Preemption: SIGTERM as schedulers send it, to real commands and to the examples for Slurm and Kubernetes."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from alive.train import checkpoint

EXAMPLES = Path(__file__).parents[1] / "examples" / "preemption"
PATIENCE = 120.0  # seconds for what takes some


def begin(words: list[str], folder: Path, **more: str) -> subprocess.Popen[str]:
    environment = os.environ | {"OMP_NUM_THREADS": "1", "PATH": f"{folder / 'bin'}:{os.environ['PATH']}"} | more
    return subprocess.Popen(
        words, cwd=folder, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )


def command(folder: Path, name: str, text: str) -> None:
    """A command on the path of what `begin` begins."""
    (folder / "bin").mkdir(exist_ok=True)
    (folder / "bin" / name).write_text(f"#!/bin/bash\n{text}\n")
    (folder / "bin" / name).chmod(0o755)


def until(holds, running: subprocess.Popen[str]) -> None:
    end = time.monotonic() + PATIENCE
    while not holds():
        assert running.poll() is None, running.communicate()
        assert time.monotonic() < end, "waited in vain"
        time.sleep(0.02)


def standing(path: Path) -> tuple[int, int]:
    place = checkpoint.load(path).about["place"]
    return place["epoch"], place["step"]


@pytest.mark.skipif(os.name == "nt", reason="a shell script")
def test_the_slurm_script_saves_requeues_and_goes_on(tmp_path: Path) -> None:
    command(tmp_path, "alive", f'exec {sys.executable} -m alive "$@"')
    command(tmp_path, "srun", 'exec "$@"')  # which passes signals on, as srun does
    command(tmp_path, "scontrol", f'echo "$@" >> {tmp_path}/requeued')
    path, script = tmp_path / "run.safetensors", str(EXAMPLES / "train.slurm")
    first = begin(["bash", script], tmp_path, SLURM_JOB_ID="42")
    until(path.exists, first)
    time.sleep(0.5)
    first.send_signal(signal.SIGTERM)  # to the shell alone: --signal=B:TERM@60
    _, err = first.communicate(timeout=PATIENCE)
    assert first.returncode == 143, err
    assert (tmp_path / "requeued").read_text() == "requeue 42\n"
    assert "there is no checkpoint run.safetensors yet: training begins" in err
    assert err.count("\nalive: terminated: stopped in epoch ") == 1
    assert "Traceback" not in err
    epoch, _ = standing(path)
    again = begin(["bash", script], tmp_path, SLURM_JOB_ID="42", EPOCHS=str(epoch + 5))
    _, err = again.communicate(timeout=PATIENCE)
    assert again.returncode == 0, err
    assert standing(path) == (epoch + 5, 0)
    assert "training begins" not in err
    assert (tmp_path / "requeued").read_text() == "requeue 42\n"


@pytest.mark.hostile
@pytest.mark.skipif(os.name == "nt" or not hasattr(os, "geteuid") or os.geteuid() != 0, reason="needs its own PIDs")
def test_the_kubernetes_command_ends_within_its_grace_as_process_1(tmp_path: Path) -> None:
    yaml = pytest.importorskip("yaml")
    pod = yaml.safe_load((EXAMPLES / "train.yaml").read_text())["spec"]["template"]["spec"]
    words, path = pod["containers"][0]["command"], tmp_path / "run.safetensors"
    command(tmp_path, "alive", f'exec {sys.executable} -m alive "$@"')
    before = (0, 0)
    for _ in range(2):
        running = begin(["unshare", "--pid", "--fork", "--mount-proc", *words], tmp_path)
        until(path.exists, running)
        time.sleep(8)
        child = Path(f"/proc/{running.pid}/task/{running.pid}/children").read_text().split()[0]
        began = time.monotonic()
        os.kill(int(child), signal.SIGTERM)
        _, err = running.communicate(timeout=pod["terminationGracePeriodSeconds"])
        assert time.monotonic() - began < pod["terminationGracePeriodSeconds"]
        assert running.returncode == 143, err
        assert "alive: terminated: stopped in epoch" in err
        assert standing(path) > before
        before = standing(path)


OWN = """
import signal, sys, torch
from pathlib import Path
from alive.data import moons
from alive.nn import Rectangular
from alive.train import Settings, train
if sys.argv[1] == "own":
    signal.signal(signal.SIGTERM, lambda *_: print("mine", Path("run").exists(), flush=True))
def at(epoch, model):
    if epoch == 3:
        Path("run").unlink()
        signal.raise_signal(signal.SIGTERM)
net = Rectangular(2, 1, depth=2, width=4, generator=torch.Generator().manual_seed(0))
train(net, moons(), Settings(epochs=6), checkpoint="run", resume=True, on_epoch=at)
print("went on")
"""


@pytest.mark.parametrize(
    ("answer", "code", "out", "err"),
    [("none", 143, "", "alive: terminated: stopped in epoch 4 after step 0; saved in run\n"),
     ("own", 0, "mine True\nwent on\n", "")],
)  # fmt: skip
def test_a_script_of_ones_own_saves_then_ends_or_gives_its_own_answer(
    tmp_path: Path, answer: str, code: int, out: str, err: str
) -> None:
    done = begin([sys.executable, "-c", OWN, answer], tmp_path)
    assert done.communicate(timeout=PATIENCE) == (out, err)
    assert done.returncode == code
    assert standing(tmp_path / "run")[0] == (4 if code else 6)


BUSY = """
import ctypes, signal, sys, threading, time
from alive.interrupts import Interrupts
interrupts = Interrupts()
interrupts.listen()
interrupts.work()
threading.Timer(0.5, lambda: signal.pthread_kill(threading.main_thread().ident, signal.SIGTERM)).start()
libc = ctypes.CDLL(None)
end = time.monotonic() + 20
while time.monotonic() < end:  # a call that Python cannot interrupt, and that hears of no signal itself
    lock = ctypes.create_string_buffer(64)
    libc.pthread_mutex_init(lock, None)
    libc.pthread_mutex_lock(lock)
    libc.pthread_mutex_lock(lock)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="by a lock of the C library")
def test_where_python_does_not_hear_in_time_it_ends_all_the_same(tmp_path: Path) -> None:
    began = time.monotonic()
    done = subprocess.run([sys.executable, "-c", BUSY], capture_output=True, text=True, timeout=30, check=False)
    assert (done.returncode, done.stderr) == (143, "alive: terminated\n")
    assert time.monotonic() - began < 10


@pytest.mark.parametrize(
    ("left", "goes"),
    [(".a.json.{dead}.part", True), (".a.json.{host}-{dead}.part", True), (".a.json.{host}-{dead}.probe", True),
     (".a.json.{host}-{alive}.part", False), (".a.json.0123abcd-{dead}.part", False),
     (".a.json.0123abcd-{dead}.part old", True), (".b.json.{dead}.part", False), (".a.json.12345678.part", False)],
)  # fmt: skip
def test_what_killed_processes_left_is_swept(tmp_path: Path, left: str, goes: bool) -> None:
    from alive.files import write_atomically
    from alive.processes import host

    gone = subprocess.Popen([sys.executable, "-c", ""])
    gone.wait()
    name, _, old = left.format(dead=gone.pid, alive=os.getppid(), host=host()[:8]).partition(" ")
    (tmp_path / name).write_bytes(b"half")
    if old:
        os.utime(tmp_path / name, (time.time() - 3600,) * 2)
    write_atomically(tmp_path / "a.json", b"{}")
    assert (tmp_path / name).exists() is not goes
    assert (tmp_path / "a.json").read_bytes() == b"{}"
