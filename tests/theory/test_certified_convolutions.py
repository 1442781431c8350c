"""Certificates of convolutions: every kind of output position against brute force on the unfolded matrix."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
import torch
from brute import can_be_dead
from torch import nn

from alive.theory import certify, verify


def unfolded(conv, size):
    """The matrix of a convolution, from torch itself: [positions, units, inputs of the whole image], and biases."""
    inputs = conv.in_channels * int(np.prod(size))
    basis = torch.eye(inputs).reshape(inputs, conv.in_channels, *size)
    with torch.no_grad():
        offset = conv(torch.zeros(1, conv.in_channels, *size))
        columns = conv(basis) - offset  # [inputs, units, positions...]
    return columns.flatten(2).permute(2, 1, 0), offset.flatten(2)[0].T


CONVOLUTIONS = [
    (lambda: nn.Conv1d(1, 3, 3, padding=1), (5,)),
    (lambda: nn.Conv1d(1, 4, 3, padding=2, stride=2), (4,)),
    (lambda: nn.Conv1d(1, 3, 2, padding="same"), (4,)),
    (lambda: nn.Conv1d(1, 3, 3, padding=2, dilation=2), (3,)),
    (lambda: nn.Conv1d(2, 4, 2, padding=1, groups=2), (3,)),
    (lambda: nn.Conv2d(1, 4, (2, 1), padding=(1, 0)), (2, 2)),
    (lambda: nn.Conv2d(1, 4, (1, 3), padding=(0, 1), stride=(2, 1)), (3, 3)),
    (lambda: nn.Conv3d(1, 3, (1, 1, 2), padding=(0, 0, 1)), (1, 2, 2)),
]


@pytest.mark.twin
@pytest.mark.filterwarnings("ignore:Using padding='same' with even kernel")
@pytest.mark.parametrize(("make", "size"), CONVOLUTIONS)
def test_convolutions_agree_with_brute_force_on_the_unfolded_matrix(make, size):
    generator, seen = torch.Generator().manual_seed(8), Counter()
    conv = make()
    for _ in range(12):
        with torch.no_grad():
            for values, top in ((conv.weight, 3), (conv.bias, 2)):
                values.copy_(torch.randint(-top, top + 1, values.shape, generator=generator))
        found = certify(conv, size=size)
        assert verify(conv, found)
        matrix, bias = unfolded(conv, size)
        dead = sum(can_be_dead(w[:, w.any(0)] if w.any() else w[:, :1], b) for w, b in zip(matrix, bias, strict=True))
        counted = sum(case.positions for case in found.cases if case.verdict == "dead")
        assert counted == dead
        assert sum(case.positions for case in found.cases) == len(matrix)
        seen[found.verdict] += 1
    assert seen["dead"]


def test_borders_are_cases_of_their_own():
    conv = nn.Conv1d(1, 2, 3, padding=1)
    with torch.no_grad():
        conv.weight.copy_(torch.tensor([[[1.0, 1.0, 1.0]], [[-2.0, -1.0, -1.0]]]))
        conv.bias.copy_(torch.tensor([0.0, 1.0]))
    found = certify(conv, size=[6])  # without the first tap z = (s, 1 - s)
    assert [case.verdict for case in found.cases] == ["alive", "dead", "dead"]
    conv = nn.Conv1d(1, 1, 3, padding=1)
    with torch.no_grad():
        conv.weight.fill_(1.0)
        conv.bias.fill_(-2.5)
    found = certify(conv, size=[6], box=(1, 2))  # three numbers of at least 1 pass 2.5, two need not
    assert [(case.verdict, case.positions) for case in found.cases] == [("dead", 1), ("alive", 4), ("dead", 1)]
