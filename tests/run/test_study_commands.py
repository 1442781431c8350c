"""`alive reproduce` and `alive report`, as a user types them."""

from __future__ import annotations

import pytest


def test_from_nothing_to_a_page(alive, tmp_path):
    code, out, _ = alive("reproduce")
    assert code == 0
    assert "001-Fig1" in out
    assert not (tmp_path / "alive.sqlite").exists(), "a list needs no store"
    code, out, _ = alive("reproduce", "001-T1", "--threads", 1)
    assert code == 0
    assert "reproduced" in out
    code, out, _ = alive("reproduce")
    assert "quick, seeds 1: 5 of 5" in out
    code, out, _ = alive("report")
    assert code == 0
    assert "alive-report/index.html" in out
    assert "0.9882" in (tmp_path / "alive-report" / "index.html").read_text()


@pytest.mark.parametrize(
    ("args", "said"),
    [
        (("reproduce", "001-Fig11"), "unknown experiment '001-Fig11'. did you mean '001-Fig1'?"),
        (("reproduce", "001-T1", "--scale", "papers"), "unknown scale 'papers'. did you mean 'paper'?"),
        (("reproduce", "001-T1", "--seeds", "0"), "seeds must be at least 1"),
        (("reproduce", "001-T1", "--threads", "0"), "threads must be at least 1"),
        (("reproduce", "001-T1", "--architecture", "keras_same"), "001-T1 has no architecture 'keras_same'"),
        (("reproduce", "001-T1", "--store", "no/where.sqlite"), "cannot write no/where.sqlite"),
        (("reproduce", "001-T1", "--store", "."), ". is a folder, not a store"),
        (("report",), "there is no store alive.sqlite"),
    ],
)
def test_what_is_refused_is_said_in_one_line(alive, args, said, tmp_path):
    code, _, err = alive(*args)
    assert not list(tmp_path.iterdir()), "something was left behind"
    assert code == 2
    assert said in err
    assert "Traceback" not in err
