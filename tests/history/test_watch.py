"""Who was alive over time: counted right, kept whole, gone on with, drawn; and training is not changed by it."""

from __future__ import annotations

import copy
import gzip
import json
import operator
import os
import re
import subprocess
import sys
from functools import reduce

import pytest
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

import alive as library
from alive import AliveError
from alive.history import History
from alive.history.board import picture, to_tensorboard
from alive.history.page import page
from alive_papers.lab.browser import CHROMIUM, Browser

X = torch.randn(60, 3, generator=torch.Generator().manual_seed(0))
Y = X.sum(1, keepdim=True)


def network(wide: int = 6) -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(
        nn.Linear(3, wide), nn.ReLU(), nn.Dropout(0.2), nn.BatchNorm1d(wide), nn.Linear(wide, wide), nn.ReLU(),
        nn.Linear(wide, 1),
    )  # fmt: skip


def trained(model, steps, look=lambda step, **numbers: None, *, start=0, kill_at=None):
    """Plain steps; `kill_at` pushes a bias far down, as a step that is too large does."""
    torch.manual_seed(7)
    optimiser = torch.optim.SGD(model.parameters(), lr=0.01)
    for step in range(start, steps):
        loss = nn.functional.mse_loss(model(X), Y)
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
        if step == kill_at:
            model[0].bias.data[:2] = -99.0
        look(step, loss=loss)
    return model


def by_hand(model) -> list[str]:
    """The state of every unit, with torch alone."""
    model.eval()
    with torch.no_grad():
        first = model[0](X)
        second = model[4](model[3](first.relu()))
    model.train()
    letters = []
    for z in (first, second):
        on = z > 0
        letters.append("".join("d" if not u.any() else "l" if u.all() else "n" for u in on.T))
    return letters


def test_every_unit_is_what_a_count_by_hand_says(tmp_path):
    model, seen = network(), {}
    look = library.watch(model, X, every=2, path=tmp_path / "w.json")

    def both(step, **numbers):
        look(step, **numbers)
        if step % 2 == 0:
            seen[step] = by_hand(model)

    trained(model, 9, both, kill_at=4)
    read = History.read(tmp_path / "w.json")
    assert [moment.step for moment in read.moments] == [0, 2, 4, 6, 8]
    assert {m.step: [layer.units for layer in m.layers.values()] for m in read.moments} == seen
    assert seen[8][0].startswith("dd")
    assert not seen[2][0].startswith("dd")
    assert read == look.history
    assert all(moment.numbers["loss"] > 0 for moment in read.moments)


@pytest.mark.parametrize("loader", [False, True])
def test_training_is_the_same_to_the_bit(tmp_path, loader):
    """Dropout draws from the same generator, batch norm stays in its mode, a shuffled loader is read once."""
    plain = trained(network(), 8)
    model = network()
    probe = DataLoader(TensorDataset(X), batch_size=7, shuffle=True) if loader else X
    look = library.watch(model, probe, every=1, gradient=True, path=tmp_path / "w.json.gz")
    trained(model, 8, look)
    assert model.training
    for ours, theirs in zip(model.state_dict().values(), plain.state_dict().values(), strict=True):
        assert torch.equal(ours, theirs)
    assert all(moment.points.total == 60 for moment in look.history.moments)
    assert gzip.decompress((tmp_path / "w.json.gz").read_bytes()).startswith(b'{"format":"alive watch 2"')


def test_a_run_that_goes_on_keeps_what_came_before(tmp_path):
    path, model = tmp_path / "w.json", network()
    trained(model, 6, library.watch(model, X, every=2, path=path))
    trained(model, 10, library.watch(model, X, every=2, path=path), start=4)
    assert [moment.step for moment in History.read(path).moments] == [0, 2, 4, 6, 8]
    trained(model, 3, library.watch(model, X, every=2, path=path))
    assert [moment.step for moment in History.read(path).moments] == [0, 2]
    other = nn.Sequential(nn.Identity(), nn.Linear(3, 2), nn.Sigmoid(), nn.Linear(2, 2), nn.Identity(), nn.ReLU6())
    other = nn.ModuleDict({"body": other})
    with pytest.raises(AliveError, match="another network"):
        library.watch(other, X, every=1, path=path, forward=lambda m, x: m["body"](x))(8)
    with pytest.raises(AliveError, match=r"another network: its .* has 6 units, and this one's 9"):
        library.watch(network(9), X, every=1, path=path)(8)
    assert [moment.step for moment in History.read(path).moments] == [0, 2]


WRITES = """
import sys, torch, alive
from torch import nn
net = nn.Sequential(nn.Linear(3, 6), nn.ReLU())
look = alive.watch(net, torch.ones(2, 3), every=1, path=sys.argv[1])
look(0)
print("wrote", flush=True)
sys.stdin.readline()
look(1)
"""


@pytest.fixture
def other(tmp_path):
    """Another program, which has written w.json once and goes on at a line on its stdin."""
    pytest.importorskip("fcntl")
    words = [sys.executable, "-c", WRITES, str(tmp_path / "w.json")]
    with subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as program:
        assert program.stdout.readline() == "wrote\n"
        yield program
        program.kill()


