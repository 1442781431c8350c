"""What the tests of the lab share: a browser, and the built page in it."""

from __future__ import annotations

import pytest

from alive_papers import lab
from alive_papers.lab.browser import CHROMIUM, Browser


@pytest.fixture(scope="module")
def browser(tmp_path_factory):
    """A Chromium for a module of tests; they are left out where there is none."""
    if CHROMIUM is None:
        pytest.skip("there is no chromium on the path; apt-get install chromium")
    with Browser(tmp_path_factory.mktemp("browser")) as browser:
        yield browser


@pytest.fixture(scope="module")
def page(tmp_path_factory):
    """The address of the page, as `alive lab --out` writes it."""
    return lab.write(tmp_path_factory.mktemp("page") / "lab.html").as_uri()
