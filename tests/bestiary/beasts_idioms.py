"""Models used in odd ways: transformed, checkpointed, cast, patched, pruned, shared, frozen, routed, half declared."""

from __future__ import annotations

import copy
from dataclasses import dataclass
from functools import partial
from math import log
from typing import Any

import torch
import torch.nn.functional as F
from case import Layer, along, case
from notebook import Made, folded, heads_and_features, hush, interleaved, note, noted, noted_by, plant
from torch import Tensor, nn
from torch.func import functional_call, grad, jvp, vmap
from torch.nn.utils import parametrizations, parametrize, prune
from torch.utils.checkpoint import checkpoint
from torch.utils.data import DataLoader, Dataset, TensorDataset

from alive import Declared
from alive.functional import Activation

N = 5
SOFTPLUS = log(0.1 / 0.9)


def two_layers(**more: Any) -> Made:
    """A plain network: two layers of units, one of each dead, one linear; a point of zeros dies in the second."""

    def go(net, x):
        h = F.relu(note(net.first(x)))
        return net.out(F.relu(note(net.second(h))))

    net = Made(go, first=nn.Linear(3, N), second=nn.Linear(N, N), out=nn.Linear(N, 2), **more)
    hush(net.second)
    plant(net.first, dead=(1,), linear=(2,))
    with torch.no_grad():
        net.second.weight[:, 2] = -0.5
    return net


# Transformed


def _with_other_weights(model: nn.Module, x: Tensor) -> Any:
    return functional_call(model, {name: 1.5 * p for name, p in model.named_parameters()}, x)


@case("functional_call with weights made of the model's", "idiom", **noted_by(_with_other_weights))
def functional():
    return two_layers(), torch.randn(6, 3)


@case("functional_call: the softplus of a parameter is no layer", "idiom", **noted_by(_with_other_weights))
def functional_softplus():
    def go(net, x):
        return net.out(F.relu(note(net.first(x) * F.softplus(net.scale))))

    net = Made(go, first=nn.Linear(3, N), out=nn.Linear(N, 2), scale=nn.Parameter(torch.randn(N)))
    plant(net.first, dead=(1,), linear=(2,))
    return net, torch.randn(N, 3)


@case("vmap over the points", "idiom", truth=noted, forward=lambda model, x: vmap(model)(x))
def vmapped():
    return two_layers(), torch.randn(6, 3)


STRETCH = torch.tensor([1.0, -2.0, 0.5])


def _many_models(model: nn.Module, x: Tensor) -> Any:
    stacked = {name: torch.stack([p * s for s in STRETCH]) for name, p in model.named_parameters()}
    return vmap(lambda weights: functional_call(model, weights, x))(stacked)


def _model_by_model(model: nn.Module, x: Tensor, together: bool) -> list[Layer]:
    def one(scale: Tensor) -> list[Layer]:
        return noted(model, x, lambda m, x: functional_call(m, {n: p * scale for n, p in m.named_parameters()}, x))

    by_model = [one(scale) for scale in STRETCH]
    if not together:
        return [layer for layers in by_model for layer in layers]
    zs = [torch.stack([layer.z for layer in layers]) for layers in zip(*by_model, strict=True)]
    return [Layer(z, along(z, 1), heads_and_features(z, 0, 2)) for z in zs]


@case(
    "vmap over the weights of several models",
    "idiom",
    truth=partial(_model_by_model, together=True),
    others=(partial(_model_by_model, together=False),),
    forward=_many_models,
)
def vmapped_models():
    return two_layers(), torch.randn(6, 3)


def _with_gradient(model: nn.Module, x: Tensor) -> Any:
    slopes = grad(lambda x: model(x).sum())(x)
    return model(x) * slopes.square().sum()


@case(
    "torch.func.grad, and a pass of its own",
    "idiom",
    truth=noted,
    forward=_with_gradient,
    others=(partial(noted, forward=lambda model, x: (model(x), model(x))),),
)
def func_grad():
    return two_layers(), torch.randn(6, 3)


