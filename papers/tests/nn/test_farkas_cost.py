"""What a Farkas layer keeps for backward: nothing of the size of the activations. Times are never asserted."""

from __future__ import annotations

import torch

from alive_papers.benchmarks import Figure, farkas


def test_farkas_layers_save_what_plain_layers_save():
    _, saved = farkas._rivals(depth=4, width=16, batch=16, side=16)
    plain = saved["plain"]()
    assert saved["farkas"]() <= farkas.SAVED * plain
    assert saved["learned"]() <= 1.03 * plain  # weights twice: a larger share in so small a network


def test_the_rivals_have_the_same_width_and_bound():
    x = torch.randn(2, 3, 6, 6)
    for layer in (farkas.farkas, farkas.learned, farkas.straightforward):
        assert layer(3, 5)(x).shape == farkas.plain(3, 5)(x).shape
        assert (layer(3, 5)(x).amax(1) > 9e-4).all()


def test_figures_say_their_targets(monkeypatch):
    for name, value in {"DEPTH": 2, "WIDTH": 4, "BATCH": 2, "SIDE": 6}.items():
        monkeypatch.setattr(farkas, name, value)
    found = list(farkas.figures(1))
    assert all(isinstance(figure, Figure) for figure in found)
    assert [figure.target for figure in found] == [1.05, 1.05, None, 1.01, 1.01, None]
