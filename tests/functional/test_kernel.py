"""The kernel compiles also where nothing can be cached."""

from __future__ import annotations

import pytest
from numba.core import caching

from alive.functional.kernel import compiled


def double(x: int) -> int:
    return 2 * x


def test_without_a_folder_for_the_cache_it_compiles_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(caching.CacheImpl, "_locator_classes", [])
    assert compiled(double)(3) == 6
    assert compiled(double).py_func is double
