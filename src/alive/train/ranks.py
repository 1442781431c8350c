"""Several processes that train one network: each takes its part of every batch, all make the same step.

Started by `torchrun --nproc-per-node 2 -m alive train ...`, which says in the environment who is who. Batches are
cut into consecutive parts, so that the batch of all ranks is the batch one process would have had.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta

import numpy as np
import torch
from torch import Tensor, distributed, nn
from torch.nn.parallel import DistributedDataParallel

from ..errors import AliveError
from ..torch_private import BatchNorm

CPU = torch.device("cpu")
NAMES = ("RANK", "WORLD_SIZE", "LOCAL_RANK", "MASTER_ADDR", "MASTER_PORT")  # what torchrun says
PATIENCE = timedelta(minutes=10)  # how long a rank waits for the others before it gives up


@dataclass(frozen=True, slots=True)
class Ranks:
    """This process among `world` of them; alone by default, and then every method gives back what it was given.

    >>> alone = Ranks()
    >>> alone.is_main, alone.shard(torch.arange(5)).tolist(), alone.mean(0.5, own=5, total=5)
    (True, [0, 1, 2, 3, 4], 0.5)
    >>> [Ranks(rank, 2).shard(torch.arange(5)).tolist() for rank in range(2)]
    [[0, 1, 2], [3, 4]]
    """

    rank: int = 0
    world: int = 1
    device: torch.device = CPU

    @property
    def is_main(self) -> bool:
        """Whether this is the rank that logs, saves and shows progress."""
        return self.rank == 0

    def shard(self, batch: Tensor) -> Tensor:
        """This rank's part of a batch that all ranks have: consecutive points, sizes that differ by one at most."""
        if self.world == 1:
            return batch
        if len(batch) < self.world:
            raise AliveError(
                f"a batch of {len(batch)} point{'s' * (len(batch) != 1)} cannot be shared by {self.world} ranks",
                "Choose a batch size that leaves no smaller last batch, or fewer ranks",
            )
        return batch.tensor_split(self.world)[self.rank]

    def share(self, loss: Tensor, *, own: int, total: int) -> Tensor:
        """This rank's part of the mean over all points, from the mean over its own.

        The average over the ranks of the gradients of these parts is the gradient of the mean, however uneven.
        """
        return loss * (own * self.world / total) if self.world > 1 else loss

    def mean(self, value: float, *, own: int, total: int) -> float:
        """The mean over all points, from this rank's mean over its own; NaN on one rank is NaN on all."""
        return self.sum(value * own if own else 0.0) / total if self.world > 1 else value

    def sum(self, value: float) -> float:
        """The sum over all ranks, the same number on each."""
        if self.world == 1:
            return value
        summed = torch.tensor(value, dtype=torch.float64, device=self.device)
        distributed.all_reduce(summed)
        return summed.item()

    def total(self, values: Tensor) -> Tensor:
        """The sums over all ranks of float64 numbers, the same on each."""
        if self.world == 1:
            return values
        summed = values.to(self.device)
        distributed.all_reduce(summed)
        return summed.cpu()

    def any(self, flag: bool) -> bool:
        """Whether it holds on some rank: what all must know before one of them may leave the loop."""
        return self.sum(float(flag)) > 0

    def wrap(self, model: nn.Module) -> nn.Module:
        """The model as all ranks train it: same weights at the start, gradients averaged in backward."""
        if self.world == 1:
            return model
        _expect_whole_norms(model)
        ids = [self.device.index] if self.device.type == "cuda" else None
        return DistributedDataParallel(model, device_ids=ids)

    def seed(self, seed: int) -> int:
        """A seed of this rank's own, for what is drawn by point, such as dropout; that of rank 0 is `seed` itself."""
        if self.rank == 0:
            return seed
        return int(np.random.SeedSequence((seed, self.rank)).generate_state(1, np.uint64)[0] >> 1)


ALONE = Ranks()


@contextmanager
def join_ranks(*, patience: timedelta = PATIENCE) -> Iterator[Ranks]:
    """The ranks torchrun has started; without torchrun this process alone.

    CPUs talk through gloo. The path for GPUs, through nccl, is written but has never been run. A rank that fails
    leaves the group at once, so that the others fail as well instead of waiting.

    >>> with join_ranks() as ranks:
    ...     ranks.world
    1
    """
    if int(os.environ.get("WORLD_SIZE", "1")) < 2:
        yield Ranks()
        return
    device = _device(_environment()["LOCAL_RANK"])
    backend = "nccl" if device.type == "cuda" else "gloo"
    distributed.init_process_group(backend, timeout=patience)
    try:
        yield Ranks(distributed.get_rank(), distributed.get_world_size(), device)
        distributed.barrier()  # all leave together: one that is left behind may abort at its end
    finally:
        distributed.destroy_process_group()


def _environment() -> dict[str, str]:
    missing = [name for name in NAMES if name not in os.environ]
    if missing:
        raise AliveError(
            f"WORLD_SIZE asks for several ranks, but {', '.join(missing)} is not set",
            "Start with torchrun --nproc-per-node 2 -m alive train ..., or unset WORLD_SIZE",
        )
    return {name: os.environ[name] for name in NAMES}


def _device(local_rank: str) -> torch.device:
    """A GPU for every rank of this machine, or none for any."""
    here = int(os.environ.get("LOCAL_WORLD_SIZE", os.environ["WORLD_SIZE"]))
    if not torch.cuda.is_available() or torch.cuda.device_count() < here:
        return CPU
    device = torch.device("cuda", int(local_rank))
    torch.cuda.set_device(device)
    return device


def _expect_whole_norms(model: nn.Module) -> None:
    """Refuse batch norm that would see a part of the batch only."""
    for path, module in model.named_modules():
        if isinstance(module, BatchNorm) and not isinstance(module, nn.SyncBatchNorm):
            raise AliveError(
                f"{path} is a {type(module).__name__} and would see only one rank's part of the batch",
                "Train without batch norm, or on one rank",
            )
