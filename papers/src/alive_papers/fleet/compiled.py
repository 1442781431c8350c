"""How the kernels are compiled: once, kept on disk, free of Python's lock; dividing by zero gives an infinity.

No fast-math flag is set: an infinity or NaN must come out as one, for the loss to see and the member to be frozen.
"""

from __future__ import annotations

from functools import partial
from hashlib import sha256
from pathlib import Path

from alive.functional.keeping import compiled

# Numba asks only whether the file of the function itself changed; but kernels grow into their callers in other files.
SOURCES = sha256(b"".join(path.read_bytes() for path in sorted(Path(__file__).parent.rglob("*.py")))).hexdigest()

entry_point = partial(compiled, stamp=SOURCES)
# Only called by other kernels: an entry from Python would take longer to compile than most of them.
kernel = partial(compiled, stamp=SOURCES, no_cpython_wrapper=True, no_cfunc_wrapper=True)
# Becomes part of its caller before anything is compiled: a level of calls less is a pass of the optimiser less.
joined = partial(compiled, stamp=SOURCES, inline="always")
