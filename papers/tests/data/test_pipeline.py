"""The benchmark of batches: it makes what training reads, and says which data it used."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from alive.data import images
from alive_papers.benchmarks import pipeline


def test_without_cifar_the_figure_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for setting in ("ALIVE_DATA", "XDG_CACHE_HOME", "XDG_DATA_DIRS"):
        monkeypatch.setenv(setting, str(tmp_path))
    monkeypatch.setattr(pipeline, "BATCH", 4)
    monkeypatch.setattr(pipeline, "IMAGES", 40)
    small, thin = pipeline.figures(1)
    assert "random bytes, as CIFAR-10 is absent" in small.name
    assert "smallest VAN" in small.name
    assert small.target == 10
    assert small.value > 0
    assert thin.target is None


def test_batches_cover_an_epoch_augmented_and_normalised(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pipeline, "BATCH", 8)
    x = torch.arange(24, dtype=torch.uint8)[:, None, None, None].expand(-1, 3, 32, 32).contiguous() * 10
    data = images(x, torch.arange(24) % 10)
    make = pipeline.batches(data)
    seen = set()
    for _ in range(3):
        batch, labels = make()
        assert batch.shape == (8, 3, 32, 32)
        assert batch.dtype == torch.get_default_dtype()
        colours = {n: sorted({*image.unique().tolist()} - {0.0}) for n, image in enumerate(batch)}
        assert all(len(each) == 1 for each in colours.values()), "one colour, padding and patch are zero"
        seen |= {each[0] for each in colours.values()}
        assert len(labels) == 8
    torch.testing.assert_close(torch.tensor(sorted(seen)), data.pixels(x)[:, 0, 0, 0])
