"""How the sweeps are compiled: once, and kept on disk as long as no file here changes, for they grow into others."""

from __future__ import annotations

from functools import partial
from hashlib import sha256
from pathlib import Path

from ..keeping import compiled

SOURCES = sha256(b"".join(path.read_bytes() for path in sorted(Path(__file__).parent.glob("*.py")))).hexdigest()

entry_point = partial(compiled, stamp=SOURCES)
kernel = partial(compiled, stamp=SOURCES, no_cpython_wrapper=True, no_cfunc_wrapper=True)  # not called from Python
