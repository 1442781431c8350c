"""A device without values, and a ledger of what a step asks of a device.

Run as a script, in a process of its own (torch must know a device before its first backward pass), it trains each
network with the penalty on "accel", torch's spare backend, under FakeTensorMode. There every operation on two devices,
and every value that is read, is an error. It prints as JSON what each step did.
"""

from __future__ import annotations

import json
import warnings
from collections import Counter
from typing import Any

import torch
from torch import Tensor, nn
from torch._subclasses import FakeTensor, FakeTensorMode
from torch._subclasses.fake_tensor import DataDependentOutputException
from torch.nn.functional import cross_entropy
from torch.utils import backend_registration
from torch.utils._python_dispatch import TorchDispatchMode

from alive import Jumpstart, Schedule
from alive.functional.ends import KERNELS

WAITING = {
    *("_local_scalar_dense", "nonzero", "masked_select", "_unique2", "unique_consecutive", "unique_dim", "bincount"),
    *("repeat_interleave", "equal", "is_nonzero", "histc"),
}
ACCEL = torch.device("privateuseone", 0)
WEIGHTS = {"constant": None, "auto": "auto", "schedule": Schedule(0.3, 0.0, "linear")}


class Ledger(TorchDispatchMode):
    """What a step asks of a device: operations by name, and those for whose result the host waits."""

    def __init__(self) -> None:
        super().__init__()
        self.operations: Counter[str] = Counter()
        self.waits: list[str] = []

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        name = func.overloadpacket.__name__
        if func.namespace == "alive":  # look inside
            with self:
                return KERNELS[name](*args, **(kwargs or {}))
        self.operations[name] += 1
        if name in WAITING or (name in ("index", "index_put", "index_put_") and _is_by_mask(args[1])):
            self.waits.append(name)
        result = func(*args, **(kwargs or {}))
        if name in ("_to_copy", "copy_"):
            pair = args[:2] if name == "copy_" else (result, args[0])
            if len({t.device.type for t in pair}) > 1:
                self.waits.append(f"copy to {pair[0].device}")
        return result


def _is_by_mask(indices: Any) -> bool:
    return any(index is not None and index.dtype in (torch.bool, torch.uint8) for index in indices)


class Encoder(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        layer = nn.TransformerEncoderLayer(16, 2, 32, dropout=0.0, batch_first=True)
        self.layers = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)
        self.head = nn.Linear(16, 4)

    def forward(self, x: Tensor) -> Tensor:
        return self.head(self.layers(x).mean(1))


def mlp() -> tuple[nn.Module, Tensor]:
    layers = [nn.Linear(16, 32), nn.ReLU(), nn.Linear(32, 32), nn.ReLU(inplace=True), nn.Linear(32, 32), nn.GELU()]
    return nn.Sequential(*layers, nn.Linear(32, 4)), torch.randn(24, 16)


def cnn() -> tuple[nn.Module, Tensor]:
    first = [nn.Conv2d(3, 8, 3, padding=1), nn.BatchNorm2d(8), nn.ReLU(), nn.Conv2d(8, 8, 3), nn.ReLU(inplace=True)]
    rest = [nn.MaxPool2d(2), nn.Conv2d(8, 6, 3), nn.ReLU(), nn.Flatten(), nn.Linear(6 * 25, 4)]
    return nn.Sequential(*first, *rest), torch.randn(5, 3, 16, 16)


def transformer() -> tuple[nn.Module, Tensor]:
    return Encoder(), torch.randn(6, 7, 16)


NETS = [mlp, cnn, transformer]


def put(mode: FakeTensorMode, model: nn.Module) -> nn.Module:
    """Move a model to the device without values."""
    for module in model.modules():
        for name, p in list(module._parameters.items()):
            if p is not None:
                setattr(module, name, nn.Parameter(FakeTensor(mode, p.detach().to("meta"), ACCEL)))
        for name, b in list(module._buffers.items()):
            if b is not None:
                module._buffers[name] = FakeTensor(mode, b.to("meta"), ACCEL)
    return model


def step(model: nn.Module, x: Tensor, y: Tensor, keep: Jumpstart | None) -> tuple[Ledger, Ledger]:
    """What forward, penalty included, and backward ask of the device; one step of training."""
    optimiser = torch.optim.SGD(model.parameters(), lr=0.1)
    optimiser.zero_grad()
    with Ledger() as forward:
        loss = cross_entropy(model(x).float(), y)
        if keep is not None:
            loss = loss + keep.penalty()
            keep.set_progress(0.5)
    with Ledger() as backward:
        loss.backward()
    optimiser.step()
    return forward, backward


def main() -> None:
    """Train each network on the device, and read from it what must not be read."""
    warnings.simplefilter("ignore")
    backend_registration._setup_privateuseone_for_python_backend("accel")
    FakeTensorMode.avoid_device_init = True
    told = {
        f"{net.__name__} {name} {mode}": trained(net, weight, mode)
        for net in NETS
        for name, weight in WEIGHTS.items()
        for mode in ("UP", "L")
    }
    print(json.dumps(told | {"reading": reading()}))


def trained(net: Any, weight: Any, mode: str) -> dict[str, Any]:
    """What the third step of a network asks of the device."""
    fake = FakeTensorMode()
    model, x = net()
    put(fake, model)
    y = FakeTensor(fake, torch.zeros(len(x), dtype=torch.long, device="meta"), ACCEL)
    x = FakeTensor(fake, x.to("meta"), ACCEL)
    with fake, Jumpstart(model, weight, mode=mode) as keep:
        for _ in range(3):
            forward, backward = step(model, x, y, keep)
    return {
        "waits": forward.waits + backward.waits,
        "measured": forward.operations["max"],
        "added": backward.operations["scatter_add_"] + backward.operations["index_put_"],
    }


def reading() -> list[str]:
    """What comes of taking a value to the host, of moving a tensor there, and of mixing devices."""
    with FakeTensorMode():
        there = torch.ones(3, device=ACCEL)
        found = []
        for act in (lambda: there.sum().item(), lambda: there + torch.ones(3)):
            try:
                act()
            except (DataDependentOutputException, RuntimeError):
                found.append("refused")
        with Ledger() as ledger:
            there.cpu()
        return found + ledger.waits


if __name__ == "__main__":
    main()
