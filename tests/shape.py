"""The shape of the source in figures: `python tests/shape.py [folder]` prints them.

Functions by length, names that one module takes from another although they are private, exported names and lines.
"""

from __future__ import annotations

import ast
import re
import sys
from functools import cache
from pathlib import Path
from statistics import median, quantiles

ROOT = Path(__file__).parents[1]
SOURCE = ROOT / "src" / "alive"
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


def readers() -> dict[str, str]:
    """Texts beside the source in which an exported name may be used: tests and documents."""
    paths = [
        *(ROOT / "tests").rglob("*.py"),
        *(ROOT / "papers").rglob("*.py"),
        *(ROOT / "docs").glob("*.md"),
        *ROOT.glob("*.md"),
    ]
    return {str(path): path.read_text() for path in paths}


def main(folder: Path) -> None:
    """Print the figures of one folder of source."""
    modules = sources(folder)
    lengths = [length for length, _ in function_lengths(modules)]
    ours, others = private_accesses(modules)
    names = exported(modules)
    print("files", len(modules), "lines", sum(len(p.read_text().splitlines()) for p in folder.rglob("*.py")))
    print("functions", len(lengths), "median", median(lengths), "p90", quantiles(lengths, n=10)[8], "max", max(lengths))
    print("longest", function_lengths(modules)[-3:])
    print("private names of ours across modules", len(ours), *ours, sep="\n  ")
    print("private names of others", len(others), *others, sep="\n  ")
    print("exported names", sum(map(len, names.values())), "in", len(names), "packages")
    print("used by nobody", unused(modules, readers()))


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else SOURCE)