def tiny() -> nn.Module:
    return nn.Sequential(nn.Linear(3, 6), nn.ReLU())


def test_a_file_that_another_program_writes_is_refused_while_it_runs(tmp_path, other):
    path = tmp_path / "w.json"
    before = path.read_bytes()
    (tmp_path / "link.json").symlink_to(path)
    for name in ("w.json", "link.json"):
        with pytest.raises(AliveError, match=f"another program that runs now writes .*{name}. Choose another path"):
            library.watch(tiny(), X, every=1, path=tmp_path / name)
    assert path.read_bytes() == before
    other.stdin.write("\n")
    other.stdin.flush()
    assert other.wait() == 0, "the first one goes on"
    assert [moment.step for moment in History.read(path).moments] == [0, 1]
    library.watch(tiny(), X, every=1, path=path)(2)
    assert [moment.step for moment in History.read(path).moments] == [0, 1, 2]


def test_a_killed_program_holds_nothing(tmp_path, other):
    other.kill()
    other.wait()
    library.watch(tiny(), X, every=1, path=tmp_path / "w.json")(1)
    assert [moment.step for moment in History.read(tmp_path / "w.json").moments] == [0, 1]


def test_one_that_began_before_the_other_wrote_is_refused_at_its_first_census(tmp_path):
    pytest.importorskip("fcntl")
    look = library.watch(tiny(), X, every=1, path=tmp_path / "w.json")
    words = [sys.executable, "-c", WRITES, str(tmp_path / "w.json")]
    with subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as program:
        assert program.stdout.readline() == "wrote\n"
        with pytest.raises(AliveError, match="another program that runs now"):
            look(0)
        program.communicate("\n")
    assert [moment.step for moment in History.read(tmp_path / "w.json").moments] == [0, 1]


def test_of_two_in_one_program_the_later_one_writes(tmp_path):
    pytest.importorskip("fcntl")
    path = tmp_path / "w.json"
    first, second = (library.watch(tiny(), X, every=1, path=path) for _ in range(2))
    first(0), first(1), second(0)
    with pytest.raises(
        AliveError, match=r"another alive\.watch of this program writes .*w\.json too\. Give each its own"
    ):
        first(2)
    second(1)
    copy.deepcopy(second)(2)
    with pytest.raises(AliveError, match=r"another alive\.watch"):
        second(3)
    assert [moment.step for moment in History.read(path).moments] == [0, 1, 2]


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork")
def test_a_forked_worker_that_outlives_its_program_holds_nothing(tmp_path):
    """As a worker of a loader does for some seconds, when its program is killed."""
    code = WRITES.replace("sys.stdin.readline()", "import os; os.fork() or input(); os._exit(0)")
    words = [sys.executable, "-c", code, str(tmp_path / "w.json")]
    with subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as program:
        assert program.stdout.readline() == "wrote\n"
        program.wait()  # its child waits for a line
        library.watch(tiny(), X, every=1, path=tmp_path / "w.json")(1)
        assert program.stdout.readable()
        program.communicate("\n")
    assert [moment.step for moment in History.read(tmp_path / "w.json").moments] == [0, 1]


def test_a_census_that_fails_leaves_the_file_whole(tmp_path, monkeypatch):
    path, model = tmp_path / "w.json", network()
    look = library.watch(model, X, every=1, path=path)
    look(0)
    before = path.read_bytes()
    monkeypatch.setattr("os.replace", lambda *_: (_ for _ in ()).throw(OSError(28, "No space left on device")))
    with pytest.raises(AliveError, match="cannot write"):
        look(1)
    assert path.read_bytes() == before
    assert list(tmp_path.iterdir()) == [path]


def test_numbers_go_to_any_log():
    told = []
    model = network()
    library.watch(model, X, every=1, log=lambda numbers, step: told.append((step, numbers)))(0, loss=torch.tensor(2.0))
    step, numbers = told[0]
    census = library.census(model, X)
    assert step == 0
    assert numbers["loss"] == 2.0
    assert numbers["alive/dead_units"] == census.units.dead / census.units.total
    assert numbers["alive/dead_points"] == census.points.dead / census.points.total


def test_tensorboard_shows_curves_and_a_picture(tmp_path):
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    model = network()
    look = library.watch(model, X, every=1)
    trained(model, 4, look, kill_at=1)
    to_tensorboard(look.history, tmp_path / "board")
    events = EventAccumulator(str(tmp_path / "board"))
    events.Reload()
    dead = [(e.step, e.value) for e in events.Scalars("alive/dead_units")]
    assert dead == [(m.step, pytest.approx(m.units("d") / 12)) for m in look.history.moments]
    assert events.Images("alive/over time")
    drawn = picture(look.history)
    assert tuple(drawn.shape) == (3, 4 * 14, 4 * 4)
    assert drawn[:, 0, -1].tolist() == [200, 72, 61]  # the first unit has died


# The command.


@pytest.fixture(scope="module")
def file(tmp_path_factory):
    path, model = tmp_path_factory.mktemp("watch") / "w.json", network(wide=12)
    trained(model, 60, library.watch(model, X, every=3, path=path), kill_at=30)
    return path


