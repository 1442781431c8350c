"""Ctrl-C at chosen moments of real commands: one line, exit code 130, nobody left behind."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from alive_papers.run import Store

DRIVER = """
import atexit, os, signal, sys, threading
moment, presses, sys.argv = sys.argv[1], int(sys.argv[2]), ["alive", *sys.argv[3:]]

def press():
    for _ in range(presses):
        signal.raise_signal(signal.SIGINT)

class Pressing:
    def find_spec(self, name, path=None, target=None):
        if name == moment:
            sys.meta_path.remove(self)
            press()

class Late:
    def __del__(self, press=press):  # when Python clears modules away
        press()

sys.meta_path.insert(0, Pressing())
from alive.__main__ import main
if moment == "at exit":
    atexit.register(press)
if moment == "threads at exit":
    def wait():
        threading.main_thread().join()
        press()
    threading.Thread(target=wait).start()
if moment == "after exit":
    late = Late()
main()
"""


def environment():
    return os.environ | {"OMP_NUM_THREADS": "1", "PYTHONUNBUFFERED": "1"}


@pytest.mark.parametrize(
    ("moment", "presses", "command"),
    [
        ("typer", 1, ["reproduce", "001-T1"]),
        ("typer", 2, ["reproduce", "001-T1"]),
        ("torch", 1, ["reproduce", "001-T1"]),
        ("torch", 30, ["census", "5x4"]),
        ("torch", 2, ["demo"]),
        ("alive_papers.fleet.engine", 2, ["reproduce", "001-T1"]),
        ("sklearn.datasets", 2, ["census", "5x4", "--data", "digits"]),
    ],
)
def test_while_it_loads(moment, presses, command, tmp_path):
    done = subprocess.run(
        [sys.executable, "-c", DRIVER, moment, str(presses), *command],
        capture_output=True, text=True, cwd=tmp_path, env=environment(), timeout=120, check=False,
    )  # fmt: skip
    assert done.returncode == 130, done.stderr
    assert done.stderr.startswith("alive: interrupted")
    assert done.stderr.count("\n") == 1, done.stderr
    assert done.stdout == ""


@pytest.mark.parametrize("moment", ["at exit", "threads at exit", "after exit"])
def test_when_all_is_done_it_changes_nothing(moment, tmp_path):
    done = subprocess.run(
        [sys.executable, "-c", DRIVER, moment, "2", "--version"],
        capture_output=True, text=True, cwd=tmp_path, env=environment(), timeout=60, check=False,
    )  # fmt: skip
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith("alive ")


def session(leader):
    """Living processes of a session, by number, with what they run."""
    found = {}
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            state, _, _, number = (folder / "stat").read_text().rpartition(")")[2].split()[:4]
            if int(number) == leader and state != "Z":
                found[int(folder.name)] = (folder / "cmdline").read_text().replace("\0", " ")
        except OSError:  # gone meanwhile
            continue
    return found


def until(holds, seconds=90.0):
    end = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < end, "waited in vain"
        time.sleep(0.02)


@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="processes are listed in /proc")
def test_a_terminal_sends_it_to_workers_too(tmp_path):
    """Pressed twice while they have just begun: they say nothing, and end with their parent."""
    parent = subprocess.Popen(
        [sys.executable, "-m", "alive", "reproduce", "003-T2", "--threads", "2"],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        cwd=tmp_path, env=environment(), start_new_session=True,
    )  # fmt: skip
    try:
        until(lambda: sum("spawn_main" in words for words in session(parent.pid).values()) == 2)
        for _ in range(2):
            os.killpg(parent.pid, signal.SIGINT)
            time.sleep(0.1)
        _, err = parent.communicate(timeout=60)
        assert parent.returncode == 130, err
        said = [line for line in err.splitlines() if line.startswith("alive:")]
        assert len(said) == 1
        assert "the same command goes on from there" in said[0]
        assert "Traceback" not in err
        assert "KeyboardInterrupt" not in err
        until(lambda: not session(parent.pid), seconds=10)
        with Store(tmp_path / "alive.sqlite") as store:
            store.check()
    finally:
        for number in session(parent.pid):
            os.kill(number, signal.SIGKILL)


EXEC = """
import os, signal, sys
sys.argv = ["alive", "--version"]
import alive.cli
def main():
    exec("import signal; signal.raise_signal(signal.%s)")  # as a dataclass is made
alive.cli.main = main
from alive.__main__ import main
main()
"""


@pytest.mark.parametrize(("name", "code"), [("SIGINT", 130), ("SIGTERM", 143)])
def test_the_exit_code_is_ours_wherever_it_came(name, code):
    done = subprocess.run([sys.executable, "-c", EXEC % name], capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stdout, done.stderr.count("alive: ")) == (code, "", 1)


SLOW = """
import signal, sys, time
from alive.interrupts import Interrupts
interrupts = Interrupts()
interrupts.listen()
interrupts.work()
try:
    signal.raise_signal(signal.SIGINT)
except KeyboardInterrupt:
    for _ in range(5):
        signal.raise_signal(signal.SIGINT)  # the same wish
    print("saving", flush=True)
    time.sleep(float(sys.argv[1]))
    signal.raise_signal(signal.SIGINT)
    print("saved", flush=True)
"""


@pytest.mark.parametrize(("pause", "out"), [(0.0, "saving\nsaved\n"), (2.2, "saving\n")])
def test_an_answer_is_not_disturbed_unless_it_takes_too_long(pause, out):
    done = subprocess.run(
        [sys.executable, "-c", SLOW, str(pause)], capture_output=True, text=True, timeout=60, check=False
    )
    assert done.stdout == out
    assert (done.returncode, done.stderr) == ((130, "alive: interrupted\n") if pause else (0, ""))


def test_whoever_asked_for_it_to_be_ignored_is_obeyed():
    """As `nohup` and a shell's & do."""
    code = "import signal; signal.signal(signal.SIGINT, signal.SIG_IGN)\n" + SLOW
    done = subprocess.run([sys.executable, "-c", code, "0"], capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
