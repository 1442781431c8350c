"""Dirac layers: the skip connection lives inside the weights, W' = diag(a) δ + diag(b) W/|W|."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional as F

START_B = 0.1  # the share of the learned part at the start; a starts at 1


class DiracLinear(nn.Linear):
    """A linear layer with weight diag(a) I + diag(b) W/|W|, each row of W normalised.

    a, b [outputs] are trained without weight decay. `to_plain` gives the nn.Linear it equals.

    >>> layer = DiracLinear(4, 4)
    >>> x = torch.randn(2, 4)
    >>> torch.equal(layer(x), layer.to_plain()(x))
    True
    """

    def __init__(self, in_features: int, out_features: int, bias: bool = True) -> None:
        super().__init__(in_features, out_features, bias)
        self.a, self.b = _mixture(out_features)
        self.register_buffer("delta", torch.eye(out_features, in_features), persistent=False)

    def dirac_weight(self) -> Tensor:
        """The weight that is used, [outputs, inputs]."""
        return _dirac_weight(self)

    def forward(self, x: Tensor) -> Tensor:
        """Map [..., inputs] to [..., outputs]."""
        return F.linear(x, self.dirac_weight(), self.bias)

    @torch.no_grad()
    def to_plain(self) -> nn.Linear:
        """Write the weight out into an nn.Linear."""
        plain = nn.utils.skip_init(
            nn.Linear, self.in_features, self.out_features, bias=self.bias is not None, device=self.weight.device
        )
        return _fill(plain, self)  # type: ignore[return-value]


class DiracConv2d(nn.Conv2d):
    """A convolution with kernel diag(a) δ + diag(b) W/|W|, each filter of W normalised; δ is one at the centre tap.

    a, b [outputs] are trained without weight decay. `to_plain` gives the nn.Conv2d it equals.

    >>> layer = DiracConv2d(3, 5, 3, padding=1)
    >>> x = torch.randn(2, 3, 4, 4)
    >>> torch.equal(layer(x), layer.to_plain()(x))
    True
    """

    def __init__(
        self, in_channels: int, out_channels: int, kernel_size: int, padding: int = 0, bias: bool = True
    ) -> None:
        super().__init__(in_channels, out_channels, kernel_size, padding=padding, bias=bias)
        self.a, self.b = _mixture(out_channels)
        self.register_buffer("delta", nn.init.dirac_(torch.empty_like(self.weight.detach())), persistent=False)

    def dirac_weight(self) -> Tensor:
        """The kernel that is used, [outputs, inputs, k, k]."""
        return _dirac_weight(self)

    def forward(self, x: Tensor) -> Tensor:
        """Map [N, inputs, H, W] to [N, outputs, H', W']."""
        return self._conv_forward(x, self.dirac_weight(), self.bias)  # type: ignore[no-any-return]

    @torch.no_grad()
    def to_plain(self) -> nn.Conv2d:
        """Write the kernel out into an nn.Conv2d."""
        plain = nn.utils.skip_init(
            nn.Conv2d,
            self.in_channels,
            self.out_channels,
            self.kernel_size,
            padding=self.padding,
            bias=self.bias is not None,
            device=self.weight.device,
        )
        return _fill(plain, self)  # type: ignore[return-value]


Dirac = DiracLinear | DiracConv2d


def _mixture(outputs: int) -> tuple[nn.Parameter, nn.Parameter]:
    return nn.Parameter(torch.ones(outputs)), nn.Parameter(torch.full((outputs,), START_B))


def _dirac_weight(layer: Dirac) -> Tensor:
    """diag(a) δ + diag(b) W/|W|, the norm that of each output's weights."""
    direction = F.normalize(layer.weight.flatten(1)).view_as(layer.weight)
    along = (-1, *(1,) * (layer.weight.dim() - 1))
    return layer.a.view(along) * layer.get_buffer("delta") + layer.b.view(along) * direction


def _fill(plain: nn.Module, layer: Dirac) -> nn.Module:
    """The plain layer with the written-out weight, in the precision and mode of the Dirac layer."""
    plain = plain.to(layer.weight.dtype).train(layer.training)
    plain.get_parameter("weight").copy_(layer.dirac_weight()).requires_grad_(layer.weight.requires_grad)
    if layer.bias is not None:
        plain.get_parameter("bias").copy_(layer.bias).requires_grad_(layer.bias.requires_grad)
    return plain
