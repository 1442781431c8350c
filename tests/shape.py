"""The shape of the source in figures, of library and laboratory: `python tests/shape.py` prints them.

Lines, functions by length, names that occur twice, private names that are taken elsewhere, what an import reaches.
"""

from __future__ import annotations

import ast
import os
import re
import subprocess
import sys
import tomllib
from collections import Counter, defaultdict
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from statistics import median, quantiles

ROOT = Path(__file__).parents[1]
SOURCE = ROOT / "src" / "alive"
LABORATORY = ROOT / "papers" / "src" / "alive_papers"
Taken = tuple[tuple[str, ...], str]  # a package by its parts, and a name of it


@cache
def sources(folder: Path = SOURCE) -> dict[str, ast.Module]:
    """Every module, parsed, by its path below the folder."""
    return {str(path.relative_to(folder)): ast.parse(path.read_text()) for path in sorted(folder.rglob("*.py"))}


def function_lengths(modules: dict[str, ast.Module]) -> list[tuple[int, str]]:
    """Lines of every function from `def` to its end, with where it stands, the shortest first."""
    return sorted(
        (node.end_lineno - node.lineno + 1, f"{path}:{node.name}")
        for path, module in modules.items()
        for node in ast.walk(module)
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
    )


PUBLIC = {"_replace", "_asdict", "_fields", "_exit", "_getframe"}  # documented, underscore or not


def is_private(name: str) -> bool:
    """One underscore at the beginning; `__version__` and the like are public."""
    return name.startswith("_") and not name.startswith("__")


def _own(module: ast.Module) -> set[str]:
    """Private names that a module defines, as functions, classes, variables or attributes."""
    found = set()
    for node in ast.walk(module):
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            found.add(node.name)
        elif isinstance(node, ast.Name | ast.Attribute) and isinstance(node.ctx, ast.Store):
            found.add(node.id if isinstance(node, ast.Name) else node.attr)
    return set(filter(is_private, found))


def _taken(module: ast.Module) -> list[tuple[int, str]]:
    """Private names that a module imports, or reads from something other than self."""
    found = []
    for node in ast.walk(module):
        if isinstance(node, ast.ImportFrom):
            within = any(map(is_private, set((node.module or "").split(".")) - {"_version"}))
            names = [alias.name for alias in node.names if within or is_private(alias.name)]
            found += [(node.lineno, f"{'.' * node.level}{node.module or ''}.{name}") for name in names]
        elif (
            isinstance(node, ast.Attribute)
            and is_private(node.attr)
            and node.attr not in PUBLIC
            and ast.unparse(node.value) not in ("self", "cls", "super()")
        ):
            found.append((node.lineno, ast.unparse(node)))
    return _longest(found)


def _longest(found: list[tuple[int, str]]) -> list[tuple[int, str]]:
    """Without `torch._C` where `torch._C._functorch` stands in the same line."""
    return sorted(
        (n, name) for n, name in found if not any(n == m and other.startswith(f"{name}.") for m, other in found)
    )


def private_accesses(modules: dict[str, ast.Module]) -> tuple[list[str], list[str]]:
    """Private names taken from another module of ours, and those of other packages (torch, nearly always)."""
    own = {path: _own(module) for path, module in modules.items()}
    ours, others = [], []
    for path, module in modules.items():
        for line, name in _taken(module):
            last = name.rsplit(".", 1)[-1]
            if not name.startswith(".") and last in own[path]:
                continue
            known = name.startswith(".") or any(last in names for names in own.values())
            (ours if known else others).append(f"{path}:{line} {name}")
    return ours, others


def exported(modules: dict[str, ast.Module]) -> dict[str, list[str]]:
    """`__all__` of every package."""
    return {
        path: ast.literal_eval(node.value)
        for path, module in modules.items()
        if path.endswith("__init__.py")
        for node in module.body
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "__all__"
    }


def unused(modules: dict[str, ast.Module], texts: dict[str, str]) -> dict[str, list[str]]:
    """Exported names that nobody takes from their package: no other package, no test, no document."""
    taken = {where: _imports(module, where) for where, module in modules.items()}
    return {
        path: left
        for path, names in exported(modules).items()
        if (left := [name for name in names if not _is_used(name, path, taken, texts)])
    }


def _is_used(name: str, path: str, taken: dict[str, set[Taken]], texts: dict[str, str]) -> bool:
    package = ("alive", *Path(path).parent.parts)
    if any((package, name) in some for where, some in taken.items() if where != path):
        return True
    dotted = ".".join(package)
    return any(
        re.search(rf"from {re.escape(dotted)} import (\([^)]*|[^\n]*)\b{name}\b", text)
        or re.search(rf"\b{re.escape(dotted)}\.{name}\b", text)
        or (re.search(rf"import {package[-1]}\b", text) and re.search(rf"\b{package[-1]}\.{name}\b", text))
        or (where.endswith(".md") and re.search(rf"`[^`\n]*\b{name}\b[^`\n]*`", text))
        for where, text in texts.items()
        if name in text
    )


