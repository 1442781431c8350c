"""The penalty over two real processes against the penalty of one process that has all the points.

The processes run this file; what they measure is kept as JSON and looked at here. Weights and inputs are small
binary fractions, so that float64 sums are exact in any order and ties are ties on every rank.
"""

import copy
import json
import sys
import warnings
from collections.abc import Callable
from contextlib import nullcontext
from datetime import timedelta
from itertools import product
from pathlib import Path

import pytest
import torch
from torch import Tensor, distributed, nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.nn.parallel import DistributedDataParallel
from torch.utils.checkpoint import checkpoint

from alive.errors import AliveError
from alive.functional import AGGREGATES, Separation, parts
from alive.functional.extremes import Axes
from alive.penalties import Jumpstart, collective

SHARDS = {"uneven": (4, 3), "even": (4, 4), "lone": (6, 1), "pair": (1, 1)}
GRID = list(product(("U", "P", "UP", "L"), AGGREGATES, ("split", "single")))


def exact_(module: nn.Module, generator: torch.Generator, *, spread: int = 3) -> nn.Module:
    """Weights and biases k/8, so that many sums of products agree exactly."""
    for p in module.parameters():
        p.data = torch.randint(-spread, spread + 1, p.shape, generator=generator).double() / 8
    return module.double()


def dense(generator: torch.Generator) -> nn.Module:
    return exact_(
        nn.Sequential(nn.Linear(3, 6), nn.ReLU(), nn.Linear(6, 5), nn.ReLU(inplace=True), nn.Linear(5, 2)), generator
    )


def conv(generator: torch.Generator) -> nn.Module:
    parts = nn.Conv2d(1, 4, 3, padding=1), nn.ReLU(inplace=True), nn.Conv2d(4, 3, 3, padding=1), nn.SELU()
    return exact_(nn.Sequential(*parts, nn.Flatten(), nn.Linear(3 * 16, 2)), generator, spread=1)


class Checkpointed(nn.Module):
    def __init__(self, inner: nn.Module) -> None:
        super().__init__()
        self.inner = inner

    def forward(self, x: Tensor) -> Tensor:
        return checkpoint(self.inner, x, use_reentrant=False)  # type: ignore[no-any-return]


class Side(nn.Module):
    """A branch that reaches the penalty alone, and another that reaches nothing."""

    def __init__(self, generator: torch.Generator) -> None:
        super().__init__()
        self.trunk, self.side, self.idle = nn.Linear(3, 5), nn.Linear(3, 4), nn.Linear(3, 4)
        exact_(self, generator)

    def forward(self, x: Tensor) -> Tensor:
        self.side(x).relu()
        return self.trunk(x).relu()


class TopK(nn.Module):
    """A layer, and two of six latents of it."""

    def __init__(self, generator: torch.Generator, *, hidden: bool = True) -> None:
        super().__init__()
        self.body = nn.Sequential(nn.Linear(3, 5), nn.ReLU()) if hidden else nn.Identity()
        self.encode, self.decode = nn.Linear(5 if hidden else 3, 6), nn.Linear(6, 2)
        exact_(self, generator)

    def forward(self, x: Tensor) -> Tensor:
        z = self.encode(self.body(x))
        values, index = z.topk(2, -1)
        return self.decode(torch.zeros_like(z).scatter(-1, index, values.relu()))  # type: ignore[no-any-return]


def points(shape: tuple[int, ...], count: int, generator: torch.Generator) -> Tensor:
    """Few different values, and the first point again as the last, so that extremes are shared within and across."""
    x = torch.randint(-4, 5, (count, *shape), generator=generator).double() / 4
    x[-1] = x[0]
    return x


def task(logits: Tensor) -> Tensor:
    return logits.square().sum(1).mean()


def gradients(model: nn.Module) -> Tensor:
    return torch.cat(
        [torch.zeros_like(p).flatten() if p.grad is None else p.grad.flatten() for p in model.parameters()]
    )


