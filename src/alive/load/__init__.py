"""Written networks read back as modules of torch, so that a census can watch every activation: .pt2 and .onnx."""

from .exported import from_exported
from .onnx import from_onnx

__all__ = ["from_exported", "from_onnx"]
