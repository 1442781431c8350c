"""Packages of strangers add to alive by entry points, and those that are broken do no harm."""

from __future__ import annotations

import json
import subprocess
import sys
import warnings
from pathlib import Path

import pytest
from documents import DOCS, blocks

from alive import registry
from alive.errors import AliveError, expect_one_of
from alive.registry import Registry


def run(folder: Path, code: str, cwd: Path) -> str:
    """What a fresh Python prints that has the packages of a folder."""
    start = f"import sys; sys.path.insert(0, {str(folder)!r})\n"
    guarded = start + "if __name__ == '__main__':\n" + "".join(f"    {line}\n" for line in code.splitlines())
    script = cwd / "script.py"
    script.write_text(guarded)
    done = subprocess.run([sys.executable, script], cwd=cwd, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


GRID = """
import json
from pathlib import Path
from alive_papers import study
for _ in range(2):  # trained, and then read from the store
    (part,) = study.reproduce(["Own-Stripes"], seeds=1, scale="quick", architecture="dense", path=Path("own.sqlite"))
    rows = [[row.member.depth, row.member.method, row.last.penalty, row.best_train] for row in part.rows]
    print(json.dumps(rows))
"""


def test_a_plug_in_adds_to_a_grid_without_touching_alive(plug_in, tmp_path):
    rows, again = map(json.loads, run(plug_in, GRID, tmp_path).splitlines()[-2:])
    assert [row[:2] for row in rows] == [[2, "plain"], [2, "fading"], [4, "plain"], [4, "fading"]]
    assert [penalty > 0 for _, _, penalty, _ in rows] == [False, True, False, True]
    assert again == rows


def test_the_page_of_all_claims_has_those_of_a_plug_in(plug_in, tmp_path):
    code = (
        "from pathlib import Path\n"
        "from alive_papers import study\n"
        "print('Own-Stripes' in study.evidence([], Path('page')).read_text())\n"
    )
    assert run(plug_in, code, tmp_path).split() == ["True"]


def test_a_plugged_in_activation_is_counted(plug_in, tmp_path):
    code = (
        "import torch, alive\n"
        "from alive_papers.networks.zoo import make\n"
        "model = make('shifted', (2,), 1, depth=2, width=3, generator=None, init='halved')\n"
        "torch.nn.init.constant_(model[1].bias, -9.0)\n"
        "found = alive.census(model, torch.rand(8, 2))\n"
        "print(found.units.total, found.units.dead >= 3, found.layers[0].activation.name)\n"
    )
    assert run(plug_in, code, tmp_path).split() == ["6", "True", "shifted_relu"]


def test_a_plugged_in_finding_is_judged_shown_and_failed_on(plug_in, tmp_path):
    (tmp_path / "mine.py").write_text(
        "import torch\n"
        "def make_model():\n"
        "    return torch.nn.Sequential(torch.nn.Linear(2, 90), torch.nn.ReLU(), torch.nn.Linear(90, 1))\n"
    )
    code = (
        "from typer.testing import CliRunner\n"
        "from alive.cli import app\n"
        "def run(*words): return CliRunner().invoke(app, ['census', 'mine:make_model', '--data', 'moons', *words])\n"
        "import json\n"
        "few = json.loads(run('--json').stdout)['findings']\n"
        "print([a['level'] for a in few if a['rule'] == 'OWN001'])\n"
        "print('[OWN001]' in run('-v').stdout, '85 points for 90 units' in run('--format', 'junit').stdout)\n"
        "print([run('--fail-on', word).exit_code for word in ('OWN001', 'ALV011')])\n"
        "print(run('--fail-on', 'OWN001', '--ignore', 'OWN001').exit_code)\n"
        "print('fewer points than units' in CliRunner().invoke(app, ['rules', 'OWN001']).stdout)\n"
    )
    assert run(plug_in, code, tmp_path).splitlines() == ["['warning']", "True True", "[1, 0]", "0", "True"]


CURED = """
import torch
from torch import nn
import alive
from alive.cures import CURES, NAMES, lines
known = "lifted" in NAMES, "alive_plugin" in sys.modules
def make():
    return nn.Sequential(nn.Linear(2, 8), nn.ReLU(), nn.Linear(8, 1))
x = torch.randn(40, 2)
found = alive.cure(make, (x, (x[:, 0] > 0).long()), steps=8, seeds=1, cures=["lifted, rate/10"], jobs=1)
code = lines("lifted, rate/10")
model = make()
names = {"model": model, "optimiser": torch.optim.SGD(model.parameters(), lr=0.1)}
exec(code, names)
print(*known, len(found["lifted, rate/10"].scores), float(model[0].bias[3]), names["optimiser"].param_groups[0]["lr"])
print(code)
"""


def test_a_plugged_in_cure_is_raced_and_combined_and_its_lines_run_by_themselves(plug_in, tmp_path):
    known, *code = run(plug_in, CURED, tmp_path).splitlines()
    assert known.split()[:3] == ["True", "False", "1"]
    assert [float(number) for number in known.split()[3:]] == pytest.approx([0.1, 0.01])
    assert code[0] == "import torch, alive"
    assert "        torch.nn.init.constant_(layer.bias, 0.1)" in code


SVM = """
import sys, torch, alive
from pathlib import Path
from sklearn.datasets import dump_svmlight_file, load_svmlight_file
from alive.data import load
x = (torch.randn(9, 4) * (torch.rand(9, 4) < 0.5)).double().numpy()
x[-1, -1] = 1  # how wide the points are is told by the last index alone
dump_svmlight_file(x, [0, 1, 2] * 3, "points.svm", zero_based=False)
theirs, y = load_svmlight_file("points.svm")
ours = load("points.svm")
print(torch.equal(ours.train_x, torch.tensor(theirs.toarray()).float()), ours.train_y.tolist() == y.tolist())
print(alive.census(torch.nn.Sequential(torch.nn.Linear(4, 2), torch.nn.ReLU()), "points.svm").points.total)
sys.argv = ["alive", "census", "2x3", "--data", "points.svm", "--json"]
from alive.__main__ import main
main()
"""


def test_a_plugged_in_format_is_read_wherever_a_file_is(plug_in, tmp_path):
    right, points, *told = run(plug_in, SVM, tmp_path).splitlines()
    assert (right, points) == ("True True", "9")
    assert sum(json.loads("\n".join(told))["points"].values()) == 9


def test_a_reader_that_fails_is_named_with_its_file(plug_in, tmp_path):
    (tmp_path / "bad.svm").write_text("1 0.5\n")
    code = "from alive.data import load\ntry:\n    load('bad.svm')\nexcept ValueError as error:\n    print(error)\n"
    said = run(plug_in, code, tmp_path)
    assert said.startswith("reading bad.svm with alive_plugin failed with ValueError: not enough values"), said


def test_names_are_known_before_anything_is_imported(plug_in, tmp_path):
    code = (
        "from alive.nn import INITIALISERS\n"
        "print(list(INITIALISERS)[-1], 'alive_plugin' in sys.modules)\n"
        "print(INITIALISERS['halved'].__name__, 'alive_plugin' in sys.modules)\n"
    )
    assert run(plug_in, code, tmp_path).split() == ["halved", "False", "halved_", "True"]


# Registries by themselves.


SIX = """
import io, json, torch, alive
from contextlib import redirect_stdout
from pathlib import Path
from alive.cures import code
from alive.penalties import attach
from alive_papers import study
import own
model = torch.nn.Sequential(torch.nn.Linear(2, 2), own.Hat(), torch.nn.Linear(2, 1))
Path("d.pairs").write_text("0.1|0.2|0\\n1|2|1\\n")
found = alive.census(model, "d.pairs")
print(found.layers[0].activation.name, found.points.total, any(each.rule == "THIN001" for each in found.findings))
with attach("small", model, weight=2.0) as keep:
    print(torch.isclose(keep.penalty(), 2 * sum(part.square().sum() for part in model.parameters())).item())
print(*code("damped"))
(part,) = study.reproduce(["Own-Tiny"], seeds=1, scale="quick", architecture="dense", path=Path("own.sqlite"))
print([row.member.method for row in part.rows])
"""


def test_the_smallest_of_each_in_the_documents_makes_a_package(tmp_path):
    page = (DOCS / "extending.md").read_text().partition("## The smallest of each")[2].partition("## How many files")[0]
    shown = [each for each in blocks(DOCS / "extending.md") if each.code in page]
    own = [each.code for each in shown if each.language == "python"]
    (points,) = [each.code for each in shown if each.language == "toml"]
    site = tmp_path / "site"
    package(site, "own", "", "\n".join(own))
    entry = points.replace('[project.entry-points."', "[").replace('"]', "]").replace('"', "")
    (site / "own-1.dist-info" / "entry_points.txt").write_text(entry)
    printed = run(site, SIX, tmp_path).splitlines()
    assert printed[:2] == ["hat 2 True", "True"]
    assert printed[2] == "torch.nn.utils.clip_grad_value_(model.parameters(), 0.01)  # in each step"
    assert printed[-1] == "['plain', 'small']"


def package(folder: Path, name: str, points: str, module: str = "") -> None:
    """Install a package by hand: its metadata, its entry points, its module."""
    info = folder / f"{name}-1.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1\n")
    (info / "entry_points.txt").write_text(f"[alive.tests]\n{points}\n")
    if module:
        (folder / f"{name}.py").write_text(module)


