"""Beasts with maps: convolutions beside dense layers, channels that move, and units that are not where they were."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from case import along, case, lean, leaning
from notebook import Made, heads_and_features, note, noted, plant
from readings import read
from torch import nn
from torch.nn.utils import parametrizations


@case("squeeze-and-excite with Linear", "maps", truth=noted)
def squeeze_and_excite():
    def go(m, x):
        h = note(m.conv(x), units=1).relu()
        s = note(m.down(h.mean((2, 3)))).relu()
        gated = h * note(m.up(s)).relu()[:, :, None, None]
        return note(m.last(gated), units=1).relu()

    down, last = nn.Linear(6, 4), nn.Conv2d(6, 6, 1)
    plant(down, dead=(1,))
    plant(last, dead=(0,), linear=(3,))
    return Made(go, conv=nn.Conv2d(6, 6, 1), down=down, up=nn.Linear(4, 6), last=last), leaning(6, 6, 6, 6)


@case("squeeze-and-excite, the gate added to the map", "maps", truth=noted)
def squeeze_and_excite_added():
    def go(m, x):
        h = m.conv(x)
        return note(h + m.gate(h.mean((2, 3)))[:, :, None, None], units=1).relu()

    conv = nn.Conv2d(3, 5, 3, padding=1)
    lean(conv)
    plant(conv, dead=(2,))
    return Made(go, conv=conv, gate=nn.Linear(5, 5)), leaning(6, 3, 10, 10)


@case("squeeze-and-excite with 1x1 convolutions", "maps", truth=noted)
def squeeze_and_excite_conv():
    def go(m, x):
        h = note(m.conv(x), units=1).relu()
        s = note(m.down(F.adaptive_avg_pool2d(h, 1)), units=1).relu()
        return h * torch.sigmoid(m.up(s))

    down = nn.Conv2d(4, 2, 1)
    plant(down, linear=(0,))
    return Made(go, conv=nn.Conv2d(3, 4, 1), down=down, up=nn.Conv2d(2, 4, 1)), leaning(4, 3, 4, 4)


def film(n, channels, units, side):
    def go(m, x):
        h = m.conv(x)
        scale, shift = m.film(x.mean((2, 3))).chunk(2, 1)
        return note(h * (1 + scale[:, :, None, None]) + shift[:, :, None, None], units=1).relu()

    conv, modulate = nn.Conv2d(channels, units, 1), nn.Linear(channels, 2 * units)
    lean(conv)
    plant(conv, dead=(1,), by=20.0)
    modulate.weight.data.mul_(0.1)
    return Made(go, conv=conv, film=modulate), leaning(n, channels, side, side)


@case("FiLM: a map scaled and shifted by a dense layer", "maps", truth=noted)
def film_distinct():
    return film(6, 3, 5, 10)


@case("FiLM, all sizes alike", "maps", truth=noted)
def film_alike():
    return film(5, 5, 5, 5)


@case("diffusion ResBlock: conv plus a dense time embedding", "maps", truth=noted)
def diffusion():
    def go(m, x):
        h = note(m.conv(x) + m.time(x.mean((2, 3)))[:, :, None, None], units=1)
        return m.out(F.silu(h))

    conv = nn.Conv2d(3, 6, 3, padding=1)
    plant(conv, dead=(0, 5))
    return Made(go, conv=conv, time=nn.Linear(3, 6), out=nn.Conv2d(6, 3, 1)), leaning(4, 3, 10, 10)


@case("diffusion ResBlock, all sizes alike", "maps", truth=noted)
def diffusion_alike():
    def go(m, x):
        emb = note(m.embed(x.mean((2, 3)))).relu()
        h = note(m.conv(x) + m.time(emb)[..., None, None], units=1)
        return m.out(F.silu(h))

    conv, embed = nn.Conv2d(4, 4, 3, padding=1), nn.Linear(4, 4)
    lean(conv, embed, bias=-1.0)
    plant(conv, dead=(2,))
    return Made(go, conv=conv, embed=embed, time=nn.Linear(4, 4), out=nn.Conv2d(4, 4, 1)), leaning(4, 4, 4, 4)


@case("Conv1d, transpose, LayerNorm, GELU", "maps", truth=noted)
def conv1d_layer_norm():
    def go(m, x):
        return F.gelu(note(m.norm(m.conv(x).transpose(1, 2)), units=2))

    norm = nn.LayerNorm(6)
    plant(norm, dead=(1,), linear=(2, 3))
    return Made(go, conv=nn.Conv1d(3, 6, 3, padding=1), norm=norm), leaning(5, 3, 9)


@case("Conv1d, transpose, LayerNorm, GELU, as long as wide", "maps", truth=noted)
def conv1d_layer_norm_alike():
    def go(m, x):
        return F.gelu(note(m.norm(m.conv(x).transpose(1, 2)), units=2))

    norm = nn.LayerNorm(6)
    plant(norm, dead=(1,), linear=(2, 3))
    return Made(go, conv=nn.Conv1d(6, 6, 3, padding=1), norm=norm), leaning(6, 6, 6)


@case("ConvNeXt block: channels last, and back", "maps", truth=noted)
def convnext():
    def go(m, x):
        h = m.norm(m.depthwise(x).permute(0, 2, 3, 1))
        h = m.down(F.gelu(note(m.up(h), units=3)))
        return x + h.permute(0, 3, 1, 2)

    up = nn.Linear(4, 8)
    plant(up, dead=(0, 7), linear=(3,))
    depthwise = nn.Conv2d(4, 4, 3, padding=1, groups=4)
    return Made(go, depthwise=depthwise, norm=nn.LayerNorm(4), up=up, down=nn.Linear(8, 4)), leaning(5, 4, 6, 6)


@case("ConvNeXt block, all sizes alike", "maps", truth=noted)
def convnext_alike():
    def go(m, x):
        h = m.depthwise(x).permute(0, 2, 3, 1)
        return x + note(m.up(h), units=3).relu().permute(0, 3, 1, 2)

    up = nn.Linear(4, 4)
    lean(up)
    plant(up, dead=(2,))
    depthwise = nn.Conv2d(4, 4, 3, padding=1, groups=4)
    lean(depthwise)
    return Made(go, depthwise=depthwise, up=up), leaning(4, 4, 4, 4)


@case("Keras Conv2D: NHWC around a convolution", "maps", truth=noted)
def keras():
    def conv2d(conv, x):
        return conv(x.permute(0, 3, 1, 2)).permute(0, 2, 3, 1)

    def go(m, x):
        h = note(conv2d(m.a, x), units=3).relu()
        return m.out(note(conv2d(m.b, h), units=3).relu().mean((1, 2)))

    a, b = nn.Conv2d(3, 6, 3, padding=1), nn.Conv2d(6, 8, 3, padding=1)
    plant(a, dead=(1,), linear=(2,))
    plant(b, dead=(0, 5))
    return Made(go, a=a, b=b, out=nn.Linear(8, 2)), leaning(5, 8, 8, 3)


@case("Keras Conv2D, all sizes alike", "maps", truth=noted)
def keras_alike():
    def go(m, x):
        h = m.a(x.permute(0, 3, 1, 2)).permute(0, 2, 3, 1)
        return note(h, units=3).relu()

    a = nn.Conv2d(4, 4, 3, padding=1)
    lean(a)
    plant(a, dead=(3,))
    return Made(go, a=a), leaning(4, 4, 4, 4)


def mix_ffn(m, x, side):
    """SegFormer's and PVTv2's feed forward: dense, a depthwise convolution over the map, dense."""
    n, tokens, _ = x.shape
    h = m.up(x)
    grid = h.transpose(1, 2).view(n, h.shape[2], side, side)
    h = m.depthwise(grid).flatten(2).transpose(1, 2)
    assert h.shape[1] == tokens
    return m.down(F.gelu(note(h, units=2)))


@case("SegFormer's MixFFN", "maps", truth=noted)
def segformer():
    def go(m, x):
        return mix_ffn(m, x, 3)

    depthwise = nn.Conv2d(8, 8, 3, padding=1, groups=8)
    plant(depthwise, dead=(1, 2), linear=(7,))
    return Made(go, up=nn.Linear(4, 8), depthwise=depthwise, down=nn.Linear(8, 4)), leaning(5, 9, 4)


@case("SegFormer's MixFFN, as many tokens as channels", "maps", truth=noted)
def segformer_alike():
    def go(m, x):
        return mix_ffn(m, x, 2)

    up, depthwise = nn.Linear(4, 4), nn.Conv2d(4, 4, 3, padding=1, groups=4)
    lean(up, depthwise)
    plant(depthwise, dead=(1,))
    return Made(go, up=up, depthwise=depthwise, down=nn.Linear(4, 4)), leaning(4, 4, 4)


@case("PVTv2's linear attention block: pooled, convolved, normed", "maps", truth=noted)
def pvt():
    def go(m, x):
        n, _, c = x.shape
        grid = x.permute(0, 2, 1).reshape(n, c, 4, 4)
        pooled = m.reduce(F.adaptive_avg_pool2d(grid, 2)).reshape(n, c, -1).permute(0, 2, 1)
        return F.gelu(note(m.norm(pooled), units=2))

    norm = nn.LayerNorm(4)
    plant(norm, dead=(0,), linear=(3,))
    return Made(go, reduce=nn.Conv2d(4, 4, 1), norm=norm), leaning(5, 16, 4)


def shuffled(z):
    """The channel of the convolution that every entry came from, after pixel_shuffle by 2."""
    channels, height, width = z.shape[1:]
    before = torch.arange(4 * channels).view(1, -1, 1, 1).expand(1, -1, height // 2, width // 2)
    return F.pixel_shuffle(before, 2)


def channel(z):
    return along(z, 1)


@case(
    "pixel shuffle: a unit is a channel before it, or after it", "maps", truth=read(shuffled), others=(read(channel),)
)
def pixel_shuffled():
    def go(m, x):
        z = F.pixel_shuffle(m.conv(x), 2)
        return note(z, unit=m.reading(z)).relu()

    conv = nn.Conv2d(3, 8, 3, padding=1)
    plant(conv, dead=(0, 1, 2, 3), linear=(6,))
    return Made(go, conv=conv, reading=shuffled), leaning(5, 3, 4, 4)


def map_then_relu(after=None, *, conv=None, n=4, side=4):
    """conv, something, relu, with a dead channel and a linear one."""

    def go(m, x):
        h = note(m.after(m.conv(x)), units=1).relu()
        return note(m.last(h.mean(tuple(range(2, h.ndim))))).relu()

    conv, last = conv or nn.Conv2d(4, 4, 3, padding=1), nn.Linear(4, 4)
    lean(conv, last, bias=-0.4)
    after = after or nn.Identity()
    plant(after if getattr(after, "bias", None) is not None else conv, dead=(0,), by=20.0)
    sizes = [side] * (conv.weight.ndim - 2)
    return Made(go, conv=conv, after=after, last=last), leaning(n, conv.in_channels, *sizes)


def between(name, make, kind="maps", **more):
    """A beast in which something lies between a convolution and its ReLU."""
    case(name, kind, truth=noted)(lambda: map_then_relu(make(), **more))


between("BatchNorm2d between convolution and ReLU", lambda: nn.BatchNorm2d(4))
between("GroupNorm between convolution and ReLU", lambda: nn.GroupNorm(2, 4))
between("InstanceNorm between convolution and ReLU", lambda: nn.InstanceNorm2d(4, affine=True))
between("LocalResponseNorm between convolution and ReLU", lambda: nn.LocalResponseNorm(2))
between("max pooling between convolution and ReLU", lambda: nn.MaxPool2d(2))
between("average pooling between convolution and ReLU", lambda: nn.AvgPool2d(2))
between("adaptive pooling to one position", lambda: nn.AdaptiveAvgPool2d(1))
between("adaptive pooling to as many positions as channels", lambda: nn.AdaptiveMaxPool2d((4, 1)))
between("nearest upsampling", lambda: nn.Upsample(scale_factor=2))
between("bilinear upsampling", lambda: nn.Upsample(scale_factor=2, mode="bilinear", align_corners=False))
between("reflection padding", lambda: nn.ReflectionPad2d(1))


def convolution(name, make, **more):
    """A beast that is a convolution of some kind."""
    case(name, "maps", truth=noted)(lambda: map_then_relu(conv=make(), **more))


convolution("depthwise convolution", lambda: nn.Conv2d(4, 4, 3, padding=1, groups=4))
convolution("grouped convolution", lambda: nn.Conv2d(4, 4, 3, padding=1, groups=2))
convolution("transposed convolution", lambda: nn.ConvTranspose2d(3, 4, 2, stride=2))
convolution("transposed convolution, grouped", lambda: nn.ConvTranspose2d(4, 4, 2, stride=2, groups=2))
convolution("dilated convolution", lambda: nn.Conv2d(4, 4, 3, padding=2, dilation=2))
convolution("strided convolution", lambda: nn.Conv2d(3, 4, 3, stride=2), side=9)
convolution("1-d convolution", lambda: nn.Conv1d(3, 4, 3, padding=1))
convolution("1-d convolution, as long as wide", lambda: nn.Conv1d(4, 4, 3, padding=1))
convolution("transposed 1-d convolution", lambda: nn.ConvTranspose1d(3, 4, 2, stride=2))
convolution("3-d convolution", lambda: nn.Conv3d(2, 4, 3, padding=1))
convolution("convolution with circular padding", lambda: nn.Conv2d(4, 4, 3, padding=1, padding_mode="circular"))
convolution("a lazy convolution", lambda: initialised(nn.LazyConv2d(4, 3, padding=1), torch.zeros(1, 4, 4, 4)))
convolution("a convolution that leaves one position", lambda: nn.Conv2d(4, 4, 4))


def initialised(module, x):
    """A lazy module after its first call."""
    module(x)
    return module


def unbatched(name):
    def go(m, x):
        return torch.stack(
            [note(m.conv(one), point=torch.tensor(i), units=0, name=name).relu() for i, one in enumerate(x)]
        )

    def truth(model, batch):
        model.go = go
        return noted(model, batch)

    return go, truth


@case("convolutions without a batch, [C, H, W]", "maps", truth=unbatched("")[1], others=(unbatched("relu")[1],))
def unbatched_maps():
    conv = nn.Conv2d(4, 4, 3, padding=1)
    lean(conv)
    plant(conv, dead=(1,), by=20.0)
    return Made(unbatched("")[0], conv=conv), leaning(4, 4, 4, 4)


@case("UNet: skips joined by cat", "maps", truth=noted)
def unet():
    def go(m, x):
        a = note(m.a(x), units=1).relu()
        b = note(m.b(F.max_pool2d(a, 2)), units=1).relu()
        up = torch.cat([a, F.interpolate(b, scale_factor=2)], 1)
        return note(m.c(up), units=1).relu()

    a, b, c = nn.Conv2d(3, 4, 3, padding=1), nn.Conv2d(4, 4, 3, padding=1), nn.Conv2d(8, 8, 3, padding=1)
    lean(a, b, c)
    plant(b, dead=(1,), by=20.0)
    plant(c, linear=(2,), by=20.0)
    return Made(go, a=a, b=b, c=c), leaning(8, 3, 4, 4)


@case("UNet: a transposed convolution cat with the skip, then ReLU", "maps", truth=noted)
def unet_cat_relu():
    def go(m, x):
        a = m.a(x)
        joined = torch.cat([a, m.up(note(m.b(F.avg_pool2d(a, 2)), units=1).relu())], 1)
        return note(joined, units=1).relu()

    a, b, up = nn.Conv2d(4, 4, 3, padding=1), nn.Conv2d(4, 4, 3, padding=1), nn.ConvTranspose2d(4, 4, 2, stride=2)
    lean(a, b, up)
    plant(a, dead=(1,), by=20.0)
    return Made(go, a=a, b=b, up=up), leaning(4, 4, 4, 4)


@case("DenseNet: cat, then BN, ReLU, convolution", "maps", truth=noted)
def densenet():
    def go(m, x):
        a = m.a(note(m.bn1(x), units=1).relu())
        b = m.b(note(m.bn2(torch.cat([x, a], 1)), units=1).relu())
        return note(m.bn3(torch.cat([x, a, b], 1)), units=1).relu()

    bn1, bn2, bn3 = (nn.BatchNorm2d(c) for c in (4, 8, 12))
    plant(bn1, dead=(0,), by=20.0)
    plant(bn2, linear=(3, 6), by=20.0)
    plant(bn3, dead=(11, 2), by=20.0)
    return Made(go, bn1=bn1, bn2=bn2, bn3=bn3, a=nn.Conv2d(4, 4, 1), b=nn.Conv2d(8, 4, 1)), leaning(4, 4, 4, 4)


def signed(z):
    return along(z, 1)


def unsigned(z):
    return along(z, 1) % (z.shape[1] // 2)


@case("CReLU: relu of cat([z, -z])", "maps", truth=read(signed), others=(read(unsigned),))
def crelu():
    def go(m, x):
        z = m.conv(x)
        z = torch.cat([z, -z], 1)
        return note(z, unit=m.reading(z)).relu()

    conv = nn.Conv2d(3, 4, 3, padding=1)
    plant(conv, dead=(1,), linear=(2,))
    return Made(go, conv=conv, reading=signed), leaning(8, 3, 4, 4)


@case("ShuffleNet: channels shuffled between groups", "maps", truth=noted)
def shufflenet():
    def go(m, x):
        h = m.a(x).view(4, 2, 2, 4, 4).transpose(1, 2).reshape(4, 4, 4, 4)
        h = note(h, units=1).relu()
        return note(m.b(h), units=1).relu()

    a, b = nn.Conv2d(4, 4, 1, groups=2), nn.Conv2d(4, 4, 3, padding=1, groups=4)
    lean(a, b)
    plant(a, dead=(1,), by=20.0)
    return Made(go, a=a, b=b), leaning(4, 4, 4, 4)


@case("ShuffleNetV2: channels split, and joined again", "maps", truth=noted)
def shufflenet2():
    def go(m, x):
        kept, rest = x.chunk(2, 1)
        rest = note(m.a(rest), units=1).relu()
        return note(m.b(torch.cat([kept, rest], 1)), units=1).relu()

    a, b = nn.Conv2d(2, 2, 1), nn.Conv2d(4, 4, 1)
    lean(a, b)
    plant(b, dead=(0,), by=20.0)
    return Made(go, a=a, b=b), leaning(4, 4, 4, 4)


def mixer(tokens, channels, n):
    def go(m, x):
        y = m.tokens_out(F.gelu(note(m.tokens_in(x.transpose(1, 2)), units=2))).transpose(1, 2)
        x = x + y
        return x + m.channels_out(F.gelu(note(m.channels_in(x), units=2)))

    inward, across = nn.Linear(tokens, 6), nn.Linear(channels, 6)
    lean(inward, across)
    plant(inward, dead=(1,), by=20.0)
    plant(across, dead=(2, 3), by=20.0)
    parts = {"tokens_in": inward, "tokens_out": nn.Linear(6, tokens)}
    parts |= {"channels_in": across, "channels_out": nn.Linear(6, channels)}
    return Made(go, **parts), leaning(n, tokens, channels)


@case("MLP-Mixer", "maps", truth=noted)
def mlp_mixer():
    return mixer(5, 4, 7)


@case("MLP-Mixer, all sizes alike", "maps", truth=noted)
def mlp_mixer_alike():
    return mixer(6, 6, 6)


@case("spatial transformer: grid_sample of a map", "maps", truth=noted)
def spatial_transformer():
    def go(m, x):
        theta = m.where(note(m.look(x.mean((2, 3)))).relu()).view(-1, 2, 3) * 0.1 + torch.eye(2, 3)
        warped = F.grid_sample(m.conv(x), F.affine_grid(theta, [4, 4, 4, 4], align_corners=False), align_corners=False)
        return note(warped, units=1).relu()

    conv, look = nn.Conv2d(4, 4, 3, padding=1), nn.Linear(4, 4)
    lean(conv, look)
    plant(conv, dead=(1,), by=20.0)
    return Made(go, conv=conv, look=look, where=nn.Linear(4, 6)), leaning(4, 4, 4, 4)


def parameter(*shape, positive=True):
    value = 0.5 * torch.randn(shape)
    return nn.Parameter(value.abs() if positive else value)


def biased(units, dead=1):
    bias = torch.full((units,), -0.1)
    bias[dead] = -20.0
    return nn.Parameter(bias)


@case("a convolution as unfold and matmul", "maps", truth=noted)
def unfolded():
    def go(m, x):
        columns = F.unfold(x, 3, padding=1)  # [N, C·9, L]
        z = m.weight @ columns + m.bias[:, None]  # [N, C, L]
        return note(z.view(4, 4, 4, 4), units=1).relu()

    return Made(go, weight=parameter(4, 36), bias=biased(4)), leaning(4, 4, 4, 4)


@case("a convolution as unfold and matmul, not put back into a map", "maps", truth=noted)
def unfolded_flat():
    def go(m, x):
        z = m.weight @ F.unfold(x, 2, stride=2) + m.bias[:, None]
        return note(z, units=1).relu()

    return Made(go, weight=parameter(4, 16), bias=biased(4)), leaning(4, 4, 4, 4)


@case("Fourier layer: a filter for each channel", "maps", truth=noted)
def fourier_filter():
    def go(m, x):
        h = torch.fft.irfft2(torch.fft.rfft2(m.conv(x)) * torch.complex(m.real, m.imaginary), s=(4, 4))
        return note(h, units=1).relu()

    conv = nn.Conv2d(4, 4, 1)
    plant(conv, dead=(1,), by=20.0)
    real = nn.Parameter(torch.ones(4, 4, 3))
    return Made(go, conv=conv, real=real, imaginary=parameter(4, 4, 3)), leaning(4, 4, 4, 4)


@case("Fourier neural operator: channels mixed at every frequency", "maps", truth=noted)
def fourier_operator():
    def go(m, x):
        h = torch.einsum("nixy,oixy->noxy", torch.fft.rfft2(x), torch.complex(m.real, m.imaginary))
        return note(torch.fft.irfft2(h, s=(4, 4)) + m.conv(x), units=1).relu()

    conv = nn.Conv2d(4, 4, 1)
    plant(conv, dead=(1,), by=20.0)
    return Made(go, conv=conv, real=parameter(4, 4, 4, 3), imaginary=parameter(4, 4, 4, 3)), leaning(4, 4, 4, 4)


@case("FNet: a Fourier transform over tokens and features, then a dense layer", "maps", truth=noted)
def fnet():
    def go(m, x):
        mixed = torch.fft.fft(torch.fft.fft(x, dim=-1), dim=1).real
        return note(m.up(mixed), units=2).relu()

    up = nn.Linear(4, 4)
    plant(up, dead=(1,), linear=(2,))
    return Made(go, up=up), leaning(4, 4, 4)


def reparametrised(name, change):
    """A dense layer and a convolution whose weights are computed at each call."""

    def make():
        def go(m, x):
            h = note(m.conv(x), units=1).relu()
            return note(m.dense(h.mean((2, 3)))).relu()

        conv, dense = nn.Conv2d(4, 4, 3, padding=1), nn.Linear(4, 4)
        lean(conv, dense)
        plant(dense, dead=(1,), by=20.0)
        return Made(go, conv=change(conv), dense=change(dense)), leaning(4, 4, 4, 4)

    case(name, "maps", truth=noted)(make)


class Positive(nn.Module):
    """A weight kept positive by softplus, of a parameter."""

    def forward(self, weight):
        return F.softplus(weight)


class Rectified(nn.Module):
    """A weight kept from being negative by a ReLU, of a parameter."""

    def forward(self, weight):
        return F.relu(weight)


def registered(parametrisation):
    return lambda layer: nn.utils.parametrize.register_parametrization(layer, "weight", parametrisation())


reparametrised("weight norm", parametrizations.weight_norm)
reparametrised("spectral norm", parametrizations.spectral_norm)
reparametrised("orthogonal weights", parametrizations.orthogonal)
reparametrised("weights kept positive by softplus", registered(Positive))
reparametrised("weights kept positive by ReLU", registered(Rectified))


@case("convolution, flatten, ReLU", "maps", truth=noted)
def flattened():
    def go(m, x):
        z = m.conv(x).flatten(1)
        h = note(z, unit=along(z, 1) // 16).relu()
        return note(m.last(h)).relu()

    conv, last = nn.Conv2d(3, 4, 3, padding=1), nn.Linear(64, 4)
    lean(conv)
    plant(conv, dead=(1,), by=20.0)
    return Made(go, conv=conv, last=last), leaning(4, 3, 4, 4)


@case("convolution, tokens as in a ViT, ReLU", "maps", truth=noted)
def patch_embedding():
    def go(m, x):
        return note(m.conv(x).flatten(2).transpose(1, 2), units=2).relu()

    conv = nn.Conv2d(3, 4, 2, stride=2)
    lean(conv)
    plant(conv, dead=(1,), by=20.0)
    return Made(go, conv=conv), leaning(4, 3, 4, 4)


@case("maxout, then ReLU", "maps", truth=noted)
def maxout():
    def go(m, x):
        return note(m.a(x).view(-1, 4, 3).amax(-1)).relu()

    a = nn.Linear(3, 12)
    lean(a)
    plant(a, dead=(0, 1, 2), linear=(4,), by=20.0)
    return Made(go, a=a), leaning(4, 3)


@case("preactivation ResNet", "maps", truth=noted)
def preactivation():
    def go(m, x):
        h = m.conv1(note(m.bn1(x), units=1).relu())
        h = m.conv2(note(m.bn2(h), units=1).relu())
        return note(m.bn3(x + h), units=1).relu()

    norms = {f"bn{i}": nn.BatchNorm2d(4) for i in (1, 2, 3)}
    plant(norms["bn1"], dead=(1,), by=20.0)
    plant(norms["bn3"], dead=(0,), linear=(2,), by=20.0)
    return Made(go, conv1=nn.Conv2d(4, 4, 1), conv2=nn.Conv2d(4, 4, 1), **norms), leaning(4, 4, 4, 4)


@case("a shortcut padded with zeros, option A", "maps", truth=noted)
def option_a():
    def go(m, x):
        short = F.pad(x[:, :, ::2, ::2], (0, 0, 0, 0, 2, 2))
        return note(m.conv(x) + short, units=1).relu()

    conv = nn.Conv2d(4, 8, 3, stride=2, padding=1)
    lean(conv)
    plant(conv, dead=(0, 7), by=20.0)
    return Made(go, conv=conv), leaning(8, 4, 8, 8)


@case("a residual sum of a map and a dense layer's, broadcast", "maps", truth=noted)
def broadcast_sum():
    def go(m, x):
        z = m.dense(x.mean((2, 3)))[:, :, None, None] + x
        return note(z, units=1).relu()

    dense = nn.Linear(4, 4)
    lean(dense)
    plant(dense, dead=(1,), by=20.0)
    return Made(go, dense=dense), leaning(4, 4, 4, 4)


@case("PReLU with a slope for each channel", "maps", truth=noted)
def prelu():
    def go(m, x):
        return F.prelu(note(m.conv(x), units=1), m.slope)

    conv = nn.Conv2d(4, 4, 3, padding=1)
    lean(conv)
    plant(conv, dead=(1,), by=20.0)
    return Made(go, conv=conv, slope=parameter(4)), leaning(4, 4, 4, 4)


@case("ReGLU and GEGLU: one half gates the other", "maps", truth=noted)
def gated():
    def go(m, x):
        value, gate = m.a(x).chunk(2, -1)
        h = value * note(gate).relu()
        value, gate = m.b(h).split(6, -1)
        return value * F.gelu(note(gate))

    a, b = nn.Linear(6, 12), nn.Linear(6, 12)
    lean(a)
    plant(a, dead=(1, 7), by=20.0)
    plant(b, linear=(9,), by=20.0)
    return Made(go, a=a, b=b), leaning(6, 6, 6)


@case("highway: a gate between ReLU and the input", "maps", truth=noted)
def highway():
    def go(m, x):
        for a, gate in zip(m.a, m.gate, strict=True):
            t = gate(x).sigmoid()
            x = t * note(a(x)).relu() + (1 - t) * x
        return x

    a = nn.ModuleList(nn.Linear(6, 6) for _ in range(3))
    lean(*a)
    plant(a[1], dead=(1,), by=20.0)
    return Made(go, a=a, gate=nn.ModuleList(nn.Linear(6, 6) for _ in range(3))), leaning(6, 6)


@case("ReLU in place on a slice of the channels", "maps", truth=noted)
def slice_in_place():
    def go(m, x):
        z = m.conv(x)
        note(z[:, :2].clone(), units=1)
        z[:, :2].relu_()
        return m.out(z)

    conv = nn.Conv2d(4, 4, 1)
    lean(conv)
    plant(conv, dead=(1, 2), by=20.0)
    return Made(go, conv=conv, out=nn.Conv2d(4, 2, 1)), leaning(4, 4, 4, 4)


@case("ReLU in place on a slice of the points", "maps", truth=noted)
def points_in_place():
    def go(m, x):
        z = m.a(x)
        note(z[2:].clone(), point=torch.arange(2, 4)[:, None])
        z[2:].relu_()
        return note(m.b(z)).relu()

    a, b = nn.Linear(4, 4), nn.Linear(4, 4)
    lean(a, b)
    return Made(go, a=a, b=b), leaning(4, 4)


@case("heads: chunk, split and unbind of one dense layer", "maps", truth=noted)
def heads():
    def go(m, x):
        q, k = m.qk(x).chunk(2, -1)
        q, k = note(q).relu(), note(k).relu()
        first, second, third = m.v(x).view(4, 4, 3, 4).unbind(2)
        return q * k + note(first).relu() + note(second).relu() * third

    qk, v = nn.Linear(4, 8), nn.Linear(4, 12)
    lean(qk, v)
    plant(qk, dead=(1, 4, 5), by=20.0)
    plant(v, dead=(0, 4, 5, 6), by=20.0)
    return Made(go, qk=qk, v=v), leaning(4, 4, 4)


@case("heads as in attention, [N, heads, T, d]", "maps", truth=noted)
def attention_heads():
    def go(m, x):
        q = m.q(x).view(4, 4, 2, 4).transpose(1, 2)
        q = note(q, unit=heads_and_features(q, 1, 3)).relu()
        return q.transpose(1, 2).reshape(4, 4, 8)

    q = nn.Linear(4, 8)
    lean(q)
    plant(q, dead=(1, 4, 5), by=20.0)
    return Made(go, q=q), leaning(4, 4, 4)


@case("attention logits through a ReLU", "maps", truth=noted)
def relu_attention():
    def go(m, x):
        q, k = (part(x).view(4, 4, 2, 2).transpose(1, 2) for part in (m.q, m.k))
        weights = note(q @ k.transpose(2, 3), unit=torch.tensor(-1)).relu()  # [N, heads, T, T]: of no unit
        v = note(m.v(x)).relu().view(4, 4, 2, 2).transpose(1, 2)
        return (weights @ v).transpose(1, 2).flatten(2)

    v = nn.Linear(4, 4)
    lean(v)
    plant(v, dead=(1,), by=20.0)
    return Made(go, q=nn.Linear(4, 4), k=nn.Linear(4, 4), v=v), leaning(4, 4, 4)


def einsum(name, equation, points, units, shape, weight=(6, 6)):
    """A dense layer as an einsum of inputs and weight, in one of many spellings."""

    def make():
        def go(m, x):
            z = torch.einsum(equation, x, m.weight)
            bias = m.bias.view([-1 if axis == units % z.ndim else 1 for axis in range(z.ndim)])
            return note(z + bias, points=points, units=units).relu()

        return Made(go, weight=parameter(*weight), bias=biased(6)), leaning(*shape)

    case(f"einsum {name or equation}", "maps", truth=noted)(make)


einsum("", "nc,fc->nf", 0, 1, (6, 6))
einsum("", "nc,cf->fn", 1, 0, (6, 6))
einsum("", "ntc,fc->ntf", 0, 2, (6, 6, 6))
einsum("", "ntc,cf->nft", 0, 1, (6, 6, 6))
einsum("", "ntc,fc->tnf", 1, 2, (6, 6, 6))
einsum("", "ntc,fc->ftn", 2, 0, (6, 6, 6))
einsum("", "...c,fc->...f", 0, 2, (6, 6, 6))
einsum("", "nchw,fc->nfhw", 0, 1, (6, 6, 6, 6))
einsum("over two axes, ntc,tcf->nf", "ntc,tcf->nf", 0, 1, (6, 6, 6), (6, 6, 6))


@case("einsum with a weight for each position, ntc,tcf->nft", "maps", truth=noted)
def locally_connected():
    def go(m, x):
        z = torch.einsum("ntc,tcf->nft", x, m.weight) + m.bias[:, None]
        return note(z, unit=heads_and_features(z, 2, 1)).relu()

    return Made(go, weight=parameter(4, 4, 4), bias=biased(4)), leaning(4, 4, 4)


@case("weights on the left, W @ x.t()", "maps", truth=noted)
def weights_left():
    def go(m, x):
        h = note(m.weight @ x.t() + m.bias[:, None], points=1, units=0).relu()
        return note(torch.mm(m.weight, h) + m.bias[:, None], points=1, units=0).relu()

    return Made(go, weight=parameter(6, 6), bias=biased(6)), leaning(6, 6)


@case("tensordot over two axes", "maps", truth=noted)
def tensordot():
    def go(m, x):
        return note(torch.tensordot(x, m.weight, ([1, 2], [0, 1])) + m.bias).relu()

    return Made(go, weight=parameter(4, 4, 4), bias=biased(4)), leaning(4, 4, 4)


@case("a dense layer as product and sum", "maps", truth=noted)
def product_and_sum():
    def go(m, x):
        return note((x[:, None] * m.weight).sum(-1) + m.bias).relu()

    return Made(go, weight=parameter(6, 6), bias=biased(6)), leaning(6, 6)


@case("bilinear layer", "maps", truth=noted)
def bilinear():
    def go(m, x):
        return note(m.a(x, x)).relu()

    a = nn.Bilinear(6, 6, 6)
    plant(a, dead=(1,), by=50.0)
    return Made(go, a=a), leaning(6, 6)


@case("embedding bag and embedding", "maps", truth=noted)
def embeddings():
    def go(m, x):
        h = note(m.bag(x)).relu()
        words = note(m.words(x), units=2).relu()
        return note(m.b(h + words.mean(1))).relu()

    bag, words, b = nn.EmbeddingBag(10, 6), nn.Embedding(10, 6), nn.Linear(6, 6)
    bag.weight.data[:, 1] = -3.0
    words.weight.data[:, 2] = 3.0
    lean(b)
    return Made(go, bag=bag, words=words, b=b), torch.randint(10, (6, 6))


@case("a single output, squeeze(-1)", "maps", truth=noted)
def squeezed():
    def go(m, x):
        z = m.a(x).squeeze(-1)
        h = note(z, unit=torch.tensor(0)).relu()
        z = m.b(h)
        return note(z).relu()

    a, b = nn.Linear(4, 1), nn.Linear(6, 6)
    lean(a, b)
    plant(b, dead=(1,), by=20.0)
    return Made(go, a=a, b=b), leaning(6, 6, 4)


@case("a single output of a vector each, squeeze(-1)", "maps", truth=noted)
def squeezed_vector():
    def go(m, x):
        h = note(m.a(x)).relu()
        return note(m.b(h).squeeze(-1), unit=torch.tensor(0)).relu()

    a, b = nn.Linear(4, 6), nn.Linear(6, 1)
    lean(a, b)
    return Made(go, a=a, b=b), leaning(6, 4)


@case("one output of several, o[..., 3]", "maps", truth=noted)
def selected():
    def go(m, x):
        o = m.a(x)
        near = note(o[..., 3], unit=torch.tensor(0)).relu()
        colour = note(o[..., :3], units=2).relu()
        return near[..., None] * colour

    a = nn.Linear(4, 4)
    lean(a)
    plant(a, dead=(1,), by=20.0)
    return Made(go, a=a), leaning(4, 4, 4)


@case("NeRF: density o[..., 3] of rays and samples", "maps", truth=noted)
def nerf():
    def go(m, x):
        h = note(m.a(x), units=2).relu()
        return note(m.b(h)[..., 3], unit=torch.tensor(0)).relu()

    a, b = nn.Linear(3, 6), nn.Linear(6, 4)
    lean(a, b)
    plant(a, dead=(1,), by=20.0)
    return Made(go, a=a, b=b), leaning(6, 6, 3)


def ensemble(name, how):
    """[E, N, C] from weights [E, F, C]."""

    def make():
        def go(m, x):
            z = how(m, x)
            return note(z, points=1, unit=heads_and_features(z, 0, 2)).relu()

        bias = torch.full((4, 1, 4), -0.1)
        bias[1, 0, :2] = -20.0
        return Made(go, weight=parameter(4, 4, 4), bias=nn.Parameter(bias)), leaning(4, 4)

    case(f"an ensemble [E, N, C], {name}", "maps", truth=noted)(make)


ensemble("by bmm", lambda m, x: torch.bmm(x.expand(4, 4, 4), m.weight) + m.bias)
ensemble("by matmul", lambda m, x: x @ m.weight + m.bias)
ensemble("by baddbmm", lambda m, x: torch.baddbmm(m.bias, x.expand(4, 4, 4), m.weight))
ensemble("by einsum", lambda m, x: torch.einsum("nf,efc->enc", x, m.weight) + m.bias)
ensemble("stacked", lambda m, x: torch.stack([x @ w for w in m.weight]) + m.bias)


@case("an ensemble [N, E·C] by a grouped convolution", "maps", truth=noted)
def ensemble_by_groups():
    def go(m, x):
        return note(m.conv(x.repeat(1, 3)[..., None]), units=1).relu()

    conv = nn.Conv1d(12, 12, 1, groups=3)
    lean(conv)
    plant(conv, dead=(1, 5, 6), by=20.0)
    return Made(go, conv=conv), leaning(4, 4)


@case("LoRA: a frozen layer and a thin one beside it", "maps", truth=noted)
def lora():
    def go(m, x):
        return note(m.frozen(x) + m.up(m.down(x)) * 2).relu()

    frozen = nn.Linear(6, 6)
    lean(frozen)
    plant(frozen, dead=(1,), by=20.0)
    frozen.requires_grad_(False)
    return Made(go, frozen=frozen, down=nn.Linear(6, 2, bias=False), up=nn.Linear(2, 6, bias=False)), leaning(6, 6)


@case("a hypernetwork: weights made for every point", "maps", truth=noted)
def hypernetwork():
    def go(m, x):
        weight = m.hyper(x).view(-1, 6, 6)
        return note(torch.bmm(weight, x[..., None])[..., 0] + m.bias).relu()

    return Made(go, hyper=nn.Linear(6, 36), bias=biased(6)), leaning(6, 6)


@case("a hypernetwork: weights made once, from a learned code", "maps", truth=noted)
def hypernetwork_code():
    def go(m, x):
        weight = m.hyper(m.code).view(6, 6)
        return note(F.linear(x, weight, m.bias)).relu()

    return Made(go, hyper=nn.Linear(3, 36), code=parameter(3), bias=biased(6)), leaning(6, 6)


@case("tied weights: the decoder is the encoder, transposed", "maps", truth=noted)
def tied():
    def go(m, x):
        h = note(m.encode(x)).relu()
        return note(F.linear(h, m.encode.weight.t(), m.bias)).relu()

    encode = nn.Linear(6, 6)
    lean(encode)
    plant(encode, dead=(1,), by=20.0)
    return Made(go, encode=encode, bias=biased(6, dead=3)), leaning(6, 6)


@case("one layer used three times", "maps", truth=noted)
def shared():
    def go(m, x):
        for _ in range(3):
            x = note(m.a(x)).relu()
        return x

    a = nn.Linear(6, 6)
    lean(a)
    plant(a, dead=(1,), by=20.0)
    return Made(go, a=a), leaning(6, 6)


@case("a dense layer on the channels of a map, movedim", "maps", truth=noted)
def dense_on_channels():
    def go(m, x):
        return note(m.a(x.movedim(1, -1)).movedim(-1, 1), units=1).relu()

    a = nn.Linear(4, 4)
    lean(a)
    plant(a, dead=(1,), by=20.0)
    return Made(go, a=a), leaning(4, 4, 4, 4)


@case("axial layers: dense along height, then along width", "maps", truth=noted)
def axial():
    def go(m, x):
        h = note(m.a(x.transpose(2, 3)).transpose(2, 3), units=2).relu()
        return note(m.b(h), units=3).relu()

    a, b = nn.Linear(4, 4), nn.Linear(4, 4)
    lean(a, b)
    plant(a, dead=(1,), by=20.0)
    plant(b, dead=(2, 3), by=20.0)
    return Made(go, a=a, b=b), leaning(4, 4, 4, 4)


@case("a dense layer put into a map by view", "maps", truth=noted)
def dense_to_map():
    def go(m, x):
        z = m.a(x).view(4, 4, 2, 2)
        h = note(z, unit=torch.arange(16).view(1, 4, 2, 2)).relu()
        return note(m.up(h), units=1).relu()

    a, up = nn.Linear(4, 16), nn.ConvTranspose2d(4, 4, 2, stride=2)
    lean(a, up)
    plant(a, dead=(1, 2, 9), by=20.0)
    return Made(go, a=a, up=up), leaning(4, 4)


@case("StyleGAN2: a convolution of weights modulated for every point, points as groups", "maps", truth=noted)
def modulated():
    def go(m, x):
        n, c, h, w = x.shape
        style = m.style(x.mean((2, 3)))
        weight = m.weight * (1 + 0.1 * style)[:, None, :, None, None]  # [N, C', C, 3, 3]
        z = F.conv2d(x.reshape(1, n * c, h, w), weight.flatten(0, 1), padding=1, groups=n).view(n, -1, h, w)
        return note(z + m.bias[:, None, None], units=1).relu()

    return Made(go, style=nn.Linear(4, 4), weight=parameter(1, 4, 4, 3, 3), bias=biased(4)), leaning(4, 4, 4, 4)


@case("StyleGAN2, left with its points in the channels", "maps", truth=noted)
def modulated_flat():
    def go(m, x):
        n, c, h, w = x.shape
        weight = m.weight * (1 + 0.1 * m.style(x.mean((2, 3))))[:, None, :, None, None]
        z = F.conv2d(x.reshape(1, n * c, h, w), weight.flatten(0, 1), m.bias.repeat(n), padding=1, groups=n)
        return note(z, point=along(z, 1) // 4, unit=along(z, 1) % 4).relu()

    return Made(go, style=nn.Linear(4, 4), weight=parameter(1, 4, 4, 3, 3), bias=biased(4)), leaning(4, 4, 4, 4)


@case("a learned token put before the others", "maps", truth=noted)
def class_token():
    def go(m, x):
        tokens = torch.cat([m.token.expand(len(x), 1, -1), m.a(x)], 1)
        return note(tokens, units=2).relu()

    a = nn.Linear(4, 4)
    lean(a)
    plant(a, dead=(1,), by=20.0)
    token = torch.tensor([-1.0, -2.0, 3.0, -0.5])
    return Made(go, a=a, token=nn.Parameter(token)), leaning(4, 3, 4)


@case("two layers put side by side, then one ReLU", "maps", truth=noted)
def side_by_side():
    def go(m, x):
        return note(m.c(note(torch.cat([m.a(x), m.b(x)], -1)).relu())).relu()

    a, b, c = nn.Linear(6, 3), nn.Linear(6, 3), nn.Linear(6, 6)
    lean(a, b, c)
    plant(a, dead=(1,), by=20.0)
    return Made(go, a=a, b=b, c=c), leaning(6, 6)


@case("ReLU of the inputs themselves", "maps", truth=noted)
def of_inputs():
    def go(m, x):
        return note(m.a(note(x, units=1).relu())).relu()

    a = nn.Linear(6, 6)
    lean(a)
    plant(a, dead=(1,), by=20.0)
    return Made(go, a=a), leaning(6, 6)


@case("sliding windows by Tensor.unfold, then a dense layer", "maps", truth=noted)
def windows():
    def go(m, x):
        return note(m.a(x.unfold(1, 3, 1)), units=2).relu()

    a = nn.Linear(3, 4)
    lean(a)
    plant(a, dead=(1,), by=20.0)
    return Made(go, a=a), leaning(4, 6)


@case("windows as in Swin: maps cut into squares in the batch, and put back", "maps", truth=noted)
def swin():
    def go(m, x):
        n = len(x)
        cut = x.view(n, 2, 2, 2, 2, 4).permute(0, 1, 3, 2, 4, 5).reshape(n * 4, 4, 4)  # [N·windows, tokens, C]
        z = m.a(cut)
        h = note(z, point=along(z, 0) // 4, units=2).relu()
        back = h.view(n, 2, 2, 2, 2, 4).permute(0, 1, 3, 2, 4, 5).reshape(n, 4, 4, 4)
        return note(m.b(back), units=3).relu()

    a, b = nn.Linear(4, 4), nn.Linear(4, 4)
    lean(a, b)
    plant(a, dead=(1,), by=20.0)
    return Made(go, a=a, b=b), leaning(4, 4, 4, 4)


@case("quantised in training: fake_quantize before the ReLU", "maps", truth=noted)
def fake_quantised():
    def go(m, x):
        z = torch.fake_quantize_per_tensor_affine(m.conv(x), 0.25, 0, -128, 127)
        return note(z, units=1).relu()

    conv = nn.Conv2d(4, 4, 3, padding=1)
    lean(conv)
    plant(conv, dead=(1,), by=20.0)
    return Made(go, conv=conv), leaning(4, 4, 4, 4)


@case("capsules: a weight for every pair of them", "maps", truth=noted)
def capsules():
    def go(m, x):
        z = torch.einsum("nic,ijcd->nijd", x, m.weight).sum(1) + m.bias  # [N, J, D]
        return note(z, unit=heads_and_features(z, 1, 2)).relu()

    bias = torch.full((4, 4), -0.1)
    bias[1, :2] = -20.0
    return Made(go, weight=parameter(4, 4, 4, 4), bias=nn.Parameter(bias)), leaning(4, 4, 4)


@case("involution: a filter made at every place", "maps", truth=noted)
def involution():
    def go(m, x):
        n, c, h, w = x.shape
        weight = m.make(x).view(n, 1, 9, h, w)
        z = (weight * F.unfold(m.conv(x), 3, padding=1).view(n, c, 9, h, w)).sum(2)
        return note(z + m.bias[:, None, None], units=1).relu()

    parts = {"make": nn.Conv2d(4, 9, 1), "conv": nn.Conv2d(4, 4, 1), "bias": biased(4)}
    return Made(go, **parts), leaning(4, 4, 4, 4)


@case("a convolution in double precision", "maps", truth=noted)
def double():
    def go(m, x):
        return note(m.conv(x.double()), units=1).relu()

    conv = nn.Conv2d(4, 4, 3, padding=1)
    lean(conv)
    plant(conv, dead=(1,), by=20.0)
    return Made(go, conv=conv).double(), leaning(4, 4, 4, 4)


@case("channels_last in memory", "maps", truth=noted)
def channels_last():
    def go(m, x):
        return note(m.conv(x), units=1).relu()

    conv = nn.Conv2d(4, 4, 3, padding=1)
    lean(conv)
    plant(conv, dead=(1,), by=20.0)
    model = Made(go, conv=conv).to(memory_format=torch.channels_last)
    return model, leaning(4, 4, 4, 4).to(memory_format=torch.channels_last)


@case("places masked with -inf before the ReLU: broken units", "maps", truth=noted)
def masked_by_infinity():
    def go(m, x):
        z = m.a(x).masked_fill(m.mask, -torch.inf)
        return note(z, units=2).relu()

    a = nn.Linear(4, 4)
    lean(a)
    plant(a, dead=(1,), by=20.0)
    mask = torch.zeros(4, 4, 4, dtype=torch.bool)
    mask[3, 2, :2] = True
    return Made(go, a=a, mask=mask), leaning(4, 4, 4)


@case("a layer behind detach", "maps", truth=noted)
def detached():
    def go(m, x):
        h = note(m.a(x)).relu()
        return note(m.b(h.detach())).relu() + note(m.b(h).detach()).relu()

    a, b = nn.Linear(6, 6), nn.Linear(6, 6)
    lean(a, b)
    plant(a, dead=(1,), by=20.0)
    return Made(go, a=a, b=b), leaning(6, 6)


@case("a teacher under no_grad", "maps", truth=noted)
def teacher():
    def go(m, x):
        with torch.no_grad():
            target = note(m.teacher(x)).relu()
        return (note(m.a(x)).relu() - target).square()

    a, b = nn.Linear(6, 6), nn.Linear(6, 6)
    lean(a, b)
    plant(a, dead=(1,), by=20.0)
    plant(b, dead=(2, 3), by=20.0)
    return Made(go, a=a, teacher=b), leaning(6, 6)
