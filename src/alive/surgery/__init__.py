"""Change a finished model exactly: to Farkas layers, without its skips, folded to a plain network, shrunk."""

from .add_skips import with_skips
from .export import Exported, to_exported, to_onnx
from .farkas import to_farkas, to_plain
from .fold import Folded, fold, refresh_batch_norm_
from .phase_out import phase_out
from .shrink import Shrunk, load_shrunk, save_shrunk, shrink

__all__ = [
    "Exported",
    "Folded",
    "Shrunk",
    "fold",
    "load_shrunk",
    "phase_out",
    "refresh_batch_norm_",
    "save_shrunk",
    "shrink",
    "to_exported",
    "to_farkas",
    "to_onnx",
    "to_plain",
    "with_skips",
]
