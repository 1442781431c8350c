"""Our docstrings as reStructuredText: sentences, names with what they mean beside them, and examples."""

from __future__ import annotations

import re
from itertools import groupby

from sphinx.application import Sphinx

NAMED = re.compile(r"(\S.*?) {2,}(\S.*)")  # `weight   λ: a number`
ROLES = re.compile(r"(`+)(.+?)\1")


def to_rst(app: Sphinx, what: str, name: str, thing: object, options: object, lines: list[str]) -> None:
    """Rewrite the lines of a docstring in place."""
    blocks = [list(block) for full, block in groupby(lines, key=lambda line: bool(line.strip())) if full]
    lines[:] = [line for block in blocks for line in [*_block(block), ""]]


def _block(block: list[str]) -> list[str]:
    first = block[0].lstrip()
    if first.startswith(">>>"):
        return block
    if NAMED.fullmatch(first) and not first.startswith("- "):
        return _names(block)
    if first.startswith("- "):
        return _bullets(block)
    if all(line.startswith("    ") for line in block):  # a formula or a drawing
        return ["::", "", *block]
    return [_text(" ".join(line.strip() for line in block))]


def _names(block: list[str]) -> list[str]:
    """A list of definitions; what stands further in goes on with the line above."""
    edge = min(len(line) - len(line.lstrip()) for line in block)
    found: list[tuple[str, str]] = []
    for line in block:
        named = NAMED.fullmatch(line[edge:])
        if line[edge] != " " and named:
            found.append((named[1], named[2]))
        elif found:
            found[-1] = (found[-1][0], f"{found[-1][1]} {line.strip()}")
    return [line for name, text in found for line in (f"``{name}``", f"    {_text(text)}")]


def _bullets(block: list[str]) -> list[str]:
    items: list[str] = []
    for line in block:
        if line.lstrip().startswith("- "):
            items.append(line.strip())
        else:
            items[-1] += f" {line.strip()}"
    return [f"- {_text(item[2:])}" for item in items]


def _text(text: str) -> str:
    """Words between backticks are code; nothing else is markup."""
    parts = ROLES.split(text)
    plain = [re.sub(r"([*_|\\`])", r"\\\1", part) for part in parts[::3]]
    code = [f"``{part}``" for part in parts[2::3]]
    joined = "".join(before + after for before, after in zip(plain, [*code, ""], strict=True))
    return _apart(joined)


def _apart(text: str) -> str:
    """Code that touches a word needs a mark between the two."""
    pieces = re.split(r"(``.+?``)", text)
    for number in range(1, len(pieces), 2):
        if re.match(r"[\w(]", pieces[number + 1]):
            pieces[number + 1] = "\\ " + pieces[number + 1]
        if re.search(r"\w$", pieces[number - 1]):
            pieces[number - 1] += "\\ "
    return "".join(pieces)
