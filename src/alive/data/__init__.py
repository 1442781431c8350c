"""Training and test points as tensors in memory: sets that come with the package, image sets, and your own files."""

from .augment import Augment
from .files import from_file
from .image_sets import cifar10, cifar100, fashion_mnist, mnist
from .record import Data, images, tensors
from .sets import DATA, digits, friedman, load, moons

__all__ = [
    "DATA",
    "Augment",
    "Data",
    "cifar10",
    "cifar100",
    "digits",
    "fashion_mnist",
    "friedman",
    "from_file",
    "images",
    "load",
    "mnist",
    "moons",
    "tensors",
]
