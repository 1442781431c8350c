"""Sparse autoencoders as people spell them: each keeps the latents that its decoder sees, which are the truth."""

from __future__ import annotations

from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import Tensor, nn

WIDTH, LATENTS, K = 10, 48, 5


class Encoder(nn.Module):
    """encode(model, x) makes the sparse latents; they are kept in `seen`."""

    def __init__(self, encode: Callable[[Encoder, Tensor], Tensor]) -> None:
        super().__init__()
        self.encoder, self.gate, self.decoder = (
            nn.Linear(WIDTH, LATENTS),
            nn.Linear(WIDTH, LATENTS),
            nn.Linear(LATENTS, WIDTH, bias=False),
        )
        self.level, self.scale = nn.Parameter(torch.rand(LATENTS)), nn.Parameter(torch.zeros(LATENTS))
        self.register_buffer("running_level", torch.tensor(0.8))
        self.act = nn.ReLU()
        self.encode = encode
        self.seen = torch.empty(0)

    def forward(self, x: Tensor) -> Tensor:
        h = self.encode(self, x)
        self.seen = h.detach().clone()
        return self.decoder(h)


SPELLINGS: dict[str, Callable[[Encoder, Tensor], Tensor]] = {}
TOLD: dict[str, Callable[[Encoder, Tensor], Tensor]] = {}  # what is not counted, and said so


def spelled(encode: Callable[[Encoder, Tensor], Tensor]) -> Callable[[Encoder, Tensor], Tensor]:
    SPELLINGS[encode.__name__] = encode
    return encode


def told(encode: Callable[[Encoder, Tensor], Tensor]) -> Callable[[Encoder, Tensor], Tensor]:
    TOLD[encode.__name__] = encode
    return encode


# Top-k


@spelled
def relu_after(m, x):
    z = m.encoder(x)
    top = torch.topk(z, k=K, dim=-1)
    h = torch.zeros_like(z)
    h.scatter_(-1, top.indices, m.act(top.values))
    return h


@spelled
def relu_before(m, x):
    z = m.act(m.encoder(x))
    values, index = z.topk(K, sorted=False, dim=-1)
    return torch.zeros_like(z).scatter_(dim=-1, index=index, src=values)


@spelled
def linear_values(m, x):
    z = m.encoder(x) - 1.5  # so that negative values are among the largest
    values, index = z.topk(K)
    return torch.zeros_like(z).scatter(-1, index, values)


@spelled
def relu_on_the_sparse_code(m, x):
    z = m.encoder(x) - 1.5
    values, index = z.topk(K)
    return m.act(torch.zeros_like(z).scatter(-1, index, values))


@spelled
def threshold_after(m, x):
    z = m.encoder(x)
    values, index = z.topk(K)
    return torch.zeros_like(z).scatter(-1, index, F.threshold(values, 1.0, 0.0))


@spelled
def softmax_of_the_chosen(m, x):
    z = m.encoder(x)
    values, index = z.topk(K)
    return torch.zeros_like(z).scatter(-1, index, values.softmax(-1))


@spelled
def mask_by_scatter(m, x):
    z = m.encoder(x)
    mask = torch.zeros_like(z)
    mask.scatter_(-1, z.topk(k=K, dim=-1).indices, 1)
    return z * mask


@spelled
def mask_of_the_absolute_values(m, x):
    z = m.encoder(x)
    chosen = torch.topk(torch.abs(z), k=min(K, z.shape[-1]), dim=-1)
    mask = torch.zeros_like(z)
    mask.scatter_(-1, chosen.indices, 1.0)
    return z * mask


@spelled
def gathered_by_absolute_value(m, x):
    z = m.encoder(x)
    index = z.abs().topk(K).indices
    return torch.zeros_like(z).scatter_(-1, index, z.gather(-1, index))


@spelled
def at_least_the_kth(m, x):
    z = m.encoder(x)
    least = torch.topk(z, K, dim=1)[0][:, -1].unsqueeze(1)
    return torch.where(z >= least, z, torch.zeros_like(z))


@spelled
def below_the_kth_filled(m, x):
    z = m.act(m.encoder(x))
    return z.masked_fill(z < z.topk(K).values.min(-1, keepdim=True)[0], 0)


@spelled
def below_the_kth_set_in_place(m, x):
    z = m.encoder(x).clone()
    z[z < z.topk(K)[0][:, -1:]] = 0
    return z


@spelled
def by_kthvalue(m, x):
    z = m.encoder(x)
    level = z.kthvalue(z.shape[-1] - K + 1, -1, keepdim=True).values
    return torch.where(z < level, 0.0, z)


@spelled
def by_quantile(m, x):
    z = m.encoder(x)
    return z * (z > z.quantile(0.9, dim=-1, keepdim=True))