@case("forward-mode AD", "idiom", truth=noted, forward=lambda model, x: jvp(model, (x,), (torch.ones_like(x),))[1])
def forward_mode():
    return two_layers(), torch.randn(6, 3)


def _gradient_penalty(model: nn.Module, x: Tensor) -> Any:
    with torch.enable_grad():
        x = x.detach().requires_grad_()
        y = model(x)
        (slopes,) = torch.autograd.grad(y.sum(), x, create_graph=True)
    return y, (slopes.norm(dim=1) - 1).square()


@case("gradient penalty: double backward", "idiom", **noted_by(_gradient_penalty))
def gradient_penalty():
    def go(net, x):
        return net.out(F.relu(note(net.second(F.silu(note(net.first(x)))))))

    net = Made(go, first=nn.Linear(3, N), second=nn.Linear(N, N), out=nn.Linear(N, 1))
    plant(net.second, dead=(1,), linear=(2,))
    return net, torch.randn(6, 3)


@case("a copy runs beside the model", "idiom", truth=noted, forward=lambda model, x: model(x) + copy.deepcopy(model)(x))
def copied():
    return two_layers(), torch.randn(6, 3)


@case("a critic that sees true and false points in two passes", "idiom", **noted_by(lambda m, x: (m(x), m(-x.flip(1)))))
def two_passes():
    return two_layers(), torch.randn(6, 3)


@case("only a part of the model runs", "idiom", **noted_by(lambda model, x: model.encoder(x)))
def only_a_part():
    def go(net, x):
        return net.decoder(net.encoder(x))

    return Made(go, encoder=two_layers(), decoder=two_layers()), torch.randn(6, 3)


@case("a part watched inside a whole that calls it twice", "idiom", **noted_by(lambda part, x: part.whole[0](x)))
def part_of_a_whole():
    def go(net, x):
        return net.part(net.before(x)) + net.part(x)

    part = two_layers()
    part.whole = [Made(go, before=nn.Linear(3, 3), part=part)]  # in a list, for the part does not own it
    return part, torch.randn(6, 3)


def _checkpointed(reentrant: bool) -> tuple[nn.Module, Tensor]:
    def go(net, x):
        h = net.into(F.relu(note(net.before(x))))
        return checkpoint(net.body, h, use_reentrant=reentrant)

    net = Made(go, before=nn.Linear(3, N), into=nn.Linear(N, 3), body=two_layers())
    plant(net.before, dead=(1,), linear=(2,))
    return net, torch.randn(6, 3)


@case("checkpointing", "idiom", truth=noted)
def checkpointed():
    return _checkpointed(reentrant=False)


@case("checkpointing, reentrant: no graph in the first pass", "idiom", truth=noted)
def checkpointed_reentrant():
    return _checkpointed(reentrant=True)


def _compiled(model: nn.Module, x: Tensor) -> list[Layer]:
    first, _, second, _, _ = model.body._orig_mod
    z = first(x)
    y = second(z.relu())
    return [Layer(each, along(each, 0), along(each, 1)) for each in (z, y)]


@case("a part that torch.compile traces", "idiom", truth=_compiled)
def compiled():
    body = nn.Sequential(nn.Linear(3, N), nn.ReLU(), nn.Linear(N, N), nn.ReLU(), nn.Linear(N, 1))
    plant(body[0], dead=(1,), linear=(2,))
    torch._dynamo.reset()
    return Made(lambda net, x: net.body(x), body=torch.compile(body, backend="eager")), torch.randn(6, 3)


# Numbers of another kind


def dyadic(net: nn.Module) -> nn.Module:
    """Weights that half precision holds without rounding."""
    with torch.no_grad():
        for p in net.parameters():
            p.copy_(torch.randint(-2, 3, p.shape) / 2)
    return net


def _coarse(dtype: torch.dtype) -> tuple[nn.Module, Tensor]:
    def go(net, x):
        return F.relu(note(net.first(x))).detach()

    return dyadic(Made(go, first=nn.Linear(3, N))).to(dtype), torch.randint(-2, 3, (6, 3)).to(dtype)


@case("bfloat16", "idiom", truth=noted)
def bfloat16():
    return _coarse(torch.bfloat16)