def alone(net: nn.Module, batches: list[Tensor], **options: object) -> tuple[float, Tensor]:
    """The last penalty, and the gradients of all batches together, in this process alone."""
    net = copy.deepcopy(net)
    with Jumpstart(net, 0.25, across_ranks=False, **options) as keep:  # type: ignore[arg-type]
        for x in batches:
            loss = task(net(x))
            penalty = keep.penalty()
            (loss + penalty).backward()
    return penalty.item(), gradients(net)


def together(net: nn.Module, batches: list[Tensor], shards: tuple[int, int], **options: object) -> tuple[float, Tensor]:
    """The same, by two processes of which this is one."""
    rank = distributed.get_rank()
    ddp = DistributedDataParallel(copy.deepcopy(net), find_unused_parameters=isinstance(net, Side))
    with Jumpstart(ddp, 0.25, **options) as keep:  # type: ignore[arg-type]
        for number, x in enumerate(batches):
            own = x.split(shards)[rank]
            with ddp.no_sync() if number < len(batches) - 1 else nullcontext():
                loss = task(ddp(own)) * len(own) * len(shards) / len(x)
                penalty = keep.penalty()
                (loss + penalty).backward()
    return penalty.item(), gradients(ddp)


def error(net: nn.Module, batches: list[Tensor], shards: tuple[int, int], **options: object) -> list[float]:
    """How far two processes are from one: of the penalty, of the gradient, and how large the penalty is."""
    (value, grad), (wanted, wanted_grad) = together(net, batches, shards, **options), alone(net, batches, **options)
    return [abs(value - wanted), (grad - wanted_grad).abs().max().item(), wanted]


def measured() -> dict[str, list[float]]:
    """Everything the tests below look at."""
    found = {}
    g = torch.Generator().manual_seed(0)
    for mode, aggregate, ties in GRID:
        shards = SHARDS["uneven"]
        net, x = dense(g), points((3,), sum(shards), g)
        found[f"{mode} {aggregate} {ties}"] = error(net, [x], shards, mode=mode, aggregate=aggregate, ties=ties)
    for name, shards in SHARDS.items():
        for aggregate in AGGREGATES:
            found[f"{name} {aggregate}"] = error(dense(g), [points((3,), sum(shards), g)], shards, aggregate=aggregate)
    for where, mode, against in product(("channel", "position"), ("UP", "L"), ("both", "death", "linearity")):
        net, x = conv(g), points((1, 4, 4), 7, g)
        found[f"conv {where} {mode} {against}"] = error(net, [x], (4, 3), conv=where, mode=mode, against=against)
    batches = [points((3,), 7, g) for _ in range(3)]
    found["accumulated"] = error(dense(g), batches, (4, 3))
    found["accumulated norm"] = error(dense(g), batches, (4, 3), aggregate="norm")
    found["output"] = error(dense(g), batches[:1], (4, 3), include_output=True)
    found["side"] = error(Side(g), batches[:1], (4, 3))
    found["side accumulated"] = error(Side(g), batches, (4, 3))
    found["checkpointed"] = error(Checkpointed(dense(g)), batches[:1], (4, 3))
    for mode, aggregate in (("UP", "meansq"), ("U", "sumsq"), ("UP", "norm")):
        found[f"topk {mode} {aggregate}"] = error(TopK(g), batches[:1], (4, 3), mode=mode, aggregate=aggregate)
    found["topk alone"] = error(TopK(g, hidden=False), batches[:1], (4, 3), mode="U", against="death")
    zero = dense(g)
    for p in zero.parameters():
        p.data.zero_()  # every value of every layer ties with every other
    found["all ties"] = error(zero, batches[:1], (4, 3), balance=0.75)
    margins = {"pos_margin": 0.0, "neg_margin": 0.0}
    found["satisfied norm"] = error(dense(g), [10 * batches[0]], (4, 3), mode="L", aggregate="norm", **margins)
    return found


