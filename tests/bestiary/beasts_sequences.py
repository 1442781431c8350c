"""Sequences, sets, trees, flows, agents, fields and tables, each written as its field writes it; sizes coincide."""

from __future__ import annotations

from math import log
from typing import Any

import torch
import torch.nn.functional as F
from case import case, laid_out
from notebook import Made, folded, heads_and_features, hooked, hush, interleaved, note, noted, plant, run
from torch import Tensor, nn

ELU = log(0.1)
SOFTPLUS = log(0.1 / 0.9)
N = 5  # points, steps and features alike


# Recurrence


@case("LSTM, Linear, ReLU", "sequence", truth=noted)
def lstm_linear():
    def go(net, x):
        return net.out(F.relu(note(net.mid(net.rnn(x)[0]))))

    net = Made(go, rnn=nn.LSTM(3, N, batch_first=True), mid=nn.Linear(N, N), out=nn.Linear(N, 1))
    plant(net.mid, dead=(1,), linear=(3,))
    return net, torch.randn(N, N, 3)


@case("LSTM, ReLU on its very output, last step", "sequence", truth=noted)
def lstm_relu():
    def go(net, x):
        return net.out(torch.relu(note(net.rnn(x)[0]))[:, -1])

    return Made(go, rnn=nn.LSTM(3, N, batch_first=True), out=nn.Linear(N, 1)), torch.randn(N, N, 3)


@case("LSTM, permute, Conv1d, ReLU", "sequence", truth=noted)
def lstm_conv():
    def go(net, x):
        h = note(net.rnn(x)[0].permute(0, 2, 1), units=1).relu()
        return net.out(F.relu(note(net.conv(h), units=1)).mean(2))

    net = Made(go, rnn=nn.LSTM(3, N, batch_first=True), conv=nn.Conv1d(N, N, 3, padding=1), out=nn.Linear(N, 1))
    plant(net.conv, dead=(0,), linear=(4,))
    return net, torch.randn(N, N, 3)


@case("GRU of [T, N, C]", "sequence", truth=noted, options={"point_axis": 1})
def gru_time_first():
    def go(net, x):
        return net.out(F.relu(note(net.mid(net.rnn(x)[0]), points=1)))

    net = Made(go, rnn=nn.GRU(3, N), mid=nn.Linear(N, N), out=nn.Linear(N, 1))
    plant(net.mid, dead=(1,), linear=(3,))
    return net, torch.randn(N, N, 3)


@case("GRU inside of [T, N, C], batch first outside", "sequence", truth=noted)
def gru_turned():
    def go(net, x):
        h, last = net.rnn(x.transpose(0, 1))
        h = F.relu(note(net.mid(h), points=1))
        return net.out(F.relu(note(net.top(last[0])))) + h.mean((0, 2))[:, None]

    net = Made(go, rnn=nn.GRU(3, N), mid=nn.Linear(N, N), top=nn.Linear(N, N), out=nn.Linear(N, 1))
    x = torch.randn(N, N, 3)
    x[2] = 0.0
    hush(net.mid)
    with torch.no_grad():
        for name, p in net.rnn.named_parameters():
            p.zero_() if "bias" in name else p.mul_(5)
    return net, x


@case("bidirectional LSTM, two layers, ReLU on both directions", "sequence", truth=noted)
def bidirectional():
    def go(net, x):
        return net.out(F.relu(note(net.rnn(x)[0])).sum(1))

    rnn = nn.LSTM(3, N, num_layers=2, bidirectional=True, batch_first=True)
    return Made(go, rnn=rnn, out=nn.Linear(2 * N, 1)), torch.randn(2 * N, 4, 3)


@case("bidirectional GRU, final states of both directions put side by side", "sequence", truth=noted)
def final_states():
    def go(net, x):
        last = net.rnn(x)[1]  # [2, N, H]
        return net.out(F.relu(note(last.transpose(0, 1).reshape(len(x), -1))))

    return Made(go, rnn=nn.GRU(3, N, bidirectional=True, batch_first=True), out=nn.Linear(2 * N, 1)), torch.randn(
        N, 4, 3
    )


@case("ReLU RNN written out as a loop", "sequence", truth=noted)
def irnn():
    def go(net, x):
        h = torch.zeros(len(x), N)
        for step in x.unbind(1):
            h = F.relu(note(net.into(step) + net.back(h)))
        return net.out(h)

    net = Made(go, into=nn.Linear(3, N), back=nn.Linear(N, N, bias=False), out=nn.Linear(N, 1))
    plant(net.into, dead=(2,))
    return net, torch.randn(N, 4, 3)


@case("cells of an RNN, the ReLU beside them, steps stacked", "sequence", truth=noted)
def rnn_cell():
    def go(net, x):
        h, steps = x.new_zeros(len(x), N), []
        for t in range(x.shape[1]):
            h = net.cell(x[:, t], h)
            steps.append(net.mid(h))
        return net.out(F.relu(note(torch.stack(steps, 1))).mean(1))

    net = Made(go, cell=nn.RNNCell(3, N), mid=nn.Linear(N, N), out=nn.Linear(N, 1))
    plant(net.mid, dead=(0,), linear=(1,))
    return net, torch.randn(N, N, 3)


@case("steps stacked along the front, [T, N, C]", "sequence", truth=noted)
def stacked_in_front():
    def go(net, x):
        steps = [net.mid(step) for step in x.unbind(1)]
        return net.out(F.relu(note(torch.stack(steps), points=1)).mean(0))

    net = Made(go, mid=nn.Linear(3, N), out=nn.Linear(N, 1))
    hush(net.mid)
    x = torch.randn(N, N, 3)
    x[3] = 0.0
    return net, x


@case("a recurrence that stops when the data say so", "sequence", truth=noted)
def early_stop():
    def go(net, x):
        h = net.start(x)
        for _ in range(10):
            h = F.relu(note(net.step(h))) + 1.0
            if h.max() > 3:
                break
        return net.out(h)

    net = Made(go, start=nn.Linear(3, N), step=nn.Linear(N, N), out=nn.Linear(N, 1))
    plant(net.step, dead=(1,))
    return net, torch.randn(N, 3)


@case("adaptive computation: ever fewer rows go on", "sequence", truth=noted)
def adaptive():
    def go(net, x):
        h, left = net.start(x), torch.arange(len(x))
        for step in range(4):
            rows = h[left]
            h = h.index_copy(0, left, rows + F.relu(note(net.step(rows), point=left[:, None])))
            left = left[: len(left) - 2] if step < 2 else left[1:]
        return net.out(h)

    net = Made(go, start=nn.Linear(3, 8), step=nn.Linear(8, 8), out=nn.Linear(8, 1))
    plant(net.step, dead=(0,), linear=(7,))
    return net, torch.randn(8, 3)


@case("halting by a mask that the data make", "sequence", truth=noted)
def halting():
    def go(net, x):
        h, left = net.start(x), torch.ones(len(x), dtype=torch.bool)
        for bound in (0.2, -0.2):
            h = torch.where(left[:, None], F.relu(note(net.step(h))) + h, h)
            left = left & (x[:, 0] < bound)
            rows = note(net.last(h[left]), point=left.nonzero())
            h = h.masked_scatter(left[:, None], rows.relu())
        return net.out(h)

    net = Made(go, start=nn.Linear(3, 8), step=nn.Linear(8, 8), last=nn.Linear(8, 8), out=nn.Linear(8, 1))
    plant(net.last, dead=(0,))
    return net, torch.randn(12, 3)


@case("packed sequences, ReLU on the packed rows", "sequence", truth=noted)
def packed():
    lengths = torch.tensor([2, 5, 3, 5, 1])

    def go(net, x):
        pack = nn.utils.rnn.pack_padded_sequence(x, lengths, batch_first=True, enforce_sorted=False)
        h, _ = net.rnn(pack)
        # rows by time; in each time the longest points come first
        owner = torch.cat([pack.sorted_indices[:size] for size in pack.batch_sizes.tolist()])
        rows = F.relu(note(net.mid(h.data), point=owner[:, None]))
        back, _ = nn.utils.rnn.pad_packed_sequence(h._replace(data=rows), batch_first=True)
        return net.out(back.sum(1))

    net = Made(go, rnn=nn.GRU(3, N, batch_first=True), mid=nn.Linear(N, N), out=nn.Linear(N, 1))
    plant(net.mid, dead=(2,), linear=(0,))
    return net, torch.randn(N, N, 3)


