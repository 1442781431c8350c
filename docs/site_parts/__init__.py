"""What the site needs beside Sphinx, furo and MyST: links out of docs/, formulas, docstrings, files beside pages."""

from __future__ import annotations

from sphinx.application import Sphinx

from . import beside, docstrings, formulas, links


def setup(app: Sphinx) -> dict[str, bool]:
    """Let Sphinx call each part."""
    app.add_html_math_renderer("mathml", (formulas.inline, None), (formulas.display, None))
    app.connect("source-read", links.on_the_site)
    app.connect("include-read", links.of_an_included_file)
    app.connect("autodoc-process-docstring", docstrings.to_rst)
    app.connect("build-finished", beside.write)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
