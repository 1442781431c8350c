"""A real Ray cluster of two nodes on this machine, one of which is killed: the rows are those of a local run."""

from __future__ import annotations

import importlib
import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections import Counter
from contextlib import suppress

import pytest
import test_local_run
import test_nets
from paths import with_tests
from test_local_run import SECONDS, stored, stored_by_a_plain_run

from alive.errors import AliveError
from alive.train import Settings
from alive_papers.experiments import Cell
from alive_papers.net import Net
from alive_papers.run import Bar, Store, run, run_on_ray
from alive_papers.run.ray import driver, join
from alive_papers.run.ray.worker import train

ray = pytest.importorskip("ray", reason="Ray is not installed; pip install '.[ray]'")
# Ray leaves its node processes to their own end, which Python tells of as a subprocess that is still running.
pytestmark = pytest.mark.filterwarnings(
    "ignore:subprocess .* is still running:ResourceWarning", "ignore:unclosed file:ResourceWarning"
)


LOCAL = """
import sys
from pathlib import Path
from alive_papers.run import Store, run
from test_ray_run import fleets
with Store(Path(sys.argv[1])) as store:
    print("ready", flush=True)
    print(run(fleets(), store, threads=1), flush=True)
"""


def cells():
    """Several fleets, and a few nets."""
    return fleets() + test_nets.cells(2, epochs=10)


def fleets():
    return test_local_run.cells()[::2]


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory):
    return stored_by_a_plain_run(cells(), tmp_path_factory)


@pytest.fixture(scope="module")
def cluster():
    """A head with one core; it sees within seconds that another node is gone."""
    from ray.cluster_utils import Cluster

    quick = {"health_check_initial_delay_ms": 0, "health_check_period_ms": 500, "health_check_failure_threshold": 4}
    head = {"num_cpus": 1, "object_store_memory": 80 * 2**20, "include_dashboard": False, "_system_config": quick}
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("RAY_USAGE_STATS_ENABLED", "0")
        patch.setenv("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")
        patch.setenv("OMP_NUM_THREADS", "1")
        made = Cluster(initialize_head=True, head_node_args=head)
        yield made
        made.shutdown()


@pytest.fixture(scope="module")
def connected(cluster):
    """This process on the cluster, where it stays whatever the runs do, so that workers are warm."""
    ray.init(cluster.address, log_to_driver=False, logging_level="critical")
    yield
    assert ray.is_initialized()
    ray.shutdown()


class Book:
    """A file in which workers note what they begin and what they bring to its end."""

    def __init__(self, path):
        self.path = path
        path.touch()

    def keeping(self):
        """The task, with its notes; made here so that it travels to the workers by value."""
        path = str(self.path)

        def noting(job, post=None):
            import ray

            def note(what):
                node = ray.get_runtime_context().get_node_id()
                lines = [f"{what} {node} {os.getpid()} {cell.key}\n" for cell in job.cells]
                with open(path, "a") as file:
                    file.write("".join(lines))

            note("begun")
            done = train(job, post)
            note("done")
            return done

        return noting

    def lines(self, what):
        """(node, process, key) of what was begun, or done."""
        return [tuple(line.split()[1:]) for line in self.path.read_text().splitlines() if line.split()[0] == what]


def kill_midway(cluster, node, book, path):
    """Kill all processes of a node at once, as soon as a row is stored and the node is in the middle of a task.

    They are stopped before it is looked again, since on a busy machine a task may end between the look and the kill.
    """

    def under_way():
        begun, done = ({line for line in book.lines(what) if line[0] == node.node_id} for what in ("begun", "done"))
        return begun, begun - done

    end = time.monotonic() + SECONDS
    while time.monotonic() < end:
        begun, open_ = under_way()
        if open_ and stored(path):
            tell(begun, signal.SIGSTOP)
            time.sleep(0.1)  # until they stand still, and what they had written is there to be read
            if under_way()[1] & open_:
                break
            tell(begun, signal.SIGCONT)
        time.sleep(0.01)
    tell(begun, signal.SIGKILL)
    cluster.remove_node(node, allow_graceful=False)


def tell(lines, sign):
    """Send a signal to the processes of these lines, as far as they are there."""
    for process in {int(line[1]) for line in lines}:
        with suppress(ProcessLookupError):
            os.kill(process, sign)


class Told(Bar):
    """A bar that remembers what it was told."""

    def __init__(self):
        super().__init__(show=False)
        self.parts = []

    def within(self, cost, networks, rate):
        self.parts.append(cost)
        super().within(cost, networks, rate)


