"""`alive reproduce` and `alive report`, as a user types them."""

from __future__ import annotations

import pytest

from alive_papers import study
from alive_papers.experiments import EXPERIMENTS, Cell, Experiment, Figure
from alive_papers.fleet import Member
from alive_papers.run import Run, Store, run


def test_from_nothing_to_a_page(alive, tmp_path):
    code, out, _ = alive("reproduce")
    assert code == 0
    assert "001-Fig1" in out
    assert not (tmp_path / "alive.sqlite").exists(), "a list needs no store"
    code, out, _ = alive("reproduce", "001-T1", "--threads", 1)
    assert code == 0
    assert "not decided" in out
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
        (("reproduce", "001-T1", "--widths", "4,wide"), "widths are whole numbers between commas"),
        (("reproduce", "001-T1", "--claim", "ReLU-tran"), "unknown claim of 001-T1 'ReLU-tran'. did you mean"),
        (("reproduce", "001-T1", "--data", "mnits"), "unknown data 'mnits'"),
        (
            ("reproduce", "atlas-images", "--scale", "middle", "--depth", "60", "--width", "8"),
            "no such networks",
        ),
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


def test_a_part_of_a_grid_is_trained_and_not_judged(alive, tmp_path):
    code, out, _ = alive("reproduce", "004-Fig2", "--width", 3, "--depths", "1,10", "--threads", 1)
    assert code == 0
    total = len(EXPERIMENTS["004-Fig2"].cells())
    assert f"4 of {total} networks" in out
    assert "partial" in out
    assert "reproduced" not in out
    assert "differs" not in out
    assert "not decided" not in out
    with Store(tmp_path / "alive.sqlite") as store:
        trained = {
            (row.member.depth, row.member.width, row.member.method)
            for row in store.rows(EXPERIMENTS["004-Fig2"].cells())
        }
    assert trained == {(depth, 3, method) for depth in (1, 10) for method in ("ReLU", "Sep-UP")}
    assert alive("report")[0] == 0
    page = (tmp_path / "alive-report" / "index.html").read_text()
    assert f"4 of {total} networks" in page
    assert 'class="partial"' in page
    assert 'class="reproduced"' not in page


def mine(scale, architecture, seed):
    return [Cell(Member(depth, 3, method, epochs=2, seed=seed)) for depth in (1, 2) for method in ("ReLU", "Sep-UP")]


MINE = Experiment("mine", "Two depths", "ours", mine, figures=(Figure("heat", "heat", "Depth against width"),))


@pytest.mark.parametrize("asked", [False, True])
def test_the_networks_of_ones_own_experiment_are_counted_and_shown(alive, tmp_path, asked):
    path = tmp_path / "mine.sqlite"
    with Store(path) as store:
        if asked:
            store.ask(Run("mine", "quick", "dense", 3))
        run(MINE.cells(seeds=3), store, threads=1)
    code, _, err = alive("report", "--store", path)
    err = " ".join(err.split())
    assert code == 2
    assert "mine.sqlite holds 12 networks (6 ReLU, 6 Sep-UP) that `alive reproduce` did not ask for" in err
    assert ("it has runs of mine, which alive does not know" in err) == asked
    assert "empty" not in err
    assert "alive_papers.study.report(store, folder, experiments=[yours])" in err
    assert "mine.sqlite also holds 12 networks" in " ".join(alive("reproduce", "--store", path)[1].split())
    files = study.report(path, tmp_path / "out", experiments=[MINE])
    page = (tmp_path / "out" / "index.html").read_text()
    assert [file.name for file in files] == ["mine-quick-dense-heat.png", "index.html"]
    assert "3 seeds · 12 of 12 networks" in page
    assert "alive reproduce mine" not in page, "there is no such command"
    with Store(path) as store:
        store.ask(Run("001-T1", "quick", "dense", 1))
    assert alive("report", "--store", path)[0] == 0
    assert "mine.sqlite also holds 12 networks (6 ReLU, 6 Sep-UP)" in (tmp_path / "alive-report/index.html").read_text()


def test_a_store_without_a_network_is_empty(alive, tmp_path):
    Store(tmp_path / "mine.sqlite").__exit__()
    code, _, err = alive("report", "--store", "mine.sqlite")
    assert code == 2
    assert "mine.sqlite is empty. Run `alive reproduce 001-T1` first." in err
