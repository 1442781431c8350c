"""Networks of the five papers, and those they are compared with."""

from typing import TYPE_CHECKING

from alive.rooms import load_on_use

if TYPE_CHECKING:
    from .farkas_blocks import FarkasResidual, FarkasStep
    from .farkas_nets import FarkasNet
    from .fixup import FixupNet
    from .highway import Highway
    from .identity import AllConvResNet, all_conv_34
    from .resnet import ResNet
    from .skips import COMPARED, SkipConv, SkipDense

__all__ = [
    "COMPARED",
    "AllConvResNet",
    "FarkasNet",
    "FarkasResidual",
    "FarkasStep",
    "FixupNet",
    "Highway",
    "ResNet",
    "SkipConv",
    "SkipDense",
    "all_conv_34",
]

load_on_use(__name__)
