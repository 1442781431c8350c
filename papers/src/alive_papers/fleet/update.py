"""One step downhill: Adam and SGD as torch takes them, the gates of a VAN, and connections that follow others."""

from __future__ import annotations

import numpy as np

from .compiled import entry_point, joined, kernel
from .plan import FARKAS, SCALED, SHARED, VAN

ZERO, ONE, HALF = np.float32(0), np.float32(1), np.float32(0.5)
BETA1, BETA2 = 0.9, 0.999


@kernel
def adam(p, g, m, v, lr, eps, step):  # type: ignore[no-untyped-def]
    """p −= lr m̂/(√v̂ + eps); `step` counts from 1."""
    keep1, keep2 = np.float32(1 - BETA1), np.float32(1 - BETA2)
    beta2 = np.float32(BETA2)
    size = np.float32(lr / (1 - BETA1**step))
    root = np.float32(np.sqrt(1 - BETA2**step))
    for i in range(p.size):
        m[i] += keep1 * (g[i] - m[i])
        v[i] = beta2 * v[i] + keep2 * g[i] * g[i]
        p[i] -= size * m[i] / (np.sqrt(v[i]) / root + eps)


@kernel
def sgd(p, g, m, lr, momentum):  # type: ignore[no-untyped-def]
    """m = momentum m + g; p −= lr m."""
    size = np.float32(lr)
    for i in range(p.size):
        m[i] = momentum * m[i] + g[i]
        p[i] -= size * m[i]


@kernel
def move_gates(gates, eta, ratio):  # type: ignore[no-untyped-def]
    """One plain step of α, then of its multiplier with the new α (002, equations 7 and 8); layer 0 has no skip."""
    for level in range(1, gates.alpha.shape[0]):
        for j in range(gates.alpha.shape[1]):
            moved = gates.alpha[level, j] - eta * (gates.gradient[level, j] + gates.multiplier[level, j])
            alpha = min(max(moved, ZERO), ONE)
            gates.alpha[level, j] = alpha
            gates.multiplier[level, j] += ratio * eta * (alpha - ONE)


@kernel
def last_row(weight):  # type: ignore[no-untyped-def]
    """The last row of a Farkas matrix: minus the sum of the others."""
    m = weight.shape[0] - 1
    for k in range(weight.shape[1]):
        t = ZERO
        for j in range(m):
            t += weight[j, k]
        weight[m, k] = -t


@kernel
def farkas(plan, net):  # type: ignore[no-untyped-def]
    """Last rows, and last biases max(−Σ b + δκ, b_m), of all hidden layers; b_m is what is trained."""
    w, m = net.w, net.w.bias.shape[2] - 1
    for i in range(net.free.size):
        net.flat[i] = net.free[i]
    last_row(w.first)
    for level in range(w.inner.shape[0]):
        last_row(w.inner[level])
    for level in range(w.bias.shape[0]):
        w.bias[level, 0, m] = max(bound(plan, w.bias[level, 0]), w.bias[level, 0, m])


@kernel
def bound(plan, bias):  # type: ignore[no-untyped-def]
    """What the last bias may not fall below: −Σ b_j + δ·κ, κ = m for the sum."""
    t = ZERO
    for j in range(bias.size - 1):
        t += bias[j]
    return plan.margin * np.float32(bias.size) - t


@kernel
def last_row_back(slope):  # type: ignore[no-untyped-def]
    """Share the gradient of the last row among the rows it follows; it is not trained itself."""
    m = slope.shape[0] - 1
    for k in range(slope.shape[1]):
        for j in range(m):
            slope[j, k] -= slope[m, k]
        slope[m, k] = ZERO


