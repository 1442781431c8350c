"""The real image sets, where they are: their published sizes, means and spreads."""

from __future__ import annotations

import io

import pytest
import torch

from alive.data import load
from alive_papers.sets.catalogue import CATALOGUE, CIFAR10, CIFAR100
from alive_papers.sets.download import places
from alive_papers.sets.parquet import sha256_of

# mean and spread as published with each set, and as used by everyone since
PUBLISHED = {
    "mnist": ((0.1307,), (0.3081,)),
    "fashion-mnist": ((0.2860,), (0.3530,)),
    "cifar10": ((0.4914, 0.4822, 0.4465), (0.2470, 0.2435, 0.2616)),
    "cifar100": ((0.5071, 0.4865, 0.4409), (0.2673, 0.2564, 0.2762)),
}


def expect_published(name: str) -> None:
    data, known = load(name), CATALOGUE[name]
    assert data.train_x.shape == (known.train[0].rows, *known.shape)
    assert data.test is not None
    assert data.test[0].shape == (known.test[0].rows, *known.shape)
    assert data.train_x.dtype == torch.uint8
    mean, std = PUBLISHED[name]
    assert data.mean == pytest.approx(mean, abs=3e-4)
    assert data.std == pytest.approx(std, abs=3e-4)
    counts = data.train_y.bincount()
    assert len(counts) == known.classes
    if name == "mnist":
        assert counts.tolist() == [5923, 6742, 5958, 6131, 5842, 5421, 5918, 6265, 5851, 5949]
    else:
        assert counts.unique().tolist() == [known.train[0].rows // known.classes]
    train = known.train[0]
    jpeg = name == "cifar100" and sha256_of(places.find(known)[train.name]) == train.sha256
    assert data.name == ("CIFAR-100 (JPEG copy)" if jpeg else name)


@pytest.mark.parametrize("name", ["mnist", "fashion-mnist"])
def test_idx_sets_are_what_was_published(name: str) -> None:
    expect_published(name)


def test_half_size_is_the_mean_of_four_pixels() -> None:
    full, half = load("mnist"), load("mnist-14")
    four = full.train_x[:500].numpy().astype(float).reshape(500, 1, 14, 2, 14, 2).mean((3, 5))
    assert abs(half.train_x[:500].numpy() - four).max() <= 0.5
    assert torch.equal(half.train_y, full.train_y)
    assert half.test is not None
    assert half.test[0].shape == (10_000, 1, 14, 14)
    assert half.mean == pytest.approx(full.mean, abs=1e-3)


@pytest.mark.slow  # decodes 60,000 images where no earlier reading kept them
@pytest.mark.parametrize("name", ["cifar10", "cifar100"])
def test_parquet_sets_are_what_was_published(name: str) -> None:
    pytest.importorskip("pyarrow")
    expect_published(name)


@pytest.mark.twin
@pytest.mark.parametrize("known", [CIFAR10, CIFAR100], ids=lambda known: known.name)
def test_the_first_images_of_the_real_files_decode_as_pillow_says(known: object) -> None:
    files = pytest.importorskip("pyarrow.parquet")
    from dataclasses import replace

    import numpy as np
    from PIL import Image

    from alive_papers.sets.catalogue import ImageSet
    from alive_papers.sets.parquet import _all

    assert isinstance(known, ImageSet)
    path = places.find(known)[known.test[0].name]
    rows = files.read_table(path).slice(0, 50)
    with io.BytesIO() as held:
        files.write_table(rows, held)
        x, y, lossy = _all(files.ParquetFile(io.BytesIO(held.getvalue())), Image, 50, replace(known))
    for ours, row in zip(x, rows["img"].to_pylist(), strict=True):
        theirs = np.asarray(Image.open(io.BytesIO(row["bytes"])).convert("RGB"))
        assert np.array_equal(ours.permute(1, 2, 0).numpy(), theirs)
    assert y.tolist() == rows[known.label].to_pylist()
    assert lossy == any(row["bytes"].startswith(b"\xff\xd8\xff") for row in rows["img"].to_pylist())