def _imports(module: ast.Module, where: str) -> set[Taken]:
    """Names that a module imports from exactly a package, or reads as attributes of it."""
    here = ("alive", *Path(where).parent.parts)
    taken, aliases = set(), {}
    for node in ast.walk(module):
        if isinstance(node, ast.ImportFrom):
            base = here[: len(here) - node.level + 1] if node.level else ()
            source = (*base, *(node.module.split(".") if node.module else ()))
            taken |= {(source, alias.name) for alias in node.names}
            aliases |= {alias.asname or alias.name: (*source, alias.name) for alias in node.names}
    for node in ast.walk(module):
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id in aliases:
            taken.add((aliases[node.value.id], node.attr))
    return taken


def tree() -> str:
    """Every room of both packages, with what it says it is for in its first line."""
    lines = []
    for source in (SOURCE, LABORATORY):
        lines.append(f"{source.relative_to(ROOT)}/")
        for room in sorted(path.parent for path in source.rglob("__init__.py") if path.parent != source):
            words = (ast.get_docstring(ast.parse((room / "__init__.py").read_text())) or "").splitlines()[0]
            lines.append(f"{'  ' * len(room.relative_to(source).parts)}{room.name}/  {words}")
    return "\n".join(lines)


def readers() -> dict[str, str]:
    """Texts beside the source in which an exported name may be used: tests and documents."""
    paths = [
        *(ROOT / "tests").rglob("*.py"),
        *(ROOT / "papers").rglob("*.py"),
        *(ROOT / "docs").glob("*.md"),
        *ROOT.glob("*.md"),
    ]
    return {str(path): path.read_text() for path in paths}


Function = ast.FunctionDef | ast.AsyncFunctionDef
PARTICIPLE = re.compile(
    r".*(ed|ing)|begun|bent|born|bound|brought|built|caught|chosen|cut|done|drawn|driven|fed|felt|fit|found|given|gone"
    r"|grown|had|heard|held|hidden|kept|known|laid|led|left|lent|let|lost|made|meant|met|paid|put|said|seen|sent|set"
    r"|shown|shut|sought|spent|split|spread|stood|taken|taught|told|torn|understood|won|worn|woven|written"
)
SAME_AS_ITS_VERB = re.compile("cut|let|set|shut|split|spread|embed|exceed|feed|need|proceed|seed|shed|speed")


def is_participle(name: str) -> bool:
    """Whether a function is called by what was done rather than by what it does: `kept`, `_chosen_by`, `joining`.

    >>> [name for name in ("kept", "_moved_to", "seed", "set_rate", "keep", "running") if is_participle(name)]
    ['kept', '_moved_to', 'running']
    """
    first, *rest = name.strip("_").split("_")
    if first in ("fit", "put"):  # of a verb, more often than not
        return False
    if SAME_AS_ITS_VERB.fullmatch(first) and (rest or first.endswith("eed")):  # set_rate does something
        return False
    return PARTICIPLE.fullmatch(first) is not None


def is_property(function: Function) -> bool:
    """Whether it is read as an attribute, which may well say in what state a thing is."""
    return any("property" in ast.unparse(each) for each in function.decorator_list)


def functions(modules: dict[str, ast.Module]) -> Iterator[tuple[str, ast.FunctionDef | ast.AsyncFunctionDef]]:
    """Every function and method, with the file it is in."""
    for path, module in modules.items():
        for node in ast.walk(module):
            if isinstance(node, Function):
                yield path, node


def called_once(modules: dict[str, ast.Module]) -> list[str]:
    """Private functions whose name occurs once beside their definition; a method's overridings count as one."""
    used = Counter(
        node.id if isinstance(node, ast.Name) else node.attr
        for module in modules.values()
        for node in ast.walk(module)
        if isinstance(node, ast.Name | ast.Attribute)
    )
    found = ((path, node) for path, node in functions(modules) if is_private(node.name))
    return [f"{path}:{node.name} {node.end_lineno - node.lineno + 1}" for path, node in found if used[node.name] == 1]


def twice(modules: dict[str, ast.Module]) -> dict[str, list[str]]:
    """Names that several files, or several classes, have; with where."""
    places = defaultdict(list)
    for path, module in modules.items():
        if not path.endswith("__init__.py"):
            places[Path(path).name].append(path)
        for node in module.body:
            if isinstance(node, ast.ClassDef):
                places[node.name].append(path)
    return {name: paths for name, paths in sorted(places.items()) if len(paths) > 1}


def past_the_door(modules: dict[str, ast.Module], package: str) -> list[str]:
    """Imports from the inside of another room, past what its `__init__` offers."""
    found = []
    for path, module in modules.items():
        here = (package, *Path(path).parent.parts)
        for node in ast.walk(module):
            if isinstance(node, ast.ImportFrom):
                base = here[: len(here) - node.level + 1] if node.level else ()
                source = (*base, *(node.module or "").split("."))
                inside = [part for part in source[2:] if part]
                if source[0] == package and inside and source[1:2] != here[1:2]:
                    found.append(f"{path}:{node.lineno} {'.'.join(source)}")
    return found


