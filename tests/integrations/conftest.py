"""What the tests of all integrations share: no network, and what is heard of each penalty."""

from __future__ import annotations

import os

import pytest

from alive.penalties import Jumpstart, Schedule

os.environ |= {"HF_HUB_OFFLINE": "1", "KERAS_BACKEND": "torch", "WANDB_MODE": "offline"}

OPTIONS = {"auto": {"weight": "auto"}, "schedule": {"weight": Schedule(1.0, 0.1, shape="linear"), "mode": "U"}}


@pytest.fixture(params=list(OPTIONS))
def options(request):
    """Two ways with a memory: multipliers, and a weight that changes over training."""
    return OPTIONS[request.param]


@pytest.fixture
def heard(monkeypatch):
    """Every penalty that was asked for, in order."""
    found: list[float] = []
    plain = Jumpstart.penalty

    def penalty(self):
        value = plain(self)
        found.append(value.item())
        return value

    monkeypatch.setattr(Jumpstart, "penalty", penalty)
    return found
