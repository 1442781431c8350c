"""The words of the command line: help, completion, values and what is said of a wrong one."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from alive.cli import app, values

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
    from alive import data, functional, nn, race
    from alive.penalties.schedule import SHAPES
    from alive.train import LOSSES, OPTIMISERS
    from alive_papers import benchmarks, clinic, experiments, study
    from alive_papers.sets.catalogue import CATALOGUE

    assert sorted(values.DATA) == sorted(data.sets.DATA)
    assert sorted(values.IMAGES) == sorted(CATALOGUE)
    assert sorted(values.INITS) == sorted(nn.init.INITIALISERS)
    assert sorted(values.MODES) == sorted(functional.separation.MODES)
    assert sorted(values.AGGREGATES) == sorted(functional.AGGREGATES)
    assert sorted(values.SHAPES) == sorted(SHAPES)
    assert sorted(values.OPTIMISERS) == sorted(OPTIMISERS)
    assert sorted(values.LOSSES) == sorted(LOSSES)
    assert sorted(values.SCALES) == sorted(experiments.spec.SCALES)
    assert sorted(values.WHERE) == sorted(study.WHERE)
    assert list(values.BENCHMARKS) == list(benchmarks.BENCHMARKS)
    assert list(values.PATIENTS) == list(clinic.PATIENTS)
    assert {*values.CURES, race.AS_IS} == set(race.RACED)
    assert list(values.EXPERIMENTS) == list(experiments.EXPERIMENTS)
    kinds = {kind for each in experiments.EXPERIMENTS.values() for kind in each.architectures}
    assert sorted(values.ARCHITECTURES) == sorted(kinds)


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
        ("alive clinic deep-", ["deep-conv", "deep-text", "deep-regression", "deep-gelu"]),
        ("alive bench p", ["penalty", "pipeline"]),
        ("alive data get ", list(values.IMAGES)),
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