@case("half precision", "idiom", truth=noted)
def half():
    return _coarse(torch.float16)


@case("double precision", "idiom", truth=noted)
def double():
    return two_layers().double(), torch.randn(6, 3).double()


def _autocast(model: nn.Module, x: Tensor) -> Any:
    with torch.autocast("cpu", dtype=torch.bfloat16):
        return model(x)


@case("autocast to bfloat16", "idiom", **noted_by(_autocast))
def autocast():
    return _coarse(torch.float32)


@case("complex numbers: ReLU on the modulus", "idiom", truth=noted)
def complex_modulus():
    def go(net, x):
        z = torch.complex(net.real(x), net.imaginary(x))
        size = F.relu(note(z.abs() + net.shift))
        return net.out(size * z.angle().cos())

    net = Made(
        go,
        real=nn.Linear(3, N),
        imaginary=nn.Linear(3, N),
        shift=nn.Parameter(torch.tensor([-50.0, 50.0, -0.5, -1.0, 0.0])),
        out=nn.Linear(N, 1),
    )
    return net, torch.randn(N, 3)


@case("complex numbers: real and imaginary parts through a ReLU each", "idiom", truth=noted)
def complex_parts():
    def go(net, x):
        z = torch.fft.fft(x, dim=1) @ torch.view_as_complex(net.weight)
        return (F.relu(note(z.real + net.shift)) + F.relu(note(z.imag))).sum(1)

    shift = nn.Parameter(torch.tensor([-50.0, 50.0, 0.0, 0.0, 0.0]))
    return Made(go, weight=nn.Parameter(torch.randn(N, N, 2)), shift=shift), torch.randn(N, N)


@case("fake quantisation of weights and activations, straight through", "idiom", truth=noted)
def fake_quantisation():
    def through(x: Tensor) -> Tensor:
        return x + ((x * 8).round() / 8 - x).detach()

    def go(net, x):
        h = F.relu(note(F.linear(through(x), through(net.first.weight), net.first.bias)))
        q = torch.fake_quantize_per_tensor_affine(net.second.weight, 0.05, 0, -128, 127)
        return net.out(F.relu(note(F.linear(through(h), q, net.second.bias))))

    net = two_layers()
    net.go = go
    return net, torch.randn(6, 3)


@case("channels last in memory", "idiom", truth=noted)
def channels_last():
    def go(net, x):
        h = F.relu(note(net.conv(x), units=1))
        return net.out(F.relu_(note(net.bn(net.deep(h)), units=1).clone()).mean((2, 3)))

    net = Made(
        go, conv=nn.Conv2d(4, 4, 3), deep=nn.Conv2d(4, 4, 3, groups=4), bn=nn.BatchNorm2d(4), out=nn.Linear(4, 1)
    )
    plant(net.conv, dead=(1,), linear=(2,))
    return net.to(memory_format=torch.channels_last), torch.randn(4, 4, 6, 6).to(memory_format=torch.channels_last)


@case("a sparse matrix of inputs", "idiom", truth=noted)
def sparse():
    def go(net, x):
        return net.out(F.relu(note(torch.sparse.mm(x.to_sparse(), net.weight) + net.shift)))

    net = Made(
        go, weight=nn.Parameter(torch.randn(N, N)), shift=nn.Parameter(torch.full((N,), -0.2)), out=nn.Linear(N, 1)
    )
    x = torch.randn(N, N) * (torch.rand(N, N) > 0.5)
    x[3] = 0.0
    return net, x


# Data


@case("gradient accumulation: batches of several sizes, one penalty", "idiom", truth=noted)
def accumulated():
    return two_layers(), [torch.randn(6, 3), torch.randn(6, 3), torch.randn(2, 3)]


@case("a loader of (x, y), the last batch smaller", "idiom", truth=noted)
def loader():
    return two_layers(), DataLoader(
        TensorDataset(torch.randn(8, 3), torch.arange(8)), batch_size=5, generator=torch.Generator()
    )


