"""Formulas as MathML, which browsers draw by themselves: no script, and no other host is asked for one."""

from __future__ import annotations

from docutils import nodes
from docutils.utils.math import MathError
from docutils.utils.math.latex2mathml import tex2mathml
from sphinx.util import logging
from sphinx.writers.html5 import HTML5Translator

said = logging.getLogger(__name__)


def inline(writer: HTML5Translator, node: nodes.math) -> None:
    """A formula within a sentence."""
    writer.body.append(_drawn(node, as_block=False))
    raise nodes.SkipNode


def display(writer: HTML5Translator, node: nodes.math_block) -> None:
    """A formula of its own, which scrolls where it is wider than the page."""
    writer.body.append(f'<div class="formula">{_drawn(node, as_block=True)}</div>\n')
    raise nodes.SkipNode


def _drawn(node: nodes.Element, *, as_block: bool) -> str:
    try:
        return tex2mathml(node.astext(), as_block=as_block)
    except MathError as error:
        said.warning("a formula that cannot be drawn: %s: %s", error, node.astext(), location=node)
        return ""
