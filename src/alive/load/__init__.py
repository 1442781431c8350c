"""Written networks read back as modules of torch, so that a census can watch every activation: .pt2 and .onnx."""

from typing import TYPE_CHECKING

from ..rooms import load_on_use

if TYPE_CHECKING:
    from .exported import from_exported
    from .onnx import from_onnx

BATCH_SIZE = "alive batch size"  # in the meta of a network from a file: points at once, if it takes no others

__all__ = ["BATCH_SIZE", "from_exported", "from_onnx"]

load_on_use(__name__)
