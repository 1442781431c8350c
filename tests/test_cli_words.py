"""The words of the command line: help, completion, values and what is said of a wrong one."""

from __future__ import annotations

import os
import subprocess
import sys
from importlib.metadata import entry_points

import pytest

from alive.cli import COMMANDS as ALL
from alive.cli import LABORATORY, app, values
from alive_papers.cli import values as studied

COMMANDS = [
    [],
    *([command.name or command.callback.__name__] for command in app.registered_commands),
    ["data"],
    ["data", "get"],
    ["data", "list"],
]


@pytest.mark.contract
@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
def test_every_command_knows_h(alive, command):
    code, out, err = alive(*command, "-h")
    assert (code, err) == (0, "")
    assert out == alive(*command, "--help")[1]
    assert " ".join(["alive", *command]) in out


@pytest.mark.contract
def test_values_are_those_of_the_registries():
    from alive import data, functional, nn
    from alive.penalties.schedule import SHAPES
    from alive.train import LOSSES, OPTIMISERS
    from alive_papers import benchmarks, clinic, experiments, study
    from alive_papers.sets.catalogue import CATALOGUE

    folds = {name for name in data.sets.DATA if name.startswith("tables/")}  # 430 names: too many for help
    assert sorted(values.DATA) == sorted(data.sets.DATA.keys() - folds)
    assert {*values.FILES, "pth"} == {*data.files.FORMATS}
    assert sorted(studied.IMAGES) == sorted(CATALOGUE)
    assert sorted(values.INITS) == sorted(nn.init.INITIALISERS)
    assert sorted(values.MODES) == sorted(functional.separation.MODES)
    assert sorted(values.AGGREGATES) == sorted(functional.AGGREGATES)
    assert sorted(values.SHAPES) == sorted(SHAPES)
    assert sorted(values.OPTIMISERS) == sorted(OPTIMISERS)
    assert sorted(values.LOSSES) == sorted(LOSSES)
    assert sorted(studied.SCALES) == sorted(experiments.spec.SCALES)
    assert sorted(studied.WHERE) == sorted(study.WHERE)
    assert list(studied.BENCHMARKS) == list(benchmarks.BENCHMARKS)
    assert list(studied.PATIENTS) == list(clinic.PATIENTS)
    assert list(studied.EXPERIMENTS) == list(experiments.EXPERIMENTS)
    kinds = {kind for each in experiments.EXPERIMENTS.values() for kind in each.architectures}
    assert sorted(studied.ARCHITECTURES) == sorted(kinds)


def test_the_laboratory_adds_its_commands_and_no_other():
    ours = [point for point in entry_points(group="alive.commands") if point.dist.name == "alive-papers"]
    assert sorted(point.name for point in ours) == sorted(LABORATORY)
    assert set(LABORATORY) <= set(ALL)


WITHOUT = """
import sys, importlib.metadata
found = importlib.metadata.entry_points
importlib.metadata.entry_points = lambda **group: found(group="none")
from alive.__main__ import main
sys.argv = ["alive", "reproduce", "001-T1"]
main()
"""


def test_without_the_laboratory_its_commands_say_where_they_are():
    done = subprocess.run([sys.executable, "-c", WITHOUT], capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert done.stderr.startswith("alive: reproduce is a command of alive-papers, which is not installed; pip install")


def completions(line: str) -> tuple[list[str], bool]:
    """What bash is offered after a line, and whether torch was imported for it."""
    code = (
        "import sys, atexit, alive.cli as c\n"
        "atexit.register(lambda: print('torch' in sys.modules, file=sys.stderr))\n"
        "sys.argv[0] = 'alive'\nc.main()"
    )
    asked = {"_ALIVE_COMPLETE": "complete_bash", "COMP_WORDS": line, "COMP_CWORD": str(line.count(" "))}
    done = subprocess.run(
        [sys.executable, "-c", code], env=os.environ | asked, capture_output=True, text=True, check=False
    )
    return done.stdout.split(), done.stderr.strip() != "False"


@pytest.mark.parametrize(
    ("line", "offered"),
    [
        ("alive ce", ["census"]),
        ("alive census 5x4 --data m", ["moons", "mnist", "mnist-14"]),
        ("alive census 5x4 --init ", list(values.INITS)),
        ("alive preflight 5x4 --data fa", ["fashion-mnist"]),
        ("alive census 5x4 --split t", ["train", "test"]),
        ("alive train 5x4 --jumpstart U", ["U", "UP"]),
        ("alive census 5x4 --loss b", ["bce"]),
        ("alive train 5x4 --optimiser ", ["adam", "sgd"]),
        ("alive train 5x4 --schedule c", ["constant", "cosine"]),
        ("alive train 5x4 --aggregate s", ["sumsq", "sum"]),
        ("alive reproduce 003", ["003-T2"]),
        ("alive reproduce 003-T2 atl", ["atlas", "atlas-images"]),
        ("alive reproduce --on ", ["local", "ray"]),
        ("alive cure 5x4 --cure r", ["rate/10", "rate/100", "rate/1000"]),
        ("alive clinic deep-", ["deep-conv", "deep-text", "deep-regression", "deep-gelu", "deep-encoder"]),
        ("alive bench p", ["penalty", "pipeline"]),
        ("alive data get ", list(studied.GOT)),
        ("alive census 5x4 --data ./my", []),
    ],
)
def test_the_shell_completes_values_without_torch(line, offered):
    assert completions(line) == (offered, False)


@pytest.mark.parametrize(
    ("args", "said"),
    [
        (["censsus"], "No such command 'censsus'. Did you mean 'census'? See alive --help."),
        (["data", "gett"], "No such command 'gett'. Did you mean 'get'? See alive data --help."),
        (["census", "5x4", "--jso"], "No such option: --jso. Did you mean --json? See alive census --help."),
        (["--versoin"], "No such option: --versoin. Did you mean --version? See alive --help."),
        (["census", "5x4", "-q"], "No such option: -q. See alive census --help."),
        (["census", "5x4", "--xyzzy"], "No such option: --xyzzy. See alive census --help."),
        (["50x4"], "'50x4' is not a command. Did you mean alive census 50x4? See alive --help."),
        (["mine:make"], "'mine:make' is not a command. Did you mean alive census mine:make? See alive --help."),
        (["reproduce", "001-T1", "--scale", "papr"], "unknown scale 'papr'. did you mean 'paper'?"),
        (["reproduce", "001-T1", "--on", "rai"], "unknown place to run 'rai'. did you mean 'ray'?"),
        (["reproduce", "001-T1", "--architecture", "dens"], "unknown architecture 'dens'. did you mean 'dense'?"),
        (["census", "5x4", "--init", "gloro"], "unknown init 'gloro'. did you mean 'glorot'?"),
        (["census", "5x4", "--split", "trian"], "unknown split 'trian'. did you mean 'train'?"),
    ],
)
def test_a_wrong_word_leads_to_the_right_one(alive, args, said):
    code, out, err = alive(*args)
    assert (code, out) == (2, "")
    assert err.startswith(f"alive: {said}")
    assert len(err.strip().splitlines()) == 1
