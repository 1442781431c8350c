"""The Triton kernels on a CPU, under Triton's interpreter: run as a script, in a process of its own.

`python tiles_by_hand.py COUNT SEED` takes as many random layers (shapes, memory orders, dtypes, ties, NaN, infinities)
and prints as JSON what is not as by torch's amax, amin, argmax and argmin, and by autograd; `step` trains networks with
and without the kernels; `ptx` compiles them for two architectures.
"""

from __future__ import annotations

import json
import os
import random
import sys
import warnings
from collections import Counter
from math import inf, nan
from pathlib import Path
from typing import Any

import torch
from torch import Tensor


def layer(chance: random.Random) -> tuple[Tensor, bool]:
    """A layer [N, C, *positions] in rows or maps, and whether it holds NaN."""
    shape = [chance.choice([1, 2, 3, 5, 17, 40]) for _ in range(2)]
    shape += [chance.choice([1, 2, 3, 7, 11]) for _ in range(chance.choice([0, 0, 1, 2, 3]))]
    z = torch.randn(shape, generator=torch.Generator().manual_seed(chance.randrange(10**6)))
    kind = chance.choice(["normal", "ties", "constant", "zeros", "infinite", "broken"])
    if kind in ("infinite", "broken"):
        odd = [inf, -inf, 0.0] if kind == "infinite" else [nan, -nan, inf, -inf]
        flat = z.view(-1)
        for _ in range(1 + z.numel() // 5):
            flat[chance.randrange(z.numel())] = chance.choice(odd)
    z = {"ties": z.round() / 2, "constant": z * 0 + 0.5, "zeros": torch.where(z > 0, 0.0, -0.0)}.get(kind, z)
    z = z.to(chance.choice([torch.float32, torch.bfloat16, torch.float16]))
    if z.ndim > 2 and chance.random() < 0.5:
        z = z.movedim(1, -1).contiguous().movedim(-1, 1)
    return z, kind == "broken"


def truth(z: Tensor, axes: str, signs: list[int]) -> tuple[Tensor, Tensor]:
    """Ends [sides, groups] and their first places, group by group, by torch's own reductions of a copy."""
    whole = z.detach().clone(memory_format=torch.contiguous_format).flatten(2) if z.ndim > 2 else z[:, :, None]
    number = torch.arange(z.numel()).view(whole.shape)
    groups = []
    for axis in axes:
        parts = {"U": range(whole.shape[1]), "P": range(whole.shape[0]), "L": range(1)}[axis]
        for k in parts:
            at = {"U": (slice(None), k), "P": (k,), "L": ()}[axis]
            groups.append((whole[at].reshape(-1), number[at].reshape(-1)))
    ends = [[v.amax() if sign > 0 else v.amin() for v, _ in groups] for sign in signs]
    places = [[n[v.argmax() if sign > 0 else v.argmin()] for v, n in groups] for sign in signs]
    return torch.tensor(ends, dtype=z.dtype), torch.tensor(places)


def wrong(z: Tensor, axes: str, signs: list[int]) -> list[str]:
    """What the kernels make otherwise than torch."""
    from alive.functional import tiles
    from alive.functional.ends import Groups

    found = tiles.locate(z, Groups(axes, True, signs, [inf] * len(signs)), relu=True)
    if found is None:
        return ["not taken"]
    y, ends, places = found
    assert y is not None
    expected, where = truth(z, axes, signs)
    faults = []
    if not torch.equal(y.nan_to_num(7.0), z.relu().nan_to_num(7.0)) or y.stride() != torch.empty_like(z).stride():
        faults.append("relu")
    if not torch.equal(ends.nan_to_num(7.0), expected.nan_to_num(7.0)):
        faults.append("ends")
    if not torch.equal(places, where):
        faults.append("places")
    amounts, upstream = torch.randn(ends.shape).to(z.dtype), torch.randn(z.shape).to(z.dtype)
    like = z.shape, torch.empty_like(z).stride()
    for grad_y in (upstream, None):
        mine = tiles.gradient(grad_y, y if grad_y is not None else None, amounts, places, axes, like)
        added = torch.zeros(z.numel()).index_add_(0, where.flatten(), amounts.flatten().float()).view(z.shape)
        if grad_y is not None:
            leaf = z.clone().requires_grad_()
            (own,) = torch.autograd.grad(leaf.relu(), leaf, grad_y)
            added += own.float()
        if mine is None or not torch.allclose(mine.float(), added, rtol=2e-2, atol=2e-2, equal_nan=True):
            faults.append("gradient")
    return faults


def many(count: int, seed: int) -> dict[str, Any]:
    """Random layers, and what was wrong with which."""
    chance, faults, kinds = random.Random(seed), {}, Counter[str]()
    for number in range(count):
        z, broken = layer(chance)
        axes, signs = chance.choice(["UP", "UP", "U", "P", "L"]), chance.choice([[1, -1], [1, -1], [1], [-1]])
        kinds.update([str(z.dtype), "broken" if broken else "sound", "maps" if z.is_contiguous() else "rows"])
        told = wrong(z, axes, signs)
        if told:
            faults[number] = [list(z.shape), list(z.stride()), str(z.dtype), axes, signs, told]
    return {"faults": faults, "kinds": kinds}


def step() -> dict[str, Any]:
    """Penalty and gradients of networks in bfloat16 by the kernels, beside those by plain torch, and their launches."""
    sys.path.append(str(Path(__file__).parents[1] / "penalties"))
    import elsewhere

    from alive import Jumpstart
    from alive.functional import tiles

    found = {}
    for net in elsewhere.NETS:
        results = []
        for how in ("interpret", "0"):
            os.environ["ALIVE_TRITON"] = how
            tiles.kernels.cache_clear()
            torch.manual_seed(0)
            model, x = net()
            model, x, y = model.bfloat16(), x.bfloat16(), torch.zeros(len(x), dtype=torch.long)
            with Jumpstart(model, 1.0) as keep:
                model(x)
                keep.penalty()
                loss = torch.nn.functional.cross_entropy(model(x).float(), y) + keep.penalty()
                loss.backward()
            results.append((loss.item(), torch.cat([p.grad.flatten().float() for p in model.parameters()])))
        (mine, ours), (plain, theirs) = results
        found[net.__name__] = [mine, plain, float((ours - theirs).norm() / theirs.norm())]
    return found


def ptx() -> dict[str, list[int]]:
    """How often each kernel, compiled for a GPU, reads and writes a value of its tile, and its atomic operations."""
    import triton
    from triton.backends.compiler import GPUTarget
    from triton.compiler import ASTSource

    from alive.functional import tile_kernels

    found = {}
    for kind in ("fp32", "bf16", "fp16"):
        floats, longs = f"*{kind}", "*i64"
        for rows, height, block in ((True, 32, 128), (False, 4, 1024)):
            tile = {"ROWS": rows, "HEIGHT": height, "BLOCK": block, "RELU": True, "UNITS": True, "POINTS": True}
            for whole in (False, True):
                tile |= {"WHOLE": whole, "SIDES": 2}
                for name, types, more in (
                    ("find", {"z": floats, "y": floats, "keys": longs}, {"LARGEST": True}),
                    ("add", dict.fromkeys(("grad_y", "y", "grad_ends", "out"), floats) | {"places": longs}, {}),
                    ("unpack", {"keys": longs, "ends": floats, "places": longs}, {"LARGEST": True, "BLOCK": 256}),
                ):
                    kernel = getattr(tile_kernels, name)
                    constants = {k: v for k, v in (tile | more).items() if k in kernel.arg_names}
                    signature = {a: "constexpr" if a in constants else types.get(a, "i32") for a in kernel.arg_names}
                    source = ASTSource(fn=kernel, signature=signature, constexprs=constants)
                    for capability in (80, 90):
                        made = triton.compile(source, target=GPUTarget("cuda", capability, 32)).asm["ptx"]
                        counts = [made.count(word) for word in ("ld.global", "st.global", "atom.global")]
                        found[f"{name} {kind} rows={rows} whole={whole} sm_{capability}"] = counts
    return found


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    if sys.argv[1] != "ptx":
        os.environ["TRITON_INTERPRET"], os.environ["ALIVE_TRITON"] = "1", "interpret"
    acts = {"step": step, "ptx": ptx}
    print(json.dumps(acts[sys.argv[1]]() if sys.argv[1] in acts else many(int(sys.argv[1]), int(sys.argv[2]))))
