"""All-convolutional residual networks (003, section 4): blocks x + C2 relu(C1 x) that start close to the identity.

No normalisation, no biases, nothing after the sum: at zero weights every block is the identity, and where a stage
widens or halves the map, the pooled and padded copy of its input. The head is a fixed random projection.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from torch import Generator, Tensor, nn
from torch.nn import functional as F

from alive.errors import AliveError, expect
from alive.nn import IdentityBlock

STAGES = 3  # of a network whose depth is one number
PAPER_WEIGHTS = 13_538_736  # Table 1 counted out; its caption says 13.5 million, the text 13.59


class AllConvResNet(nn.Module):
    """Stem, stages of identity blocks, mean over all positions, random projection: images to logits [N, classes].

    width       units of the first stage; each further stage halves the map and has twice as many
    depth       blocks a stage: one number for three stages, or a number for each
    stem        units of the first convolution, 3x3; with `large` 7x7 of stride 2 and a max pool, for 224 pixels
    final_relu  a ReLU between the last block and the mean
    train_head  let the projection learn: a parameter; otherwise it is a buffer, and no gradient reaches it

    Residual weights start normal with deviation 1/(k²c), c the output units, the stem's with 1/(k√c), and the head
    uniform within √(3/units), of variance 1/units. As defaults, the paper's network: 55 convolutions.

    >>> net = AllConvResNet(3, 10)
    >>> net.convolutions, sum(p.numel() for p in net.parameters()) == PAPER_WEIGHTS
    (55, True)
    >>> AllConvResNet(1, 10, width=8, depth=2, stem=4)(torch.zeros(5, 1, 8, 8)).shape
    torch.Size([5, 10])

    Differs from the paper: strided convolutions pad both sides by one, where TensorFlow pads one side only.
    """

    head: Tensor

    def __init__(
        self,
        channels: int,
        classes: int,
        *,
        width: int = 64,
        depth: int | Sequence[int] = 9,
        stem: int = 16,
        large: bool = False,
        final_relu: bool = False,
        train_head: bool = False,
        generator: Generator | None = None,
    ) -> None:
        super().__init__()
        blocks = [depth] * STAGES if isinstance(depth, int) else list(depth)
        _expect_sizes(blocks, channels=channels, classes=classes, width=width, stem=stem)
        self.channels, self.large = channels, large
        units = width << (len(blocks) - 1)
        # The layers draw weights when built; these are overwritten, so they must not move the caller's random state.
        with torch.random.fork_rng(devices=[]):
            self.stem = _stem(channels, stem, large=large)
            self.stages = nn.Sequential(
                *(
                    _stage(stem if level == 0 else width << (level - 1), width << level, count, stride=1 + (level > 0))
                    for level, count in enumerate(blocks)
                )
            )
        self.relu = nn.ReLU() if final_relu else nn.Identity()
        head = torch.empty(classes, units)
        if train_head:
            self.head = nn.Parameter(head)
        else:
            self.register_buffer("head", head)
        self.reset(generator)

    @torch.no_grad()
    def reset(self, generator: Generator | None = None) -> None:
        """Draw all weights and the head anew."""
        for path, conv in self.named_modules():
            if isinstance(conv, nn.Conv2d):
                residual = path.startswith("stages")
                nn.init.normal_(conv.weight, 0.0, _deviation(conv, residual=residual), generator=generator)
        bound = math.sqrt(3 / self.head.shape[1])
        nn.init.uniform_(self.head, -bound, bound, generator=generator)

    @property
    def convolutions(self) -> int:
        """How many convolutions there are."""
        return sum(isinstance(module, nn.Conv2d) for module in self.modules())

    @property
    def smallest(self) -> int:
        """The least height and width of an image for which every halving has something to halve."""
        return (4 if self.large else 1) << (len(self.stages) - 1)

    def forward(self, x: Tensor) -> Tensor:
        """Map images [N, channels, H, W] to logits [N, classes]."""
        if x.dim() != 4 or x.shape[1] != self.channels:
            raise AliveError(
                f"AllConvResNet expected images [N, {self.channels}, H, W], got {list(x.shape)}",
                "Build the network with the channels of the data",
            )
        if min(x.shape[2:]) < self.smallest:
            raise AliveError(
                f"images of {x.shape[2]}x{x.shape[3]} are too small: {len(self.stages)} stages need at least "
                f"{self.smallest}x{self.smallest}",
                "Give depth fewer stages, such as depth=(2, 2)" + ", or leave large=False" * self.large,
            )
        z = self.relu(self.stages(self.stem(x)))
        return F.linear(z.mean((2, 3)), self.head)


def all_conv_34(
    classes: int = 1000, *, train_head: bool = False, final_relu: bool = False, generator: Generator | None = None
) -> AllConvResNet:
    """The ImageNet network of 003, 4.2: the 34-layer list of He et al. (2015), (3, 4, 6, 3) blocks from 64 units.

    Differs from the paper: it gives no list of layers and 35.7 million weights; the 34-layer list with the blocks
    of section 4 has 21,095,616 (21,607,616 with a trained head).

    >>> net = all_conv_34(train_head=True)
    >>> net.convolutions + 1, sum(p.numel() for p in net.parameters())
    (34, 21607616)
    """
    return AllConvResNet(
        3,
        classes,
        depth=(3, 4, 6, 3),
        stem=64,
        large=True,
        final_relu=final_relu,
        train_head=train_head,
        generator=generator,
    )


def _stem(channels: int, units: int, *, large: bool) -> nn.Sequential:
    """The one convolution without a shortcut."""
    stem = nn.Sequential()
    kernel, stride = (7, 2) if large else (3, 1)
    stem.add_module("conv", nn.Conv2d(channels, units, kernel, stride=stride, padding=kernel // 2, bias=False))
    if large:
        stem.add_module("pool", nn.MaxPool2d(3, stride=2, padding=1))
    return stem


def _stage(inputs: int, outputs: int, count: int, *, stride: int) -> nn.Sequential:
    """Blocks of equal width; the first one widens and strides."""
    first = IdentityBlock(inputs, outputs, stride=stride)
    return nn.Sequential(first, *(IdentityBlock(outputs, outputs) for _ in range(count - 1)))


def _deviation(conv: nn.Conv2d, *, residual: bool) -> float:
    """1/(k²c) of a residual convolution with c output units, 1/(k√c) of a standard one."""
    kernel, units = conv.kernel_size[0], conv.out_channels
    return 1 / (kernel**2 * units) if residual else 1 / (kernel * math.sqrt(units))


def _counts(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 1


def _expect_sizes(depth: list[int], *, width: int, stem: int, **sizes: int) -> None:
    """All faults of a network together."""
    named = {**sizes, "width": width, "stem": stem}
    widens = not (_counts(width) and _counts(stem)) or stem <= width
    expect(
        [
            *(
                (_counts(value), f"{name} must be a whole number of at least 1, got {value!r}")
                for name, value in named.items()
            ),
            (widens, f"stem must not have more units than the first stage, got {stem} and width {width}"),
            (
                len(depth) > 0 and all(_counts(count) for count in depth),
                f"depth must be whole numbers of at least 1, one a stage, got {depth!r}",
            ),
        ]
    )
