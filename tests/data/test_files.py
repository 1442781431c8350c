import pickle
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import save_file

from alive.data import from_file, load
from alive.data.files import Contents, contents
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
        (["train_x"], "holds inputs alone, expected train_x, train_y"),
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
        "data.txt": "ending in .npz or .npy or .safetensors",
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


def test_a_file_of_no_known_kind_says_how_to_write_arrays(tmp_path: Path) -> None:
    (tmp_path / "data.txt").write_text("a,b,y\n1,2,0\n")
    with pytest.raises(AliveError, match=r"numpy.savez"):
        load(tmp_path / "data.txt")


X = np.random.default_rng(0).normal(size=(6, 2))


def table(path: Path, text: str, target: str | None = None) -> Contents:
    path.write_text(text)
    return contents(path, target=target)


@pytest.mark.parametrize("delimiter", [",", ";", "\t"])
def test_a_table_gives_its_numbers_back(tmp_path: Path, delimiter: str) -> None:
    rows = [delimiter.join(map(repr, [*row, number % 2])) for number, row in enumerate(X.tolist())]
    found = table(tmp_path / "a.csv", "\n".join([delimiter.join(["a", "b", "Label"]), *rows]))
    x, y = found.train
    assert np.array_equal(x, X)
    assert y.tolist() == [0, 1, 0, 1, 0, 1]
    assert found.notes == ("column Label of a.csv is the target",)
    assert np.array_equal(table(tmp_path / "a.csv", "\n".join(rows)).train[:, :2], X)


@pytest.mark.parametrize(
    ("text", "target", "x", "y"),
    [
        ("a,y\n1,2\n3,4\n", "", [[1, 2], [3, 4]], None),
        ("a,b\n1,2\n3,4\n", "a", [[2], [4]], [1, 3]),
        ("1,2\n3,4\n", "-1", [[1], [3]], [2, 4]),
        ("1,2\n3,4\n", "0", [[2], [4]], [1, 3]),
        ("a,b\n1,2.5\n3,4\n", "b", [[1], [3]], [2.5, 4.0]),
        ('"a, b","y"\n"1","2"\n', None, [[1]], [2]),
        ("\ufeffa,b\n1,2\n", None, [[1, 2]], None),
        (",a,y\n0,5,1\n1,6,0\n", None, [[5], [6]], [1, 0]),
        ("# a,b\n1,2\n", None, [[1, 2]], None),
        ("a,b\r\n1,2\r\n\r\n3,4\r\n", None, [[1, 2], [3, 4]], None),
        ("a,kind\n1,owl\n2,cat\n3,owl\n", "kind", [[1], [2], [3]], [1, 0, 1]),
        ("7\n8\n", None, [[7], [8]], None),
    ],
)
def test_tables_as_people_write_them(tmp_path: Path, text: str, target: str | None, x: list, y: list | None) -> None:
    found = table(tmp_path / "a.csv", text, target).train
    assert (found if y is None else found[0]).tolist() == x
    assert y is None or found[1].tolist() == y


def test_parquet_gives_its_columns_back(tmp_path: Path) -> None:
    import pyarrow
    import pyarrow.parquet

    path = tmp_path / "a.parquet"
    plain = {"a": X[:, 0], "b": X[:, 1], "kind": ["u", "v"] * 3}
    pyarrow.parquet.write_table(pyarrow.table(plain), path)
    x, y = contents(path, target="kind").train
    assert np.array_equal(x, X)
    assert y.tolist() == [0, 1] * 3
    lists = {"ids": [[1, 2], [3, 4]], "flag": [True, False], "label": [0, 1]}
    pyarrow.parquet.write_table(pyarrow.table(lists), path)
    found = contents(path).train
    told = {key: value.tolist() for key, value in found.items()}
    assert told == {"ids": lists["ids"], "flag": lists["flag"], "labels": lists["label"]}


@pytest.mark.parametrize("name", ["a.npy", "a.pt", "a.parquet"])
def test_every_truncation_of_other_files_is_refused_in_words(tmp_path: Path, name: str) -> None:
    import pyarrow
    import pyarrow.parquet

    path = tmp_path / name
    {
        ".npy": lambda: np.save(path, X),
        ".pt": lambda: torch.save((torch.from_numpy(X), torch.arange(6)), path),
        ".parquet": lambda: pyarrow.parquet.write_table(pyarrow.table({"a": X[:, 0]}), path),
    }[path.suffix]()
    whole = path.read_bytes()
    for length in range(0, len(whole), 1 + len(whole) // 60):
        path.write_bytes(whole[:length])
        with pytest.raises(AliveError, match=r"cannot read|damaged") as caught:
            contents(path)
        assert "\n" not in str(caught.value)


def test_names_decide_what_arrays_are(tmp_path: Path) -> None:
    path = tmp_path / "a.npz"
    for names, train, test in [
        (["x"], "x", None),
        (["X", "Y"], ("X", "Y"), None),
        (["X_train", "y_train", "X_test", "y_test"], ("X_train", "y_train"), ("X_test", "y_test")),
        (["x", "test_x"], "x", "test_x"),
        (["signal"], "signal", None),
        (["left", "right"], {"left": "left", "right": "right"}, None),
    ]:
        arrays = {name: np.full((2, 1), float(number)) for number, name in enumerate(names)}
        np.savez(path, **arrays)
        found = contents(path)
        for got, wanted in ((found.train, train), (found.test, test)):
            if isinstance(wanted, dict):
                assert {key: value.tolist() for key, value in got.items()} == {
                    key: arrays[name].tolist() for key, name in wanted.items()
                }
            elif wanted is not None:
                parts = got if isinstance(got, tuple) else (got,)
                named = wanted if isinstance(wanted, tuple) else (wanted,)
                assert [part.tolist() for part in parts] == [arrays[name].tolist() for name in named]
            else:
                assert got is None
