"""Change a model: to Farkas layers, without its skips, folded to a plain network, shrunk; its dead units reset."""

from typing import TYPE_CHECKING

from ..rooms import load_on_use

if TYPE_CHECKING:
    from .add_skips import with_skips
    from .export import Exported, to_exported, to_onnx
    from .farkas import to_farkas, to_plain
    from .fixup import fixup_
    from .fold import Folded, fold, refresh_batch_norm_
    from .phase_out import phase_out
    from .revive import ContinualBackprop, ContinuousBackprop, Part, ResetByFiring, ResetByGradient, Wires, revive
    from .shrink import Shrunk, load_shrunk, save_shrunk, shrink

__all__ = [
    "ContinualBackprop",
    "ContinuousBackprop",
    "Exported",
    "Folded",
    "Part",
    "ResetByFiring",
    "ResetByGradient",
    "Shrunk",
    "Wires",
    "fixup_",
    "fold",
    "load_shrunk",
    "phase_out",
    "refresh_batch_norm_",
    "revive",
    "save_shrunk",
    "shrink",
    "to_exported",
    "to_farkas",
    "to_onnx",
    "to_plain",
    "with_skips",
]

load_on_use(__name__)
