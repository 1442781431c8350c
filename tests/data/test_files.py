import pickle
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import save_file

from alive.data import from_file, load
from alive.errors import AliveError

ARRAYS = {
    "train_x": np.arange(12, dtype=np.uint8).reshape(4, 3),
    "train_y": np.array([0, 1, 2, 1]),
    "test_x": np.ones((2, 3), np.uint8),
    "test_y": np.array([0, 2]),
}


@pytest.fixture(params=[".npz", ".safetensors"])
def good(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    path: Path = tmp_path / f"mine{request.param}"
    write(path, ARRAYS)
    return path


def write(path: Path, arrays: dict[str, np.ndarray]) -> None:
    if path.suffix == ".npz":
        np.savez_compressed(path, **arrays)
    else:
        save_file({key: torch.from_numpy(value) for key, value in arrays.items()}, path)


def test_both_formats_give_the_arrays_back(good: Path) -> None:
    data = load(str(good))
    assert (data.name, data.classes) == ("mine", 3)
    for ours, key in ((data.train_x, "train_x"), (data.train_y, "train_y"), (data.test_x, "test_x")):
        assert ours is not None
        assert ours.tolist() == ARRAYS[key].tolist()


def test_x_and_y_alone_are_enough(good: Path) -> None:
    write(good, {"x": ARRAYS["train_x"], "y": ARRAYS["train_y"]})
    assert from_file(good).test is None


def test_every_truncation_is_refused_in_words(good: Path) -> None:
    whole = good.read_bytes()
    for length in range(0, len(whole), 7):
        good.write_bytes(whole[:length])
        with pytest.raises(AliveError, match=r"cannot read|holds nothing"):
            from_file(good)


def test_every_flipped_byte_is_refused_in_words_or_harmless(good: Path) -> None:
    whole = good.read_bytes()
    for at in range(0, len(whole), 5):
        good.write_bytes(whole[:at] + bytes([whole[at] ^ 0xFF]) + whole[at + 1 :])
        try:
            from_file(good)
        except AliveError:
            continue


def test_pickles_are_never_opened(tmp_path: Path) -> None:
    class Bomb:
        def __reduce__(self) -> tuple[object, tuple[object, ...]]:
            return Path.touch, (tmp_path / "exploded",)

    for name, write_to in {
        "plain.npz": lambda path: path.write_bytes(pickle.dumps(Bomb())),
        "plain.safetensors": lambda path: path.write_bytes(pickle.dumps(Bomb())),
        "inside.npz": lambda path: np.savez(path, x=np.array([Bomb()], dtype=object), y=np.zeros(1)),
        "torch.npz": lambda path: torch.save({"x": Bomb()}, path),
    }.items():
        write_to(tmp_path / name)
        with pytest.raises(AliveError):
            from_file(tmp_path / name)
    assert not (tmp_path / "exploded").exists()


@pytest.mark.parametrize(
    ("keys", "says"),
    [
        (["train_x"], "holds train_x, expected"),
        (["train_y", "test_x"], "expected train_x"),
        (["train_x", "train_y", "test_x"], "go together"),
    ],
)
def test_missing_arrays(good: Path, keys: list[str], says: str) -> None:
    write(good, {key: ARRAYS[key] for key in keys})
    with pytest.raises(AliveError, match=says):
        from_file(good)


def test_strange_arrays_suggest_the_near_name(good: Path) -> None:
    write(good, {"train_x": ARRAYS["train_x"], "train_yy": ARRAYS["train_y"]})
    with pytest.raises(AliveError, match="did you mean 'train_y'"):
        from_file(good)


def test_places_that_hold_no_data(tmp_path: Path) -> None:
    (tmp_path / "folder.npz").mkdir()
    np.save(tmp_path / "bare.npy", np.zeros(3))
    (tmp_path / "bare.npy").rename(tmp_path / "bare.npz")
    for name, says in {
        "none.npz": "there is no file",
        "folder.npz": "is a folder",
        "data.csv": "ending in .npz or .safetensors",
        "bare.npz": "cannot read",
    }.items():
        with pytest.raises(AliveError, match=says):
            from_file(tmp_path / name)


def test_other_byte_orders_and_capital_endings_are_read(tmp_path: Path) -> None:
    x = np.arange(6, dtype=">f4").reshape(3, 2)
    np.savez(tmp_path / "far.npz", x=x, y=np.array([0, 1, 1], dtype=">i4"))
    (tmp_path / "far.npz").rename(tmp_path / "FAR.NPZ")
    data = load(tmp_path / "FAR.NPZ")
    assert data.train_x.tolist() == x.tolist()
    assert data.train_y.tolist() == [0, 1, 1]


def test_a_pickle_is_not_recommended(tmp_path: Path) -> None:
    np.savez(tmp_path / "objects.npz", x=np.array([{"a": 1}], dtype=object), y=[0])
    (tmp_path / "noise.npz").write_bytes(b"noise" * 99)
    for name in ("objects.npz", "noise.npz"):
        with pytest.raises(AliveError, match="or holds pickled objects") as caught:
            load(tmp_path / name)
        assert "allow_pickle" not in str(caught.value)


def test_a_table_of_text_is_refused_with_the_way_to_write_arrays(tmp_path: Path) -> None:
    (tmp_path / "data.csv").write_text("a,b,y\n1,2,0\n")
    with pytest.raises(AliveError, match=r"numpy.savez"):
        load(tmp_path / "data.csv")