class Records(Dataset):
    """Points as mappings."""

    def __init__(self, n: int) -> None:
        self.x = torch.randn(n, 3)

    def __len__(self) -> int:
        return len(self.x)

    def __getitem__(self, at: int) -> dict[str, Any]:
        return {"x": self.x[at], "gain": float(at % 2)}


@case("a loader of mappings", "idiom", truth=noted)
def loader_of_mappings():
    def go(net, x, gain):
        return net.out(F.relu(note(net.first(x) * (1 + gain.float()[:, None]))))

    net = Made(go, first=nn.Linear(3, N), out=nn.Linear(N, 2))
    plant(net.first, dead=(1,), linear=(2,))
    return net, DataLoader(Records(8), batch_size=5, generator=torch.Generator())


@case("keywords only, one of them no tensor", "idiom", truth=noted)
def keywords():
    def go(net, *, x, times, scale=1.0):
        h = x
        for _ in range(times):
            h = net.back(F.relu(note(net.first(h) * scale)))
        return h

    net = Made(go, first=nn.Linear(3, N), back=nn.Linear(N, 3))
    plant(net.first, dead=(1,), linear=(2,))
    return net, [{"x": torch.randn(6, 3), "times": 2}]


@case("routes by a key of the batch", "idiom", truth=noted)
def routes():
    def go(net, x, key):
        z = net.routes[key](x)
        return net.out(F.relu(note(z, name=key)))

    class Route(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.linear = nn.Linear(3, N)

        def forward(self, x):
            return self.linear(x)

    net = Made(go, routes=nn.ModuleDict({key: Route() for key in "ab"}), out=nn.Linear(N, 1))
    plant(net.routes["b"].linear, dead=(1,), linear=(2,))
    x = torch.randn(4, 3)
    return net, [{"x": x, "key": "b"}, {"x": x, "key": "a"}, {"x": -x, "key": "b"}]


@case("padding taken out: rows of true tokens alone", "idiom", truth=noted)
def unpadded():
    def go(net, x, mask):
        rows = x[mask]  # [tokens, C]
        rows = net.back(F.relu(note(net.first(rows), point=mask.nonzero()[:, :1])))
        return net.out(x.new_zeros(*mask.shape, 3).index_put(mask.nonzero(as_tuple=True), rows))

    net = Made(go, first=nn.Linear(3, N), back=nn.Linear(N, 3), out=nn.Linear(3, 1))
    plant(net.first, dead=(1,), linear=(2,))
    mask = torch.tensor([[1, 1, 0, 0], [1, 1, 1, 1], [1, 0, 0, 0], [0, 1, 1, 0]]).bool()
    return net, [{"x": torch.randn(4, 4, 3), "mask": mask}]


@case("points sorted, and put back", "idiom", truth=noted)
def sorted_points():
    def go(net, x):
        order = x[:, 0].argsort()
        h = F.relu(note(net.first(x[order]), point=order[:, None]))
        return net.out(F.relu(note(net.second(h[order.argsort()]))))

    net = two_layers()
    net.go = go
    hush(net.first)
    x = torch.randn(6, 3)
    x[2] = 0.0
    return net, x


@case("weights of every point as groups of one convolution", "idiom", truth=noted)
def conditional_convolution():
    def go(net, x):
        n, c, height, width = x.shape
        mix = net.gate(x.mean((2, 3))).softmax(1)  # [N, K]
        kernels = torch.einsum("nk,koihw->noihw", mix, net.kernels)
        y = F.conv2d(x.reshape(1, n * c, height, width), kernels.flatten(0, 1), padding=1, groups=n)
        y = y.view(n, -1, height, width) + net.shift[:, None, None]
        return net.out(F.relu(note(y, units=1)).mean((2, 3)))

    net = Made(
        go,
        gate=nn.Linear(4, 4),
        kernels=nn.Parameter(torch.randn(4, 4, 4, 3, 3)),
        shift=nn.Parameter(torch.tensor([-90.0, 90.0, 0.0, 0.0])),
        out=nn.Linear(4, 1),
    )
    return net, torch.randn(4, 4, 4, 4)


@case("weights of every point as groups of one convolution, the ReLU before they are told apart", "idiom", truth=noted)
def conditional_convolution_flat():
    def go(net, x):
        n, c, height, width = x.shape
        scale = net.gate(x.mean((2, 3))).sigmoid()  # [N, C]: a style for every point
        kernels = net.kernels * scale[:, None, :, None, None]  # [N, O, C, 3, 3]
        y = F.conv2d(x.reshape(1, n * c, height, width), kernels.flatten(0, 1), padding=1, groups=n)  # [1, N * O, H, W]
        rows = torch.arange(y.shape[1])[None, :, None, None]
        y = F.leaky_relu(note(y, point=rows // 4, unit=rows % 4), 0.2)
        return net.out(y.view(n, -1, height, width).mean((2, 3)))

    net = Made(go, gate=nn.Linear(4, 4), kernels=nn.Parameter(torch.randn(4, 4, 3, 3)), out=nn.Linear(4, 1))
    with torch.no_grad():
        net.kernels[1].abs_()
    x = torch.rand(4, 4, 4, 4)
    return net, x


# Modules that are not what they seem


@case("one weight, two layers", "idiom", truth=noted)
def shared_weight():
    def go(net, x):
        return net.out(F.relu(note(net.second(F.relu(note(net.first(x)))))))

    net = Made(go, first=nn.Linear(N, N), second=nn.Linear(N, N), out=nn.Linear(N, 1))
    net.second.weight = net.first.weight
    plant(net.first, dead=(1,), linear=(2,))
    plant(net.second, dead=(3,))
    return net, torch.randn(N, N)


@case("one module under two names, its ReLU too", "idiom", truth=noted)
def shared_module():
    class Block(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.linear, self.act = nn.Linear(N, N), nn.ReLU()

        def forward(self, x):
            return self.act(note(self.linear(x)))

    block = Block()
    plant(block.linear, dead=(1,), linear=(2,))
    return Made(lambda net, x: net.b(net.middle(net.a(x))), a=block, middle=nn.Linear(N, N), b=block), torch.randn(N, N)


@case("frozen parts", "idiom", truth=noted)
def frozen():
    net = two_layers()
    net.first.requires_grad_(False)
    return net, torch.randn(6, 3)


@case("random features that are no parameters at all", "idiom", truth=noted)
def random_features():
    def go(net, x):
        return net.out(F.relu(note(x @ net.features[0] - 0.1)))

    net = Made(go, out=nn.Linear(N, 2))
    net.features = [torch.randn(3, N)]
    x = torch.randn(6, 3)
    x[4] = 0.0
    return net, x


@case("batch norm that stays in eval mode", "idiom", truth=noted)
def still_norm():
    class Still(nn.BatchNorm1d):
        def train(self, mode: bool = True) -> Still:
            return super().train(False)

    def go(net, x):
        return net.out(F.relu(note(net.norm(net.first(x)))))

    net = Made(go, first=nn.Linear(3, N), norm=Still(N), out=nn.Linear(N, 1))
    net.norm.train()
    net.norm.running_mean.normal_()
    plant(net.norm, dead=(1,), linear=(2,))
    return net, torch.randn(6, 3)


class LowRank(nn.Linear):
    """A linear layer with an update of low rank, merged into its weight in eval mode, as loralib does."""

    def __init__(self, inputs: int, outputs: int) -> None:
        super().__init__(inputs, outputs)
        self.down, self.up = nn.Parameter(torch.randn(1, inputs)), nn.Parameter(torch.randn(outputs, 1))
        self.weight.requires_grad_(False)
        self.merged = False

    def train(self, mode: bool = True) -> LowRank:
        super().train(mode)
        if self.merged == mode:
            self.weight.data += (-1 if mode else 1) * (self.up @ self.down).data
            self.merged = not mode
        return self

    def forward(self, x: Tensor) -> Tensor:
        y = F.linear(x, self.weight, self.bias)
        return y if self.merged else y + x @ self.down.T @ self.up.T


@case("updates of low rank, merged in eval mode", "idiom", truth=noted)
def low_rank():
    def go(net, x):
        return net.out(F.relu(note(net.first(x))))

    net = Made(go, first=LowRank(3, N), out=nn.Linear(N, 1))
    plant(net.first, dead=(1,), linear=(2,))
    return net, torch.randn(6, 3)


@case("pruned weights", "idiom", truth=noted)
def pruned():
    net = two_layers()
    prune.l1_unstructured(net.first, "weight", amount=0.5)
    prune.ln_structured(net.second, "weight", amount=2, n=2, dim=0)  # two units without weights: their bias alone
    return net, torch.randn(6, 3)


@case("parametrised weights: orthogonal, symmetric, of spectral norm 1", "idiom", truth=noted)
def parametrised():
    class Symmetric(nn.Module):
        def forward(self, w: Tensor) -> Tensor:
            return w.triu() + w.triu(1).T

    def go(net, x):
        h = F.relu(note(net.first(x)))
        return net.out(F.relu(note(net.second(h))))

    net = Made(go, first=nn.Linear(N, N), second=nn.Linear(N, N), out=nn.Linear(N, 1))
    parametrizations.orthogonal(net.first)
    parametrize.register_parametrization(net.second, "weight", Symmetric())
    parametrizations.spectral_norm(net.out)
    plant(net.first, dead=(1,), linear=(2,))
    return net, torch.randn(6, N)


@case("a weight mixed of several", "idiom", truth=noted)
def mixed_weight():
    def go(net, x):
        weight = torch.einsum("k,koi->oi", net.mix.softmax(0), net.weights)
        return net.out(F.relu(note(F.linear(x, weight, net.shift))))

    net = Made(
        go,
        mix=nn.Parameter(torch.randn(N)),
        weights=nn.Parameter(torch.randn(N, N, N)),
        shift=nn.Parameter(torch.tensor([-50.0, 50.0, 0.0, 0.0, 0.0])),
        out=nn.Linear(N, 1),
    )
    return net, torch.randn(N, N)


@case("hooks of the user's own that change what passes", "idiom", truth=noted)
def users_hooks():
    net = two_layers()
    net.first.register_forward_hook(lambda module, args, output: output - 1.0)
    net.second.register_forward_pre_hook(lambda module, args: (args[0] * 2,))
    return net, torch.randn(6, 3)


@case("a forward patched from outside", "idiom", truth=noted)
def patched():
    net = two_layers()
    net.first.forward = lambda x: F.linear(x.flip(1), net.first.weight) + 0.25
    return net, torch.randn(6, 3)


@case("a Sequential that connects all to all", "idiom", truth=noted)
def dense_sequential():
    class Dense(nn.Sequential):
        def forward(self, x):
            seen = [x]
            for part in self:
                seen.append(F.relu(note(part(torch.cat(seen, 1)))))
            return seen[-1]

    net = Dense(nn.Linear(3, N), nn.Linear(3 + N, N), nn.Linear(3 + 2 * N, N))
    plant(net[1], dead=(1,), linear=(2,))
    return net, torch.randn(N, 3)


@case("a model that calls itself", "idiom", truth=noted)
def calls_itself():
    def go(net, x, depth=2):
        h = net.back(F.relu(note(net.first(x))))
        return net(h, depth - 1) if depth else h

    net = Made(go, first=nn.Linear(3, N), back=nn.Linear(N, 3))
    plant(net.first, dead=(1,), linear=(2,))
    return net, torch.randn(6, 3)


@dataclass
class Answer:
    """What a model may return."""

    logits: Tensor
    hidden: list[Tensor]


@case("a model that returns a dataclass", "idiom", truth=noted)
def returns_dataclass():
    net = two_layers()
    plain = net.go

    def go(net, x):
        y = plain(net, x)
        return Answer(y, [y])

    net.go = go
    return net, torch.randn(6, 3)


@case("a model that returns nothing", "idiom", truth=noted)
def returns_nothing():
    net = two_layers()
    plain = net.go

    def go(net, x):
        plain(net, x)

    net.go = go
    return net, torch.randn(6, 3)


@case("a block that is left out while training", "idiom", truth=noted)
def left_out():
    def go(net, x):
        h = F.relu(note(net.first(x)))
        if not net.training:
            h = h + F.relu(note(net.second(h)))
        return net.out(F.relu(note(net.third(h))))

    net = Made(go, first=nn.Linear(3, N), second=nn.Linear(N, N), third=nn.Linear(N, N), out=nn.Linear(N, 1))
    plant(net.second, dead=(1,), linear=(2,))
    return net, torch.randn(6, 3)


@case("buffers that a pass in training changes", "idiom", truth=noted)
def running_mean():
    def go(net, x):
        z = net.first(x)
        if net.training:
            net.mean.lerp_(z.detach().mean(0), 0.1)
        return net.out(F.relu(note(z - net.mean)))

    net = Made(go, first=nn.Linear(3, N), out=nn.Linear(N, 1))
    net.register_buffer("mean", torch.zeros(N))
    plant(net.first, dead=(1,), linear=(2,))
    return net, [torch.randn(6, 3), torch.randn(4, 3)]


@case("an encoder under no_grad", "idiom", truth=noted)
def no_gradient():
    def go(net, x):
        with torch.no_grad():
            h = F.relu(note(net.first(x)))
        return net.out(F.relu(note(net.second(h))))

    net = two_layers()
    net.go = go
    return net, torch.randn(6, 3)


@case("detached between two layers", "idiom", truth=noted)
def detached():
    def go(net, x):
        h = F.relu(note(net.first(x))).detach()
        return net.out(F.relu(note(net.second(h))))

    net = two_layers()
    net.go = go
    return net, torch.randn(6, 3)


class Opaque(torch.autograd.Function):
    """A linear map with a backward of its own."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor) -> Tensor:
        ctx.save_for_backward(x, weight)
        return torch.from_numpy(x.detach().numpy() @ weight.detach().numpy().T)

    @staticmethod
    def backward(ctx: Any, slope: Tensor) -> tuple[Tensor, Tensor]:
        x, weight = ctx.saved_tensors
        return slope @ weight, slope.flatten(0, -2).T @ x.flatten(0, -2)


@case("a linear map that nobody sees into", "idiom", truth=noted)
def opaque():
    def go(net, x):
        z = Opaque.apply(x, net.weight) + net.shift
        return net.out(F.relu(note(z)).mean(1))

    net = Made(
        go,
        weight=nn.Parameter(torch.randn(N, N)),
        shift=nn.Parameter(torch.tensor([-50.0, 50.0, 0.0, 0.0, 0.0])),
        out=nn.Linear(N, 1),
    )
    return net, torch.randn(N, N, N)


@case("in place, on half of the features", "idiom", truth=noted)
def half_in_place():
    def go(net, x):
        h = net.first(x) * 1.0
        note(h[:, :2].clone())
        h[:, :2].relu_()
        return net.out(h)

    net = Made(go, first=nn.Linear(3, N), out=nn.Linear(N, 1))
    plant(net.first, dead=(1,))
    return net, torch.randn(6, 3)


@case("products of two inputs", "idiom", truth=noted)
def bilinear():
    def go(net, left, right):
        return net.out(F.relu(note(net.both(left, right))))

    net = Made(go, both=nn.Bilinear(3, 4, N), out=nn.Linear(N, 1))
    plant(net.both, dead=(1,), linear=(2,))
    return net, [{"left": torch.randn(N, 3), "right": torch.randn(N, 4)}]


@case("the batch behind an axis of one", "idiom", truth=noted)
def behind_an_axis():
    def go(net, x):
        return net.out(F.relu(note(net.first(x[None]), points=1)))[0]

    net = Made(go, first=nn.Linear(3, N), out=nn.Linear(N, 1))
    hush(net.first)
    x = torch.randn(N, 3)
    x[4] = 0.0
    return net, x


@case("points copied for views that are averaged", "idiom", truth=noted)
def views():
    def go(net, x):
        rows = torch.stack([x, x.flip(1), -x]).flatten(0, 1)  # [3 * N, C]
        h = F.relu(note(net.first(rows), point=interleaved(len(rows), len(x))))
        return net.out(h).view(3, len(x), -1).mean(0)

    net = Made(go, first=nn.Linear(3, 4), out=nn.Linear(4, 1))
    hush(net.first)
    x = torch.randn(4, 3)
    x[1] = 0.0
    return net, x


@case("tiles of an image folded into the batch, and back", "idiom", truth=noted)
def tiles():
    def go(net, x):
        n, c = x.shape[:2]
        cut = x.unfold(2, 4, 4).unfold(3, 4, 4)  # [N, C, 2, 2, 4, 4]
        rows = cut.permute(0, 2, 3, 1, 4, 5).reshape(n * 4, c, 4, 4)
        h = F.relu(note(net.conv(rows), point=folded(n * 4, 4)[..., None, None], units=1))
        return net.out(h.mean((2, 3))).view(n, 4).mean(1)

    net = Made(go, conv=nn.Conv2d(4, 4, 3), out=nn.Linear(4, 1))
    hush(net.conv)
    x = torch.randn(4, 4, 8, 8)
    x[2] = 0.0
    return net, x


# Declared


@case("only the layers that are asked for", "idiom", truth=noted, options={"layers": ["tail.*"]})
def asked_for():
    def go(net, x):
        h = net.head[1](net.head[0](x))
        h = net.tail[1](note(net.tail[0](h)))
        return net.tail[3](note(net.tail[2](h)))

    net = Made(
        go,
        head=nn.Sequential(nn.Linear(3, N), nn.ReLU()),
        tail=nn.Sequential(nn.Linear(N, N), nn.ReLU(), nn.Linear(N, N), nn.ReLU()),
    )
    plant(net.tail[0], dead=(1,), linear=(2,))
    return net, torch.randn(N, 3)


class Shifted(nn.Module):
    """A ReLU spelled out, with its corner at a half."""

    def forward(self, x: Tensor) -> Tensor:
        return (x - 0.5) * (x > 0.5)


@case(
    "an activation of one's own, declared",
    "idiom",
    truth=noted,
    options={"declared": Declared(activations={Shifted: Activation("shifted", cutoff=0.5)})},
)
def declared():
    def go(net, x):
        return net.out(net.act(note(net.first(x), cutoff=0.5)))

    net = Made(go, first=nn.Linear(3, N), act=Shifted(), out=nn.Linear(N, 1))
    plant(net.first, dead=(1,), linear=(2,))
    return net, torch.randn(6, 3)


@case("the axis of units, declared", "idiom", truth=noted, options={"declared": Declared(unit_axes={"relu": 1})})
def declared_axis():
    def go(net, x):
        z = torch.stack([(x[:, None] * w).sum(-1) for w in net.weight], 1)  # [N, C, T]
        z = z.reshape(len(x), N, -1) + net.shift[:, None]
        return net.out(torch.relu(note(z, units=1)).mean(2))

    shift = nn.Parameter(torch.tensor([-50.0, 50.0, 0.0, 0.0, 0.0]))
    net = Made(go, weight=nn.Parameter(torch.randn(N, N)), shift=shift, out=nn.Linear(N, 1))
    return net, torch.randn(N, N, N)


@case("[T, N, C] outside, [N, T, C] inside", "idiom", truth=noted, options={"point_axis": 1})
def turned_inside():
    def go(net, x):
        h = F.relu(note(net.first(x.transpose(0, 1))))
        return net.out(h).transpose(0, 1)

    net = Made(go, first=nn.Linear(3, N), out=nn.Linear(N, 1))
    hush(net.first)
    x = torch.randn(N, N, 3)
    x[:, 1] = 0.0
    return net, x


@case("points given by run alone: a pair of tensors in a tuple", "idiom", **noted_by(lambda model, pair: model(*pair)))
def pair_of_inputs():
    def go(net, x, y):
        return net.out(F.relu(note(net.first(x) + net.second(y))))

    net = Made(go, first=nn.Linear(3, N), second=nn.Linear(4, N), out=nn.Linear(N, 1))
    plant(net.first, dead=(1,), linear=(2,))
    return net, [(torch.randn(N, 3), torch.randn(N, 4))]