def trained(net: nn.Module, x: Tensor, steps: int, **options: object) -> tuple[dict[str, object], Tensor]:
    """Some steps with multipliers that move: these at the end, and the weights."""
    net = copy.deepcopy(net)
    together = distributed.get_world_size() > 1 and options.pop("together")
    model = DistributedDataParallel(net) if together else net
    optimiser = torch.optim.SGD(net.parameters(), lr=0.05)
    own = x.split((4, 3))[distributed.get_rank()] if together else x
    with Jumpstart(model, "auto", across_ranks=together, **options) as keep:  # type: ignore[arg-type]
        for _ in range(steps):
            optimiser.zero_grad()
            loss = task(model(own)) * (len(own) * 2 / len(x) if together else 1)
            (loss + keep.penalty()).backward()
            optimiser.step()
        return keep.state_dict()["multipliers"], torch.cat([p.detach().flatten() for p in net.parameters()])


def autos() -> dict[str, object]:
    """Multipliers that two ranks and one process find, and how far the weights are apart."""
    found = {}
    g = torch.Generator().manual_seed(2)
    for name, make, shape in (("dense", dense, (3,)), ("conv", conv, (1, 4, 4))):
        for mode in ("UP", "P", "L"):
            net, x = make(g), points(shape, 7, g)
            (mine, weights), (wanted, alone_weights) = (
                trained(net, x, 6, together=together, mode=mode) for together in (True, False)
            )
            found[f"{name} {mode}"] = [mine, wanted, (weights - alone_weights).abs().max().item()]
    return found


def refusals() -> dict[str, object]:
    """What is not a gradient: NaN that only one rank sees, ranks of different layers, ranks each by itself."""
    rank, found = distributed.get_rank(), {}
    g = torch.Generator().manual_seed(1)
    net, x = dense(g), points((3,), 7, g)
    own = x.split((4, 3))[rank].clone()
    with Jumpstart(net, 1.0, aggregate="sum", mode="U", across_ranks=False) as keep:
        net(own)
        apart = keep.penalty().item()
        net(x)
        found["differs"] = apart != keep.penalty().item()
        found["repr"] = repr(keep)
    with Jumpstart(net, 1.0, aggregate="sum", mode="U") as keep:
        found["same repr"] = repr(keep)
        net.eval()
        net(own)
        found["eval"] = keep.penalty().item()
        net.train()
        if rank:
            own[0, 0] = torch.nan
        net(own)
        found["nan"] = keep.penalty().isnan().item()
    other = nn.Sequential(nn.Linear(3, 4 + rank), nn.ReLU())
    with Jumpstart(other, mode="U") as keep:
        other(torch.randn(2, 3))
        try:
            keep.penalty()
        except AliveError as refused:
            found["refused"] = str(refused)
    return found


def refusal(net: nn.Module, steps: int = 1, **options: object) -> str:
    """What is said of ranks that train a model each by itself, and at which step."""
    x = points((3,), 4, torch.Generator().manual_seed(distributed.get_rank()))
    optimiser = torch.optim.SGD([p for p in net.parameters() if p.requires_grad], 1e-3)
    with Jumpstart(net, 1.0, **options) as keep:  # type: ignore[arg-type]
        for step in range(1, steps + 1):
            try:
                loss = net(x).sum() + keep.penalty()
            except AliveError as refused:
                return f"{step}: {refused}"
            loss.backward()
            optimiser.step()
    return ""


def small(seed: int) -> nn.Sequential:
    torch.manual_seed(seed)
    return nn.Sequential(nn.Linear(3, 4), nn.ReLU(), nn.Linear(4, 2)).double()


