"""Where nothing is compiled: no waiting for the device, no shape that values decide, and the numbers of the plain rule.

A device without values ("accel", torch's spare backend under FakeTensorMode) makes an error of every operation on two
devices, and of every value that is read.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch._subclasses import FakeTensor, FakeTensorMode
from torch._subclasses.fake_tensor import DataDependentOutputException
from torch.nn.functional import cross_entropy
from torch.utils import backend_registration
from torch.utils._python_dispatch import TorchDispatchMode

from alive import Jumpstart, Schedule
from alive.functional import way

WAITING = {
    *("_local_scalar_dense", "nonzero", "masked_select", "_unique2", "unique_consecutive", "unique_dim", "bincount"),
    *("repeat_interleave", "equal", "is_nonzero", "histc"),
}
ACCEL = torch.device("privateuseone", 0)
WEIGHTS = [None, "auto", Schedule(0.3, 0.0, "linear")]


class Ledger(TorchDispatchMode):
    """What a step asks of a device: operations by name, and those for whose result the host waits."""

    def __init__(self) -> None:
        super().__init__()
        self.operations: Counter[str] = Counter()
        self.waits: list[str] = []

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        name = func.overloadpacket.__name__
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


class Backend(getattr(backend_registration, "_DummyBackendModule", object)):
    """What torch asks of a device: none is there, for all but fake tensors, and nothing need be seeded."""

    def is_available(self) -> bool:
        return False

    def device_count(self) -> int:
        return 0

    def _is_in_bad_fork(self) -> bool:
        return False

    def manual_seed_all(self, seed: int) -> None:
        pass


@pytest.fixture
def accel(monkeypatch: pytest.MonkeyPatch) -> FakeTensorMode:
    """A mode in which a device without values can be used."""
    if not hasattr(backend_registration, "_setup_privateuseone_for_python_backend"):
        pytest.skip(f"torch {torch.__version__} knows no backend written in Python")
    if torch._C._get_privateuse1_backend_name() == "privateuseone":
        backend_registration._setup_privateuseone_for_python_backend("accel", Backend())
    monkeypatch.setattr(FakeTensorMode, "avoid_device_init", True)
    return FakeTensorMode()


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


@pytest.mark.parametrize("weight", WEIGHTS, ids=str)
@pytest.mark.parametrize("net", NETS)
@pytest.mark.parametrize("mode", ["UP", "L"])
@pytest.mark.filterwarnings("ignore:.*could not be followed", "ignore:inside a transform")  # without values
def test_a_step_elsewhere_never_waits(accel: FakeTensorMode, net: Callable[[], Any], weight: Any, mode: str) -> None:
    model, x = net()
    put(accel, model)
    y = FakeTensor(accel, torch.zeros(len(x), dtype=torch.long, device="meta"), ACCEL)
    x = FakeTensor(accel, x.to("meta"), ACCEL)
    with accel, Jumpstart(model, weight, mode=mode) as keep:
        for _ in range(3):
            forward, backward = step(model, x, y, keep)
    assert forward.waits + backward.waits == []
    assert forward.operations["max"] >= 2
    assert backward.operations["scatter_add_"] == sum(isinstance(m, nn.ReLU | nn.GELU) for m in model.modules()) or 2


@pytest.mark.parametrize("weight", WEIGHTS, ids=str)
@pytest.mark.parametrize("net", NETS)
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_a_step_in_half_precision_never_waits(net: Callable[[], Any], weight: Any, dtype: torch.dtype) -> None:
    model, x = net()
    model, x, y = model.to(dtype), x.to(dtype), torch.zeros(len(x), dtype=torch.long)
    with Jumpstart(model, weight) as keep:
        for _ in range(3):
            forward, backward = step(model, x, y, keep)
    assert forward.waits + backward.waits == []
    assert forward.operations["max"] >= 2


def test_waiting_is_noticed(accel: FakeTensorMode) -> None:
    x = torch.ones(3)
    for wait in (x.sum().item, x.nonzero, lambda: x[x > 0], x.unique, lambda: x.long().bincount()):
        with Ledger() as ledger:
            wait()
        assert ledger.waits, wait
    with Ledger() as ledger:
        x.max(0)
    assert not ledger.waits
    with accel:
        there = torch.ones(3, device=ACCEL)
        with Ledger() as ledger:
            there.cpu()
        assert ledger.waits == ["copy to cpu"]
        with pytest.raises(DataDependentOutputException):
            there.sum().item()
        with pytest.raises(RuntimeError, match="device"):
            there + torch.ones(3)


@pytest.mark.parametrize("net", NETS)
@pytest.mark.parametrize("mode", ["U", "P", "UP", "L"])
@pytest.mark.parametrize("conv", ["channel", "position"])
def test_penalty_and_gradient_are_those_of_the_compiled_way(
    net: Callable[[], Any], mode: str, conv: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def graded() -> tuple[Tensor, list[Tensor]]:
        torch.manual_seed(0)
        model, x = net()
        model, x = model.double(), x.double()
        with Jumpstart(model, mode=mode, conv=conv) as keep:
            for _ in range(2):
                loss = model(x).square().mean() + keep.penalty()
            return loss, list(torch.autograd.grad(loss, [*model.parameters()], allow_unused=True))

    loss, gradients = graded()
    monkeypatch.setattr(way, "_ways", {})
    monkeypatch.setattr(way, "_compiles", lambda z: False)
    elsewhere, others = graded()
    torch.testing.assert_close(elsewhere, loss)
    for mine, theirs in zip(gradients, others, strict=True):
        torch.testing.assert_close(theirs, mine)


def deep(kind: str, depth: int = 10) -> tuple[nn.Module, Tensor]:
    if kind == "dense":
        layers = [[nn.Linear(32, 32), nn.ReLU()] for _ in range(depth)]
        return nn.Sequential(*(m for each in layers for m in each)), torch.randn(64, 32)
    layers = [[nn.Conv2d(8, 8, 3, padding=1), nn.ReLU()] for _ in range(depth)]
    return nn.Sequential(*(m for each in layers for m in each), nn.Flatten()), torch.randn(16, 8, 12, 12)


NO_WORK = {
    *("detach", "view", "_unsafe_view", "t", "transpose", "unsqueeze", "squeeze", "expand", "slice", "select", "split"),
    *("split_with_sizes", "unbind", "empty", "new_empty", "empty_like", "alias", "as_strided"),
}


@pytest.mark.parametrize(("kind", "forward", "backward"), [("dense", 5, 2), ("conv", 10, 2)])
def test_a_layer_takes_few_operations(kind: str, forward: int, backward: int) -> None:
    """Beside those of the plain layer; what is done once for all layers does not grow with them."""

    def counted(depth: int, *, penalised: bool) -> list[int]:
        model, x = deep(kind, depth)
        model, x, y = model.bfloat16(), x.bfloat16(), torch.zeros(len(x), dtype=torch.long)
        keep = Jumpstart(model) if penalised else None
        for _ in range(3):
            ledgers = step(model, x, y, keep)
        return [sum(n for name, n in each.operations.items() if name not in NO_WORK) for each in ledgers]

    ours, plain = (
        [more - less for more, less in zip(counted(10, penalised=k), counted(5, penalised=k), strict=True)]
        for k in (True, False)
    )
    assert 0 < ours[0] - plain[0] <= 5 * forward
    assert 0 < ours[1] - plain[1] <= 5 * backward
