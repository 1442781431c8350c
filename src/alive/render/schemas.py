"""The published JSON schemas of what `--format json` writes."""

from __future__ import annotations

from importlib.resources import files

from ..errors import expect_one_of

SCHEMAS = ("census", "shrink")


def schema(name: str) -> str:
    """The schema of a command's JSON, as text.

    >>> import json
    >>> json.loads(schema("census"))["title"]
    'alive census'
    """
    expect_one_of("schema", name, SCHEMAS)
    return files("alive.render").joinpath(f"{name}.schema.json").read_text(encoding="utf-8")
