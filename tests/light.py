"""alive beside few packages: `python tests/light.py '["torch", ...]'` hides all others, and prints what it saw."""

from __future__ import annotations

import contextlib
import importlib
import io
import json
import pkgutil
import re
import sys
import warnings
from importlib import metadata
from importlib.machinery import PathFinder
from pathlib import Path

HEAVY = ("numba", "scipy", "sklearn", "matplotlib", "pyarrow", "onnx", "pandas", "PIL", "transformers")
ONLY_FOR_PYTEST = "alive.pytest_plugin"
README = Path(__file__).parents[1] / "README.md"


class Fewer(PathFinder):
    """Finds what lies on the path, but for packages that are hidden: neither modules nor metadata of them."""

    there: frozenset[str] = frozenset()
    hidden: frozenset[str] = frozenset()

    @classmethod
    def hide_all_but(cls, there: list[str]) -> None:
        cls.there = frozenset(there)
        owners = metadata.packages_distributions()
        cls.hidden = frozenset(top for top, names in owners.items() if cls.there.isdisjoint(map(canonical, names)))

    @classmethod
    def find_spec(cls, fullname, path=None, target=None):
        return None if fullname.partition(".")[0] in cls.hidden else super().find_spec(fullname, path, target)

    @classmethod
    def find_distributions(cls, *args, **kwargs):
        return (each for each in super().find_distributions(*args, **kwargs) if canonical(each.name) in cls.there)


def canonical(name: str) -> str:
    return re.sub("[-_.]+", "-", name).lower()


def main(there: list[str]) -> dict[str, object]:
    """All that is asked of alive there; of what is refused, the words."""
    Fewer.hide_all_but(there)
    sys.meta_path[:] = [Fewer if finder is PathFinder else finder for finder in sys.meta_path]
    attached = attach()
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        exec(first_example(), {"__name__": "__main__"})
        penalty = measure()
    said = [str(each.message) for each in caught]
    parts = {name: words_of(part) for name, part in PARTS.items()}
    return {
        "attached": attached, "warnings": said, "penalty": penalty, "census": census(), "parts": parts,
        "modules": modules(),
    }  # fmt: skip


def first_example() -> str:
    found = re.search(r"^```python\n(.*?)^```", README.read_text(), re.M | re.S)
    assert found
    return found[1]


def attach() -> list[str]:
    """Which large packages are loaded once a Jumpstart is attached."""
    from torch import nn

    from alive import Jumpstart

    Jumpstart(nn.Sequential(nn.Linear(2, 4), nn.ReLU(), nn.Linear(4, 1))).detach()
    return [name for name in HEAVY if name in sys.modules]


def measure() -> list[float]:
    """The penalty of a network of several kinds of layers, and its gradient."""
    import torch
    from torch import nn

    import alive

    torch.manual_seed(0)
    body = nn.Conv2d(1, 3, 3), nn.ReLU(), nn.Flatten(), nn.Linear(48, 70_000 // 20), nn.ReLU(), nn.Linear(3500, 4)
    model = nn.Sequential(*body, nn.ReLU(inplace=True), nn.Linear(4, 4), nn.ReLU(), nn.Linear(4, 1))
    with alive.Jumpstart(model, weight=1.0) as keep:
        model(torch.randn(20, 1, 6, 6))
        penalty = keep.penalty()
        penalty.backward()
    return [float(penalty.detach()), *(float(p.grad.norm()) for p in model.parameters() if p.grad is not None)]


def census() -> list[object]:
    """Exit code of a census by the command line, and whether it counts the 200 units."""
    from alive import cli

    sys.argv = ["alive", "census", "50x4", "--gradient"]
    with contextlib.redirect_stdout(io.StringIO()) as said:
        try:
            cli.main()
        except SystemExit as stop:
            return [stop.code, "200" in said.getvalue()]
    return [None, False]


def modules() -> dict[str, str]:
    """The modules of alive that cannot be imported, and why."""
    import alive

    names = [each.name for each in pkgutil.walk_packages(alive.__path__, "alive.")]
    words = {name: words_of(lambda name=name: importlib.import_module(name)) for name in names}
    return {name: said for name, said in words.items() if said and name not in ("alive.__main__", ONLY_FOR_PYTEST)}


def words_of(part) -> str:
    """The words in which a part is refused, and none where it works."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            part()
    except Exception as error:
        return f"{type(error).__name__}: {error}"
    return ""


def certify() -> None:
    import torch
    from torch import nn

    from alive.theory import certify

    certify(nn.Linear(2, 3), box=(-torch.ones(2), torch.ones(2)))


def shrink(**given) -> None:
    import torch
    from torch import nn

    from alive.surgery import shrink

    torch.manual_seed(0)
    shrink(nn.Sequential(nn.Linear(2, 8), nn.ReLU(), nn.Linear(8, 8), nn.ReLU(), nn.Linear(8, 1)), **given)


def shrink_over_a_box() -> None:
    import torch

    shrink(box=(-torch.ones(2), torch.ones(2)))


def shrink_on_points() -> None:
    import torch

    shrink(data=torch.randn(50, 2))


def digits() -> None:
    from alive.data import digits

    digits()


def parquet() -> None:
    from alive.data import load

    Path("table.parquet").write_bytes(b"PAR1")
    load("table.parquet")


def onnx() -> None:
    import torch
    from torch import nn

    from alive.surgery import to_onnx

    to_onnx(nn.Linear(2, 1), "net.onnx", torch.randn(3, 2))


def tensorboard() -> None:
    from alive.train import TensorBoardLogger

    TensorBoardLogger("board")


def board() -> None:
    from alive.history import History
    from alive.history.board import to_tensorboard

    to_tensorboard(History((), ()), "board")


def folder() -> None:
    from alive.cli.sources import folders

    Path("bert").mkdir(exist_ok=True)
    Path("bert/config.json").write_text('{"model_type": "bert", "architectures": ["BertModel"]}')
    folders.model("hf:bert")


def sink(kind: str, **settings):
    def ask() -> None:
        getattr(importlib.import_module("alive.integrations.sinks"), kind)(**settings).close()

    return ask


PARTS = {
    "certify": certify,
    "shrink_over_a_box": shrink_over_a_box,
    "shrink_on_points": shrink_on_points,
    "digits": digits,
    "parquet": parquet,
    "onnx": onnx,
    "tensorboard": tensorboard,
    "board": board,
    "folder": folder,
    "wandb": sink("WandbSink", project="alive", mode="disabled"),
    "mlflow": sink("MlflowSink", uri="runs"),
    "trackio": sink("TrackioSink", project="alive"),
}

if __name__ == "__main__":
    print("\n" + json.dumps(main(json.loads(sys.argv[1]))))
