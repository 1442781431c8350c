"""ReLUs of all spellings, with the cutoff and the ceiling of each."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from math import inf, log
from typing import Any

import torch
import torch.nn.functional as F
from case import Layer
from steps import Before, Draw, Known, Maker, Step, is_raw, seen_as
from torch import Tensor, nn

ELU_CUTOFF, SOFTPLUS_CUTOFF = log(0.1), log(1 / 9)  # where the slope falls to a tenth

with warnings.catch_warnings():
    warnings.simplefilter("ignore")

    @torch.jit.script
    def scripted(z: Tensor) -> Tensor:
        return torch.relu(z)


class Custom(torch.autograd.Function):
    """A ReLU with a backward of its own."""

    @staticmethod
    def forward(ctx: Any, z: Tensor) -> Tensor:
        ctx.save_for_backward(z)
        return z.clamp(min=0)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> Tensor:
        return grad * (ctx.saved_tensors[0] > 0)


class Activation(Step):
    """A ReLU in some spelling."""

    def __init__(self, text: str, run: Callable[..., Tensor], cutoff: float = 0.0, ceiling: float = inf, **parts: Any):
        super().__init__(text, lambda me, h, _: run(me, h), lambda me, h, _: (h.point, h.unit), **parts)
        self.cutoff, self.ceiling = cutoff, ceiling

    def track(self, h: Known, before: Before, seen: list[Layer]) -> Known:
        seen += seen_as(f"{self.number}", h, self.cutoff, self.ceiling)
        return super().track(h, before, seen)


Spelling = tuple[Callable[..., Tensor], float, float, Callable[[], nn.Module] | None]


def plain(run: Callable[[Tensor], Tensor], cutoff: float = 0.0, ceiling: float = inf) -> Spelling:
    return (lambda me, z: run(z)), cutoff, ceiling, None


def module(make: Callable[[], nn.Module], cutoff: float = 0.0, ceiling: float = inf) -> Spelling:
    return (lambda me, z: me.layer(z)), cutoff, ceiling, make


SPELLINGS: dict[str, Spelling] = {
    "nn.ReLU": module(nn.ReLU),
    "nn.ReLU(inplace=True)": module(lambda: nn.ReLU(inplace=True)),
    "F.relu": plain(F.relu),
    "F.relu(inplace=True)": plain(lambda z: F.relu(z, inplace=True)),
    "relu_": plain(lambda z: z.relu_()),
    "torch.relu": plain(torch.relu),
    "z.relu()": plain(lambda z: z.relu()),
    "aten.relu": plain(torch.ops.aten.relu),
    "clamp(min=0)": plain(lambda z: z.clamp(min=0)),
    "clamp_min": plain(lambda z: z.clamp_min(0)),
    "clamp_(min=0)": plain(lambda z: z.clamp_(min=0)),
    "torch.clamp(z, 0.0)": plain(lambda z: torch.clamp(z, 0.0)),
    "where(z > 0, z, 0)": plain(lambda z: torch.where(z > 0, z, 0.0)),
    "where(z > 0, z, zeros_like)": plain(lambda z: torch.where(z > 0, z, torch.zeros_like(z))),
    "z * (z > 0)": plain(lambda z: z * (z > 0)),
    "(z > 0).float() * z": plain(lambda z: (z > 0).float() * z),
    "maximum(z, 0)": plain(lambda z: torch.maximum(z, torch.zeros(()))),
    "maximum(zeros_like, z)": plain(lambda z: torch.maximum(torch.zeros_like(z), z)),
    "masked_fill(z < 0, 0)": plain(lambda z: z.masked_fill(z < 0, 0.0)),
    "threshold(0.1)": plain(lambda z: F.threshold(z, 0.1, 0.0), 0.1),
    "nn.Threshold(0, 0)": module(lambda: nn.Threshold(0.0, 0.0)),
    "nn.LeakyReLU": module(lambda: nn.LeakyReLU(0.1)),
    "F.leaky_relu": plain(lambda z: F.leaky_relu(z, 0.2)),
    "nn.ReLU6": module(nn.ReLU6, 0.0, 6.0),
    "F.relu6": plain(F.relu6, 0.0, 6.0),
    "hardtanh(0, 1)": plain(lambda z: F.hardtanh(z, 0.0, 1.0), 0.0, 1.0),
    "hardtanh(-1, 1)": plain(F.hardtanh, -1.0, 1.0),
    "clamp(0, 1)": plain(lambda z: z.clamp(0, 1), 0.0, 1.0),
    "nn.GELU": module(nn.GELU),
    "F.gelu(tanh)": plain(lambda z: F.gelu(z, approximate="tanh")),
    "nn.SiLU": module(nn.SiLU),
    "F.silu": plain(F.silu),
    "nn.ELU": module(nn.ELU, ELU_CUTOFF),
    "F.elu": plain(F.elu, ELU_CUTOFF),
    "nn.Softplus": module(nn.Softplus, SOFTPLUS_CUTOFF),
    "nn.PReLU": module(nn.PReLU),
    "scripted relu": plain(scripted),
    "custom Function": plain(Custom.apply),
}
RARE = ("scripted relu", "custom Function")


def activation(draw: Draw, h: Known, before: Before) -> Step | None:
    if is_raw(h):
        return None
    common = draw.maybe(0.4)
    names = [name for name in SPELLINGS if name not in RARE or draw.maybe(0.3)]
    name = draw.one_of(["nn.ReLU", "F.relu", "torch.relu"] if common else names)
    run, cutoff, ceiling, make = SPELLINGS[name]
    if make is None:
        return Activation(name, run, cutoff, ceiling)
    again = [step.layer for step in draw.steps if step.text == name]
    return Activation(name, run, cutoff, ceiling, layer=again[0] if again and draw.maybe() else make())


RELUS: dict[str, tuple[Maker, int]] = {"relu": (activation, 1)}
