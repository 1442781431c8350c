"""MNIST, Fashion-MNIST, CIFAR-10 and CIFAR-100, read from where they lie."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

from torch import Tensor
from torch.nn.functional import avg_pool2d

from alive.data.record import Data, images

from .catalogue import CIFAR10, CIFAR100, FASHION_MNIST, MNIST, ImageSet
from .decoded import decoded
from .download.places import find
from .idx import from_idx


def mnist() -> Data:
    """Handwritten digits as bytes [N, 1, 28, 28]: 60,000 to train on, 10,000 to test."""
    return opened(MNIST, find(MNIST))


def mnist_14() -> Data:
    """MNIST at half its size, bytes [N, 1, 14, 14]: each pixel is the mean of four, rounded to a byte."""
    full = mnist()
    assert full.test_x is not None
    train_x, test_x = (_halved(x) for x in (full.train_x, full.test_x))
    return images(train_x, full.train_y, test_x=test_x, test_y=full.test_y, classes=full.classes, name="mnist-14")


def _halved(x: Tensor) -> Tensor:
    return avg_pool2d(x.float(), 2).round_().to(x.dtype)


def fashion_mnist() -> Data:
    """Pieces of clothing as bytes [N, 1, 28, 28]: 60,000 to train on, 10,000 to test."""
    return opened(FASHION_MNIST, find(FASHION_MNIST))


def cifar10() -> Data:
    """Colour photographs of ten kinds of things as bytes [N, 3, 32, 32]: 50,000 to train on, 10,000 to test."""
    return opened(CIFAR10, find(CIFAR10))


def cifar100() -> Data:
    """Colour photographs of a hundred kinds of things, as in CIFAR-10.

    Where the files hold JPEG images, which have lost detail, the data are named "CIFAR-100 (JPEG copy)".
    """
    return opened(CIFAR100, find(CIFAR100))


IMAGE_SETS: dict[str, Callable[[], Data]] = {
    "mnist": mnist,
    "mnist-14": mnist_14,
    "fashion-mnist": fashion_mnist,
    "cifar10": cifar10,
    "cifar100": cifar100,
}


def opened(known: ImageSet, paths: Mapping[str, Path]) -> Data:
    """The data in the files of a set, each by its name in the catalogue; checked in full."""
    if known.parquet:
        return decoded(known, paths)
    train, test = ((paths[part[0].name], paths[part[1].name]) for part in (known.train, known.test))
    sums = {file.name: file.sha256 for file in known.files}
    _, height, width = known.shape
    return from_idx(train, test, name=known.name, size=(height, width), classes=known.classes, sha256=sums)
