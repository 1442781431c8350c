"""`python -m alive` is `alive`: the command line, and before all else an answer to Ctrl-C and SIGTERM."""

from __future__ import annotations

import os
import sys
import warnings

from .interrupts import Interrupts, code, word


def main() -> None:
    """Run the command line; whatever Ctrl-C or SIGTERM broke, the answer is one line."""
    interrupts = Interrupts()
    interrupts.listen()
    _open_what_is_closed()
    try:
        from .cli import main as run

        if not sys.warnoptions:
            warnings.simplefilter("ignore")  # stderr is for what alive says
        interrupts.work()
        run()
    except SystemExit as stop:
        interrupts.left = stop.code
        raise
    except BaseException:
        if interrupts.pressed is None:
            raise
        print(f"alive: {word()}", file=sys.stderr)
        interrupts.left = code()
        raise SystemExit(code()) from None
    finally:
        interrupts.end()


def _open_what_is_closed() -> None:
    """If stdin, stdout or stderr is closed, open it on nothing; or the next file opened would take its place."""
    for number, name in enumerate(("stdin", "stdout", "stderr")):
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, os.O_RDWR)  # takes the lowest number that is free: this one
            setattr(sys, name, open(number, "r" if number == 0 else "w", closefd=False))  # noqa: SIM115


if __name__ == "__main__":
    main()