def strangers() -> dict[str, object]:
    """Ranks whose models are not the same, or differ only where they may."""
    rank = distributed.get_rank()
    frozen, kept = small(0), small(0)
    frozen[2] = small(rank)[2].requires_grad_(False)
    kept.own = nn.Parameter(torch.full((3,), float(rank)))
    DistributedDataParallel._set_params_and_buffers_to_ignore_for_model(kept, ["own"])
    kept.forward = lambda x: kept[2](kept[1](kept[0](x)))  # type: ignore[method-assign]
    sharded = small(0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        fully_shard(sharded, mesh=init_device_mesh("cpu", (2,)))
    return {
        "others": refusal(small(rank)),
        "other bits": refusal(small(rank), aggregate="norm", mode="L"),
        "apart": refusal(small(0), 9),
        "alone": refusal(small(rank), 9, across_ranks=False),
        "frozen": refusal(frozen),
        "own": refusal(kept),
        "sharded": refusal(sharded, 3),
        "together": refusal(DistributedDataParallel(small(0)), 9),
    }


def collectives() -> list[int]:
    """How many reductions each of nine penalties takes."""
    net, counts, real = small(0), [], distributed.all_reduce

    def counted(*args: object, **kwargs: object) -> object:
        counts[-1] += 1
        return real(*args, **kwargs)

    distributed.all_reduce = counted
    try:
        with Jumpstart(net) as keep:
            for _ in range(9):
                counts.append(0)
                net(torch.randn(4, 3).double())
                keep.penalty()
    finally:
        distributed.all_reduce = real
    return counts


def main(rank: int, folder: Path) -> None:
    torch.set_num_threads(1)
    distributed.init_process_group(
        "gloo", init_method=f"file://{folder}/meet", rank=rank, world_size=2, timeout=timedelta(seconds=60)
    )
    found = {
        "errors": measured(),
        "refusals": refusals(),
        "strangers": strangers(),
        "autos": autos(),
        "collectives": collectives(),
    }
    (folder / f"{rank}.json").write_text(json.dumps(found))
    distributed.barrier()
    distributed.destroy_process_group()


@pytest.fixture(scope="module")
def found(two_ranks: Callable[[str], list[dict[str, dict[str, object]]]]) -> list[dict[str, dict[str, object]]]:
    return two_ranks(__file__)


@pytest.mark.twin
@pytest.mark.parametrize(("mode", "aggregate", "ties"), GRID)
def test_two_ranks_equal_one_process(found, mode: str, aggregate: str, ties: str) -> None:
    for rank in found:
        value, gradient, size = rank["errors"][f"{mode} {aggregate} {ties}"]
        assert size > 1e-3  # there is a penalty to speak of
        assert value < 1e-12
        assert gradient < 1e-12


@pytest.mark.twin
def test_whatever_the_shards_the_layers_and_the_rule(found) -> None:
    for rank in found:
        rest = {name: told for name, told in rank["errors"].items() if name.split()[0] not in ("U", "P", "UP", "L")}
        assert len(rest) == 24 + 12 + 8 + 4
        assert {name: told for name, told in rest.items() if max(told[:2]) > 1e-12} == {}
        assert all(told[2] > 1e-3 for name, told in rest.items() if name != "satisfied norm")
        assert rank["errors"]["satisfied norm"][2] == 0


@pytest.mark.twin
def test_multipliers_of_two_ranks_are_those_of_one_process(found) -> None:
    assert found[0]["autos"] == found[1]["autos"]  # to the bit
    for mine, wanted, apart in found[0]["autos"].values():
        assert apart < 1e-12
        assert mine.keys() == wanted.keys()
        for axis, of in wanted.items():
            assert mine[axis].keys() == of.keys()
            for tap in of:
                assert mine[axis][tap] == pytest.approx(of[tap], abs=1e-12)
            assert any(abs(mu - 1) > 1e-3 for mu, _ in of.values())


def test_nan_on_one_rank_is_nan_on_all(found) -> None:
    assert [rank["refusals"]["nan"] for rank in found] == [True, True]


def test_each_rank_by_itself_on_request_and_nothing_in_eval(found) -> None:
    assert all(rank["refusals"]["differs"] for rank in found)
    assert all(rank["refusals"]["eval"] == 0 for rank in found)
    for rank in found:
        assert rank["refusals"]["repr"].endswith(", across_ranks=False)")
        assert "ranks" not in rank["refusals"]["same repr"]  # so that any number of ranks may resume a run


def test_ranks_of_different_layers_are_refused_by_all(found) -> None:
    for number, rank in enumerate(found):
        assert f"rank {number} measured 1, of {4 + number} units" in rank["refusals"]["refused"]
        assert "across_ranks=False" in rank["refusals"]["refused"]


def test_ranks_of_different_weights_are_refused_by_all(found) -> None:
    for rank in found:
        for name in ("others", "other bits"):
            assert rank["strangers"][name].startswith("1: the ranks have different weights")
            assert "across_ranks=False" in rank["strangers"][name]
        assert rank["strangers"]["apart"].startswith("2: the ranks have different weights")


def test_ranks_that_share_what_they_ought_to_are_not_refused(found) -> None:
    for rank in found:
        rest = {name: said for name, said in rank["strangers"].items() if name not in ("others", "other bits", "apart")}
        assert rest == dict.fromkeys(("alone", "frozen", "own", "sharded", "together"), "")


def test_weights_are_compared_ever_more_rarely_and_by_all_ranks_alike(found) -> None:
    assert found[0]["collectives"] == found[1]["collectives"] == [3, 3, 2, 3, 2, 2, 2, 3, 2]


def test_what_has_no_values_or_is_a_shard_has_no_part_in_the_fingerprint() -> None:
    shard = nn.Parameter(torch.ones(3))
    shard._fsdp_flattened = True
    hollow = [nn.LazyLinear(2).weight, nn.Linear(2, 2, device="meta").weight, shard]
    assert collective.fingerprint(hollow, torch.device("cpu")).tolist() == [0, 0, 0]
    whole = [nn.Parameter(torch.tensor([3 + 4j])), nn.Parameter(torch.tensor([torch.nan]))]
    assert collective.fingerprint([*hollow, *whole], torch.device("cpu"))[2] == 5


@pytest.mark.parametrize("change", [1e-3, 1e-2])
def test_a_small_step_of_one_weight_matrix_changes_the_fingerprint(change: float) -> None:
    net = small(0)
    before = collective.fingerprint(net.parameters(), torch.device("cpu"))
    again = collective.fingerprint(copy.deepcopy(net).parameters(), torch.device("cpu"))
    assert torch.equal(before, again)
    net[2].weight.data += change * torch.randn_like(net[2].weight)
    after = collective.fingerprint(net.parameters(), torch.device("cpu"))
    assert (after - before)[:2].abs().max() > collective.APART * before[2]


@pytest.mark.twin
@pytest.mark.parametrize("conv", ["channel", "position"])
@pytest.mark.parametrize("mode", ["U", "L"])
@pytest.mark.parametrize("ties", ["split", "single"])
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16])
def test_ends_equal_their_plain_twin(conv: str, mode: str, ties: str, dtype: torch.dtype) -> None:
    rule = Separation(mode=mode, conv=conv, ties=ties, pos_margin=9.0, neg_margin=9.0)
    for shape in ((5, 3), (1, 3), (4, 3, 6), (2, 3, 16, 24)):
        # Values k/4 within ±2: every end falls short of its margin, and most are shared.
        z = (torch.randint(-8, 9, shape) / 4).to(dtype)
        fast, slow = z.clone().requires_grad_(), z.clone().requires_grad_()
        part, (ends, count) = parts.measure(fast, rule), parts.plain_ends(slow, rule, Axes())
        assert torch.equal(part.ends, ends)
        if ties == "split":
            assert torch.equal(part.ties, count)
        upstream = torch.randn_like(ends)
        part.ends.backward(upstream)
        ends.backward(upstream)
        tolerance = {"rtol": 1e-2, "atol": 1e-2} if dtype == torch.bfloat16 else {}
        torch.testing.assert_close(fast.grad, slow.grad, **tolerance)


def test_a_rank_without_points_has_ends_below_all_others() -> None:
    part = parts.measure(torch.empty(0, 3, requires_grad=True), Separation(mode="U"))
    assert part.values == 0
    assert (part.ends == -torch.inf).all()
    part.ends.sum().backward()


if __name__ == "__main__":
    main(int(sys.argv[1]), Path(sys.argv[2]))
