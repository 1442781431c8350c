"""The table in docs/bestiary.md: what alive makes of every beast, and what it made of it before.

python tests/bestiary/table.py                writes docs/bestiary.md anew
python tests/bestiary/table.py --show maps    prints the verdicts on some beasts, by kind or part of the name
python tests/bestiary/table.py --before       writes before.json, with an older alive on PYTHONPATH
"""

from __future__ import annotations

import argparse
import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path

import torch
from case import CASES, Case
from judge import Verdict, judge

HERE = Path(__file__).parent
DOCUMENT = HERE.parents[1] / "docs" / "bestiary.md"
BEFORE = HERE / "before.json"
WORDS = {"right": "right", "told": "told", "silent": "**wrong**", "crash": "**crash**"}
HEAD = """# Bestiary

Models and idioms on which a count of units and points can go wrong, each with the layout of its pre-activations
written down by hand. From that layout a brute force, which shares no code with alive, takes the states of all units and
points, the penalty and its gradient; and it sees that the model is left as it was.

- *right*: all is equal.
- *told*: alive says what it does not know, by `unknown`, `unseen`, a warning or a refusal, and all that it does say is
  equal.
- *wrong*: another number, without a word.

{summary}

The tests check every row; `python tests/bestiary/table.py` writes them anew. *before* is the version before the row was
entered, kept in `tests/bestiary/before.json`.

| kind | beast | census | penalty | before |
|---|---|---|---|---|
"""


def entered() -> list[Case]:
    """All beasts, in the order of their files."""
    for path in sorted(HERE.glob("beasts_*.py")):
        import_module(path.stem)
    return CASES


def can_run(case: Case) -> bool:
    """Whether the package that the case needs is there."""
    return not case.needs or find_spec(case.needs) is not None


def before() -> dict[str, list[str]]:
    """What the version before made of each beast: census and penalty."""
    return json.loads(BEFORE.read_text())


def row(kind: str, name: str, census: str, penalty: str, then: Sequence[str]) -> str:
    """The line of one beast."""
    past = ", ".join(WORDS[verdict] for verdict in dict.fromkeys(then))
    return f"| {kind} | {name.replace('|', chr(92) + '|')} | {WORDS[census]} | {WORDS[penalty]} | {past} |"


def document(now: Mapping[str, Sequence[str]], then: Mapping[str, Sequence[str]]) -> str:
    """The whole page, from the verdicts on census and penalty by name."""
    rows = [row(case.kind, case.name, *now[case.name], then[case.name]) for case in entered()]
    return HEAD.format(summary=summary(now, then)) + "\n".join(rows) + "\n"


def summary(now: Mapping[str, Sequence[str]], then: Mapping[str, Sequence[str]]) -> str:
    """How many there are of each verdict."""
    census, penalty = (Counter(pair[i] for pair in now.values()) for i in range(2))
    wrong = sum(1 for name in now if {"silent", "crash"} & set(now[name]))
    bad = Counter(
        "crash" if "crash" in then[name] else "silent" for name in now if {"silent", "crash"} & set(then[name])
    )
    return (
        f"{len(now)} beasts. Census: {census['right']} right, {census['told']} told. Penalty and gradient: "
        f"{penalty['right']} right, {penalty['told']} told.\nWrong without a word, or crashed, in either: {wrong}; "
        f"before: {bad.total()} ({bad['silent']} wrong, {bad['crash']} crashed)."
    )


def parsed(text: str) -> dict[str, tuple[str, str]]:
    """The verdicts on census and penalty that a page shows, by name."""
    back = {word: verdict for verdict, word in WORDS.items()}
    lines = [line.replace(r"\|", chr(0)) for line in text.split("|---|---|---|---|---|\n")[1].splitlines()]
    cells = [[cell.strip().replace(chr(0), "|") for cell in line.split("|")[1:-1]] for line in lines]
    return {name: (back[census], back[penalty]) for _, name, census, penalty, _ in cells}


def verdicts(wanted: Sequence[str] = ()) -> Iterator[Verdict]:
    """What the present version makes of the beasts, all or some."""
    for case in entered():
        if can_run(case) and (not wanted or any(word == case.kind or word in case.name for word in wanted)):
            yield judge(case)


def show(wanted: Sequence[str]) -> None:
    """Print verdicts and their grounds."""
    counted: dict[str, Counter[str]] = {"census": Counter(), "penalty": Counter()}
    for v in verdicts(wanted):
        print(f"{v.kind:10} {v.name:64} {v.census:7} {v.penalty:7} {'' if v.untouched else 'touched'}")
        print("".join(f"    {line}\n" for line in v.why.splitlines()), end="", flush=True)
        counted["census"][v.census] += 1
        counted["penalty"][v.penalty] += 1
    print({question: dict(found) for question, found in counted.items()})


def main() -> None:
    """Write the table, or the record of before, or print verdicts."""
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--show", nargs="*")
    options.add_argument("--before", action="store_true")
    asked = options.parse_args()
    torch.set_num_threads(1)
    if asked.show is not None:
        show(asked.show)
        return
    found = {v.name: [v.census, v.penalty] for v in verdicts()}
    if asked.before:
        lines = [f"{json.dumps(name, ensure_ascii=False)}: {json.dumps(pair)}" for name, pair in found.items()]
        BEFORE.write_text("{\n" + ",\n".join(lines) + "\n}\n")
    else:
        DOCUMENT.write_text(document(found, before()))


if __name__ == "__main__":
    main()