@kernel
def farkas_back(plan, net):  # type: ignore[no-untyped-def]
    """The gradient of what is trained; where both sides of a bias's maximum are equal each takes half, as in torch."""
    g, w, m = net.g, net.w, net.w.bias.shape[2] - 1
    last_row_back(g.first)
    for level in range(g.inner.shape[0]):
        last_row_back(g.inner[level])
    start = w.first.size + w.inner.size  # of the biases in the arena
    for level in range(w.bias.shape[0]):
        own, least = net.free[start + level * (m + 1) + m], bound(plan, w.bias[level, 0])
        share = HALF if own == least else (ONE if least > own else ZERO)
        for j in range(m):
            g.bias[level, 0, j] -= share * g.bias[level, 0, m]
        g.bias[level, 0, m] *= ONE - share
    for i in range(net.slope.size):
        net.slope[i] = net.flat_slope[i]


@kernel
def spread(net):  # type: ignore[no-untyped-def]
    """Give every connection its multiple of a number; those without one stay zero."""
    for i in range(net.sharing.size):
        if net.sharing[i] >= 0:
            net.flat[i] = net.factor[i] * net.free[net.sharing[i]]


@kernel
def gather(net):  # type: ignore[no-untyped-def]
    """Sum the gradients of all connections that follow a number."""
    for i in range(net.slope.size):
        net.slope[i] = ZERO
    for i in range(net.sharing.size):
        if net.sharing[i] >= 0:
            net.slope[net.sharing[i]] += net.factor[i] * net.flat_slope[i]


@kernel
def scale(net):  # type: ignore[no-untyped-def]
    """W and b of each hidden layer but the first times a number of its own, which lies behind all others."""
    size = net.flat.size
    for i in range(size):
        net.flat[i] = net.free[i]
    for level in range(net.w.inner.shape[0]):
        branch = net.free[size + level]
        net.w.inner[level] *= branch
        net.w.bias[level + 1] *= branch


@kernel
def scale_back(net):  # type: ignore[no-untyped-def]
    """The gradients of W, b and their number from that of the product."""
    size, rows = net.flat.size, net.w.bias.shape[2]
    for i in range(size):
        net.slope[i] = net.flat_slope[i]
    weights, biases = net.w.first.size, net.w.first.size + net.w.inner.size + rows
    for level in range(net.w.inner.shape[0]):
        branch, found = net.free[size + level], ZERO
        for i in range(weights + level * rows * rows, weights + (level + 1) * rows * rows):
            found += net.flat_slope[i] * net.free[i]
            net.slope[i] = branch * net.flat_slope[i]
        for i in range(biases + level * rows, biases + (level + 1) * rows):
            found += net.flat_slope[i] * net.free[i]
            net.slope[i] = branch * net.flat_slope[i]
        net.slope[size + level] = found


@entry_point
def connect(plan, net):  # type: ignore[no-untyped-def]
    """Connections from what is trained."""
    if plan.tie == SHARED:
        spread(net)
    elif plan.tie == FARKAS:
        farkas(plan, net)
    elif plan.tie == SCALED:
        scale(net)


@kernel
def descend(plan, net, first, last, lr, step):  # type: ignore[no-untyped-def]
    """One step of the numbers from `first` to `last`."""
    p, g, m = net.free[first:last], net.slope[first:last], net.first_moment[first:last]
    if plan.adam:
        adam(p, g, m, net.second_moment[first:last], lr, plan.eps, step)
    else:
        sgd(p, g, m, lr, plan.momentum)


@joined
def update(plan, net, lr, output_lr, step):  # type: ignore[no-untyped-def]
    """One step with the gradient in net.g, the output layer at its own rate; `step` counts from 1."""
    if plan.tie == SHARED:
        gather(net)
    elif plan.tie == FARKAS:
        farkas_back(plan, net)
    elif plan.tie == SCALED:
        scale_back(net)
    if lr == output_lr:
        descend(plan, net, 0, net.free.size, lr, step)
    else:
        first = net.w.first.size + net.w.inner.size + net.w.bias.size  # of the output layer in the arena
        last = first + net.w.out.size + net.w.out_bias.size
        descend(plan, net, 0, first, lr, step)
        descend(plan, net, first, last, output_lr, step)
        descend(plan, net, last, net.free.size, lr, step)
    if plan.skip == VAN:
        move_gates(net.gates, plan.eta, plan.ratio)
    connect(plan, net)