@pytest.mark.twin
def test_a_node_is_killed_midway_and_the_rows_are_those_of_a_local_run(
    tmp_path, cluster, connected, undisturbed, monkeypatch, capfd
):
    path, book, bar = tmp_path / "s.sqlite", Book(tmp_path / "book"), Told()
    monkeypatch.setattr(driver, "train", book.keeping())
    node = cluster.add_node(num_cpus=1, object_store_memory=80 * 2**20)
    with Store(path) as store:
        killer = threading.Thread(target=kill_midway, args=(cluster, node, book, path))
        killer.start()
        assert run_on_ray(cells(), store, bar=bar) == len(cells())
        killer.join()
        assert store.claimed() == set()
    begun, done = book.lines("begun"), book.lines("done")
    assert Counter(key for _, _, key in done) == Counter(cell.key for cell in cells()), "each is done once"
    lost = [line for line in begun if line not in done]
    assert lost, "the node was in the middle of a task"
    assert {line[0] for line in lost} == {node.node_id}
    assert {line[0] for line in done} <= {cluster.head_node.node_id, node.node_id}
    assert stored(path) == undisturbed
    assert bar.parts, "the bar was told; how much of it comes live depends on how soon the post office opens"
    assert capfd.readouterr() == ("", ""), "of the death of the node nothing is printed"


def test_ctrl_c_keeps_what_is_finished_and_a_local_run_goes_on(tmp_path, connected, undisturbed):
    path, over = tmp_path / "s.sqlite", threading.Event()

    def interrupt():
        while not over.wait(0.02):
            if stored(path):
                os.kill(os.getpid(), signal.SIGINT)
                return

    hand = threading.Thread(target=interrupt)
    with Store(path) as store:
        hand.start()
        with pytest.raises(KeyboardInterrupt, match="the same command goes on from there"):
            run_on_ray(fleets(), store)
        over.set()
        hand.join()
        before = stored(path, "key, finished")
        assert store.claimed() == set()
        assert 0 < len(before) < len(fleets())
        assert run(fleets(), store, threads=1) == len(fleets()) - len(before)
    assert set(before) <= set(stored(path, "key, finished"))
    keys = {cell.key for cell in fleets()}
    assert stored(path) == [row for row in undisturbed if row[0] in keys]


def test_a_local_process_shares_the_work(tmp_path, connected, undisturbed):
    path = tmp_path / "s.sqlite"
    environment = os.environ | {"PYTHONPATH": with_tests(), "OMP_NUM_THREADS": "1"}
    command = [sys.executable, "-c", LOCAL, str(path)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment) as process, Store(path) as store:
        assert process.stdout.readline() == "ready\n"
        trained = run_on_ray(fleets(), store)
        out, _ = process.communicate(timeout=SECONDS)
    assert trained + int(out) == len(fleets())
    keys = {cell.key for cell in fleets()}
    assert stored(path) == [row for row in undisturbed if row[0] in keys]


def test_the_command(alive, connected):
    code, out, _ = alive("reproduce", "001-T1", "--on", "ray")
    assert code == 0
    assert "not decided" in out


def test_what_goes_wrong_in_a_worker_is_said_here(tmp_path, connected, monkeypatch):
    wrong = Cell(
        Net("rectangle", 3, 4, "ReLU", options=(("head", "none"),), training=Settings(batch_size=500)),
        "digits",
        points=300,
    )
    with Store(tmp_path / "s.sqlite") as store:
        with pytest.raises(AliveError, match="batch_size 500 is larger than the 300") as caught:
            run_on_ray([wrong], store)
        assert type(caught.value) is AliveError
        for task, said in ((hungry(), "no memory left to train"), (other(), "a worker has torch 0.0, unlike")):
            monkeypatch.setattr(driver, "train", task)
            with pytest.raises(AliveError, match=said):
                run_on_ray(test_local_run.cells()[:1], store)
        assert store.claimed() == set()
        assert stored(tmp_path / "s.sqlite") == []


def hungry():
    def task(job, post=None):
        import numpy as np

        from alive_papers import engines
        from alive_papers.run.ray.worker import train

        with pytest.MonkeyPatch.context() as patch:  # the worker lives on, and trains for others
            patch.setattr(engines, "train_fleet", lambda *_, **__: np.ones(2**60, np.uint8))
            return train(job, post)

    return task


def other():
    def task(job, post=None):
        from alive_papers.run.machine import versions
        from alive_papers.run.ray.worker import Done

        return Done([], 0.0, versions() | {"torch": "0.0"}, {})

    return task


