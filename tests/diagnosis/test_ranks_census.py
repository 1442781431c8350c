"""The census of two real processes, each with its part of the data, against the census of one that has all of it."""

import json
import sys
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path

import pytest
import torch
from planted import counted, signals
from torch import Tensor, distributed, nn

from alive.diagnosis import Census, census
from alive.diagnosis.gathered import gather
from alive.errors import AliveError


def network() -> nn.Module:
    """Half dead: biases far down, so that units and points of every state are met."""
    torch.manual_seed(3)
    net = nn.Sequential(nn.Linear(3, 8), nn.ReLU(), nn.Linear(8, 4), nn.ReLU(), nn.Linear(4, 2))
    with torch.no_grad():
        net[0].bias.sub_(0.7)
        net[2].bias.copy_(torch.tensor([-9.0, 9.0, 0.0, -0.1]))
    return net


def data() -> Tensor:
    return torch.randn(1101, 3, generator=torch.Generator().manual_seed(4))


def record(found: Census) -> dict[str, object]:
    ends = {layer.name: [layer.top.tolist(), layer.bottom.tolist()] for layer in found.layers}
    rates = {layer.name: [layer.rates.on.tolist(), layer.rates.met.tolist()] for layer in found.layers}
    told = {"ends": ends, "rates": rates, "signals": signals(found.to_dict())}
    return json.loads(json.dumps(counted(found.to_dict()) | told))


def main(rank: int, folder: Path) -> None:
    distributed.init_process_group(
        "gloo", init_method=f"file://{folder}/meet", rank=rank, world_size=2, timeout=timedelta(seconds=60)
    )
    own = data().split((1000, 101))[rank]
    net = network()
    both = gather(census(net, list(own.split(64)), keep_points=True))
    one = gather(census(net, own, keep_points=True) if rank == 0 else None)
    try:
        gather(None)
        refused = ""
    except AliveError as error:
        refused = str(error)
    told = {"both": record(both), "one": record(one), "refused": refused}
    (folder / f"{rank}.json").write_text(json.dumps(told))
    distributed.barrier()
    distributed.destroy_process_group()


@pytest.fixture(scope="module")
def told(two_ranks: Callable[[str], list[dict[str, object]]]) -> list[dict[str, object]]:
    return two_ranks(__file__)


@pytest.mark.twin
def test_two_ranks_count_what_one_process_counts(told) -> None:
    # In batches of the same points: a row's result may differ in its last bit with the shape of the batch.
    first, second = data().split((1000, 101))
    whole = census(network(), [*first.split(64), *second.split(64)], keep_points=True)
    assert min(whole.units[:3]) > 0
    assert whole.points.dead > 0
    for rank in told:
        ours, theirs = rank["both"], record(whole)
        for one, other in zip(ours.pop("signals"), theirs.pop("signals"), strict=True):
            assert one == pytest.approx(other, rel=1e-3)  # sums round in the order of their parts
        assert ours == theirs


def test_a_rank_may_have_no_points(told) -> None:
    for rank in told:
        assert rank["one"] == record(census(network(), data()[:1000], keep_points=True))
        assert rank["refused"].startswith("no rank has counted anything")


def test_alone_the_census_itself() -> None:
    found = census(network(), data())
    assert gather(found) is found


if __name__ == "__main__":
    torch.set_num_threads(1)
    main(int(sys.argv[1]), Path(sys.argv[2]))
