"""The gate: what passes is read as numpy, gzip and pyarrow read it; what is too much is refused before it is made."""

from __future__ import annotations

import gzip
import io
import zipfile

import numpy as np
import pytest

from alive import gate
from alive.data.files import contents, from_file
from alive.data.footer import LISTED, PLAIN, count
from alive.errors import AliveError
from alive.gate import Allowance

ARRAYS = [
    np.arange(12.0).reshape(3, 4),
    np.asfortranarray(np.arange(24, dtype=np.int16).reshape(2, 3, 4)),
    np.arange(6, dtype=">f4").reshape(2, 3),
    np.array(7),
    np.zeros((3, 0)),
    np.array([True, False]),
    np.array([1 + 2j], dtype=np.complex64),
    np.ones((2, 1), dtype=np.float16),
]


@pytest.mark.twin
@pytest.mark.parametrize("version", [(1, 0), (2, 0)])
@pytest.mark.parametrize("array", ARRAYS, ids=str)
def test_arrays_are_read_as_numpy_reads_them(tmp_path, array, version):
    with (tmp_path / "x.npy").open("wb") as file:
        np.lib.format.write_array(file, array, version=version)
    with (tmp_path / "x.npy").open("rb") as file:
        found = Allowance(tmp_path / "x.npy").array(file, (tmp_path / "x.npy").stat().st_size, "x")
    expected = np.load(tmp_path / "x.npy")
    assert found.dtype == expected.dtype
    assert found.shape == expected.shape
    assert np.array_equal(found, expected)
    assert found.flags.f_contiguous == expected.flags.f_contiguous


@pytest.mark.twin
def test_packed_bytes_of_several_members_are_read_as_gzip_reads_them(tmp_path):
    packed = gzip.compress(b"one") + gzip.compress(b"") + gzip.compress(bytes(3 * 2**20)) + bytes(9)
    assert b"".join(Allowance(tmp_path, len(packed)).unpacked(packed)) == gzip.decompress(packed)
    with pytest.raises(EOFError):
        list(Allowance(tmp_path).unpacked(packed[:40]))


@pytest.mark.twin
def test_columns_are_counted_as_pyarrow_counts_them(tmp_path):
    parquet, pa = pytest.importorskip("pyarrow.parquet"), pytest.importorskip("pyarrow")
    table = pa.table({"x": [[1.0, 2.0], [3.0]] * 500, "y": np.arange(1000), "text": ["a", "bc"] * 500})
    for size, packing in ((1000, "snappy"), (7, "none"), (100, "zstd")):
        parquet.write_table(table, file := tmp_path / "x.parquet", row_group_size=size, compression=packing)
        about, allowance = parquet.ParquetFile(file).metadata, Allowance(file)
        count(allowance, file)
        columns = [about.row_group(g).column(c) for g in range(about.num_row_groups) for c in range(about.num_columns)]
        each = [LISTED if "." in column.path_in_schema else PLAIN for column in columns]
        held = sum(column.num_values * size for column, size in zip(columns, each, strict=True))
        assert allowance.taken == held + sum(column.total_uncompressed_size for column in columns)


def test_the_setting_lets_a_file_take_more(tmp_path, monkeypatch):
    with zipfile.ZipFile(tmp_path / "x.npz", "w", zipfile.ZIP_DEFLATED) as archive:
        made = io.BytesIO()
        np.save(made, np.zeros((13 * 10**6, 1)))
        archive.writestr("x.npy", made.getvalue())
    with pytest.raises(AliveError, match=r"opens to 104.0 MB or more .*ALIVE_FILE_MEMORY=1GB"):
        contents(tmp_path / "x.npz")
    monkeypatch.setenv(gate.SETTING, "1GB")
    assert contents(tmp_path / "x.npz").train.shape == (13 * 10**6, 1)
    monkeypatch.setattr(gate, "free", lambda: 10**8)
    with pytest.raises(AliveError, match="less is free"):
        contents(tmp_path / "x.npz")


@pytest.mark.parametrize(
    ("text", "size"), [("1KB", 1000), ("0.5 gb", 5 * 10**8), ("7", 7), ("", None), ("2TB", 2 * 10**12)]
)
def test_the_setting_is_read_with_its_unit(monkeypatch, text, size):
    monkeypatch.setenv(gate.SETTING, text)
    assert gate.setting() == size


@pytest.mark.parametrize("text", ["much", "-1GB", "1e9", "1PB", "9" * 99, "٣GB"])
def test_a_setting_that_is_no_size_is_refused(monkeypatch, text):
    monkeypatch.setenv(gate.SETTING, text)
    with pytest.raises(AliveError, match="Write ALIVE_FILE_MEMORY=8GB"):
        gate.setting()


def test_free_memory_is_known_here():
    assert 10**7 < gate.free() < 10**15


def test_labels_may_be_of_any_length(tmp_path):
    (tmp_path / "x.csv").write_text("a,b,label\n1,2,u\n3,4," + "v" * 10**5 + "\n5,6,u\n")
    found = from_file(tmp_path / "x.csv")
    assert found.train_y.tolist() == [0, 1, 0]
