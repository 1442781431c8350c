"""The command line: each command a few lines that call the library. Asking for help imports no torch."""

from __future__ import annotations

import os
import sys
from contextlib import suppress
from io import TextIOWrapper
from typing import Annotated, Any, NoReturn

import typer

from .._version import __version__
from ..errors import AliveError
from .data import commands as data_commands
from .models import census, train
from .preflight import preflight
from .studies import bench, demo, report, reproduce
from .words import fail

app = typer.Typer(
    no_args_is_help=True,
    rich_markup_mode="rich",
    pretty_exceptions_enable=False,
    help="Find, cure and prove away dead and linear units and dead points of PyTorch networks.",
)
for command in (demo, census, preflight, train, bench, reproduce, report):
    app.command()(command)
app.add_typer(data_commands, name="data")


def main() -> None:
    """Run the command line; what is refused is said in one line."""
    if isinstance(sys.stdout, TextIOWrapper):
        with suppress(OSError):
            sys.stdout.reconfigure(errors="replace")  # a locale without our signs is no reason to say nothing
    try:
        code = app(standalone_mode=False)
        sys.stdout.flush()
    except AliveError as error:
        fail(str(error), 2)
    except USAGE as error:
        _misused(error)
    except KeyboardInterrupt:  # a second one, while the first was being answered
        raise SystemExit(130) from None
    except BrokenPipeError:
        _read_no_more()
    except SystemExit as stop:
        if isinstance(stop.__context__, BrokenPipeError):  # typer's own answer to it is 1, which is that of a limit
            _read_no_more()
        raise
    except OSError as error:
        place = "" if error.filename is None else f"{error.filename}: "
        fail(f"{place}{error.strerror or error}.", 2)
    raise SystemExit(code or 0)


USAGE: type[Exception] = typer.BadParameter.__mro__[1]  # UsageError, which typer takes now from click, now from itself


def _misused(error: Any) -> NoReturn:
    """Say what is wrong with the words of the command; where there were none, its help has been shown already."""
    if not error.format_message():
        raise SystemExit(2)
    said = error.format_message().strip().rstrip(".").replace("\n", " ")
    path = "alive" if error.ctx is None else error.ctx.command_path
    fail(f"{said}{'' if said.endswith('?') else '.'} See {path} --help.", 2)


def _read_no_more() -> NoReturn:
    """Whoever read our output has gone, as `head` does: end as quietly as other commands, not as if a limit held."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    raise SystemExit(141)


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
