"""The command line: each command a few lines that call the library. Asking for help imports no torch."""

from __future__ import annotations

import sys
from typing import Annotated

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
    try:
        app()
    except AliveError as error:
        fail(str(error), 2)
    except BrokenPipeError:
        sys.stderr.close()


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