@case("packed sequences, padded again before the ReLU", "sequence", truth=noted)
def packed_and_padded():
    def go(net, x):
        lengths = torch.tensor([5, 4, 3, 3, 1])
        pack = nn.utils.rnn.pack_padded_sequence(x, lengths, batch_first=True)
        h, _ = nn.utils.rnn.pad_packed_sequence(net.rnn(pack)[0], batch_first=True)
        return net.out(F.relu(note(net.mid(h))).sum(1))

    net = Made(go, rnn=nn.LSTM(3, N, batch_first=True), mid=nn.Linear(N, N), out=nn.Linear(N, 1))
    plant(net.mid, dead=(2,), linear=(0,))
    return net, torch.randn(N, N, 3)


@case("seq2seq, fed by a teacher", "sequence", truth=noted)
def seq2seq():
    def go(net, source, target):
        h = net.encoder(source)[1][0]
        outputs = []
        for token in target.unbind(1):
            h = net.decoder(net.words(token), h)
            outputs.append(net.out(F.relu(note(net.mid(h)))))
        return torch.stack(outputs, 1)

    net = Made(
        go,
        encoder=nn.GRU(3, N, batch_first=True),
        decoder=nn.GRUCell(3, N),
        words=nn.Embedding(7, 3),
        mid=nn.Linear(N, N),
        out=nn.Linear(N, 7),
    )
    plant(net.mid, dead=(4,), linear=(0,))
    return net, [{"source": torch.randn(N, 6, 3), "target": torch.randint(7, (N, 3))}]


@case("pointer network: additive attention with a ReLU", "sequence", truth=noted)
def pointer():
    def go(net, x):
        memory, (h, c) = net.encoder(x)
        h, c, at = h[0], c[0], x[:, 0]
        scores = []
        for _ in range(2):
            h, c = net.decoder(at, (h, c))
            both = note(net.keys(memory) + net.query(h)[:, None])
            score = net.score(F.relu(both)).squeeze(-1)
            at = (score.softmax(1)[..., None] * x).sum(1)
            scores.append(score)
        return torch.stack(scores, 1)

    net = Made(
        go,
        encoder=nn.LSTM(2, N, batch_first=True),
        decoder=nn.LSTMCell(2, N),
        keys=nn.Linear(N, N),
        query=nn.Linear(N, N),
        score=nn.Linear(N, 1),
    )
    plant(net.keys, dead=(4,))
    return net, torch.randn(N, N, 2)


@case("beam search: every point repeated, rows of a point together", "sequence", truth=noted)
def beam():
    def go(net, x):
        h = net.start(x).repeat_interleave(3, 0)  # [N * 3, C]
        beams = [[h, 0]]
        for step in range(2):
            h, _ = beams[-1]
            beams.append([F.relu(note(net.step(h), point=folded(len(h), 3))), step])
        return net.out(beams[-1][0]).view(len(x), 3)

    net = Made(go, start=nn.Linear(3, 4), step=nn.Linear(4, 4), out=nn.Linear(4, 1))
    with torch.no_grad():
        net.start.bias.zero_()
    hush(net.step)
    x = torch.randn(4, 3)
    x[1] = 0.0
    return net, x


@case("beam search: the whole batch repeated", "sequence", truth=noted)
def beam_of_batches():
    def go(net, x):
        h = net.start(x).repeat(3, 1)  # [3 * N, C]
        return net.out(F.relu(note(net.step(h), point=interleaved(len(h), len(x))))).view(3, -1).t()

    net = Made(go, start=nn.Linear(3, 4), step=nn.Linear(4, 4), out=nn.Linear(4, 1))
    with torch.no_grad():
        net.start.bias.zero_()
    hush(net.step)
    x = torch.randn(4, 3)
    x[1] = 0.0
    return net, x


# Attention


@case(
    "nn.TransformerEncoder, batch first, padding masked",
    "sequence",
    truth=lambda model, batch: _encoder(model, batch, 0),
)
def transformer_encoder():
    layer = nn.TransformerEncoderLayer(4, 2, dim_feedforward=6, dropout=0.0, batch_first=True)
    net = nn.TransformerEncoder(layer, 2)
    plant(net.layers[0].linear1, dead=(0,), linear=(5,))
    mask = torch.zeros(6, 6, dtype=torch.bool)
    mask[1, 4:] = True
    return net, [{"src": torch.randn(6, 6, 4), "src_key_padding_mask": mask}]


@case(
    "nn.TransformerEncoder of [T, N, C], norm first, GELU",
    "sequence",
    truth=lambda model, batch: _encoder(model, batch, 1),
    options={"point_axis": 1},
)
def transformer_encoder_time_first():
    layer = nn.TransformerEncoderLayer(4, 2, dim_feedforward=6, dropout=0.0, norm_first=True, activation="gelu")
    net = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)
    plant(net.layers[1].linear1, dead=(0,), linear=(5,))
    return net, torch.randn(6, 6, 4)


def _encoder(model: nn.Module, batch: Any, points: int) -> list[Any]:
    with hooked(model, "layers.*.linear1") as seen:
        run(model, batch)
    return [laid_out(z, points=points, units=-1) for _, z in seen]


@case("nn.TransformerDecoder, its queries made of parameters", "sequence", truth=noted)
def transformer_decoder():
    def go(net, x):
        queries = net.queries.expand(len(x), -1, -1)
        with hooked(net.decoder, "layers.*.linear1") as seen:
            y = net.decoder(queries, net.into(x))
        for _, z in seen:
            note(z)
        return y

    layer = nn.TransformerDecoderLayer(4, 2, dim_feedforward=6, dropout=0.0, batch_first=True)
    net = Made(
        go, into=nn.Linear(3, 4), decoder=nn.TransformerDecoder(layer, 2), queries=nn.Parameter(torch.randn(6, 4))
    )
    plant(net.decoder.layers[0].linear1, dead=(1,))
    return net, torch.randn(6, 6, 3)


@case("attention and an MLP, hand-made block of [N, T, C]", "sequence", truth=noted)
def attention_block():
    def go(net, x):
        h = net.norm(x)
        x = x + net.attend(h, h, h, need_weights=False)[0]
        return x + net.down(F.gelu(note(net.up(net.norm(x)))))

    attend = nn.MultiheadAttention(N, 1, batch_first=True)
    net = Made(go, norm=nn.LayerNorm(N), attend=attend, up=nn.Linear(N, N), down=nn.Linear(N, N))
    plant(net.up, dead=(0,), linear=(1,))
    return net, torch.randn(N, N, N)


@case("linear attention, ReLU feature maps of [N, heads, T, d]", "sequence", truth=noted)
def linear_attention():
    def go(net, x):
        n, t, _ = x.shape
        q, k, v = (f(x).view(n, t, 2, 2).transpose(1, 2) for f in (net.q, net.k, net.v))
        q = F.relu(note(q, unit=heads_and_features(q, 1, 3)))
        k = F.relu(note(k, unit=heads_and_features(k, 1, 3)))
        y = q @ (k.transpose(-1, -2) @ v) / (q @ k.sum(2)[..., None] + 1)
        return net.out(y.transpose(1, 2).reshape(n, t, 4))

    net = Made(go, **{name: nn.Linear(4, 4) for name in ("q", "k", "v", "out")})
    plant(net.q, dead=(1,), linear=(2,))
    return net, torch.randn(4, 4, 4)


