from pathlib import Path

import numpy as np
import pytest
import torch
from sklearn.datasets import load_digits, make_friedman1, make_moons
from sklearn.model_selection import train_test_split

from alive.data import DATA, digits, friedman, load, moons
from alive.errors import AliveError
from alive_papers.sets.catalogue import CATALOGUE
from alive_papers.sets.download.places import NotThere
from alive_papers.sets.image_sets import IMAGE_SETS


@pytest.mark.twin
def test_moons_equals_the_literal_recipe() -> None:
    saved = np.random.get_state()  # noqa: NPY002
    try:
        np.random.seed(10)  # noqa: NPY002
        x, y = make_moons(100, shuffle=True, noise=None, random_state=None)
    finally:
        np.random.set_state(saved)  # noqa: NPY002
    assert np.ptp(x) == pytest.approx(3)
    parts = train_test_split(x / (x.max() - x.min()), y, test_size=0.15, random_state=42)
    data = moons()
    for ours, theirs in zip((data.train_x, data.test_x, data.train_y, data.test_y), parts, strict=True):
        assert ours is not None
        assert torch.equal(ours, torch.tensor(theirs).to(ours.dtype))
    assert data.train_y.bincount().tolist() == [41, 44]
    assert parts[3].tolist().count(0) == 9


@pytest.mark.twin
def test_friedman_equals_that_of_scikit_learn() -> None:
    x, y = make_friedman1(1000, n_features=10, noise=0.5, random_state=0)
    data = friedman()
    assert data.test is not None
    assert torch.equal(torch.cat([data.train_x, data.test[0]]), torch.tensor(x).float())
    own = torch.tensor((y - y.mean()) / y.std()).float()[:, None]
    assert torch.equal(torch.cat([data.train_y, data.test[1]]), own)


def test_digits() -> None:
    data = digits()
    assert data.test is not None
    counts = data.train_y.bincount() / data.test[1].bincount()
    assert (counts - 4).abs().max() < 0.2, "every class is split four to one"
    everything = torch.cat([data.train_x, data.test[0]]).flatten(1) * 16
    assert sorted(map(tuple, everything.tolist())) == sorted(map(tuple, load_digits().data.tolist()))
    assert (data.outputs, data.inputs) == (10, 64)


def heavy(name: str) -> bool:
    """Whether the first load decodes 60,000 images."""
    return name in CATALOGUE and CATALOGUE[name].parquet


@pytest.mark.contract
@pytest.mark.parametrize("name", [pytest.param(name, marks=pytest.mark.slow) if heavy(name) else name for name in DATA])
def test_every_set_is_the_same_each_time_and_leaves_random_states_alone(name: str) -> None:
    before = np.random.get_state()[1].tolist(), torch.get_rng_state()  # noqa: NPY002
    first, second = load(name), DATA[name]()
    assert first.name in (name, f"{CATALOGUE[name].title} (JPEG copy)" if heavy(name) else name)
    assert torch.equal(first.train_x, second.train_x)
    assert before[0] == np.random.get_state()[1].tolist()  # noqa: NPY002
    assert torch.equal(before[1], torch.get_rng_state())


@pytest.mark.contract
@pytest.mark.parametrize("name", IMAGE_SETS)
def test_a_set_whose_files_are_nowhere_says_so(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for setting in ("ALIVE_DATA", "XDG_CACHE_HOME", "XDG_DATA_DIRS"):
        monkeypatch.setenv(setting, str(tmp_path))
    with pytest.raises(NotThere, match="is not there: looked for"):
        load(name)


def test_unknown_names_suggest_the_near_one() -> None:
    with pytest.raises(AliveError, match="did you mean 'moons'"):
        load("moon")
