"""Beasts in which a ReLU is no layer: of parameters, or inside a loss."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from case import case, lean, leaning
from notebook import Made, note, noted, plant
from torch import nn
from torch.func import functional_call


def beside_a_layer(extra, n=6, c=6, **parts):
    """A dense layer with a ReLU, and something else that is called in forward."""

    def go(m, x):
        h = note(m.a(x)).relu()
        return m.extra(m, m.b(h), x)

    a = nn.Linear(3, c)
    lean(a)
    plant(a, dead=(1,))
    return Made(go, a=a, b=nn.Linear(c, c), extra=extra, **parts), leaning(n, 3)


def parameter(*shape):
    return nn.Parameter(torch.randn(shape))


@case("soft thresholding of a weight, relu(w.abs() - s)", "losses", truth=noted)
def soft_threshold():
    def extra(m, h, x):
        w = m.w.sign() * F.relu(m.w.abs() - m.s.sigmoid())
        return h @ w

    return beside_a_layer(extra, w=parameter(6, 6), s=parameter(6, 1))


@case("softplus of a parameter", "losses", truth=noted)
def softplus_parameter():
    return beside_a_layer(lambda m, h, x: h * F.softplus(m.alpha), alpha=parameter(6))


@case("softplus of a function of a parameter", "losses", truth=noted)
def softplus_of_function():
    return beside_a_layer(lambda m, h, x: h * F.softplus(2 * m.alpha - 1), alpha=parameter(6))


@case("softplus of a parameter under functional_call", "losses", truth=noted)
def softplus_called():
    def scaled(m, h):
        return h * F.softplus(m.alpha)

    def extra(m, h, x):
        return functional_call(m.scaled, {"alpha": m.scaled.alpha * 2}, (h,))

    return beside_a_layer(extra, scaled=Made(scaled, alpha=parameter(6)))


class Called(nn.Module):
    """A model whose weights are always handed to it."""

    def __init__(self, inner):
        super().__init__()
        self.inner = inner

    def forward(self, x):
        return functional_call(self.inner, {k: p + 0.0 for k, p in self.inner.named_parameters()}, (x,))


@case("ReLU and softplus of parameters, the whole model under functional_call", "losses", truth=noted)
def all_called():
    model, x = beside_a_layer(
        lambda m, h, x: h @ F.relu(m.w.abs() - 0.5) * F.softplus(m.alpha), w=parameter(6, 6), alpha=parameter(6)
    )
    return Called(model), x


@case("a prior as wide as the batch: ReLU of a buffer", "losses", truth=noted)
def of_a_buffer():
    model, x = beside_a_layer(lambda m, h, x: h + F.relu(m.table))
    model.register_buffer("table", torch.randn(6, 6))
    return model, x


@case("a dense layer on learned queries alone", "losses", truth=noted)
def learned_queries():
    def extra(m, h, x):
        keys = F.relu(m.project(m.queries))  # depends on no point
        return h @ keys.t()

    return beside_a_layer(extra, project=nn.Linear(6, 6), queries=parameter(6, 6))


@case("a penalty on parameters, computed in forward", "losses", truth=noted)
def penalty_in_forward():
    def extra(m, h, x):
        return {"out": h, "penalty": F.relu(m.b.weight.norm(dim=1) - 0.5).sum()}

    return beside_a_layer(extra)


@case("box IoU: clamp(min=0) inside a loss", "losses", truth=noted)
def box_iou():
    def extra(m, h, x):
        box = h[:, :4].sigmoid()
        low = torch.maximum(box[:, :2] - box[:, 2:], m.target[:, :2])
        high = torch.minimum(box[:, :2] + box[:, 2:], m.target[:, 2:])
        size = (high - low).clamp(min=0)
        return h, 1 - size.prod(-1).mean()

    return beside_a_layer(extra, target=torch.rand(6, 4).cumsum(1) / 2)


@case("box IoU of all pairs: clamp(min=0) of [N, M, 2]", "losses", truth=noted)
def box_iou_pairs():
    def extra(m, h, x):
        box = h[:, :4].sigmoid()
        low = torch.max(box[:, None, :2], m.target[None, :, :2])
        high = torch.min(box[:, None, 2:], m.target[None, :, 2:])
        size = (high - low).clamp(min=0)
        return h, 1 - size.prod(-1).mean()

    return beside_a_layer(extra, target=torch.rand(6, 4).cumsum(1) / 2)


@case("hinge loss, relu(1 - y * f)", "losses", truth=noted)
def hinge():
    def extra(m, h, x):
        return h, F.relu(1 - m.y * h[:, 0]).mean()

    return beside_a_layer(extra, y=torch.tensor([1.0, -1, 1, -1, 1, -1]))


@case("hinge loss over classes", "losses", truth=noted)
def hinge_classes():
    def extra(m, h, x):
        right = h.gather(1, m.y[:, None])
        return h, F.relu(1 + h - right).sum(1).mean()

    return beside_a_layer(extra, y=torch.tensor([0, 1, 2, 3, 4, 5]))


@case("triplet margin, relu of distances", "losses", truth=noted)
def triplet():
    def extra(m, h, x):
        near, far = (h - h.roll(1, 0)).norm(dim=-1), (h - h.roll(2, 0)).norm(dim=-1)
        return h, F.relu(near - far + 1).mean()

    return beside_a_layer(extra)


@case("ReLU of the norm of a layer", "losses", truth=noted)
def relu_of_norm():
    return beside_a_layer(lambda m, h, x: (h, F.relu(h.norm(dim=-1) - 1).mean()))


@case("a denominator clamped from below", "losses", truth=noted)
def denominator():
    return beside_a_layer(lambda m, h, x: h / h.norm(dim=-1, keepdim=True).clamp(min=1e-6))


@case("torch's own losses in forward", "losses", truth=noted)
def own_losses():
    def extra(m, h, x):
        y = torch.arange(6)
        losses = F.multi_margin_loss(h, y), F.smooth_l1_loss(h, h.detach() * 0), F.cross_entropy(h, y)
        return h, sum(losses), F.hinge_embedding_loss(h, torch.ones(6, 6)), F.huber_loss(h, h.detach())

    return beside_a_layer(extra)
