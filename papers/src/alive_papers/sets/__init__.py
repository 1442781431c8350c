"""Image sets: MNIST, Fashion-MNIST, CIFAR-10 and CIFAR-100, got once and read from where they lie."""

from typing import TYPE_CHECKING

from alive.rooms import load_on_use

if TYPE_CHECKING:
    from .image_sets import IMAGE_SETS, cifar10, cifar100, fashion_mnist, mnist, mnist_14

__all__ = ["IMAGE_SETS", "cifar10", "cifar100", "fashion_mnist", "mnist", "mnist_14"]

load_on_use(__name__)
