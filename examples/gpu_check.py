"""What alive does on a real GPU: right numbers, no waiting, one graph, and what it costs; prints a block to send.

python examples/gpu_check.py [device]

The device is cuda, xpu or mps, whichever is there; cpu checks the script itself, where ALIVE_TRITON=interpret and
TRITON_INTERPRET=1 take the kernels too.
"""

from __future__ import annotations

import copy
import sys
import time
from collections.abc import Callable

import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

import alive
from alive import Jumpstart
from alive.functional import ends, tiles
from alive.functional.ends import Groups

ROUNDS = 30


def nets(large: bool) -> dict[str, tuple[nn.Module, Tensor]]:
    """Dense, convolutional and sequential networks, with a batch each."""
    wide, batch, side = (1024, 1024, 32) if large else (32, 16, 8)
    dense = nn.Sequential(*(m for _ in range(4) for m in (nn.Linear(wide, wide), nn.ReLU())), nn.Linear(wide, 10))
    maps = [m for k in range(6) for m in (nn.Conv2d(3 if not k else 32, 32, 3, padding=1), nn.ReLU())]
    conv = nn.Sequential(*maps, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(32, 10))
    rows = nn.Sequential(
        *(m for _ in range(4) for m in (nn.Linear(64, 64), nn.ReLU())), nn.Flatten(), nn.LazyLinear(10)
    )
    sequences = torch.randn(batch // 8, side * 4, 64)
    rows(sequences)
    return {
        "dense": (dense, torch.randn(batch, wide)),
        "conv": (conv, torch.randn(batch // 8, 3, side, side)),
        "sequences": (rows, sequences),
    }


def right(device: str) -> str:
    """Whether the kernels are torch's own reductions, in rows and maps and three precisions."""
    wrong = 0
    for dtype in (torch.float32, torch.bfloat16, torch.float16):
        for shape in ((33, 70), (5, 17, 9, 11), (2, 300, 40)):
            z = torch.randn(shape).to(device, dtype)
            for seen in (z, z.movedim(1, -1).contiguous().movedim(-1, 1)):
                groups = Groups("UP", True, [1, -1], [torch.inf, torch.inf])
                found, plain = ends.locate(seen, groups, relu=True), ends.plain(seen, groups)
                wrong += not (torch.equal(found[1], plain[0]) and torch.equal(found[2], plain[1]))
                wrong += not torch.equal(found[0], seen.relu())
    return f"{wrong} of 36 wrong, by Triton: {tiles.serves(z)}"


def step(model: nn.Module, x: Tensor, keep: Jumpstart | None) -> Callable[[], Tensor]:
    """A training step."""
    y = torch.zeros(len(x), dtype=torch.long, device=x.device)

    def take() -> Tensor:
        for parameter in model.parameters():
            parameter.grad = None
        loss = cross_entropy(model(x).float(), y)
        loss = loss if keep is None else loss + keep.penalty()
        loss.backward()
        return loss.detach()

    return take


def seconds(run: Callable[[], Tensor], device: str) -> float:
    """The shortest time of a step, waited for."""
    taken = []
    for _ in range(ROUNDS):
        begun = time.perf_counter()
        run().item()
        taken.append(time.perf_counter() - begun)
    return min(taken[ROUNDS // 3 :])


def waits(run: Callable[[], Tensor], device: str) -> str:
    """Whether a step waits for the device: torch raises where it does."""
    if device != "cuda":
        return "not asked"
    torch.cuda.set_sync_debug_mode("error")
    try:
        run()
    except RuntimeError as error:
        return f"waits: {error}"
    finally:
        torch.cuda.set_sync_debug_mode("default")
    return "none"


def captured(run: Callable[[], Tensor], device: str) -> str:
    """Whether a step can be captured as a graph, and gives the same when played."""
    if device != "cuda":
        return "not asked"
    stream = torch.cuda.Stream()
    with torch.cuda.stream(stream):
        for _ in range(3):
            expected = run().clone()
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        loss = run()
    graph.replay()
    return "as before" if torch.allclose(loss, expected) else f"{loss.item()} for {expected.item()}"


def main(device: str) -> None:
    """Print what was found."""
    name = torch.cuda.get_device_name() if device == "cuda" else device
    print(f"alive {alive.__version__}, torch {torch.__version__}, {name}")
    print(f"kernels: {right(device)}")
    for kind, (model, x) in nets(device != "cpu").items():
        for dtype in (torch.float32, torch.bfloat16):
            own, given = copy.deepcopy(model).to(device, dtype), x.to(device, dtype)
            bare = seconds(step(copy.deepcopy(own), given, None), device)
            with Jumpstart(own) as keep:
                run = step(own, given, keep)
                cost = seconds(run, device)
                print(
                    f"{kind}, {str(dtype)[6:]}: {1000 * bare:.2f} ms plain, {cost / bare:.3f} of it with the penalty; "
                    f"waits: {waits(run, device)}; graph: {captured(run, device)}"
                )
            health = alive.census(own, [given])
            print(f"  census: {len(health.layers)} layers")


if __name__ == "__main__":
    there = [kind for kind in ("cuda", "xpu", "mps") if getattr(torch, kind).is_available()]
    main(sys.argv[1] if len(sys.argv) > 1 else (there or ["cpu"])[0])
