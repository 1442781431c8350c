"""How the site is built: `make docs`. The pages are the Markdown files of this folder, which read well without it."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))  # for site_parts, which belong to the site alone

import alive

project = "alive"
author = "the alive developers"
copyright = "2026, the alive developers"
release = version = alive.__version__

extensions = ["myst_parser", "sphinx.ext.autodoc", "site_parts"]
exclude_patterns = ["README.md"]
nitpicky = False  # torch's classes have no pages here to lead to
myst_enable_extensions = ["dollarmath", "colon_fence"]
myst_heading_anchors = 4
default_role = "code"
autodoc_member_order = "bysource"
autodoc_typehints = "signature"
autodoc_default_options = {"members": True}
python_use_unqualified_type_names = True
python_maximum_signature_line_length = 90
add_module_names = False
html_math_renderer = "mathml"
highlight_language = "text"

html_theme = "furo"
html_title = "alive"
html_static_path = ["static"]
html_css_files = ["site.css"]
html_theme_options = {"top_of_page_buttons": [], "navigation_with_keys": True}
html_copy_source = False
html_show_sphinx = False