@pytest.fixture
def site(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(registry, "_added", registry._added.__wrapped__)
    monkeypatch.setattr(registry, "_entry_points", registry.entry_points)
    return tmp_path


def test_own_names_come_first_and_cannot_be_taken(site):
    package(site, "greedy", "one = greedy:ONE\ntwo = greedy:TWO", "ONE, TWO = 'taken', 2")
    known = Registry("alive.tests", "test", {"one": 1})
    assert dict(known.items()) == {"one": 1, "two": 2}
    assert list(known) == ["one", "two"]
    assert len(known) == 2
    assert "three" not in known
    with pytest.raises(KeyError):
        known["three"]
    with pytest.raises(AliveError, match=r"unknown test 'tow'\. did you mean 'two'"):
        expect_one_of("test", "tow", known)


@pytest.mark.parametrize(
    ("module", "said"),
    [
        ("import nothing_of_this_name", "ModuleNotFoundError: No module named 'nothing_of_this_name'"),
        ("raise SystemError('of\\nits own')", "SystemError: of its own"),
        ("OTHER = 1", "AttributeError: module 'ruined' has no attribute 'THING'"),
    ],
)
def test_a_broken_package_gets_one_sentence_that_names_it(site, module, said):
    package(site, "ruined", "bad = ruined:THING", module)
    sys.modules.pop("ruined", None)
    known = Registry("alive.tests", "test", {"good": 1})
    assert list(known) == ["good", "bad"]
    for _ in range(2):
        with pytest.raises(AliveError) as error:
            known["bad"]
        assert error.value.cause == f"the package ruined adds the test 'bad', which cannot be loaded: {said}"
        assert error.value.cure == "Repair it, or: pip uninstall ruined"


def test_a_fault_in_the_code_of_a_package_names_it(site):
    package(site, "ruined", "bad = ruined:THING", "def THING():\n    return 1 / 0")
    sys.modules.pop("ruined", None)
    with pytest.raises(ZeroDivisionError) as error:
        Registry("alive.tests", "test", {})["bad"]()
    assert registry.package_at_fault(error.value) == "ruined"
    assert registry.package_at_fault(ZeroDivisionError()) == ""


def test_listings_leave_out_what_is_broken_and_warn_once(site):
    package(site, "ruined", "bad = ruined:THING", "1 / 0")
    sys.modules.pop("ruined", None)
    known = Registry("alive.tests", "test", {"good": 1})
    with pytest.warns(UserWarning, match="the package ruined adds the test 'bad', which cannot be loaded: ZeroDiv"):
        assert list(known.values()) == [1]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert dict(known.items()) == {"good": 1}


def test_two_packages_with_one_name_are_both_named(site):
    package(site, "first", "same = first:THING", "THING = 1")
    package(site, "second", "same = second:THING", "THING = 2")
    with pytest.raises(AliveError, match=r"first and second both add the test 'same'|second and first both"):
        Registry("alive.tests", "test", {})["same"]


def test_what_is_of_the_wrong_kind_is_refused(site):
    package(site, "odd", "number = odd:THING", "THING = 1")
    known = Registry("alive.tests", "test", {}, fault=lambda name, thing: "" if callable(thing) else "it is no test")
    with pytest.raises(AliveError, match="the package odd adds the test 'number', and it is no test"):
        known["number"]


def test_the_command_line_knows_what_is_plugged_in_without_importing_it(plug_in, tmp_path):
    code = (
        "from alive.cli import values\nfrom alive_papers.cli import values as studied\n"
        "print('halved' in values.INITS, 'stripes' in values.DATA, 'stripes' in studied.IMAGES)\n"
        "print(studied.EXPERIMENTS[-1])\n"
        "print('torch' in sys.modules, 'alive_plugin' in sys.modules)\n"
    )
    said = ["True", "True", "False", "Own-Stripes", "False", "False"]
    assert run(plug_in, code, tmp_path).split() == said
