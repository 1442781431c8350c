"""The command line: each command a few lines that call the library. Asking for help imports no torch."""

from __future__ import annotations

import logging
import os
import re
import sys
import traceback
from collections.abc import Callable
from contextlib import suppress
from difflib import get_close_matches
from io import TextIOWrapper
from pathlib import Path
from typing import Annotated, Any, NoReturn

import typer

from .._version import __version__
from ..errors import AliveError
from ..files import FULL
from ..interrupts import code, word
from ..registry import Registry, package_at_fault
from .words import fail

app = typer.Typer(
    no_args_is_help=True,
    rich_markup_mode="rich",
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["--help", "-h"]},
    help="Find, cure and prove away dead and linear units and dead points of PyTorch networks.",
)
OWN = {
    name: f"alive.cli.{name}:{name}" for name in ("census", "preflight", "cure", "train", "watch", "shrink", "rules")
}
OWN |= {"schema": "alive.cli.rules:schema", "check-cure": "alive.cli.check_cure:check_cure"}
COMMANDS: Registry[Callable[..., Any] | typer.Typer] = Registry("alive.commands", "command", OWN)
LABORATORY = ("bench", "clinic", "data", "demo", "export", "lab", "report", "reproduce")


def _refuse(error: AliveError) -> Callable[[], None]:
    """In the place of a command that cannot be loaded."""

    def refused() -> None:
        raise error

    refused.__doc__ = f"It cannot be loaded: {error.cause}."
    return refused


def _add(name: str) -> None:
    """Add a command, or a group of them; what cannot be loaded says why when it is called."""
    try:
        command = COMMANDS[name]
    except AliveError as error:
        command = _refuse(error)
    if isinstance(command, typer.Typer):
        app.add_typer(command, name=name)
    else:
        app.command(name)(command)


for name in sys.argv[1:2] if sys.argv[1:2] and sys.argv[1] in COMMANDS else COMMANDS:  # of the others nothing is read
    _add(name)


def main() -> None:
    """Run the command line; an error is one line."""
    logging.getLogger("matplotlib").setLevel(logging.ERROR)  # without a cache it says so on two lines, and works
    if isinstance(sys.stdout, TextIOWrapper):
        with suppress(OSError):
            sys.stdout.reconfigure(errors="replace")  # a locale may lack some of our characters
    try:
        _expect_known_shell()
        left = app(prog_name="alive", standalone_mode=False)
        if sys.stdout is not None:  # it may be closed
            sys.stdout.flush()
        if left == 130:  # what typer returns after Ctrl-C, without printing anything
            raise KeyboardInterrupt
    except AliveError as error:
        fail(str(error), 2)
    except USAGE as error:
        _fail_on_usage(error)
    except KeyboardInterrupt:
        fail(word(), code())
    except BrokenPipeError:
        _read_no_more()
    except SystemExit as stop:
        if isinstance(stop.__context__, BrokenPipeError):  # typer would exit with 1, which is for limits
            _read_no_more()
        raise
    except OSError as error:
        full = "cannot write the output: " if error.errno in FULL else ""
        if full and error.filename is None:
            _drop_output()
        place = full if error.filename is None else f"{error.filename}: "
        fail(f"{place}{error.strerror or error}.", 2)
    except Exception as error:
        if os.environ.get(TRACEBACK):
            raise
        fail(_unforeseen(error), 2)
    raise SystemExit(left or 0)


TRACEBACK = "ALIVE_TRACEBACK"


def _unforeseen(error: Exception) -> str:
    """What to say of an error that nothing before has put into words."""
    from ..gate import short_of_memory

    said = " ".join(str(error).split())[:200].rstrip(".")
    if short_of_memory(error):
        return f"there was not enough memory ({said or 'none was left'}). Give fewer points, or a smaller model."
    if isinstance(error, RecursionError):
        return "something is nested too deeply, in a file or in the model. Give one that is flatter."
    if isinstance(error, UnicodeError):
        return f"a name or a text is no Unicode ({said}). Rename it."
    if isinstance(error, OverflowError):
        return f"a number is too large ({said}). Correct it."
    frame = traceback.extract_tb(error.__traceback__)[-1]
    where = f"{Path(frame.filename).name}, line {frame.lineno}"
    what = f"{type(error).__name__}: {said}" if said else type(error).__name__
    if package := package_at_fault(error):
        return f"the package {package} failed with {what} ({where}). Repair it, or: pip uninstall {package}"
    return f"alive itself failed with {what} ({where}). Please report it; {TRACEBACK}=1 shows where it came from."


COMPLETION, SHELLS = ("--show-completion", "--install-completion"), ("bash", "zsh", "fish", "powershell", "pwsh")


def _expect_known_shell() -> None:
    """Refuse completion in a shell that has none, as `sh`; typer would exit with 1, which is for limits."""
    if sys.argv[1:2] not in ([option] for option in COMPLETION):
        return
    import shellingham

    try:
        shell, _ = shellingham.detect_shell()
    except shellingham.ShellDetectionFailure:
        shell = "no shell that is known"
    if shell not in SHELLS:
        cure = f"ask from one of them, as with bash -c 'alive {sys.argv[1]}; true'"
        fail(f"alive completes in bash, zsh, fish and PowerShell, and this is {shell}; {cure}.", 2)


USAGE: type[Exception] = typer.BadParameter.__mro__[1]  # UsageError, of click or of typer itself


def _fail_on_usage(error: Any) -> NoReturn:
    """Say what is wrong with the words of the command; where there were none, its help has been shown already."""
    if not error.format_message():
        raise SystemExit(2)
    said = (_nearest(error) or error.format_message()).strip().rstrip(".").replace("\n", " ")
    path = "alive" if error.ctx is None else error.ctx.command_path
    fail(f"{said}{'' if said.endswith('?') else '.'} See {path} --help.", 2)


def _nearest(error: Any) -> str:
    """Words that lead from an option that does not exist, or a model where a command belongs, to the right ones."""
    if error.ctx is None:
        return ""
    if type(error).__name__ == "NoSuchOption":
        options = [
            option for param in error.ctx.command.get_params(error.ctx) for option in param.opts if len(option) > 2
        ]
        close = get_close_matches(error.option_name, options, n=1, cutoff=0.6)
        return f"No such option: {error.option_name}{f'. Did you mean {close[0]}?' if close else ''}"
    word = next(iter(sys.argv[1:]), "")
    if error.ctx.parent is None and word in LABORATORY:
        return f"{word} is a command of alive-papers, which is not installed; pip install ./papers in a clone of alive"
    if error.ctx.parent is None and re.search(r":|\.py$|^\d+x\d+$", word):
        return f"{word!r} is not a command. Did you mean alive census {word}?"
    return ""


def _read_no_more() -> NoReturn:
    """The reader of our output is gone, as after `| head`: end quietly, with the exit code of a closed pipe."""
    _drop_output()
    raise SystemExit(141)


def _drop_output() -> None:
    """What is still held back goes nowhere; Python would try to write it once more at the end, and say so."""
    with suppress(OSError):  # where the output is no file
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _version(asked: bool) -> None:
    if asked:
        print(f"alive {__version__}")
        raise typer.Exit


@app.callback()
def _root(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Say the version.")
    ] = False,
) -> None:
    pass