def on_another_machine():
    def task(job, post=None):
        from dataclasses import replace

        from alive_papers.run.ray.worker import train

        return replace(train(job, post), hardware={"processor": "of the worker", "cores": 64})

    return task


def test_rows_name_the_hardware_of_their_worker(tmp_path, connected, monkeypatch):
    monkeypatch.setattr(driver, "train", on_another_machine())
    with Store(tmp_path / "s.sqlite") as store:
        assert run_on_ray(fleets()[:2], store) == 2
        (made,) = store.made_on()
    assert (made["processor"], made["cores"]) == ("of the worker", 64)


def killed():
    def task(job, post=None):
        import os
        import signal

        os.kill(os.getpid(), signal.SIGKILL)

    return task


def test_a_task_that_always_dies_ends_the_run_with_a_word(tmp_path, connected, monkeypatch):
    monkeypatch.setattr(driver, "DEATHS", 2)
    monkeypatch.setattr(driver, "train", killed())
    with (
        Store(tmp_path / "s.sqlite") as store,
        pytest.raises(AliveError, match=r"2 workers died .*memory ran out, while they trained ReLU 8x2 and 1 more;"),
    ):
        run_on_ray(fleets()[:2], store)


def test_a_worker_without_alive_is_said(tmp_path, connected, monkeypatch):
    (tmp_path / "only_here.py").write_text("def task(job, post=None): ...\n")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(driver, "train", importlib.import_module("only_here").task)
    with (
        Store(tmp_path / "s.sqlite") as store,
        pytest.raises(AliveError, match=r"a worker cannot load alive .*only_here.* Install the same alive"),
    ):
        run_on_ray(fleets()[:1], store)


def test_an_address_where_nobody_answers_is_said_at_once(alive):
    with socket.socket() as nobody:
        nobody.bind(("127.0.0.1", 0))  # bound, but it does not listen
        address = f"127.0.0.1:{nobody.getsockname()[1]}"
        code, _, err = alive("reproduce", "001-T1", "--on", "ray", "--address", address)
    assert code == 2
    assert f"no Ray cluster answers at {address}" in err
    assert "Traceback" not in err


def test_the_address_in_the_environment_is_called_first(tmp_path):
    with socket.socket() as nobody:
        nobody.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{nobody.getsockname()[1]}"
        command = [sys.executable, "-m", "alive", "reproduce", "001-T1", "--on", "ray"]
        done = subprocess.run(
            command,
            cwd=tmp_path,
            env=os.environ | {"RAY_ADDRESS": address},
            capture_output=True,
            text=True,
            check=False,
        )
    assert done.returncode == 2
    assert done.stderr.startswith(f"alive: no Ray cluster answers at {address} ")
    assert done.stderr.count("\n") == 1


def test_a_head_that_answers_no_more_is_said(monkeypatch):
    monkeypatch.setattr(join, "GONE", 0.3)
    monkeypatch.setattr(join, "AGAIN", 0.1)
    with socket.create_server(("127.0.0.1", 0)) as head:
        address = f"ray://127.0.0.1:{head.getsockname()[1]}"
        watched = join.Head(None, address)
        for _ in range(3):
            watched.expect_there()
    begun = time.monotonic()
    with pytest.raises(AliveError, match=rf"the head of the Ray cluster at {address} is gone \(Connection refused\)"):
        watched.expect_there()
    assert 0.2 < time.monotonic() - begun < 5


