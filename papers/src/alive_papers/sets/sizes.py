"""How large each data set is: what a grid costs is known before any is loaded."""

from __future__ import annotations

from alive.data import load

from . import tables  # noqa: F401 - with it, its folds are data sets
from .catalogue import CATALOGUE

# of each table: training points of its first fold, columns, outputs
TABLES = {
    "australian": (621, 14, 1),
    "banana": (4770, 2, 1),
    "bands": (328, 19, 1),
    "breast": (249, 39, 1),
    "bupa": (310, 6, 1),
    "chess": (2876, 73, 1),
    "contraceptive": (1325, 9, 3),
    "crx": (587, 46, 1),
    "german": (900, 61, 1),
    "hayes-roth": (144, 4, 3),
    "heart": (243, 13, 1),
    "housevotes": (208, 32, 1),
    "ionosphere": (315, 33, 1),
    "iris": (135, 4, 3),
    "led7digit": (450, 7, 10),
    "letter": (18000, 16, 26),
    "magic": (17118, 10, 1),
    "mammographic": (747, 5, 1),
    "marketing": (6188, 13, 9),
    "monk-2": (388, 6, 1),
    "movement_libras": (324, 90, 15),
    "mushroom": (5079, 98, 1),
    "optdigits": (5058, 64, 10),
    "penbased": (9892, 16, 10),
    "phoneme": (4863, 5, 1),
    "pima": (691, 8, 1),
    "ring": (6660, 20, 1),
    "saheart": (415, 10, 1),
    "satimage": (5791, 36, 6),
    "segment": (2079, 19, 7),
    "sonar": (187, 60, 1),
    "spambase": (4137, 57, 1),
    "splice": (2871, 287, 3),
    "tae": (135, 5, 3),
    "texture": (4950, 40, 11),
    "tic-tac-toe": (862, 27, 1),
    "titanic": (1980, 3, 1),
    "twonorm": (6660, 20, 1),
    "vehicle": (761, 18, 4),
    "vowel": (891, 13, 11),
    "wdbc": (512, 30, 1),
    "wine": (160, 13, 3),
    "wisconsin": (614, 9, 1),
}


class Sizes(dict[str, tuple[int, tuple[int, ...], int]]):
    """Of each data set its training points, the shape of one, and outputs; what is not written here is loaded."""

    def __missing__(self, name: str) -> tuple[int, tuple[int, ...], int]:
        if name.startswith("tables/"):  # whose folds differ by a point
            points, columns, outputs = TABLES[name.split("/")[1]]
            return points, (columns,), outputs
        data = load(name)
        self[name] = len(data.train_y), tuple(data.train_x.shape[1:]), data.outputs
        return self[name]


SIZES = Sizes(
    {
        "moons": (85, (2,), 1),
        "digits": (1437, (1, 8, 8), 10),
        "friedman": (750, (10,), 1),
        "mnist-14": (60_000, (1, 14, 14), 10),
        **{name: (each.train[0].rows, each.shape, each.classes) for name, each in CATALOGUE.items()},
    }
)