@spelled
def written_by_index(m, x):
    z = m.encoder(x)
    values, index = z.topk(K)
    h = torch.zeros_like(z)
    h[torch.arange(len(z))[:, None], index] = values.relu()
    return h


@spelled
def one_hot_rows(m, x):
    z = m.encoder(x)
    values, index = z.topk(K)
    return torch.einsum("nk,nkc->nc", values.relu(), F.one_hot(index, LATENTS).to(z.dtype))


@spelled
def compared_with_all_indices(m, x):
    z = m.encoder(x)
    index = z.topk(K).indices
    return z * (torch.arange(LATENTS)[None, :, None] == index[:, None, :]).any(-1)


@spelled
def winner_takes_all(m, x):
    z = m.encoder(x)
    winner = torch.argmax(z, dim=1, keepdim=True)
    return torch.zeros_like(z).scatter_(1, winner, z.gather(1, winner))


# Batch top-k


@spelled
def batch_flattened(m, x):
    z = m.act(m.encoder(x))
    flat = z.flatten()
    top = torch.topk(flat, K * x.shape[0], dim=-1)
    return torch.zeros_like(flat).scatter(-1, top.indices, top.values).reshape(z.shape)


@spelled
def batch_mask(m, x):
    z = m.act(m.encoder(x))
    mask = torch.zeros(z.numel(), dtype=torch.bool)
    mask[z.reshape(-1).topk(K * len(x), sorted=False).indices] = True
    return z * mask.view_as(z)


@spelled
def batch_least(m, x):
    z = m.act(m.encoder(x))
    least = z.flatten().topk(K * len(x)).values[-1]
    return z * (z >= least)


@spelled
def batch_running_threshold(m, x):
    z = m.act(m.encoder(x))
    return z * (z > m.running_level)


# JumpReLU and gates


@spelled
def jump(m, x):
    z = m.encoder(x)
    return z * (z > m.level)


@spelled
def jump_the_other_way_round(m, x):
    z = m.encoder(x)
    return (m.level < z) * z


@spelled
def jump_over_relu(m, x):
    z = m.encoder(x)
    return m.act(z) * (z > m.level).to(z.dtype)


class Jump(torch.autograd.Function):
    """As it is trained, with a gradient of its own for the threshold."""

    @staticmethod
    def forward(ctx, z, level):
        ctx.save_for_backward(z, level)
        return z * (z > level).float()

    @staticmethod
    def backward(ctx, gradient):
        z, level = ctx.saved_tensors
        return (z > level) * gradient, None


@spelled
def jump_as_a_function(m, x):
    return Jump.apply(m.encoder(x), m.level)


@spelled
def gated(m, x):
    return (m.gate(x) > 0).to(x.dtype) * m.act(m.encoder(x))


@spelled
def gated_with_shared_weights(m, x):
    both = m.encoder(x)
    on = (both + m.level - 0.5 > 0).float()
    return on * F.relu(m.scale.exp() * both + m.gate.bias)


@spelled
def gated_by_where(m, x):
    return torch.where(m.gate(x) > 0, m.act(m.encoder(x)), torch.zeros(()))


@spelled
def gated_by_heaviside(m, x):
    return torch.heaviside(m.gate(x), torch.zeros(())) * m.act(m.encoder(x))


# Told


@told
def sorted_and_cut(m, x):
    z = m.encoder(x)
    order = z.argsort(-1, descending=True)[:, :K]
    mask = torch.zeros_like(z)
    mask[torch.arange(len(z))[:, None], order] = 1
    return z * mask


@told
def sorted_and_scattered(m, x):
    z = m.encoder(x)
    values, index = z.sort(-1, descending=True)
    return torch.zeros_like(z).scatter(-1, index[:, :K], values[:, :K].relu())


class Winners(torch.autograd.Function):
    """k winners, by a sort inside a function."""

    @staticmethod
    def forward(ctx, z):
        _, order = z.sort(1, descending=True)
        on = torch.zeros_like(z, dtype=torch.bool)
        on[torch.arange(len(z))[:, None], order[:, :K]] = True
        out = z.clone()
        out[~on] = 0
        return out

    @staticmethod
    def backward(ctx, gradient):
        return gradient


@told
def winners_as_a_function(m, x):
    return Winners.apply(m.encoder(x))


@told
def relu_of_what_absolute_values_choose(m, x):
    z = m.encoder(x)
    index = z.abs().topk(K).indices
    return torch.zeros_like(z).scatter_(-1, index, z.gather(-1, index).relu())


@told
def sparse_tensor(m, x):
    z = m.encoder(x)
    values, index = z.topk(K)
    rows = torch.arange(len(z))[:, None].expand_as(index)
    places = torch.stack([rows.flatten(), index.flatten()])
    return torch.sparse_coo_tensor(places, values.relu().flatten(), z.shape, check_invariants=False).to_dense()
