"""Two processes started by torchrun against one: the same steps, and no waiting for a rank that failed."""

import json
import os
import subprocess
import sys
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
import torch
from test_tasks import expect_as_one, shared
from torch import nn

from alive.data import moons
from alive.errors import AliveError
from alive.nn import Rectangular
from alive.penalties import Jumpstart
from alive.train import Settings, accuracy, task_loss, train
from alive.train.ranks import Ranks, join_ranks

SETTINGS = Settings(epochs=3, batch_size=17, optimiser="sgd", lr=0.1)  # five batches, each of 9 and 8 points
RULE = {"mode": "UP", "aggregate": "norm"}


def network() -> nn.Module:
    return Rectangular(2, 1, depth=4, width=5, generator=torch.Generator().manual_seed(2)).double()


def steps(ranks: Ranks) -> dict[str, list[float]]:
    """SETTINGS by hand: the mean loss and the penalty of each epoch, accuracy and weights after the last."""
    data, net = moons(), network()
    x, y = data.train_x.double(), data.train_y
    shared = ranks.wrap(net)
    optimiser = torch.optim.SGD(net.parameters(), lr=SETTINGS.lr, momentum=SETTINGS.momentum)
    losses, penalties = [], []
    with Jumpstart(shared, 1e-2, **RULE) as keep:  # type: ignore[arg-type]
        for _ in range(SETTINGS.epochs):
            loss = penalised = 0.0
            for numbers in torch.arange(len(y)).split(SETTINGS.batch_size or len(y)):
                own = ranks.shard(numbers)
                sizes = {"own": len(own), "total": len(numbers)}
                optimiser.zero_grad()
                task = task_loss(shared(x[own]), y[own])
                penalty = keep.penalty()
                (ranks.share(task, **sizes) + penalty).backward()
                optimiser.step()
                loss += ranks.mean(task.item(), **sizes) * len(numbers) / len(y)
                penalised += penalty.item() * len(numbers) / len(y)
            losses.append(loss)
            penalties.append(penalised)
    own_x, own_y = ranks.shard(x), ranks.shard(y)
    right = ranks.mean(accuracy(net(own_x), own_y), own=len(own_y), total=len(y))
    weights = torch.cat([p.flatten() for p in net.parameters()]).tolist()
    return {"loss": losses, "penalty": penalties, "accuracy": [right], "weights": weights}


def main(folder: Path, what: str) -> None:
    torch.set_num_threads(1)
    with join_ranks(patience=timedelta(seconds=60)) as ranks:
        if what == "fail":
            if ranks.rank == 1:
                raise AliveError("rank 1 has had enough")
            ranks.sum(1.0)  # would wait for the other for ever
        found: dict[str, object] = {**steps(ranks), "any": ranks.any(ranks.rank == 1), "none": ranks.any(False)}
        found["nan"] = str(ranks.mean(float("nan") if ranks.rank else 1.0, own=1, total=2))
        found["seed"] = ranks.seed(7)
        found["tasks"] = shared(ranks)
        (folder / f"{ranks.rank}.json").write_text(json.dumps(found))


def torchrun(folder: Path, what: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2"]
    env = os.environ | {"OMP_NUM_THREADS": "1", "GLOO_SOCKET_IFNAME": "lo"}
    return subprocess.run(
        [*command, __file__, str(folder), what], env=env, timeout=150, capture_output=True, text=True, check=False
    )


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> list[dict[str, Any]]:
    folder = tmp_path_factory.mktemp("ranks")
    done = torchrun(folder, "train")
    if "terminate called without an active exception" in done.stderr:  # torch's threads, at times, as a process ends
        done = torchrun(folder, "train")
    assert done.returncode == 0, done.stderr
    return [json.loads((folder / f"{rank}.json").read_text()) for rank in range(2)]


@pytest.mark.twin
def test_two_ranks_make_the_steps_of_the_loop(trained: list[dict[str, Any]]) -> None:
    net = network()
    with Jumpstart(net, 1e-2, **RULE) as keep:  # type: ignore[arg-type]
        result = train(net, moons(), SETTINGS, keep=keep)
    weights = torch.cat([p.flatten() for p in net.parameters()]).tolist()
    first, second = trained
    assert first["weights"] == second["weights"]
    for found in (first, second):
        assert found["loss"] == pytest.approx([row.loss for row in result.rows], abs=1e-10)
        assert found["penalty"] == pytest.approx([row.penalty for row in result.rows], abs=1e-10)
        assert found["accuracy"] == pytest.approx([result.rows[-1].train_accuracy])
        assert found["weights"] == pytest.approx(weights, abs=1e-10)
        assert (found["any"], found["none"], found["nan"]) == (True, False, "nan")
    assert first["seed"] == 7 != second["seed"]


@pytest.mark.twin
def test_two_ranks_train_every_task_as_one(trained: list[dict[str, Any]]) -> None:
    first, second = trained
    assert first["tasks"] == second["tasks"]
    expect_as_one(first["tasks"])


def test_one_rank_that_fails_ends_all(tmp_path: Path) -> None:
    done = torchrun(tmp_path, "fail")
    assert done.returncode != 0
    assert "rank 1 has had enough" in done.stderr
    assert not list(tmp_path.iterdir())


def test_shards_are_the_batch() -> None:
    batch = torch.randn(11, 2)
    parts = [Ranks(rank, 4).shard(batch) for rank in range(4)]
    assert [len(part) for part in parts] == [3, 3, 3, 2]
    assert torch.equal(torch.cat(parts), batch)
    with pytest.raises(AliveError, match="1 point cannot be shared by 2 ranks"):
        Ranks(0, 2).shard(batch[:1])


def test_batch_norm_of_a_part_is_refused() -> None:
    net = Rectangular(2, 1, depth=2, width=3, batch_norm=True)
    with pytest.raises(AliveError, match=r"hidden\.0\.norm is a BatchNorm1d.*Train without batch norm, or on one rank"):
        Ranks(0, 2).wrap(net)
    assert Ranks().wrap(net) is net


def test_half_an_environment_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WORLD_SIZE", "2")
    for name in ("RANK", "LOCAL_RANK", "MASTER_ADDR", "MASTER_PORT"):
        monkeypatch.delenv(name, raising=False)
    with pytest.raises(AliveError, match=r"RANK.*torchrun"), join_ranks():
        pass


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2])


@pytest.mark.slow
def test_alive_train_under_torchrun_is_alive_train(tmp_path):
    """The command line on two ranks leaves the log and the checkpoint of one process."""
    arguments = [
        "-m",
        "alive",
        "train",
        "4x5",
        "--epochs",
        "6",
        "--batch-size",
        "20",
        "--jumpstart",
        "UP",
        "--weight",
        "1e-3",
    ]
    logs = {}
    for name, launcher in {
        "one": [sys.executable],
        "two": [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2"],
    }.items():
        files = ["--csv", str(tmp_path / f"{name}.csv"), "--checkpoint", str(tmp_path / f"{name}.safetensors")]
        environment = os.environ | {"OMP_NUM_THREADS": "1"}
        done = subprocess.run(
            [*launcher, *arguments, *files], capture_output=True, text=True, timeout=300, env=environment, check=False
        )
        assert done.returncode == 0, done.stderr
        assert done.stdout.count("train accuracy") == 2, "one rank alone speaks"
        lines = (tmp_path / f"{name}.csv").read_text().splitlines()[1:]
        logs[name] = [[float(value) for value in line.split(",")] for line in lines]
    torch.testing.assert_close(torch.tensor(logs["two"]), torch.tensor(logs["one"]), rtol=1e-5, atol=1e-6)