def test_the_command_draws_it(alive, file, tmp_path):
    code, out, err = alive("watch", file, "--html", "page.html", "--tensorboard", "board")
    assert code == 0, err
    assert "steps 0 to 57, 20 censuses" in out
    line = next(line for line in out.splitlines() if line.startswith("0 → relu"))
    dead = History.read(file).moments[-1].layers["1"].count("d")
    assert f"{dead} of 12 dead" in line
    assert dead >= 2
    text = (tmp_path / "page.html").read_text()
    assert "Who was alive" in text
    assert not re.findall(r"(?:src|href)=", text)
    assert list((tmp_path / "board").iterdir())
    told = json.loads(alive("watch", file, "--json")[1])
    assert [moment["step"] for moment in told] == list(range(0, 60, 3))


def test_rectangles_cover_each_unit_once(file):
    """What is drawn of a layer has the area of the band, and red where the file says dead."""
    history = History.read(file)
    drawn = re.findall(r'<rect x="([\d.]+)" y="([\d.]+)" width="([\d.]+)" height="6" class="(\w+)"/>',
                       page(history, "t"))  # fmt: skip
    assert sum(float(width) for _, _, width, _ in drawn) == pytest.approx(24 * 1000, rel=1e-3)
    red = sum(float(width) for _, _, width, state in drawn if state == "dead")
    assert red == pytest.approx(sum(moment.units("d") for moment in history.moments) * 50, rel=1e-3)


def test_a_wide_layer_is_drawn_by_shares():
    model = nn.Sequential(nn.Linear(3, 200), nn.ReLU(), nn.Linear(200, 1))
    look = library.watch(model, X, every=1)
    look(0)
    assert page(look.history, "t").count("<rect") <= 5


@pytest.mark.parametrize("width", [400, 1300])
def test_the_page_fits_a_browser(file, tmp_path, width):
    if CHROMIUM is None:
        pytest.skip("there is no chromium on the path; apt-get install chromium")
    place = tmp_path / "page.html"
    place.write_text(page(History.read(file), "Who was alive"))
    with Browser(tmp_path) as browser:
        browser.size(width, 900)
        browser.open(place.as_uri())
        assert browser.ask("document.documentElement.scrollWidth") <= width
        assert browser.ask(
            "[...document.querySelectorAll('svg.band')].every(s => s.getBoundingClientRect().width > 300)"
        )
        assert browser.console == []
        assert [url for url in browser.requests if not url.startswith(("file:", "about:"))] == []


@pytest.mark.parametrize(
    ("content", "said"),
    [(None, "cannot read"), ("{}", "no history"), ("nonsense", "no history"),
     ('{"format":"alive watch 1","layers":[],"moments":[{"step":0,"points":[],"layers":{"a":["9z",0]},"numbers":{}}]}',
      "no history")],
)  # fmt: skip
def test_other_files_are_refused_in_one_line(alive, tmp_path, content, said):
    if content is not None:
        (tmp_path / "w.json").write_text(content)
    code, _, err = alive("watch", "w.json")
    assert code == 2
    assert said in err
    assert err.count("\n") == 1
    if content is not None:
        with pytest.raises(AliveError, match="no history"):
            library.watch(network(), X, path=tmp_path / "w.json")


def test_damage_at_any_place_is_told(tmp_path):
    """One value of a history is replaced, or one byte of its compressed form."""
    look = library.watch(network(), X, every=1, path=tmp_path / "w.json")
    look(0, loss=1.0)
    said = json.loads((tmp_path / "w.json").read_text())
    for place in (["points", 0], ["numbers", "loss"], ["step"], *(["layers", n] for n in said["moments"][0]["layers"])):
        for wrong in ("x", [1], {"a": 1}):
            broken = copy.deepcopy(said)
            *path, last = place
            reduce(operator.getitem, path, broken["moments"][0])[last] = wrong
            (tmp_path / "v.json").write_text(json.dumps(broken))
            with pytest.raises(AliveError, match="no history"):
                History.read(tmp_path / "v.json")
    whole = gzip.compress(json.dumps(said).encode())
    for at in range(10, len(whole) - 8):
        (tmp_path / "v.json.gz").write_bytes(whole[:at] + bytes([whole[at] ^ 255]) + whole[at + 1 :])
        with pytest.raises(AliveError, match=r"no history|cannot read"):
            History.read(tmp_path / "v.json.gz")


def test_what_cannot_be_watched_is_refused(tmp_path):
    with pytest.raises(AliveError, match="every must be"):
        library.watch(network(), X, every=0)
    with pytest.raises(AliveError, match="did you mean 'gradient'"):
        library.watch(network(), X, gradeint=True)
    with pytest.raises(AliveError, match="a step is a whole number, got 'first'"):
        library.watch(network(), X)("first")
    with pytest.raises(AliveError, match="cannot write"):
        library.watch(network(), X, path=tmp_path / "none" / "w.json")
    with pytest.raises(AliveError, match="loss is no number"):
        library.watch(network(), X, every=1)(0, loss="high")