def test_lines_of_compiled_code_are_not_heard_and_those_of_python_are():
    code = (
        "import os, sys\nfrom alive_papers.run.ray.join import _muffled\n"
        "with _muffled():\n    os.write(2, b'C++ says\\n')\n    print('we say', file=sys.stderr)\n"
        "    os.system('echo a child says >&2')\n"
        "os.write(2, b'C++ again\\n')\nprint('we again', file=sys.stderr)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stderr.split("\n") == ["we say", "C++ again", "we again", ""]
    closed = subprocess.run([sys.executable, "-c", f"import os\nos.close(2)\n{code}"], capture_output=True, check=False)
    assert closed.stderr == b""


HEAD = """
import json, sys
from ray.cluster_utils import Cluster
head = {"num_cpus": 1, "object_store_memory": 80 * 2**20, "include_dashboard": False}
made = Cluster(initialize_head=True, head_node_args=head)
numbers = [each.process.pid for some in made.head_node.all_processes.values() for each in some]
print(json.dumps([made.address, numbers]), flush=True)
sys.stdin.read()
"""


@pytest.mark.slow
def test_a_head_that_is_killed_midway_is_said_in_seconds_without_lines_of_ray(tmp_path):
    quiet = os.environ | {"RAY_USAGE_STATS_ENABLED": "0", "OMP_NUM_THREADS": "1"}
    numbers = []
    head = subprocess.Popen(
        [sys.executable, "-c", HEAD],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        env=quiet,
    )
    try:
        address, numbers = json.loads(head.stdout.readline())
        command = [sys.executable, "-m", "alive", "reproduce", "004-Fig2", "--on", "ray", "--address", address]
        running = subprocess.Popen(
            command, cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=quiet
        )
        end = time.monotonic() + 2 * SECONDS
        while not ((tmp_path / "alive.sqlite").exists() and stored(tmp_path / "alive.sqlite")):
            assert time.monotonic() < end
            assert running.poll() is None, running.communicate()
            time.sleep(0.1)
        for number in numbers:
            os.kill(number, signal.SIGKILL)
        begun = time.monotonic()
        out, err = running.communicate(timeout=60)
        assert time.monotonic() - begun < 30
        assert (running.returncode, out) == (2, "")
        said = [line for line in err.splitlines() if "networks" not in line]
        assert len(said) == 1, err
        assert f"the head of the Ray cluster at {address} is gone" in said[0]
        assert stored(tmp_path / "alive.sqlite"), "finished rows are kept"
    finally:
        head.kill()
        head.communicate()
        for number in numbers:
            with suppress(ProcessLookupError):
                os.kill(number, signal.SIGKILL)


@pytest.mark.parametrize(
    ("args", "said"),
    [
        (("--on", "rai"), "unknown place to run 'rai'. did you mean 'ray'?"),
        (("--address", "auto"), "only a Ray cluster has an address; add --on ray"),
        (("--on", "ray", "--address", "nowhere"), "'nowhere' is not an address of a Ray cluster"),
        (("--on", "ray", "--address", "127.0.0.1:99999"), "no Ray cluster answers"),
        (("--on", "ray", "--threads", "0"), "threads must be at least 1"),
    ],
)
def test_what_is_refused_is_said(alive, args, said):
    code, _, err = alive("reproduce", "001-T1", *args)
    assert code == 2
    assert said in err


def test_without_ray_the_install_line_is_said(alive, monkeypatch):
    monkeypatch.setitem(sys.modules, "ray", None)
    code, _, err = alive("reproduce", "001-T1", "--on", "ray")
    assert code == 2
    assert 'pip install "alive-papers[ray]"' in err


@pytest.mark.slow
def test_the_command_joins_and_leaves_a_cluster_and_is_quiet(tmp_path, cluster):
    command = [sys.executable, "-m", "alive", "reproduce", "001-T1", "--on", "ray"]
    for where in (["--address", cluster.address], []):
        done = subprocess.run(
            [*command, *where, "--store", f"{len(where)}.sqlite"],
            cwd=tmp_path, capture_output=True, text=True, check=False, timeout=SECONDS,
        )  # fmt: skip
        assert done.returncode == 0, done.stderr
        assert "not decided" in done.stdout
        assert "ray" not in done.stdout
        assert done.stderr == ""
    assert stored(tmp_path / "0.sqlite") == stored(tmp_path / "2.sqlite")


@pytest.mark.slow
def test_an_address_of_another_program_is_said_in_bounded_time(tmp_path):
    """Half a minute: the other end takes the call, and never says a word of Ray."""
    with socket.create_server(("", 0)) as mute:
        address = f"127.0.0.1:{mute.getsockname()[1]}"
        command = [sys.executable, "-m", "alive", "reproduce", "001-T1", "--on", "ray", "--address", address]
        done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False, timeout=120)
    assert done.returncode == 2
    assert f"Ray cannot be joined at '{address}'" in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.slow
def test_when_the_nodes_have_no_memory_left_it_is_said(tmp_path, monkeypatch):
    """Ray's own watch of the memory, set so low that it kills every worker."""
    monkeypatch.setenv("RAY_memory_usage_threshold", "0.001")
    monkeypatch.setenv("RAY_memory_monitor_refresh_ms", "100")
    monkeypatch.setattr(driver, "DEATHS", 2)
    with (
        Store(tmp_path / "s.sqlite") as store,
        pytest.raises(AliveError, match="2 workers ran out of memory while they trained"),
    ):
        run_on_ray(test_nets.cells(2, epochs=1000)[:1], store, threads=1)