def largest_classes(modules: dict[str, ast.Module]) -> list[str]:
    """The ten longest classes: lines, fields (declared, or set on self), methods."""
    found = []
    for path, module in modules.items():
        for node in ast.walk(module):
            if isinstance(node, ast.ClassDef):
                methods = [each for each in node.body if isinstance(each, Function)]
                fields = {each.target.id for each in node.body if isinstance(each, ast.AnnAssign)}
                for each in ast.walk(node):
                    if isinstance(each, ast.Attribute) and isinstance(each.ctx, ast.Store):
                        fields |= {each.attr} if ast.unparse(each.value) == "self" else set()
                found.append((node.end_lineno - node.lineno + 1, f"{path}:{node.name}", len(fields), len(methods)))
    ten = sorted(found, reverse=True)[:10]
    return [f"{name} {lines} lines, {fields} fields, {methods} methods" for lines, name, fields, methods in ten]


ATTACHED = """
import alive, torch
from torch import nn
model = nn.Sequential(nn.Linear(2, 4), nn.ReLU(), nn.Linear(4, 1))
with alive.Jumpstart(model) as keep:
    model(torch.randn(3, 2))
    keep.penalty().backward()
"""
COUNTED = """
import contextlib, io, sys
sys.argv = ["alive", "census", "50x4"]
from alive import cli
with contextlib.redirect_stdout(io.StringIO()), contextlib.suppress(SystemExit):
    cli.main()
"""
REPRODUCED = """
import contextlib, io, sys, tempfile
store = tempfile.mkdtemp() + "/x.sqlite"
sys.argv = ["alive", "reproduce", "001-Fig1", "--depth", "10", "--width", "3", "--store", store]
from alive import cli
with contextlib.redirect_stdout(io.StringIO()), contextlib.suppress(SystemExit):
    cli.main()
"""
REACHED = """
import sys
from pathlib import Path
mine = {m.__file__ for name, m in sys.modules.items() if name.split(".")[0] in ("alive", "alive_papers") and m.__file__}
print(len(mine), sum(len(Path(file).read_text().splitlines()) for file in mine))
"""


def reached(code: str) -> tuple[int, int]:
    """Files and lines of both packages that are imported by the time some code has run, in a process of its own."""
    own = os.environ | {"PYTHONPATH": os.pathsep.join(str(folder.parent) for folder in (SOURCE, LABORATORY))}
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", code + REACHED], env=own, capture_output=True, text=True, check=True
    )
    files, lines = done.stdout.split()[-2:]
    return int(files), int(lines)


def size(folder: Path) -> tuple[int, int]:
    """Files and lines below a folder."""
    files = list(folder.rglob("*.py"))
    return len(files), sum(len(file.read_text().splitlines()) for file in files)


def show(title: str, found: list[str]) -> None:
    """How many, and which."""
    print(f"{title}: {len(found)}", *found, sep="\n  ")


def main() -> None:
    """Print the figures of the library and of the laboratory."""
    for project in ("", "papers"):
        needs = tomllib.loads((ROOT / project / "pyproject.toml").read_text())["project"]["dependencies"]
        print("hard dependencies", project or "alive", len(needs), *needs)
    for folder in (SOURCE, LABORATORY, ROOT / "tests", ROOT / "papers" / "tests"):
        files, lines = size(folder)
        print(folder.relative_to(ROOT), files, "files", lines, "lines")
    for name, code in {
        "a Jumpstart, attached and asked": ATTACHED,
        "alive census 50x4": COUNTED,
        "alive reproduce": REPRODUCED,
    }.items():
        files, lines = reached(code)
        print(name, "reaches", files, "files", lines, "lines")
    for folder in (SOURCE, LABORATORY):
        print(f"\n{folder.name}")
        modules = sources(folder)
        lengths = function_lengths(modules)
        only = [length for length, _ in lengths]
        print("functions", len(only), "median", median(only), "p90", quantiles(only, n=10)[8], "max", max(only))
        show("longest functions", [f"{name} {length}" for length, name in lengths[-3:]])
        show("largest classes", largest_classes(modules))
        show("names of files and classes that occur twice", [f"{n}: {' '.join(p)}" for n, p in twice(modules).items()])
        called = [(p, f.name) for p, f in functions(modules) if not is_property(f)]
        show("functions named by participles", [f"{path}:{name}" for path, name in called if is_participle(name)])
        show("private functions called once, with their lines", called_once(modules))
        show("imports past the door of another room", past_the_door(modules, folder.name))
        ours, others = private_accesses(modules)
        show("private names of ours across modules", ours)
        show("private names of others", others)
    names = exported(sources())
    print("\nexported names of alive", sum(map(len, names.values())), "in", len(names), "packages")
    print("used by nobody", unused(sources(), readers()))


if __name__ == "__main__":
    main()