@case("linear attention, elu + 1 of one projection cut in three", "sequence", truth=noted)
def linear_attention_of_one_projection():
    def go(net, x):
        n, t, c = x.shape
        q, k, v = net.qkv(x).reshape(n, t, 3, 2, c // 2).permute(2, 0, 3, 1, 4)
        q = F.elu(note(q, unit=heads_and_features(q, 1, 3), cutoff=ELU)) + 1
        k = F.elu(note(k, unit=heads_and_features(k, 1, 3), cutoff=ELU)) + 1
        y = torch.einsum("nhtd,nhsd,nhse->nhte", q, k, v)
        return net.out(y.transpose(1, 2).flatten(2))

    net = Made(go, qkv=nn.Linear(4, 12), out=nn.Linear(4, 4))
    plant(net.qkv, dead=(1, 6), linear=(2,))
    return net, torch.randn(4, 4, 4)


@case("MLP-Mixer: the tokens are mixed, and then the channels", "sequence", truth=noted)
def mixer():
    def go(net, x):
        h = note(net.tokens_up(net.norm(x).transpose(1, 2)))
        x = x + net.tokens_down(F.gelu(h)).transpose(1, 2)
        return x + net.down(F.gelu(note(net.up(net.norm(x)))))

    net = Made(
        go,
        norm=nn.LayerNorm(N),
        tokens_up=nn.Linear(N, N),
        tokens_down=nn.Linear(N, N),
        up=nn.Linear(N, N),
        down=nn.Linear(N, N),
    )
    plant(net.tokens_up, dead=(3,), linear=(0,), by=5.0)
    plant(net.up, dead=(0,), linear=(1,), by=5.0)
    return net, torch.randn(N, N, N)


@case("gMLP: a spatial gate of weights over the tokens, GELU on the gate", "sequence", truth=noted)
def gated_tokens():
    def go(net, x):
        u, v = F.gelu(note(net.up(x))).chunk(2, -1)
        v = F.conv1d(v, net.mix[:, :, None], net.shift)  # tokens are the channels: [N, T, C]
        return net.down(u * F.gelu(note(v, units=1)))

    net = Made(
        go,
        up=nn.Linear(N, 2 * N),
        down=nn.Linear(N, N),
        mix=nn.Parameter(torch.randn(N, N)),
        shift=nn.Parameter(torch.randn(N)),
    )
    with torch.no_grad():
        net.shift[1] = -50
    return net, torch.randn(N, N, N)


@case("Conformer's convolution: [N, T, C] turned, gated, depthwise, SiLU, turned back", "sequence", truth=noted)
def conformer():
    def go(net, x):
        h = F.glu(net.pointwise(net.norm(x).transpose(1, 2)), dim=1)
        h = F.silu(note(net.bn(net.depthwise(h)), units=1))
        return x + net.out(h.transpose(1, 2))

    net = Made(
        go,
        norm=nn.LayerNorm(6),
        pointwise=nn.Conv1d(6, 12, 1),
        depthwise=nn.Conv1d(6, 6, 3, padding=1, groups=6),
        bn=nn.BatchNorm1d(6),
        out=nn.Linear(6, 6),
    )
    plant(net.bn, dead=(0,), linear=(5,))
    return net, torch.randn(6, 6, 6)


# Convolution over time


@case("WaveNet: gates, and a ReLU on the sum of the skips", "sequence", truth=noted)
def wavenet():
    def go(net, x):
        h, skips = net.into(x), 0
        for gate, skip in zip(net.gates, net.skips, strict=True):
            a, b = gate(F.pad(h, (gate.dilation[0], 0))).chunk(2, 1)
            g = a.tanh() * b.sigmoid()
            skips = skips + skip(g)
            h = h + g
        return net.out(F.relu(note(net.mid(F.relu(note(skips, units=1))), units=1)))

    net = Made(
        go,
        into=nn.Conv1d(1, 4, 1),
        gates=nn.ModuleList(nn.Conv1d(4, 8, 2, dilation=d) for d in (1, 2)),
        skips=nn.ModuleList(nn.Conv1d(4, 6, 1) for _ in range(2)),
        mid=nn.Conv1d(6, 6, 1),
        out=nn.Conv1d(6, 2, 1),
    )
    plant(net.skips[0], dead=(1,), linear=(2,))
    plant(net.mid, dead=(0,))
    return net, torch.randn(6, 1, 6)


@case("TCN: weight norm, dilation, the future chomped off", "sequence", truth=noted)
def tcn():
    def go(net, x):
        h = F.relu(note(net.first(x)[:, :, :-2].contiguous(), units=1))
        h = F.relu(note(net.second(h)[:, :, :-4].contiguous(), units=1))
        return net.out(torch.relu_(note((h + net.down(x)), units=1).clone())[:, :, -1])

    normed = nn.utils.parametrizations.weight_norm
    net = Made(
        go,
        first=normed(nn.Conv1d(3, 8, 3, padding=2)),
        second=normed(nn.Conv1d(8, 8, 3, padding=4, dilation=2)),
        down=nn.Conv1d(3, 8, 1),
        out=nn.Linear(8, 1),
    )
    plant(net.first, dead=(0,), linear=(1,))
    return net, torch.randn(8, 3, 8)


@case("temporal shift: frames folded into the batch, channels shifted in time", "sequence", truth=noted)
def temporal_shift():
    def go(net, x):
        n, t = x.shape[:2]
        h = net.stem(x.flatten(0, 1))
        h = F.relu(note(h, point=folded(n * t, t)[..., None, None], units=1)).unflatten(0, (n, t))
        ahead, back, still = h.split([1, 1, 2], 2)
        h = torch.cat([ahead.roll(-1, 1), back.roll(1, 1), still], 2).view(n * t, *h.shape[2:])
        h = note(net.conv(h), point=folded(n * t, t)[..., None, None], units=1)
        return net.out(F.relu(h).mean((2, 3))).view(n, t, -1).mean(1)

    net = Made(go, stem=nn.Conv2d(1, 4, 3), conv=nn.Conv2d(4, 4, 3), out=nn.Linear(4, 2))
    hush(net.stem)
    x = torch.randn(4, 4, 1, 6, 6)
    x[1] = 0.0
    return net, x


@case("CTC: maps flattened to a sequence of [T, N, C]", "sequence", truth=noted)
def ctc():
    def go(net, x):
        h = F.relu(note(net.conv(x), units=1))  # [N, C, F, T]
        h = h.flatten(1, 2).permute(2, 0, 1)
        return net.out(F.relu(note(net.mid(h), points=1))).log_softmax(2)

    net = Made(go, conv=nn.Conv2d(1, 2, 3), mid=nn.Linear(8, 4), out=nn.Linear(4, 5))
    hush(net.mid)
    hush(net.conv)
    x = torch.randn(4, 1, 6, 6)
    x[0] = 0.0
    return net, x


@case("CRNN for words: squeeze, permute, LSTM, rows of time by point", "sequence", truth=noted)
def crnn():
    def go(net, x):
        h = F.relu(note(net.conv(x), units=1)).squeeze(2).permute(2, 0, 1)  # [T, N, C]
        h, _ = net.rnn(h)
        t, n, c = h.shape
        rows = net.mid(h.reshape(t * n, c))
        return net.out(F.relu(note(rows, point=interleaved(t * n, n)))).view(t, n, -1)

    net = Made(
        go,
        conv=nn.Conv2d(1, 4, (4, 3)),
        rnn=nn.LSTM(4, 2, bidirectional=True),
        mid=nn.Linear(4, 4),
        out=nn.Linear(4, 3),
    )
    plant(net.conv, dead=(2,))
    plant(net.mid, dead=(0,), linear=(3,))
    return net, torch.randn(4, 1, 4, 6)


@case("TextCNN: words as an image, several widths, the last axis squeezed away", "sequence", truth=noted)
def text_cnn():
    def go(net, x):
        h = net.words(x)[:, None]
        pooled = [F.relu(note(conv(h).squeeze(3), units=1)).amax(2) for conv in net.convs]
        return net.out(torch.cat(pooled, 1))

    convs = nn.ModuleList(nn.Conv2d(1, 6, (k, 4)) for k in (1, 2, 3))
    plant(convs[0], dead=(0,), linear=(5,))
    return Made(go, words=nn.Embedding(9, 4), convs=convs, out=nn.Linear(18, 2)), torch.randint(9, (6, 6))


@case("characters: embedded, turned, convolved, highway", "sequence", truth=noted)
def characters():
    def go(net, x):
        h = F.relu(note(net.conv(net.letters(x).permute(0, 2, 1)), units=1)).amax(2)
        gate = net.gate(h).sigmoid()
        return net.out(gate * F.relu(note(net.mid(h))) + (1 - gate) * h)

    net = Made(
        go,
        letters=nn.Embedding(9, 6),
        conv=nn.Conv1d(6, 6, 3, padding=1),
        gate=nn.Linear(6, 6),
        mid=nn.Linear(6, 6),
        out=nn.Linear(6, 2),
    )
    plant(net.conv, dead=(0,), linear=(5,))
    return net, torch.randint(9, (6, 6))


@case("pyramidal listener: pairs of steps joined", "sequence", truth=noted)
def pyramid():
    def go(net, x):
        h, _ = net.low(x)
        h = h.reshape(len(x), h.shape[1] // 2, -1)
        h = F.relu(note(net.join(h)))
        return net.out(F.relu(note(net.top(h)[0][:, -1])))

    net = Made(
        go,
        low=nn.LSTM(3, 4, batch_first=True),
        join=nn.Linear(8, 4),
        top=nn.GRU(4, 4, batch_first=True),
        out=nn.Linear(4, 1),
    )
    plant(net.join, dead=(1,), linear=(2,))
    return net, torch.randn(4, 8, 3)


@case("LSTNet: the skip recurrence folds phases into the batch", "sequence", truth=noted)
def lstnet():
    def go(net, x):
        c = F.relu(note(net.conv(x[:, None]).squeeze(3), units=1))  # [N, C, T]
        n = len(x)
        s = c.view(n, 4, 2, 2).permute(2, 0, 3, 1).reshape(2, n * 2, 4)  # [T / 2, N * 2, C]
        last = net.skip(s)[1].squeeze(0)  # [N * 2, C]
        last = F.relu(note(net.mid(last), point=folded(2 * n, 2)))
        return net.out(last.view(n, -1))

    net = Made(go, conv=nn.Conv2d(1, 4, (3, 3)), skip=nn.GRU(4, 4), mid=nn.Linear(4, 4), out=nn.Linear(8, 1))
    plant(net.conv, dead=(1,))
    plant(net.mid, dead=(0,), linear=(3,))
    return net, torch.randn(4, 6, 3)


@case("U-Net over time: channels of two scales side by side under one ReLU", "sequence", truth=noted)
def unet():
    def go(net, x):
        a = F.relu(note(net.down1(x), units=1))
        b = F.relu(note(net.down2(a), units=1))
        both = torch.cat([net.up(b), net.side(a)], 1)
        return net.out(F.leaky_relu(note(both, units=1), 0.2))

    net = Made(
        go,
        down1=nn.Conv1d(1, 4, 3, padding=1),
        down2=nn.Conv1d(4, 8, 2, stride=2),
        up=nn.ConvTranspose1d(8, 4, 2, stride=2),
        side=nn.Conv1d(4, 4, 1),
        out=nn.Conv1d(8, 1, 1),
    )
    plant(net.up, dead=(0,))
    plant(net.side, linear=(3,))
    return net, torch.randn(8, 1, 8)


@case("S4 by FFT: one long filter a channel, GELU on [N, C, T]", "sequence", truth=noted)
def s4():
    def go(net, x):
        u = net.into(x).transpose(1, 2)
        t = u.shape[-1]
        y = torch.fft.irfft(torch.fft.rfft(u, n=2 * t) * torch.fft.rfft(net.filters, n=2 * t), n=2 * t)[..., :t]
        y = F.gelu(note(y + u * net.skip[:, None], units=1))
        return net.out(F.relu(note(net.mid(y.transpose(1, 2)))))

    net = Made(
        go,
        into=nn.Linear(3, N),
        filters=nn.Parameter(torch.randn(N, N)),
        skip=nn.Parameter(torch.randn(N)),
        mid=nn.Linear(N, N),
        out=nn.Linear(N, 1),
    )
    plant(net.mid, dead=(1,), linear=(0,))
    return net, torch.randn(N, N, 3)


@case("selective state space: softplus of a step size, a scan, SiLU of a gate", "sequence", truth=noted)
def selective_scan():
    def go(net, x):
        u, gate = net.into(x).chunk(2, -1)
        u = F.silu(note(net.conv(F.pad(u.transpose(1, 2), (1, 0))), units=1)).transpose(1, 2)
        dt = F.softplus(note(net.step(u), cutoff=SOFTPLUS))
        h, ys = 0, []
        for t in range(x.shape[1]):
            h = h * torch.exp(-dt[:, t]) + dt[:, t] * u[:, t]
            ys.append(h)
        return net.out(torch.stack(ys, 1) * F.silu(note(gate)))

    net = Made(
        go,
        into=nn.Linear(3, 2 * N),
        conv=nn.Conv1d(N, N, 2, groups=N),
        step=nn.Linear(N, N),
        out=nn.Linear(N, 3),
    )
    plant(net.step, dead=(0,), linear=(4,), by=8.0)
    plant(net.into, dead=(5,), linear=(9,), by=8.0)
    return net, torch.randn(N, N, 3)


@case("a state space scanned step by step, ReLU on what it gives", "sequence", truth=noted)
def scan():
    def go(net, x):
        u, h, ys = net.into(x), torch.zeros(len(x), N), []
        for step in u.unbind(1):
            h = torch.addcmul(step, net.decay.sigmoid(), h)
            ys.append(net.read(h))
        return net.out(torch.relu(note(torch.stack(ys, 2), units=1)).mean(2))

    net = Made(go, into=nn.Linear(3, N), decay=nn.Parameter(torch.randn(N)), read=nn.Linear(N, N), out=nn.Linear(N, 1))
    plant(net.read, dead=(0,), linear=(4,))
    return net, torch.randn(N, N, 3)


@case("time mixing and a squared ReLU, as RWKV has it", "sequence", truth=noted)
def rwkv():
    def go(net, x):
        before = F.pad(x, (0, 0, 1, -1))
        k = net.key(x * net.mix + before * (1 - net.mix))
        return x + net.gate(x).sigmoid() * net.value(F.relu(note(k)).square())

    parts = {name: nn.Linear(N, N) for name in ("key", "value", "gate")}
    net = Made(go, mix=nn.Parameter(torch.rand(N)), **parts)
    plant(net.key, dead=(0,), linear=(4,))
    return net, torch.randn(N, N, N)


@case("N-BEATS: residual stacks, backcast and forecast", "sequence", truth=noted)
def nbeats():
    def go(net, x):
        forecast = 0
        for block in net.blocks:
            h = F.relu(note(block[0](x)))
            h = F.relu(note(block[1](h)))
            back, ahead = block[2](h).split([6, 2], 1)
            x, forecast = x - back, forecast + ahead
        return forecast

    blocks = nn.ModuleList(nn.ModuleList([nn.Linear(6, 6), nn.Linear(6, 6), nn.Linear(6, 8)]) for _ in range(2))
    plant(blocks[1][0], dead=(0,), linear=(5,))
    return Made(go, blocks=blocks), torch.randn(6, 6)


@case("gated residual network with a context, ELU", "sequence", truth=noted)
def grn():
    def go(net, x, context):
        h = note(net.of_x(x) + net.of_context(context)[:, None], cutoff=ELU)
        return net.norm(x + F.glu(net.gate(F.elu(h)), -1))

    net = Made(
        go, of_x=nn.Linear(N, N), of_context=nn.Linear(3, N, bias=False), gate=nn.Linear(N, 2 * N), norm=nn.LayerNorm(N)
    )
    plant(net.of_x, dead=(0,), linear=(4,))
    return net, [{"x": torch.randn(N, N, N), "context": torch.randn(N, 3)}]


@case("Informer: distilling between layers, ELU on [N, C, T]", "sequence", truth=noted)
def informer():
    def go(net, x):
        h = net.bn(net.conv(net.into(x).permute(0, 2, 1)))
        h = F.max_pool1d(F.elu(note(h, units=1, cutoff=ELU)), 3, 2, 1).transpose(1, 2)
        return net.out(F.relu(note(net.mid(h))))

    net = Made(
        go,
        into=nn.Linear(3, 6),
        conv=nn.Conv1d(6, 6, 3, padding=1, padding_mode="circular"),
        bn=nn.BatchNorm1d(6),
        mid=nn.Linear(6, 6),
        out=nn.Linear(6, 1),
    )
    plant(net.mid, dead=(0,), linear=(4,))
    return net, torch.randn(6, 6, 3)


@case("TimesNet: a series folded by its period into an image", "sequence", truth=noted)
def timesnet():
    def go(net, x):
        n, t, c = x.shape
        h = x.reshape(n, t // 4, 4, c).permute(0, 3, 1, 2)
        h = F.gelu(note(net.conv(h), units=1))
        return net.out(h.permute(0, 2, 3, 1).reshape(n, t, -1))

    net = Made(go, conv=nn.Conv2d(4, 4, 3, padding=1), out=nn.Linear(4, 4))
    plant(net.conv, dead=(0,), linear=(3,))
    return net, torch.randn(4, 16, 4)


# Depth in time


@case("neural ODE: Euler steps of one field", "sequence", truth=noted)
def euler():
    def go(net, x):
        h = net.into(x)
        for t in range(4):
            time = torch.full((len(h), 1), t / 4)
            h = h + 0.25 * net.back(F.relu(note(net.field(torch.cat([h, time], 1)))))
        return net.out(h)

    net = Made(go, into=nn.Linear(3, N), field=nn.Linear(N + 1, N), back=nn.Linear(N, N), out=nn.Linear(N, 1))
    plant(net.field, dead=(0,), linear=(4,))
    return net, torch.randn(N, 3)


@case("deep equilibrium: iterated until still", "sequence", truth=noted)
def equilibrium():
    def go(net, x):
        h, u = torch.zeros(len(x), N), net.into(x)
        for _ in range(20):
            new = F.relu(note(0.2 * net.back(h) + u))
            if (new - h).abs().max() < 1e-3:
                break
            h = new
        return net.out(new)

    net = Made(go, into=nn.Linear(3, N), back=nn.Linear(N, N, bias=False), out=nn.Linear(N, 1))
    plant(net.into, dead=(0,), linear=(4,))
    return net, torch.randn(N, 3)


@case("deep equilibrium: found without gradients, one step with", "sequence", truth=noted)
def equilibrium_without_gradients():
    def go(net, x):
        h, u = torch.zeros(len(x), N), net.into(x)
        with torch.no_grad():
            for _ in range(3):
                h = F.relu(note(net.back(h) + u))
        return net.out(F.relu(note(net.back(h) + u)))

    net = Made(go, into=nn.Linear(3, N), back=nn.Linear(N, N, bias=False), out=nn.Linear(N, 1))
    plant(net.into, dead=(0,))
    return net, torch.randn(N, 3)


@case("tree recursion over the halves of a sequence", "sequence", truth=noted)
def tree():
    def go(net, x):
        def fold(part: Tensor) -> Tensor:
            if part.shape[1] == 1:
                return part[:, 0]
            half = part.shape[1] // 2
            both = torch.cat([fold(part[:, :half]), fold(part[:, half:])], 1)
            return F.relu(note(net.compose(both)))

        return net.out(fold(net.leaf(x)))

    net = Made(go, leaf=nn.Linear(3, 4), compose=nn.Linear(8, 4), out=nn.Linear(4, 1))
    plant(net.compose, dead=(0,), linear=(3,))
    return net, torch.randn(4, 4, 3)


@case("memory network: sentences as bags of words, hops over them", "sequence", truth=noted)
def memory():
    def go(net, story, question):
        m, c = net.keys(story).sum(2), net.values(story).sum(2)
        u = net.keys(question).sum(1)
        for _ in range(2):
            p = torch.einsum("nmd,nd->nm", m, u).softmax(1)
            u = F.relu(note(net.hop(u) + torch.einsum("nm,nmd->nd", p, c)))
        return net.out(u)

    net = Made(go, keys=nn.Embedding(9, N), values=nn.Embedding(9, N), hop=nn.Linear(N, N), out=nn.Linear(N, 9))
    plant(net.hop, dead=(0,), linear=(3,))
    return net, [{"story": torch.randint(9, (N, N, 3)), "question": torch.randint(9, (N, 3))}]


# Sets and clouds


@case("Deep Sets with a mask", "set", truth=noted)
def deep_sets():
    def go(net, x, mask):
        h = F.relu(note(net.phi(x))) * mask[..., None]
        return net.out(F.relu(note(net.rho(h.sum(1) / mask.sum(1, keepdim=True)))))

    net = Made(go, phi=nn.Linear(3, N), rho=nn.Linear(N, N), out=nn.Linear(N, 1))
    plant(net.phi, dead=(2,), linear=(3,))
    hush(net.rho, 3.0)
    return net, [
        {"x": torch.randn(N, N, 3), "mask": (torch.rand(N, N) > 0.3).float().index_fill(1, torch.tensor(0), 1)}
    ]


@case("Set Transformer: induced points and pooling by seeds", "set", truth=noted)
def set_transformer():
    def block(net, name, q, k):
        attend, feed = net.get_submodule(f"{name}.0"), net.get_submodule(f"{name}.1")
        h = q + attend(q, k, k, need_weights=False)[0]
        return h + F.relu(note(feed(h)))

    def go(net, x):
        x = net.into(x)
        induced = block(net, "gather", net.induced.repeat(len(x), 1, 1), x)
        x = block(net, "spread", x, induced)
        return net.out(block(net, "pool", net.seed.repeat(len(x), 1, 1), x)[:, 0])

    def parts():
        return nn.ModuleList([nn.MultiheadAttention(N, 1, batch_first=True), nn.Linear(N, N)])

    net = Made(
        go,
        into=nn.Linear(3, N),
        gather=parts(),
        spread=parts(),
        pool=parts(),
        induced=nn.Parameter(torch.randn(1, 3, N)),
        seed=nn.Parameter(torch.randn(1, 1, N)),
        out=nn.Linear(N, 1),
    )
    plant(net.spread[1], dead=(2,), linear=(3,))
    return net, torch.randn(N, N, 3)


@case("PointNet: a learned turn of the cloud, the maximum over its points", "set", truth=noted)
def pointnet():
    def go(net, x):
        t = F.relu(note(net.t_conv(x), units=1)).amax(2)
        turn = net.t_out(F.relu(note(net.t_mid(t)))).view(-1, 3, 3) + torch.eye(3)
        x = torch.bmm(x.transpose(2, 1), turn).transpose(2, 1)
        h = F.relu(note(net.bn(net.conv(x)), units=1)).amax(2)
        return net.out(F.relu(note(net.mid(h))))

    net = Made(
        go,
        t_conv=nn.Conv1d(3, 6, 1),
        t_mid=nn.Linear(6, 6),
        t_out=nn.Linear(6, 9),
        conv=nn.Conv1d(3, 6, 1),
        bn=nn.BatchNorm1d(6),
        mid=nn.Linear(6, 6),
        out=nn.Linear(6, 2),
    )
    plant(net.t_conv, dead=(0,), linear=(1,))
    plant(net.mid, dead=(2,))
    return net, torch.randn(6, 3, 6)


@case("PointNet++: neighbours gathered, a Conv2d over them", "set", truth=noted)
def pointnet2():
    def go(net, x):
        near = torch.cdist(x, x).topk(3, largest=False).indices  # [N, P, 3]
        n = torch.arange(len(x))[:, None, None]
        groups = (x[n, near] - x[:, :, None]).permute(0, 3, 2, 1)  # [N, 3, K, P]
        h = F.relu(note(net.conv(groups), units=1)).amax(2)
        return net.out(h.amax(2))

    net = Made(go, conv=nn.Conv2d(3, 6, 1), out=nn.Linear(6, 2))
    plant(net.conv, dead=(0,), linear=(1,))
    return net, torch.randn(6, 6, 3)


@case("EdgeConv: pairs of a point and its neighbours, LeakyReLU on [N, P, K, C]", "set", truth=noted)
def edge_conv():
    def go(net, x):
        near = torch.cdist(x, x).topk(4, largest=False).indices
        there = x.gather(1, near.flatten(1)[..., None].expand(-1, -1, 3)).view(4, 4, 4, 3)
        here = x[:, :, None].expand_as(there)
        h = F.leaky_relu(note(net.edge(torch.cat([here, there - here], 3))), 0.2).amax(2)
        return net.out(F.relu(note(net.mid(h))).mean(1))

    net = Made(go, edge=nn.Linear(6, 4), mid=nn.Linear(4, 4), out=nn.Linear(4, 2))
    plant(net.edge, dead=(0,), linear=(1,))
    return net, torch.randn(4, 4, 3)


@case("Siamese: one tower, two calls", "set", truth=noted)
def siamese():
    def go(net, left, right):
        a, b = (F.relu(note(net.tower(x))) for x in (left, right))
        return net.out((a - b).abs())

    net = Made(go, tower=nn.Linear(3, N), out=nn.Linear(N, 1))
    plant(net.tower, dead=(1,), linear=(2,))
    return net, [{"left": torch.randn(N, 3), "right": torch.randn(N, 3)}]


@case("triplets, put together along the batch", "set", truth=noted)
def triplet():
    def go(net, anchor, good, bad):
        rows = torch.cat([anchor, good, bad])
        h = net.out(F.relu(note(net.tower(rows), point=interleaved(len(rows), len(anchor)))))
        a, p, n = h.chunk(3)
        return (a - p).square().sum(1) - (a - n).square().sum(1)

    net = Made(go, tower=nn.Linear(3, 4), out=nn.Linear(4, 2))
    hush(net.tower)
    data = {name: torch.randn(4, 3) for name in ("anchor", "good", "bad")}
    for x in data.values():
        x[3] = 0.0
    return net, [data]


@case("attention over a dense graph: LeakyReLU on scores of pairs", "set", truth=noted)
def dense_gat():
    def go(net, x, edges):
        h = net.into(x)  # [N, V, C]
        score = note(net.here(h) + net.there(h).transpose(1, 2), units=1, unit=torch.zeros(1, 1, 1, dtype=torch.long))
        weights = F.leaky_relu(score, 0.2).masked_fill(~edges, -1e9).softmax(2)
        return net.out(F.elu(note(weights @ h, cutoff=ELU)).mean(1))

    net = Made(go, into=nn.Linear(3, N), here=nn.Linear(N, 1), there=nn.Linear(N, 1), out=nn.Linear(N, 1))
    plant(net.into, dead=(0,), linear=(1,), by=4.0)
    return net, [{"x": torch.randn(N, N, 3), "edges": (torch.rand(N, N, N) > 0.4) | torch.eye(N, dtype=torch.bool)}]


@case("GraphSAGE: nodes are the points, neighbours averaged by index_add", "set", truth=noted)
def graph_sage():
    source, target = torch.tensor([0, 1, 2, 3, 4, 4, 2]), torch.tensor([1, 2, 3, 4, 0, 1, 0])

    def go(net, x):
        degree = torch.zeros(len(x)).index_add(0, target, torch.ones(len(target))).clamp(min=1)
        for here, there in zip(net.here, net.there, strict=True):
            mean = torch.zeros_like(x).index_add(0, target, x[source]) / degree[:, None]
            x = F.relu(note(here(x) + there(mean)))
        return net.out(x)

    parts = {name: nn.ModuleList(nn.Linear(N, N) for _ in range(2)) for name in ("here", "there")}
    net = Made(go, **parts, out=nn.Linear(N, 1))
    plant(net.here[0], dead=(0,), linear=(1,))
    return net, torch.randn(N, N)


@case("GIN on dense graphs: sums over neighbours, an MLP of nodes", "set", truth=noted)
def gin():
    def go(net, x, edges):
        for up, down in zip(net.up, net.down, strict=True):
            x = down(F.relu(note(up(1.1 * x + edges @ x))))
        return net.out(F.relu(note(x)).sum(1))

    parts = {name: nn.ModuleList(nn.Linear(4, 4) for _ in range(2)) for name in ("up", "down")}
    net = Made(go, **parts, out=nn.Linear(4, 1))
    plant(net.up[0], dead=(0,), linear=(1,))
    hush(net.up[1], 0.2)
    return net, [{"x": torch.randn(4, 4, 4), "edges": (torch.rand(4, 4, 4) > 0.5).float()}]


# Codes and flows


@case("tied autoencoder", "flow", truth=noted)
def tied():
    def go(net, x):
        h = F.relu(note(net.encode(x)))
        return F.relu(note(F.linear(h, net.encode.weight.t(), net.shift)))

    net = Made(go, encode=nn.Linear(N, N), shift=nn.Parameter(torch.randn(N)))
    plant(net.encode, dead=(1,), linear=(2,))
    return net, torch.randn(N, N)


@case("VAE: mean and softplus of one head, decoder", "flow", truth=noted)
def vae():
    def go(net, x):
        mean, spread = net.head(F.relu(note(net.encode(x)))).chunk(2, 1)
        code = mean + net.chance[: len(x)] * F.softplus(note(spread, cutoff=SOFTPLUS))
        return net.out(F.relu(note(net.decode(code))))

    net = Made(go, encode=nn.Linear(6, N), head=nn.Linear(N, 2 * N), decode=nn.Linear(N, N), out=nn.Linear(N, 6))
    net.register_buffer("chance", torch.randn(N, N))
    plant(net.head, dead=(0, 6), linear=(9,))
    return net, torch.randn(N, 6)


@case("RealNVP: halves coupled, order flipped", "flow", truth=noted)
def real_nvp():
    def go(net, x):
        total = 0
        for up, down in zip(net.up, net.down, strict=True):
            a, b = x.chunk(2, 1)
            scale, shift = down(F.relu(note(up(a)))).chunk(2, 1)
            x = torch.cat([a, b * scale.tanh().exp() + shift], 1).flip(1)
            total = total + scale.tanh().sum(1)
        return x, total

    parts = {
        "up": nn.ModuleList(nn.Linear(3, 6) for _ in range(3)),
        "down": nn.ModuleList(nn.Linear(6, 6) for _ in range(3)),
    }
    net = Made(go, **parts)
    plant(net.up[1], dead=(0,), linear=(5,))
    return net, torch.randn(6, 6)


@case("NICE: odd and even features, a permutation, LeakyReLU as a flow step", "flow", truth=noted)
def nice():
    order = torch.tensor([3, 0, 5, 1, 4, 2])

    def go(net, x):
        a, b = x[:, ::2], x[:, 1::2]
        b = b + net.down(F.relu(note(net.up(a))))
        x = torch.stack([a, b], 2).flatten(1)
        mixed = net.mix(x)[:, order]
        return F.leaky_relu(note(mixed, unit=order), 0.3)

    net = Made(go, up=nn.Linear(3, 6), down=nn.Linear(6, 3), mix=nn.Linear(6, 6))
    plant(net.mix, dead=(0,), linear=(5,))
    return net, torch.randn(6, 6)


@case("masked autoregression: masks over the weights", "flow", truth=noted)
def made():
    def go(net, x):
        h = F.relu(note(F.linear(x, net.up.weight * net.mask, net.up.bias)))
        return F.linear(h, net.down.weight * net.mask.t(), net.down.bias)

    net = Made(go, up=nn.Linear(N, N), down=nn.Linear(N, N))
    net.register_buffer("mask", torch.ones(N, N).tril(-1))
    plant(net.up, dead=(1,), linear=(2,))
    return net, torch.randn(N, N)


@case("hypernetwork: every point has weights of its own", "flow", truth=noted)
def hypernetwork():
    def go(net, x, context):
        w = net.weights(F.relu(note(net.context(context)))).view(-1, N, N)
        h = torch.bmm(w, x[..., None]).squeeze(-1) + net.shift
        return net.out(F.relu(note(h)))

    net = Made(
        go,
        context=nn.Linear(3, N),
        weights=nn.Linear(N, N * N),
        shift=nn.Parameter(torch.randn(N)),
        out=nn.Linear(N, 1),
    )
    plant(net.context, dead=(1,))
    with torch.no_grad():
        net.shift[0] = -50
    return net, [{"x": torch.randn(N, N), "context": torch.randn(N, 3)}]


@case("mixture density: ELU + 1 for the spreads [N, K]", "flow", truth=noted)
def mixture_density():
    def go(net, x):
        h = F.relu(note(net.mid(x)))
        return net.weights(h).softmax(1), net.means(h), F.elu(note(net.spreads(h), cutoff=ELU)) + 1

    net = Made(go, mid=nn.Linear(3, N), weights=nn.Linear(N, N), means=nn.Linear(N, N), spreads=nn.Linear(N, N))
    plant(net.spreads, dead=(1,), linear=(2,))
    return net, torch.randn(N, 3)


# Agents


@case("dueling DQN: maps, then two streams", "agent", truth=noted)
def dueling():
    def go(net, x):
        h = F.relu(note(net.conv(x / 255.0), units=1)).flatten(1)
        value = net.value(F.relu(note(net.to_value(h))))
        gain = net.gain(F.relu(note(net.to_gain(h))))
        return value + gain - gain.mean(1, keepdim=True)

    net = Made(
        go,
        conv=nn.Conv2d(4, 4, 3, stride=2),
        to_value=nn.Linear(36, 4),
        value=nn.Linear(4, 1),
        to_gain=nn.Linear(36, 4),
        gain=nn.Linear(4, 3),
    )
    plant(net.conv, dead=(1,))
    plant(net.to_gain, dead=(0,), linear=(1,))
    return net, torch.randint(256, (4, 4, 8, 8)).float()


@case("critics as one batched product [E, N, C]", "agent", truth=noted)
def critics():
    def go(net, x):
        h = torch.baddbmm(net.shift1, x.expand(3, -1, -1), net.weight1)
        h = F.relu(note(h, points=1, unit=heads_and_features(h, 0, 2)))
        h = F.relu(note(torch.matmul(h, net.weight2), points=1, unit=heads_and_features(h, 0, 2)))
        return h.mean((0, 2))

    net = Made(
        go,
        weight1=nn.Parameter(torch.randn(3, 3, 3)),
        shift1=nn.Parameter(torch.randn(3, 1, 3)),
        weight2=nn.Parameter(torch.randn(3, 3, 3)),
    )
    with torch.no_grad():
        net.shift1[0, 0, 1], net.shift1[2, 0, 2] = -50, 50
    return net, torch.randn(3, 3)


@case("critics by einsum, [N, E, C]", "agent", truth=noted)
def critics_by_einsum():
    def go(net, x):
        h = torch.einsum("nf,efc->nec", x, net.weight) + net.shift
        return torch.einsum("nec,ec->ne", F.relu(note(h, unit=heads_and_features(h, 1, 2))), net.out)

    net = Made(
        go,
        weight=nn.Parameter(torch.randn(3, 3, 3)),
        shift=nn.Parameter(torch.randn(3, 3)),
        out=nn.Parameter(torch.randn(3, 3)),
    )
    with torch.no_grad():
        net.shift[0, 1], net.shift[2, 2] = -50, 50
    return net, torch.randn(3, 3)


@case("actor and critic on one torso", "agent", truth=noted)
def actor_critic():
    def go(net, x):
        h = net.torso(x)
        h = F.relu(note(h))
        return net.actor[1](F.relu(note(net.actor[0](h)))), net.critic[1](F.silu(note(net.critic[0](h))))

    net = Made(
        go,
        torso=nn.Linear(3, N),
        actor=nn.ModuleList([nn.Linear(N, N), nn.Linear(N, 2)]),
        critic=nn.ModuleList([nn.Linear(N, N), nn.Linear(N, 1)]),
    )
    plant(net.torso, dead=(0,), linear=(1,))
    return net, torch.randn(N, 3)


@case("a world model: state and action side by side, ELU, GRU cell, imagined steps", "agent", truth=noted)
def dreamer():
    def go(net, state, action):
        for step in range(2):
            h = F.elu(note(net.join(torch.cat([state, action[:, step]], -1)), cutoff=ELU))
            state = net.cell(h, state)
        return net.reward(F.elu(note(net.head(state), cutoff=ELU)))

    net = Made(go, join=nn.Linear(N + 2, N), cell=nn.GRUCell(N, N), head=nn.Linear(N, N), reward=nn.Linear(N, 1))
    plant(net.head, dead=(1,), linear=(2,))
    return net, [{"state": torch.randn(N, N), "action": torch.randn(N, 2, 2)}]


@case(
    "recurrent PPO: [T, N] folded for the torso, unfolded for the LSTM", "agent", truth=noted, options={"point_axis": 1}
)
def recurrent_ppo():
    def go(net, x):
        t, n = x.shape[:2]
        h = F.relu(note(net.torso(x.flatten(0, 1)), point=interleaved(t * n, n)))
        h, _ = net.rnn(h.view(t, n, -1))
        return net.out(F.relu(note(net.mid(h.reshape(t * n, -1)), point=interleaved(t * n, n)))).view(t, n, -1)

    net = Made(go, torso=nn.Linear(3, 4), rnn=nn.LSTM(4, 4), mid=nn.Linear(4, 4), out=nn.Linear(4, 2))
    hush(net.torso)
    x = torch.randn(4, 4, 3)
    x[:, 2] = 0.0
    return net, x


@case("QMIX: agents folded into the batch, mixing weights made of the state", "agent", truth=noted)
def qmix():
    def go(net, observed, state):
        n, a, _ = observed.shape
        h = F.relu(note(net.agent(observed.reshape(n * a, -1)), point=folded(n * a, a)))
        q = net.q(h).view(n, 1, a)
        w1, b1 = net.w1(state).abs().view(n, a, 4), net.b1(state).view(n, 1, 4)
        hidden = F.elu(note(torch.bmm(q, w1) + b1, cutoff=ELU))
        v = net.v2(F.relu(note(net.v1(state))))
        return torch.bmm(hidden, net.w2(state).abs().view(n, 4, 1)).view(n) + v[:, 0]

    net = Made(
        go,
        agent=nn.Linear(3, 4),
        q=nn.Linear(4, 1),
        w1=nn.Linear(5, 16),
        b1=nn.Linear(5, 4),
        w2=nn.Linear(5, 4),
        v1=nn.Linear(5, 4),
        v2=nn.Linear(4, 1),
    )
    hush(net.agent)
    plant(net.b1, dead=(1,), linear=(2,))
    observed = torch.randn(4, 4, 3)
    observed[1] = 0.0
    return net, [{"observed": observed, "state": torch.randn(4, 5)}]


@case("decisions: returns, states and actions interleaved as tokens", "agent", truth=noted)
def decisions():
    def go(net, reward, state, action):
        n, t = state.shape[:2]
        tokens = torch.stack([net.of_reward(reward), net.of_state(state), net.of_action(action)], 2)
        h = tokens.reshape(n, 3 * t, 4)
        h = h + net.attend(h, h, h, need_weights=False)[0]
        h = h + net.down(F.relu(note(net.up(h))))
        return net.out(h.view(n, t, 3, 4)[:, :, 1])

    net = Made(
        go,
        of_reward=nn.Linear(1, 4),
        of_state=nn.Linear(3, 4),
        of_action=nn.Linear(2, 4),
        attend=nn.MultiheadAttention(4, 1, batch_first=True),
        up=nn.Linear(4, 4),
        down=nn.Linear(4, 4),
        out=nn.Linear(4, 2),
    )
    plant(net.up, dead=(1,), linear=(2,))
    return net, [{"reward": torch.randn(4, 4, 1), "state": torch.randn(4, 4, 3), "action": torch.randn(4, 4, 2)}]


# Fields


@case("DeepONet: branch of functions, trunk of places", "field", truth=noted)
def deeponet():
    def go(net, u, y):
        branch = net.branch[1](F.relu(note(net.branch[0](u))))
        trunk = F.relu(note(net.trunk[1](F.relu(note(net.trunk[0](y))))))
        return torch.einsum("nc,npc->np", branch, trunk)

    net = Made(
        go,
        branch=nn.ModuleList([nn.Linear(6, 4), nn.Linear(4, 4)]),
        trunk=nn.ModuleList([nn.Linear(1, 4), nn.Linear(4, 4)]),
    )
    plant(net.trunk[0], dead=(1,), linear=(2,))
    return net, [{"u": torch.randn(4, 6), "y": torch.rand(4, 4, 1)}]


@case("DeepONet: the places are a buffer, the trunk sees no point", "field", truth=noted)
def deeponet_on_a_grid():
    def go(net, u):
        branch = net.branch[1](F.relu(note(net.branch[0](u))))
        trunk = F.relu(net.trunk(net.grid))  # [P, C]: the same whatever the points, and so no layer
        return branch @ trunk.t()

    net = Made(go, branch=nn.ModuleList([nn.Linear(6, 4), nn.Linear(4, 4)]), trunk=nn.Linear(1, 4))
    net.register_buffer("grid", torch.linspace(0, 1, 4)[:, None])
    plant(net.trunk, dead=(1,), linear=(2,))
    plant(net.branch[0], dead=(3,))
    return net, torch.randn(4, 6)


@case("physics-informed: autograd inside forward", "field", truth=noted)
def pinn():
    def go(net, x):
        with torch.enable_grad():
            x = x.detach().requires_grad_()
            u = net.out(F.silu(note(net.mid(x))))
            (slope,) = torch.autograd.grad(u.sum(), x, create_graph=True)
        return net.last(F.relu(note(net.join(torch.cat([u, slope], 1)))))

    net = Made(go, mid=nn.Linear(2, N), out=nn.Linear(N, 1), join=nn.Linear(3, N), last=nn.Linear(N, 1))
    plant(net.mid, dead=(1,), linear=(2,))
    return net, torch.randn(N, 2)


@case("NeRF: rays by samples folded into the batch, density and colour", "field", truth=noted)
def nerf():
    def go(net, origin, direction):
        n, s = len(origin), 4
        places = origin[:, None] + direction[:, None] * torch.linspace(0, 1, s)[None, :, None]
        x = places.reshape(n * s, 3)
        x = torch.cat([x, x.sin(), x.cos()], 1)
        mine = {"point": folded(n * s, s)}
        h = F.relu(note(net.first(x), **mine))
        h = F.relu(note(net.second(torch.cat([x, h], 1)), **mine))
        density = F.relu(note(net.density(h), **mine))
        views = direction[:, None].expand(-1, s, -1).reshape(n * s, 3)
        colour = net.colour(F.relu(note(net.view(torch.cat([h, views], 1)), **mine))).sigmoid()
        weights = 1 - torch.exp(-density.view(n, s))
        return (weights[..., None] * colour.view(n, s, 3)).sum(1)

    net = Made(
        go,
        first=nn.Linear(9, 4),
        second=nn.Linear(13, 4),
        density=nn.Linear(4, 1),
        view=nn.Linear(7, 4),
        colour=nn.Linear(4, 3),
    )
    plant(net.second, dead=(0,), linear=(1,))
    return net, [{"origin": torch.randn(4, 3), "direction": torch.randn(4, 3)}]


@case("Fourier features and sines, then ReLU", "field", truth=noted)
def fourier():
    def go(net, x):
        angles = x @ net.frequencies
        h = net.sine(torch.cat([angles.sin(), angles.cos()], -1)).sin()
        return net.out(F.relu(note(net.mid(h))))

    net = Made(go, sine=nn.Linear(8, 4), mid=nn.Linear(4, 4), out=nn.Linear(4, 3))
    net.register_buffer("frequencies", torch.randn(2, 4))
    plant(net.mid, dead=(0,), linear=(1,))
    return net, torch.rand(4, 4, 2)


@case("KAN: a SiLU base and splines by einsum", "field", truth=noted)
def kan():
    def go(net, x):
        knots = torch.linspace(-2, 2, 4)
        for base, spline in zip(net.bases, net.splines, strict=True):
            bumps = torch.exp(-(x[..., None] - knots).square())
            x = base(F.silu(note(net.norm(x)))) + torch.einsum("nib,oib->no", bumps, spline)
        return x

    net = Made(
        go,
        norm=nn.LayerNorm(4),
        bases=nn.ModuleList(nn.Linear(4, 4) for _ in range(2)),
        splines=nn.ParameterList(torch.randn(4, 4, 4) for _ in range(2)),
    )
    plant(net.norm, dead=(0,), linear=(1,))
    return net, torch.randn(4, 4)


# Tables


@case("DLRM: bags of ids, dots of pairs, two MLPs", "table", truth=noted)
def dlrm():
    def go(net, dense, ids):
        bottom = F.relu(note(net.bottom(dense)))
        bags = [bag(ids[:, k]) for k, bag in enumerate(net.bags)]
        vectors = torch.stack([bottom, *bags], 1)
        i, j = torch.tril_indices(3, 3, -1)
        dots = torch.bmm(vectors, vectors.transpose(1, 2))[:, i, j]
        return net.out(F.relu(note(net.top(torch.cat([bottom, dots], 1)))))

    net = Made(
        go,
        bottom=nn.Linear(3, 4),
        bags=nn.ModuleList(nn.EmbeddingBag(9, 4, mode="sum") for _ in range(2)),
        top=nn.Linear(7, 4),
        out=nn.Linear(4, 1),
    )
    plant(net.bottom, dead=(0,), linear=(1,))
    hush(net.top, 2.0)
    return net, [{"dense": torch.randn(4, 3), "ids": torch.randint(9, (4, 2, 3))}]


@case("two towers", "table", truth=noted)
def two_towers():
    def go(net, user, item):
        u = F.normalize(net.user[1](F.relu(note(net.user[0](net.users(user))))), dim=-1)
        v = F.normalize(net.item[1](F.relu(note(net.item[0](net.items(item))))), dim=-1)
        return u @ v.t()

    net = Made(
        go,
        users=nn.Embedding(9, 4),
        items=nn.Embedding(9, 4),
        user=nn.ModuleList([nn.Linear(4, 4), nn.Linear(4, 4)]),
        item=nn.ModuleList([nn.Linear(4, 4), nn.Linear(4, 4)]),
    )
    plant(net.item[0], dead=(0,), linear=(1,))
    return net, [{"user": torch.randint(9, (4,)), "item": torch.randint(9, (4,))}]


@case("factors and depth: fields flattened, products of pairs through a ReLU", "table", truth=noted)
def deep_fm():
    def go(net, ids):
        v = net.factors(ids)  # [N, F, C]
        pairs = 0.5 * (v.sum(1).square() - v.square().sum(1))
        deep = F.relu(note(net.deep(v.flatten(1))))
        return net.out(torch.cat([F.relu(note(net.pairs(pairs))), deep], 1)) + net.wide(ids).sum(1)

    net = Made(
        go,
        factors=nn.Embedding(12, 4),
        wide=nn.Embedding(12, 1),
        pairs=nn.Linear(4, 4),
        deep=nn.Linear(16, 4),
        out=nn.Linear(8, 1),
    )
    plant(net.deep, dead=(0,), linear=(1,))
    return net, torch.randint(12, (4, 4))


@case("TabNet: a ghost of batch norm, gated steps, a ReLU on half of the features", "table", truth=noted)
def tabnet():
    def go(net, x):
        x, total = net.bn(x), 0
        mask = torch.ones_like(x) / x.shape[1]
        for step, attend in zip(net.steps, net.attend, strict=True):
            decide, a = F.glu(step(x * mask), -1).split([4, 2], 1)
            total = total + F.relu(note(decide))
            mask = attend(a).softmax(1)
        return net.out(total)

    net = Made(
        go,
        bn=nn.BatchNorm1d(4),
        steps=nn.ModuleList(nn.Linear(4, 12) for _ in range(2)),
        attend=nn.ModuleList(nn.Linear(2, 4) for _ in range(2)),
        out=nn.Linear(4, 1),
    )
    plant(net.steps[0], dead=(0,), linear=(1,))
    return net, torch.randn(4, 4)


@case("TabTransformer: columns as tokens, then flat beside the numbers", "table", truth=noted)
def tab_transformer():
    def go(net, ids, numbers):
        h = net.columns(ids)
        h = h + net.attend(h, h, h, need_weights=False)[0]
        h = h + net.down(F.relu(note(net.up(h))))
        return net.out(
            F.selu(note(net.mid(torch.cat([h.flatten(1), numbers], 1)), cutoff=log(0.1 / 1.758099340847377)))
        )

    net = Made(
        go,
        columns=nn.Embedding(12, 4),
        attend=nn.MultiheadAttention(4, 2, batch_first=True),
        up=nn.Linear(4, 4),
        down=nn.Linear(4, 4),
        mid=nn.Linear(19, 4),
        out=nn.Linear(4, 1),
    )
    plant(net.up, dead=(0,), linear=(1,))
    return net, [{"ids": torch.randint(12, (4, 4)), "numbers": torch.randn(4, 3)}]


@case("features as tokens of their own weights, x[..., None] * w + b", "table", truth=noted)
def feature_tokens():
    def go(net, x):
        tokens = x[..., None] * net.weight + net.shift  # [N, F, C]: every feature has C units of its own
        h = F.relu(note(tokens, unit=heads_and_features(tokens, 1, 2)))
        return net.out(F.relu(note(net.mid(h))).mean(1))

    net = Made(
        go,
        weight=nn.Parameter(torch.randn(4, 4)),
        shift=nn.Parameter(torch.randn(4, 4)),
        mid=nn.Linear(4, 4),
        out=nn.Linear(4, 1),
    )
    plant(net.mid, dead=(0,), linear=(1,))
    return net, torch.randn(4, 4)


@case("cross network: x0 * (W x) + x, its ReLU beside", "table", truth=noted)
def cross():
    def go(net, x0):
        x = x0
        for layer in net.layers:
            x = x0 * layer(x) + x
        return net.out(F.relu(note(net.mid(x))))

    net = Made(go, layers=nn.ModuleList(nn.Linear(4, 4) for _ in range(2)), mid=nn.Linear(4, 4), out=nn.Linear(4, 1))
    plant(net.mid, dead=(0,), linear=(1,))
    return net, torch.randn(4, 4)
