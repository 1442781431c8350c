"""Image sets: MNIST, Fashion-MNIST, CIFAR-10 and CIFAR-100, got once and read from where they lie."""

from .image_sets import IMAGE_SETS, cifar10, cifar100, fashion_mnist, mnist, mnist_14

__all__ = ["IMAGE_SETS", "cifar10", "cifar100", "fashion_mnist", "mnist", "mnist_14"]
