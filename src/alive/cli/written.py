"""What census and shrink share about their output: formats, files, what to ignore and to fail on."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ..errors import AliveError
from . import values
from .words import choice, command, fail, put, wrote

if TYPE_CHECKING:
    from ..findings.conditions import Condition
    from ..findings.policy import Policy
    from ..render.sheet import Sheet
    from .sources import Opened

FAIL = 'Exit with 1 if this holds or may: "dead_units>0", "rare_latents>20%", "load>2", ALV001, or a level: error.'
SUFFIXES = {".json": "json", ".sarif": "sarif", ".xml": "junit", ".md": "markdown"}

Form = Annotated[str | None, choice("What to print, or to write with --out", values.FORMATS)]
Json = Annotated[bool, typer.Option("--json", help="The same as --format json.")]
FILES = "File for that format, and the table is printed; several, by their endings: .json, .sarif, .xml, .md."
Out = Annotated[list[Path] | None, typer.Option("--out", "--report", help=FILES)]
Report = Annotated[list[Path] | None, typer.Option(help=FILES)]
FailOn = Annotated[list[str] | None, typer.Option(help=FAIL)]
Ignore = Annotated[
    list[str] | None, typer.Option(help="Leave findings out, by rule id, also in some layers: ALV003, ALV003:head.*")
]
Limits = Annotated[
    list[str] | None,
    typer.Option("--threshold", help="Report a rule only where more than so many are concerned: ALV001=5%, ALV002=3."),
]


@dataclass(frozen=True, slots=True, eq=False)
class Written:
    """How the output was asked for, checked before any work is done."""

    form: str
    files: Mapping[Path, str]
    policy: Policy
    conditions: tuple[Condition, ...]

    @property
    def is_pure(self) -> bool:
        """Whether stdout is for that format alone."""
        return self.form != "table" and not self.files

    @property
    def shows_table(self) -> bool:
        """Whether people are to read the answer on stdout."""
        return not self.is_pure

    @property
    def wants_gradient(self) -> bool:
        """Whether only the gradient can tell."""
        return any(condition.wants_gradient for condition in self.conditions)

    def finish(self, sheet_of: Callable[..., Sheet], found: Any, opened: Opened) -> None:
        """Print or write the sheet of what was found, and fail where that was asked for."""
        from ..files import write_atomically

        sheet = sheet_of(
            found,
            model=opened.typed.model,
            data=opened.source,
            command=command(),
            policy=self.policy,
            conditions=self.conditions,
            made_at=opened.make.line,
        )
        if self.is_pure:
            put(sheet.text(self.form))
        for file, form in self.files.items():
            write_atomically(file, sheet.text(form).encode())
            wrote(file)
        if sheet.failed:
            fail("; ".join(sheet.failed.values()), 1)


def asked(
    command: str, form: str | None, *, as_json: bool, files: Sequence[Path] | None, ignore: Sequence[str] | None,
    threshold: Sequence[str] | None, fail_on: Sequence[str] | None,
) -> Written:  # fmt: skip
    """What was typed about the output; [tool.alive] of pyproject.toml comes before it."""
    from ..files import expect_writable
    from ..findings.conditions import condition
    from ..findings.policy import of_project, policy

    own = policy(ignore=ignore or (), threshold=threshold or (), fail_on=fail_on or ())
    whole = of_project(Path.cwd()).plus(own)
    for file in files or ():
        expect_writable(file)
    conditions = tuple(condition(text, command, whole) for text in whole.fail_on if fail_on or _fits(text, command))
    if as_json and form not in (None, "json"):
        raise AliveError(f"--json and --format {form} are both given", "Give one of them")
    form = "json" if as_json else form
    forms = {file: _form(file, form if len(files or ()) == 1 else None) for file in files or ()}
    return Written(form or "table", forms, whole, conditions)


def _fits(text: str, command: str) -> bool:
    """Whether what pyproject.toml says of all commands is for this one: a limit on counts is the census's."""
    from ..findings.rules import RULES

    known = RULES.get(text.strip().upper())
    return command == "census" if known is None else known.by == command


def _form(file: Path, form: str | None) -> str:
    """The format of a file: the one that was asked for, or that of its ending."""
    found = form or SUFFIXES.get(file.suffix.lower())
    if found is None:
        raise AliveError(f"no format is known for {file}", "Add --format, or name it .json, .sarif, .xml or .md")
    if found == "table":
        raise AliveError("--format table is printed, not written", "Add --format markdown, or leave --out away")
    return found
