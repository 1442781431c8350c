"""The one exception raised on purpose, and the helpers that word it: what is wrong, and what to do."""

from __future__ import annotations

import sys
import traceback
from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager
from difflib import get_close_matches
from pathlib import Path

NO_NAMES: Mapping[str, str] = {}


class AliveError(ValueError):
    """Everything alive refuses, in one sentence that names the cause and one that names the cure."""

    def __init__(self, cause: str, cure: str = "") -> None:
        self.cause, self.cure = cause, cure
        super().__init__(f"{cause}. {cure}{'' if cure.endswith('?') else '.'}" if cure else f"{cause}.")

    def __reduce__(self) -> tuple[type[AliveError], tuple[str, str]]:
        return type(self), (self.cause, self.cure)


def near(got: object, known: Iterable[str]) -> str:
    """Words that point from a wrong name to the right ones.

    >>> near("summsq", ["sum", "sumsq", "norm"])
    "did you mean 'sumsq'? Known: sum, sumsq, norm"
    """
    names = list(known)
    close = get_close_matches(str(got), names, n=1, cutoff=0.5)
    hint = f"did you mean {close[0]!r}? " if close else ""
    shown = names if len(names) <= 40 else [*names[:30], f"and {len(names) - 30} more"]
    return f"{hint}Known: {', '.join(shown)}"


def expect_one_of(what: str, got: object, known: Iterable[str], elsewhere: Mapping[str, str] = NO_NAMES) -> None:
    """Refuse a name that is not known, with the nearest one that is, or with ours for one that is used elsewhere."""
    names = known if isinstance(known, Collection) else list(known)
    if got not in names:
        raise AliveError(f"unknown {what} {got!r}", near(elsewhere.get(str(got).lower(), got), names))


def expect(faults: Iterable[tuple[bool, str]]) -> None:
    """Report all faults of a record together: each pair is (what must hold, what to say if it does not)."""
    said = [text for holds, text in faults if not holds]
    if said:
        raise AliveError("; ".join(said))


@contextmanager
def require(what: str, source: str) -> Iterator[None]:
    """Inside it, import what not every installation has; where that is missing, say the line that installs it.

    >>> with require("flying", "alive[wings]"):
    ...     import wings
    Traceback (most recent call last):
        ...
    alive.errors.AliveError: flying needs wings, which is not installed. Run pip install "alive[wings]".
    """
    try:
        yield
    except ImportError as error:
        cause = f"{error.name}, which is not installed"
        if not isinstance(error, ModuleNotFoundError):  # it is there and does not run, as beside too new a numpy
            cause = "a package that cannot be imported: " + " ".join(str(error).split()).rstrip(".")
        raise AliveError(f"{what} needs {cause}", f'Run pip install "{source}"') from None


_NOT_OWN = (
    str(Path(__file__).parent),
    *(str(Path(place).resolve() / "lib") for place in (sys.prefix, sys.base_prefix)),
)


def reason(error: BaseException) -> str:
    """The first line of what an error says, for a sentence; its kind if it says nothing.

    >>> reason(ValueError("no such layer.")), reason(KeyError())
    ('no such layer', 'KeyError')
    """
    lines = (line.strip() for line in str(error).splitlines())
    return next(filter(None, lines), type(error).__name__).rstrip(".:")


def fault(doing: str, error: BaseException) -> AliveError:
    """A fault in the user's own code, with the last line of it that ran; one of ours stays as it is."""
    if isinstance(error, AliveError):
        return error
    said = " ".join(f"{type(error).__name__}: {error}".split()).rstrip(".: ")
    return AliveError(f"{doing} failed with {said}{own_line(error)}", "Correct that, and try again")


def fault_of_ours(doing: str, error: BaseException) -> str:
    """A fault of alive itself: the model is right, and what could not be followed is unknown.

    >>> fault_of_ours("following aten.mm", ValueError("3 axes"))
    'alive itself failed in following aten.mm, with ValueError: 3 axes; the model is not at fault, please report it'
    """
    said = " ".join(f"{type(error).__name__}: {error}".split()).rstrip(".: ")
    return f"alive itself failed in {doing}, with {said[:200]}; the model is not at fault, please report it"


def own_line(error: BaseException) -> str:
    """File and line of the last call in the user's own code, in brackets; empty if there is none or it was named."""
    frames = [(frame.filename, frame.lineno) for frame in traceback.extract_tb(error.__traceback__)]
    own = [(Path(file), line) for file, line in frames if not file.startswith(("<", *_NOT_OWN))]
    if isinstance(error, SyntaxError) or not own:
        return ""
    return f" ({own[-1][0].name}, line {own[-1][1]})"
