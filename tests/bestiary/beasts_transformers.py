"""Models of `transformers`, small and random: what meets a one-sided activation was found by reading their source.

Most have their activations as modules, whose inputs are looked at; others call a function, and the module before it is
looked at, or what it was given is computed again from what that was given.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from importlib import import_module
from math import inf, log
from typing import Any, NamedTuple

import torch
import torch.nn.functional as F
from case import Layer, along, case
from notebook import heads_and_features, hooked, plant, run
from torch import Tensor, nn

os.environ["HF_HUB_OFFLINE"] = "1"

ELU = log(0.1)
SOFTPLUS = log(0.1 / 0.9)
SMALL = {"hidden_size": 8, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 8}
SURE = {"hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0}
BERT = {"vocab_size": 20, "hidden_act": "relu", **SMALL, **SURE}
LLAMA = {"vocab_size": 20, "num_key_value_heads": 2, "bos_token_id": 1, "eos_token_id": 2, **SMALL}
SPEECH = {
    "conv_dim": (8, 8),
    "conv_kernel": (3, 3),
    "conv_stride": (2, 2),
    "num_conv_pos_embeddings": 4,
    "num_conv_pos_embedding_groups": 2,
}
UNMASKED = {
    "mask_time_prob": 0.0,
    "layerdrop": 0.0,
    "hidden_dropout": 0.0,
    "activation_dropout": 0.0,
    "attention_dropout": 0.0,
    "feat_proj_dropout": 0.0,
}
TRANSLATOR = {
    "d_model": 8,
    "encoder_layers": 1,
    "decoder_layers": 1,
    "encoder_ffn_dim": 8,
    "decoder_ffn_dim": 8,
    "encoder_attention_heads": 2,
    "decoder_attention_heads": 2,
    "dropout": 0.0,
    "attention_dropout": 0.0,
    "activation_dropout": 0.0,
}
TOKENS = {"pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2, "decoder_start_token_id": 1}


# How a foreign model is looked at


class Look(NamedTuple):
    """Modules whose inputs meet an activation (or whose outputs do: `after`), and how these are laid out.

    rows: how many rows on the first axis each point has, one after the other; cut: the part that meets the activation.
    """

    pattern: str
    points: int = 0
    units: int = -1
    cutoff: float = 0.0
    ceiling: float = inf
    after: bool = False
    rows: int = 1
    cut: Callable[[Tensor], Tensor] = lambda z: z

    def layer(self, name: str, seen: Tensor) -> Layer:
        """The truth of one call."""
        z = self.cut(seen)
        point = along(z, self.points) // self.rows
        return Layer(z, point, along(z, self.units), self.cutoff, self.ceiling, name)


def looked_at(model: nn.Module, batch: Any, looks: tuple[Look, ...]) -> list[Layer]:
    """The truth of a model of which these looks are all; a module that is called again is another layer."""
    with ExitStack() as stack:
        seen = [(look, stack.enter_context(hooked(model, look.pattern, inputs=not look.after))) for look in looks]
        run(model, batch)
    layers, calls = [], Counter[str]()
    for look, outputs in seen:
        for name, z in outputs:
            if isinstance(model.get_submodule(name), nn.Identity):
                continue  # an activation left out
            calls[f"{look.pattern} {name}"] += 1
            layers.append(look.layer(f"{look.pattern} {name}#{calls[f'{look.pattern} {name}']}", z))
    return layers


def looking(*looks: Look) -> Callable[[nn.Module, Any], list[Layer]]:
    """`looked_at` with these."""
    return partial(looked_at, looks=looks)


def made(kind: str, config: str, *planted: str, **settings: Any) -> nn.Module:
    """A model of transformers with weights that matter; the planted modules have a dead and a linear unit."""
    transformers = import_module("transformers")
    transformers.logging.set_verbosity_error()
    model = getattr(transformers, kind)(getattr(transformers, config)(**settings))
    with torch.no_grad():
        for name, p in model.named_parameters():
            if p.ndim > 1 and "original0" not in name:
                p.normal_(0, 0.4)
            elif name.endswith("bias"):
                p.normal_(0, 0.2)
    for name in planted:
        plant(model.get_submodule(name), dead=(0,), linear=(1,), by=20.0)
    return model.train()


def without_chance(model: nn.Module) -> nn.Module:
    """A model that throws dice without need, as for layers dropped with probability 0, and leaves no trace of it."""
    forward = model.forward

    def forked(*args: Any, **kwargs: Any) -> Any:
        with torch.random.fork_rng(devices=[]):
            return forward(*args, **kwargs)

    model.forward = forked
    return model


def warm(model: nn.Module, *batches: Any) -> tuple[nn.Module, list[Any]]:
    """A model that has run before: some hang hooks of their own on themselves at the first call."""
    with torch.no_grad():
        run(model.eval(), batches[0])
    return model.train(), list(batches)


def calm(model: nn.Module) -> nn.Module:
    """With weights half as large, where a loss will not have double precision."""
    with torch.no_grad():
        for p in model.parameters():
            p.mul_(0.5)
    return model


def exact(model: nn.Module, batch: dict[str, Tensor]) -> tuple[nn.Module, list[dict[str, Tensor]]]:
    """In double precision: small batches and batch norms make the gradients of single precision noisy."""
    return model.double(), [{key: x.double() for key, x in batch.items()}]


def beast(name: str, **more: Any) -> Callable[[Callable[[], Any]], Callable[..., Any]]:
    """Enter a beast of transformers."""
    return case(name, "transformers", needs="transformers", **more)


def words(*shape: int, names: tuple[str, ...] = ("input_ids",)) -> dict[str, Tensor]:
    """A batch of random tokens."""
    return {name: torch.randint(3, 20, shape) for name in names}


def images(n: int = 4, size: int = 16) -> dict[str, Tensor]:
    """A batch of random images."""
    return {"pixel_values": torch.randn(n, 3, size, size)}


# Language


@beast("BERT, ReLU, padding masked", truth=looking(Look("*.intermediate_act_fn")))
def bert():
    mask = torch.ones(4, 4, dtype=torch.long)
    mask[1, 2:] = 0
    model = made("BertModel", "BertConfig", "encoder.layer.0.intermediate.dense", **BERT)
    return model, [{**words(4, 4), "attention_mask": mask}]


@beast("BERT whose feed-forward runs in chunks of the sequence", truth=looking(Look("*.intermediate_act_fn")))
def bert_in_chunks():
    model = made("BertModel", "BertConfig", "encoder.layer.1.intermediate.dense", chunk_size_feed_forward=2, **BERT)
    return model, [words(4, 4)]


@beast("GPT-2, GELU spelled out, batches of two sizes", truth=looking(Look("*.mlp.act")))
def gpt2():
    sizes = {"n_embd": 8, "n_layer": 2, "n_head": 2, "n_positions": 8, "n_inner": 8}
    quiet = {"resid_pdrop": 0.0, "embd_pdrop": 0.0, "attn_pdrop": 0.0, "bos_token_id": 1, "eos_token_id": 2}
    model = made("GPT2LMHeadModel", "GPT2Config", "transformer.h.0.mlp.c_fc", vocab_size=20, **sizes, **quiet)
    return model, [words(8, 8), words(3, 5)]


T5 = {"vocab_size": 20, "d_model": 8, "d_kv": 4, "d_ff": 8, "num_layers": 1, "num_heads": 2, "dropout_rate": 0.0}


@beast("T5, encoder and decoder", truth=looking(Look("*.DenseReluDense.act")))
def t5():
    model = made("T5ForConditionalGeneration", "T5Config", **T5)
    return model, [{**words(3, 3), "decoder_input_ids": torch.randint(3, 20, (3, 2))}]


@beast("T5 with gates", truth=looking(Look("*.DenseReluDense.act")))
def t5_gated():
    return made("T5EncoderModel", "T5Config", feed_forward_proj="gated-gelu", **T5), [words(3, 2)]


@beast("Llama, SiLU gates", truth=looking(Look("*.act_fn")))
def llama():
    return made("LlamaForCausalLM", "LlamaConfig", **LLAMA), [words(2, 2)]


@beast("ALBERT: one layer, used three times", truth=looking(Look("*.albert_layers.0.activation")))
def albert():
    settings = {**BERT, "num_hidden_layers": 3, "embedding_size": 4}
    return made("AlbertModel", "AlbertConfig", "encoder.albert_layer_groups.0.albert_layers.0.ffn", **settings), [
        words(4, 4)
    ]


@beast("OPT: rows of all tokens in the feed-forward", truth=looking(Look("decoder.layers.*.activation_fn", rows=4)))
def opt():
    sizes = {"hidden_size": 8, "word_embed_proj_dim": 8, "ffn_dim": 8, "num_hidden_layers": 2, "num_attention_heads": 2}
    settings = {"vocab_size": 20, "dropout": 0.0, "max_position_embeddings": 8, **TOKENS}
    del settings["decoder_start_token_id"]
    return made("OPTModel", "OPTConfig", "decoder.layers.0.fc1", **sizes, **settings), [words(4, 4)]


@beast("Nemotron: the ReLU squared", truth=looking(Look("*.act_fn")))
def nemotron():
    return made("NemotronModel", "NemotronConfig", head_dim=4, **LLAMA), [words(2, 3)]


@beast("XLNet: [T, N, C] inside, the batch first outside", truth=looking(Look("*.activation_function", points=1)))
def xlnet():
    sizes = {"d_model": 8, "n_layer": 2, "n_head": 2, "d_inner": 8}
    model = made(
        "XLNetModel", "XLNetConfig", "layer.0.ff.layer_1", vocab_size=20, ff_activation="relu", dropout=0.0, **sizes
    )
    return model, [words(4, 4)]


@beast("FSMT: [T, N, C] inside, the batch first outside", truth=looking(Look("*.activation_fn", points=1)))
def fsmt():
    settings = {"langs": ["en", "de"], "src_vocab_size": 20, "tgt_vocab_size": 20, "max_position_embeddings": 16}
    more = {"encoder_layerdrop": 0.0, "decoder_layerdrop": 0.0}
    model = made("FSMTModel", "FSMTConfig", "encoder.layers.0.fc1", **settings, **more, **TRANSLATOR, **TOKENS)
    return without_chance(model), [words(4, 4, names=("input_ids", "decoder_input_ids"))]


@beast("ProphetNet: streams of n-grams behind one another", truth=looking(Look("*.activation_fn")))
def prophetnet():
    sizes = {"hidden_size": 8, "encoder_ffn_dim": 8, "decoder_ffn_dim": 8, "ngram": 2, "max_position_embeddings": 16}
    heads = {
        f"num_{part}_{what}": n
        for part in ("encoder", "decoder")
        for what, n in (("layers", 1), ("attention_heads", 2))
    }
    sure = {"dropout": 0.0, "attention_dropout": 0.0, "activation_dropout": 0.0, "activation_function": "relu"}
    more = {"num_buckets": 4, "relative_max_distance": 8}
    model = made(
        "ProphetNetModel",
        "ProphetNetConfig",
        "decoder.layers.0.feed_forward.intermediate",
        vocab_size=20,
        **sizes,
        **heads,
        **sure,
        **more,
    )
    return model, [{**words(4, 4), "decoder_input_ids": torch.randint(3, 20, (4, 3))}]


@beast("SqueezeBERT: convolutions of groups, [N, C, T]", truth=looking(Look("*.intermediate.act", units=1)))
def squeezebert():
    groups = {f"{name}_groups": 2 for name in ("q", "k", "v", "intermediate", "output")} | {"post_attention_groups": 1}
    model = made(
        "SqueezeBertModel",
        "SqueezeBertConfig",
        "encoder.layers.0.intermediate.conv1d",
        embedding_size=8,
        **groups,
        **BERT,
    )
    return model, [words(8, 8)]


@beast("ConvBERT: spans of words beside attention", truth=looking(Look("*.intermediate_act_fn")))
def convbert():
    settings = {**BERT, "num_attention_heads": 4, "embedding_size": 8, "conv_kernel_size": 3, "num_groups": 2}
    return made("ConvBertModel", "ConvBertConfig", **settings), [words(4, 4)]


@beast("Funnel: the sequence pooled and blown up again", truth=looking(Look("*.activation_function")))
def funnel():
    sizes = {"block_sizes": [1, 1], "num_decoder_layers": 1, "d_model": 8, "n_head": 2, "d_head": 4, "d_inner": 8}
    sure = {"hidden_dropout": 0.0, "attention_dropout": 0.0, "activation_dropout": 0.0, "hidden_act": "relu"}
    return made("FunnelModel", "FunnelConfig", "encoder.blocks.0.0.ffn.linear_1", vocab_size=20, **sizes, **sure), [
        words(4, 4)
    ]


@beast(
    "CANINE: characters, convolved to molecules and back",
    truth=looking(Look("*.intermediate_act_fn"), Look("*s.activation"), Look("projection.activation")),
)
def canine():
    settings = {
        **BERT,
        "num_hidden_layers": 1,
        "local_transformer_stride": 4,
        "num_hash_buckets": 20,
        "num_hash_functions": 2,
    }
    del settings["vocab_size"]
    model = made(
        "CanineModel",
        "CanineConfig",
        "chars_to_molecules.conv",
        downsampling_rate=2,
        upsampling_kernel_size=2,
        **settings,
    )
    return model, [words(4, 8)]


@beast("FNet: Fourier transforms over tokens and features", truth=looking(Look("*.intermediate_act_fn")))
def fnet():
    settings = {**BERT, "hidden_dropout_prob": 0.0}
    for name in ("num_attention_heads", "attention_probs_dropout_prob"):
        del settings[name]
    return made("FNetModel", "FNetConfig", "encoder.layer.0.intermediate.dense", **settings), [words(4, 4)]


@beast("Longformer: windows of attention", truth=looking(Look("*.intermediate_act_fn")))
def longformer():
    model = made("LongformerModel", "LongformerConfig", attention_window=4, max_position_embeddings=40, **BERT)
    return model, [{**words(4, 8), "attention_mask": torch.ones(4, 8, dtype=torch.long)}]


@beast("Reformer: reversible layers without a graph, chunks of the sequence", truth=looking(Look("*.dense.act_fn")))
def reformer():
    sizes = {"attention_head_size": 4, "num_attention_heads": 2, "hidden_size": 8, "feed_forward_size": 8}
    places = {"axial_pos_shape": [2, 4], "axial_pos_embds_dim": [4, 4], "attn_layers": ["local", "local"]}
    chunks = {"local_attn_chunk_length": 4, "chunk_size_feed_forward": 2, "is_decoder": False}
    sure = {"hidden_act": "relu", "hidden_dropout_prob": 0.0, "local_attention_probs_dropout_prob": 0.0}
    model = made(
        "ReformerModel",
        "ReformerConfig",
        "encoder.layers.0.feed_forward.dense.dense",
        vocab_size=20,
        **sizes,
        **places,
        **chunks,
        **sure,
    )
    return model, [words(4, 8)]


@beast("BLOOM: GELU as an autograd function of its own", truth=looking(Look("*.gelu_impl")))
def bloom():
    model = made(
        "BloomModel", "BloomConfig", "h.0.mlp.dense_h_to_4h", vocab_size=20, hidden_size=8, n_layer=2, n_head=2
    )
    return model, [words(4, 4)]


@beast("Perceiver: learned latents look at the inputs", truth=looking(Look("*.intermediate_act_fn")))
def perceiver():
    sizes = {"num_latents": 4, "d_latents": 8, "d_model": 8, "num_blocks": 1, "num_self_attends_per_block": 1}
    more = {"num_self_attention_heads": 2, "num_cross_attention_heads": 2, "hidden_act": "relu"}
    model = made(
        "PerceiverModel",
        "PerceiverConfig",
        "encoder.cross_attention.mlp.dense1",
        attention_probs_dropout_prob=0.0,
        **sizes,
        **more,
    )
    return model, [{"inputs": torch.randn(4, 4, 8)}]


@beast("Decision Transformer", truth=looking(Look("*.mlp.act")))
def decision_transformer():
    sizes = {"state_dim": 3, "act_dim": 2, "hidden_size": 8, "max_ep_len": 8, "n_layer": 1, "n_head": 2, "n_inner": 8}
    quiet = {"resid_pdrop": 0.0, "embd_pdrop": 0.0, "attn_pdrop": 0.0, "bos_token_id": 0, "eos_token_id": 0}
    model = made("DecisionTransformerModel", "DecisionTransformerConfig", "encoder.h.0.mlp.c_fc", **sizes, **quiet)
    rows = {
        name: torch.randn(4, 3, n) for name, n in (("states", 3), ("actions", 2), ("returns_to_go", 1), ("rewards", 1))
    }
    return model, [{**rows, "timesteps": torch.arange(3).repeat(4, 1), "attention_mask": torch.ones(4, 3)}]


@beast("ModernBERT: gates that are half of a projection", truth=looking(Look("*.mlp.act")))
def modernbert():
    tokens = {"pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2, "cls_token_id": 1, "sep_token_id": 2}
    sure = {"attention_dropout": 0.0, "mlp_dropout": 0.0, "embedding_dropout": 0.0, "hidden_activation": "relu"}
    model = made(
        "ModernBertModel",
        "ModernBertConfig",
        "layers.0.mlp.Wi",
        vocab_size=20,
        mlp_bias=True,
        **tokens,
        **sure,
        **SMALL,
    )
    return model, [words(4, 4)]


def _gemma3n(model: nn.Module, batch: Any) -> list[Layer]:
    """In the first layer a ReLU cuts the gate at its mean over the units, and GELU sees what is left."""
    layers = looked_at(model, batch, (Look("*.act_fn"),))
    with hooked(model, "layers.0.mlp.gate_proj") as seen:
        run(model, batch)
    ((_, gate),) = seen
    z = gate - gate.mean(-1, keepdim=True)
    return [*layers, Layer(z, along(z, 0), along(z, 2), name="sparse")]


@beast("Gemma 3n: a ReLU that keeps half, before the GELU", truth=_gemma3n)
def gemma3n():
    sizes = {"hidden_size": 8, "hidden_size_per_layer_input": 4, "intermediate_size": 8, "num_hidden_layers": 2}
    heads = {"num_attention_heads": 2, "num_key_value_heads": 1, "head_dim": 4, "laurel_rank": 2}
    more = {"altup_num_inputs": 2, "num_kv_shared_layers": 0, "activation_sparsity_pattern": [0.5, 0.0]}
    tokens = {"vocab_size": 20, "vocab_size_per_layer_input": 20, "pad_token_id": 0, "bos_token_id": 1}
    kinds = {"layer_types": ["full_attention", "full_attention"], "eos_token_id": 2}
    model = made("Gemma3nTextModel", "Gemma3nTextConfig", **sizes, **heads, **more, **tokens, **kinds)
    return model, [words(2, 2)]


# State spaces


@beast("RWKV: squared ReLU, and maxima that are no activation", truth=looking(Look("*.feed_forward.key", after=True)))
def rwkv():
    settings = {"vocab_size": 20, "hidden_size": 8, "num_hidden_layers": 2, "intermediate_size": 8, "context_length": 8}
    return made(
        "RwkvModel", "RwkvConfig", bos_token_id=1, eos_token_id=2, use_cache=False, rescale_every=0, **settings
    ), [words(2, 2)]


def _mamba(model: nn.Module, batch: Any) -> list[Layer]:
    with hooked(model, "*.in_proj") as projected, hooked(model, "*.x_proj") as steps:
        run(model, batch)
    layers = []
    for (name, both), (_, rates) in zip(projected, steps, strict=True):
        mixer = model.get_submodule(name.removesuffix(".in_proj"))
        inner, gate = both.transpose(1, 2).chunk(2, 1)
        conv = mixer.conv1d(inner)[..., : inner.shape[2]]
        rate = mixer.dt_proj.weight @ rates[..., : mixer.time_step_rank].transpose(1, 2) + mixer.dt_proj.bias[:, None]
        for z, cutoff in ((conv, 0.0), (rate, SOFTPLUS), (gate, 0.0)):
            layers.append(Layer(z, along(z, 0), along(z, 1), cutoff))
    return layers


@beast("Mamba: convolution, step size and gate, all [N, C, T]", truth=_mamba)
def mamba():
    settings = {"hidden_size": 8, "state_size": 4, "num_hidden_layers": 2, "expand": 1, "time_step_rank": 2}
    more = {"bos_token_id": 1, "eos_token_id": 2, "use_cache": False}
    return made("MambaModel", "MambaConfig", "layers.0.mixer.dt_proj", vocab_size=20, **settings, **more), [words(8, 8)]


def _mamba2(model: nn.Module, batch: Any, clamped: bool) -> list[Layer]:
    with hooked(model, "*.in_proj") as projected:
        run(model, batch)
    layers = []
    for name, z in projected:
        mixer = model.get_submodule(name.removesuffix(".in_proj"))
        gate, inner, rate = z.split([mixer.intermediate_size, mixer.conv_dim, mixer.num_heads], -1)
        conv = mixer.conv1d(inner.transpose(1, 2))[..., : inner.shape[1]]
        rate = rate + mixer.dt_bias
        layers += [Layer(conv, along(conv, 0), along(conv, 1)), Layer(gate, along(gate, 0), along(gate, 2))]
        layers.append(Layer(rate, along(rate, 0), along(rate, 2), SOFTPLUS))
        if clamped:
            layers.append(Layer(F.softplus(rate), along(rate, 0), along(rate, 2)))
    return layers


@beast(
    "Mamba-2: the softplus of a step size, clamped at 0 once more",
    truth=partial(_mamba2, clamped=True),
    others=(partial(_mamba2, clamped=False),),
)
def mamba2():
    settings = {"hidden_size": 8, "state_size": 4, "num_hidden_layers": 1, "expand": 1, "num_heads": 2, "head_dim": 4}
    more = {"n_groups": 1, "chunk_size": 4, "bos_token_id": 1, "eos_token_id": 2, "use_cache": False}
    return made("Mamba2Model", "Mamba2Config", "layers.0.mixer.conv1d", vocab_size=20, **settings, **more), [
        words(4, 4)
    ]


@beast("RecurrentGemma: the softplus of a parameter is no layer", truth=looking(Look("*.act_fn")))
def recurrent_gemma():
    sizes = {
        "hidden_size": 8,
        "intermediate_size": 16,
        "num_hidden_layers": 3,
        "num_attention_heads": 2,
        "lru_width": 8,
    }
    more = {"num_key_value_heads": 1, "attention_window_size": 8, "bos_token_id": 1, "eos_token_id": 2}
    return made(
        "RecurrentGemmaModel",
        "RecurrentGemmaConfig",
        "layers.0.mlp_block.gate_proj",
        vocab_size=20,
        use_cache=False,
        **sizes,
        **more,
    ), [words(4, 4)]


# Experts


@contextmanager
def _given(model: nn.Module, pattern: str) -> Iterator[list[tuple[str, tuple[Any, ...]]]]:
    """All that the experts are given, with their names."""
    seen: list[tuple[str, tuple[Any, ...]]] = []
    found = [(n, m) for n, m in model.named_modules() if n.endswith(pattern)]
    handles = [m.register_forward_pre_hook(lambda _, args, n=n: seen.append((n, args))) for n, m in found]
    try:
        yield seen
    finally:
        for handle in handles:
            handle.remove()


Rows = list[tuple[Tensor, Tensor, int]]  # what an expert sees, of which points, and which expert it is


def _pooled(name: str, rows: Rows) -> list[Layer]:
    """All experts as one layer, with as many units as they have together."""
    z = torch.cat([z for z, _, _ in rows])
    unit = torch.cat([(number * z.shape[1] + along(z, 1)).expand(z.shape) for z, _, number in rows])
    return [Layer(z, torch.cat([point for _, point, _ in rows])[:, None], unit, name=name)]


def _apart(name: str, rows: Rows) -> list[Layer]:
    """Every expert as a layer of its own."""
    return [Layer(z, point[:, None], along(z, 1), name=f"{name}.{number}") for z, point, number in rows]


def routed(
    model: nn.Module, batch: Any, how: Callable[[str, Rows], list[Layer]], looks: tuple[Look, ...] = ()
) -> list[Layer]:
    """The gates of experts with weights [E, 2F, D], from the tokens [N·T, D] and the choice [N·T, k] they are given."""
    with _given(model, ".experts") as seen:
        layers = looked_at(model, batch, looks)
    tokens = batch["input_ids"].shape[1]
    for name, (hidden, chosen, *_) in seen:
        weights = model.get_submodule(name).gate_up_proj
        rows: Rows = []
        for number, weight in enumerate(weights):
            mine = (chosen == number).any(-1).nonzero()[:, 0]
            if len(mine):
                rows.append((F.linear(hidden[mine], weight).chunk(2, -1)[0], mine // tokens, number))
        layers += how(name, rows)
    return layers


def experts(*looks: Look) -> dict[str, Any]:
    """The fields `truth` and `others`: all experts as one layer, or each as its own."""
    return {"truth": partial(routed, how=_pooled, looks=looks), "others": (partial(routed, how=_apart, looks=looks),)}


def experts_one_by_one(*looks: Look) -> dict[str, Any]:
    """The fields `truth` and `others`, the other way round."""
    return {"truth": partial(routed, how=_apart, looks=looks), "others": (partial(routed, how=_pooled, looks=looks),)}


def _mixtral(how: str) -> nn.Module:
    model = made("MixtralModel", "MixtralConfig", num_local_experts=4, num_experts_per_tok=2, **LLAMA)
    model.set_experts_implementation(how)
    return model


@beast("Mixtral: experts one after the other, batches that hit others", **experts_one_by_one())
def mixtral():
    return _mixtral("eager"), [words(3, 2), words(1, 1), words(4, 4)]


@beast("Mixtral: tokens sorted by expert, one grouped product", **experts())
def mixtral_grouped():
    return _mixtral("grouped_mm"), [words(4, 4)]


@beast("Mixtral: a matrix for every token and expert, one batched product", **experts())
def mixtral_batched():
    return _mixtral("batched_mm"), [words(4, 4)]


@beast("Qwen2-MoE: an expert shared by all rows", **experts(Look("*.shared_expert.act_fn", rows=4)))
def qwen2_moe():
    sizes = {
        "num_experts": 4,
        "num_experts_per_tok": 2,
        "moe_intermediate_size": 8,
        "shared_expert_intermediate_size": 8,
    }
    return made("Qwen2MoeModel", "Qwen2MoeConfig", **sizes, **LLAMA), [words(4, 4)]


@beast("Qwen3-MoE: few tokens for many experts, all hit in the end", **experts())
def qwen3_moe():
    sizes = {"num_experts": 6, "num_experts_per_tok": 1, "moe_intermediate_size": 8, "head_dim": 4}
    return made("Qwen3MoeModel", "Qwen3MoeConfig", **sizes, **LLAMA), [words(1, 2), words(2, 1), words(4, 8)]


@beast("OLMoE", **experts())
def olmoe():
    return made("OlmoeModel", "OlmoeConfig", num_experts=4, num_experts_per_tok=2, **LLAMA), [words(2, 8)]


@beast(
    "DeepSeek-V3: groups of experts, a shared one, dense layers before",
    **experts(Look("*mlp.act_fn"), Look("*.shared_experts.act_fn")),
)
def deepseek():
    sizes = {"n_routed_experts": 4, "num_experts_per_tok": 2, "n_group": 2, "topk_group": 1, "moe_intermediate_size": 8}
    ranks = {"kv_lora_rank": 4, "q_lora_rank": 4, "qk_rope_head_dim": 4, "qk_nope_head_dim": 4, "v_head_dim": 4}
    return made("DeepseekV3Model", "DeepseekV3Config", first_k_dense_replace=1, **sizes, **ranks, **LLAMA), [
        words(4, 4)
    ]


def _switch(model: nn.Module, batch: Any) -> list[Layer]:
    layers = looked_at(model, batch, (Look("*.layer.1.mlp.act"),))
    with _given(model, ".experts") as seen:
        run(model, batch)
    for name, (hidden, chosen, _) in seen:  # chosen is [N·T, 1, E], ones and zeros
        for number, mine in enumerate(chosen[:, 0].T.bool()):
            if mine.any():
                z = model.get_submodule(f"{name}.expert_{number}").wi(hidden[mine])
                point = mine.nonzero() // batch["input_ids"].shape[1]
                layers.append(Layer(z, point, along(z, 1), name=f"{name}.{number}"))
    return layers


@beast("Switch: every token has one expert, modules of their own, three batches", truth=_switch)
def switch():
    sizes = {"d_model": 8, "d_kv": 4, "d_ff": 8, "num_layers": 2, "num_sparse_encoder_layers": 1, "num_heads": 2}
    sure = {"num_experts": 4, "dropout_rate": 0.0, "router_jitter_noise": 0.0, "expert_capacity": 2}
    model = made("SwitchTransformersEncoderModel", "SwitchTransformersConfig", vocab_size=20, **sizes, **sure)
    return model, [words(3, 2), words(1, 1), words(4, 4)]


def _nllb(model: nn.Module, batch: Any) -> list[Layer]:
    """The experts take the ones and zeros of a choice for their numbers, so that most tokens come often."""
    layers = looked_at(model, batch, (Look("*.layers.0.ffn.act"),))
    with _given(model, ".experts") as seen:
        run(model, batch)
    for name, (hidden, chosen, _) in seen:
        for number in (0, 1):
            token = chosen.T.eq(number).nonzero()[:, 1]
            z = model.get_submodule(f"{name}.expert_{number}").fc1(hidden[token])
            layers.append(
                Layer(z, (token // batch["input_ids"].shape[1])[:, None], along(z, 1), name=f"{name}.{number}")
            )
    return layers


@beast("NLLB-MoE: tokens that come to one expert several times", truth=_nllb)
def nllb_moe():
    settings = {
        **TRANSLATOR,
        "encoder_layers": 2,
        "decoder_layers": 2,
        "encoder_sparse_step": 2,
        "decoder_sparse_step": 2,
    }
    more = {"num_experts": 4, "expert_capacity": 64, "moe_token_dropout": 0.0, "vocab_size": 20}
    planted = "encoder.layers.1.ffn.experts.expert_1.fc1"
    model = made("NllbMoeModel", "NllbMoeConfig", planted, **settings, **more, **KEPT, **TOKENS)
    return without_chance(model), [words(4, 4, names=("input_ids", "decoder_input_ids"))]


def _jetmoe(model: nn.Module, batch: Any, how: Callable[[str, Rows], list[Layer]]) -> list[Layer]:
    with hooked(model, "*.mlp", inputs=True) as seen, hooked(model, "*.mlp.router.layer") as scores:
        run(model, batch)
    layers = []
    for (name, hidden), (_, logits) in zip(seen, scores, strict=True):
        mlp, flat = model.get_submodule(name), hidden.flatten(0, 1)
        chosen = logits.topk(2, 1).indices
        rows: Rows = []
        for number, weight in enumerate(mlp.input_linear.weight):
            mine = (chosen == number).any(1).nonzero()[:, 0]
            rows.append((F.linear(flat[mine], weight).chunk(2, -1)[0], mine // hidden.shape[1], number))
        layers += how(name, [one for one in rows if len(one[1])])
    return layers


@beast(
    "JetMoE: rows split by expert, put together before the gate",
    truth=partial(_jetmoe, how=_pooled),
    others=(partial(_jetmoe, how=_apart),),
)
def jetmoe():
    sizes = {
        "hidden_size": 8,
        "num_hidden_layers": 1,
        "num_key_value_heads": 2,
        "kv_channels": 4,
        "intermediate_size": 8,
    }
    more = {"num_local_experts": 4, "num_experts_per_tok": 2, "bos_token_id": 1, "eos_token_id": 2}
    return made("JetMoeModel", "JetMoeConfig", vocab_size=20, **sizes, **more), [words(4, 4)]


def _llama4(model: nn.Module, batch: Any) -> list[Layer]:
    layers = looked_at(model, batch, (Look("*.shared_expert.activation_fn", rows=batch["input_ids"].shape[1]),))
    with hooked(model, "*.experts.act_fn", inputs=True) as seen:
        run(model, batch)
    for name, z in seen:  # [E, N·T, F]: every token goes to every expert, weighed by 0 where it was not chosen
        point = along(z, 1) // batch["input_ids"].shape[1]
        layers.append(Layer(z, point, heads_and_features(z, 0, 2), name=name))
    return layers


@beast("Llama 4: all tokens go to all experts, most as zeros", truth=_llama4)
def llama4():
    sizes = {"head_dim": 4, "num_local_experts": 4, "num_experts_per_tok": 1, "intermediate_size_mlp": 8}
    return made("Llama4TextModel", "Llama4TextConfig", **sizes, **LLAMA), [words(4, 4)]


def _gpt_oss(model: nn.Module, batch: Any, how: Callable[[str, Rows], list[Layer]]) -> list[Layer]:
    with _given(model, ".experts") as seen:
        run(model, batch)
    layers = []
    for name, (hidden, chosen, *_) in seen:
        expert = model.get_submodule(name)
        rows: Rows = []
        for number in range(4):
            mine = (chosen == number).any(-1).nonzero()[:, 0]
            gate = (hidden[mine] @ expert.gate_up_proj[number] + expert.gate_up_proj_bias[number])[:, ::2]
            rows.append((gate.clamp(max=7.0), mine // batch["input_ids"].shape[1], number))
        layers += how(name, [one for one in rows if len(one[1])])
    return layers


@beast(
    "GPT-OSS: experts with a swish spelled out",
    truth=partial(_gpt_oss, how=_pooled),
    others=(partial(_gpt_oss, how=_apart),),
)
def gpt_oss():
    sizes = {"head_dim": 4, "num_local_experts": 4, "num_experts_per_tok": 2}
    return made("GptOssModel", "GptOssConfig", **sizes, **LLAMA), [words(4, 4)]


# Images


@beast("ViT", truth=looking(Look("*.mlp.activation_fn")))
def vit():
    model = made(
        "ViTModel", "ViTConfig", "layers.0.mlp.fc1", image_size=16, patch_size=8, hidden_act="relu", **SMALL, **SURE
    )
    return model, [images(5)]


@beast("Swin: windows, shifted and merged", truth=looking(Look("*.mlp.activation_fn")))
def swin():
    sizes = {"image_size": 16, "patch_size": 2, "embed_dim": 4, "depths": [2, 1], "num_heads": [1, 2], "window_size": 4}
    model = made(
        "SwinModel",
        "SwinConfig",
        "encoder.layers.0.blocks.1.mlp.fc1",
        mlp_ratio=2.0,
        drop_path_rate=0.0,
        hidden_act="relu",
        **sizes,
        **SURE,
    )
    return model, [images()]


PYRAMID = {
    "num_encoder_blocks": 2,
    "depths": [1, 1],
    "hidden_sizes": [4, 8],
    "sr_ratios": [2, 1],
    "num_attention_heads": [1, 2],
    "mlp_ratios": [2, 2],
    "patch_sizes": [3, 3],
    "strides": [2, 2],
    "drop_path_rate": 0.0,
    **SURE,
}


@beast(
    "SegFormer: a depthwise convolution between turns, a head of maps",
    truth=looking(Look("*.mlp.activation_fn"), Look("decode_head.activation", units=1)),
)
def segformer():
    more = {"decoder_hidden_size": 8, "classifier_dropout_prob": 0.0, "hidden_act": "relu"}
    return warm(
        made(
            "SegformerForSemanticSegmentation",
            "SegformerConfig",
            "segformer.stages.0.blocks.0.mlp.dwconv.dwconv",
            **PYRAMID,
            **more,
        ),
        images(),
    )


@beast("PVTv2", truth=looking(Look("*.intermediate_act_fn")))
def pvt():
    model = made("PvtV2Model", "PvtV2Config", "encoder.layers.0.blocks.0.mlp.dwconv.dwconv", image_size=16, **PYRAMID)
    return exact(model, images())


@beast(
    "PVTv2, linear: pooled maps through a norm to GELU, ReLU before the convolution",
    truth=looking(Look("*.intermediate_act_fn"), Look("*.mlp.relu"), Look("*.attention.act")),
)
def pvt_linear():
    planted = "encoder.layers.0.blocks.0.mlp.dense1"
    return made("PvtV2Model", "PvtV2Config", planted, image_size=16, linear_attention=True, **PYRAMID), [images()]


@beast("ConvNeXt: channels last inside a block", truth=looking(Look("*.layers.*.act")))
def convnext():
    settings = {"hidden_sizes": [4, 4], "depths": [1, 1], "num_stages": 2, "patch_size": 2}
    return made("ConvNextModel", "ConvNextConfig", "encoder.stages.0.layers.0.pwconv1", **settings), [images()]


@beast("ConvNeXt V2: responses normalised over places", truth=looking(Look("*.layers.*.act")))
def convnext2():
    settings = {"hidden_sizes": [4, 4], "depths": [1, 1], "num_stages": 2, "patch_size": 2}
    return made("ConvNextV2Model", "ConvNextV2Config", "encoder.stages.1.layers.0.pwconv1", **settings), [images()]


@beast("ResNet with bottlenecks", truth=looking(Look("*.activation", units=1)))
def resnet():
    settings = {"embedding_size": 4, "hidden_sizes": [8, 8], "depths": [1, 1], "layer_type": "bottleneck"}
    return made("ResNetModel", "ResNetConfig", "embedder.embedder.normalization", **settings), [images()]


@beast("BiT: normalised before the activation, standardised weights", truth=looking(Look("*.activation", units=1)))
def bit():
    settings = {"embedding_size": 8, "hidden_sizes": [8, 8], "depths": [1, 1], "num_groups": 2}
    return made("BitModel", "BitConfig", "encoder.stages.0.layers.0.norm2", **settings), [images()]


@beast("RegNet: squeeze and excitation", truth=looking(Look("*.activation", units=1), Look("*.attention.1", units=1)))
def regnet():
    settings = {"embedding_size": 8, "hidden_sizes": [8, 8], "depths": [1, 1], "groups_width": 4, "layer_type": "y"}
    return made("RegNetModel", "RegNetConfig", "encoder.stages.0.layers.0.layer.2.attention.0", **settings), [images()]


@beast(
    "EfficientNet",
    truth=looking(
        *(
            Look(f"*{name}", units=1)
            for name in (".depthwise_act", ".act_reduce", ".expand_act", "embeddings.activation", ".top_activation")
        )
    ),
)
def efficientnet():
    blocks = {"in_channels": [32, 32], "out_channels": [32, 32], "kernel_sizes": [3, 3], "strides": [1, 2]}
    more = {"num_block_repeats": [1, 1], "expand_ratios": [1, 2], "depthwise_padding": [], "depth_divisor": 4}
    sure = {"image_size": 16, "width_coefficient": 0.125, "depth_coefficient": 1.0, "hidden_dim": 160}
    return made(
        "EfficientNetModel", "EfficientNetConfig", dropout_rate=0.0, drop_connect_rate=0.0, **blocks, **more, **sure
    ), [images()]


@beast("MobileNet V2: ReLU6", truth=looking(Look("*.activation", units=1, ceiling=6.0)))
def mobilenet():
    sizes = {"depth_multiplier": 0.05, "min_depth": 4, "depth_divisible_by": 4, "image_size": 32}
    return exact(made("MobileNetV2Model", "MobileNetV2Config", **sizes), images(3, 32))


@beast(
    "MobileViT: patches folded into the batch",
    truth=looking(Look("*.activation", units=1), Look("*.intermediate_act_fn", rows=4)),
)
def mobilevit():
    sizes = {"image_size": 64, "hidden_sizes": [8, 8, 8], "neck_hidden_sizes": [4, 4, 4, 4, 4, 4, 8]}
    more = {"num_attention_heads": 2, "mlp_ratio": 1.0, "expand_ratio": 1.0, "classifier_dropout_prob": 0.0}
    return made("MobileViTModel", "MobileViTConfig", **sizes, **more, **SURE), [images(2, 64)]


@beast(
    "MobileViT V2: places of patches on two axes, a ReLU on part of a convolution",
    truth=looking(
        Look("*.activation", units=1),
        Look("*.attention.qkv_proj", units=1, after=True, cut=lambda z: z.split([1, 8, 8], 1)[2]),
    ),
)
def mobilevit2():
    sizes = {
        "image_size": 64,
        "width_multiplier": 0.0625,
        "base_attn_unit_dims": [64, 64, 64],
        "n_attn_blocks": [1, 1, 1],
    }
    sure = {"expand_ratio": 1.0, "attn_dropout": 0.0, "ffn_dropout": 0.0}
    return exact(made("MobileViTV2Model", "MobileViTV2Config", **sizes, **sure), images(2, 64))


@beast(
    "FocalNet: contexts of maps, tokens between",
    truth=looking(
        Look("*.focal_layers.?.1", units=1), Look("*.modulation.activation", units=1), Look("*.mlp.activation")
    ),
)
def focalnet():
    sizes = {"image_size": 16, "patch_size": 4, "embed_dim": 8, "hidden_sizes": [8, 8], "depths": [1, 1]}
    more = {"focal_levels": [1, 1], "focal_windows": [3, 3], "mlp_ratio": 2.0, "drop_path_rate": 0.0}
    return made("FocalNetModel", "FocalNetConfig", "encoder.stages.0.layers.0.mlp.fc1", **sizes, **more), [images()]


@beast(
    "LeViT: Hardswish on maps and on attention's outputs",
    truth=looking(Look("patch_embeddings.activation*", units=1), Look("encoder.*.activation")),
)
def levit():
    sizes = {"image_size": 32, "num_channels": 3, "hidden_sizes": [8, 8, 8], "num_attention_heads": [2, 1, 1]}
    more = {"depths": [1, 1, 1], "key_dim": [4, 4, 4], "mlp_ratio": [2, 2, 2], "attention_ratio": [2, 2, 2]}
    return exact(made("LevitModel", "LevitConfig", drop_path_rate=0, **sizes, **more), images(8, 32))


@beast(
    "ViTDet: windows, residual convolutions with norms of channels",
    truth=looking(Look("*.mlp.act"), Look("*.residual.act?", units=1)),
)
def vitdet():
    sizes = {"image_size": 16, "patch_size": 4, "window_size": 2, "num_hidden_layers": 2, "hidden_size": 8}
    where = {"window_block_indices": [0], "residual_block_indices": [1], "pretrain_image_size": 16, "mlp_ratio": 2}
    model = made(
        "VitDetModel",
        "VitDetConfig",
        "encoder.layer.0.mlp.fc1",
        num_attention_heads=2,
        hidden_act="relu",
        drop_path_rate=0.0,
        **sizes,
        **where,
    )
    return model, [images()]


@beast("TimeSformer: time and space folded in turns", truth=looking(Look("*.intermediate_act_fn")))
def timesformer():
    more = {"image_size": 16, "patch_size": 8, "num_frames": 2, "drop_path_rate": 0, "hidden_act": "relu"}
    model = made("TimesformerModel", "TimesformerConfig", "encoder.layer.0.intermediate.dense", **more, **SMALL, **SURE)
    return model, [{"pixel_values": torch.randn(4, 2, 3, 16, 16)}]


@beast("CLIP: two towers, quick GELU", truth=looking(Look("*.mlp.activation_fn")))
def clip():
    text = {
        "vocab_size": 20,
        "max_position_embeddings": 8,
        "eos_token_id": 2,
        "bos_token_id": 1,
        "projection_dim": 8,
        **SMALL,
    }
    seen = {"image_size": 16, "patch_size": 8, **SMALL}
    model = made(
        "CLIPModel",
        "CLIPConfig",
        "text_model.encoder.layers.0.mlp.fc1",
        text_config=text,
        vision_config=seen,
        projection_dim=8,
    )
    return model, [{**words(4, 4), **images()}]


YOLOS = {"image_size": [16, 16], "patch_size": 8, "num_detection_tokens": 3, "num_labels": 2, **SMALL, **SURE}


def _yolos(model: nn.Module, batch: Any) -> list[Layer]:
    heads = [
        Look(f"{head}.layers.{k}", after=True) for head in ("bbox_predictor", "class_labels_classifier") for k in (0, 1)
    ]
    return looked_at(model, batch, (Look("*.intermediate_act_fn"), *heads))


def boxes(n: int) -> list[dict[str, Tensor]]:
    """What a detector is to find in n images."""
    return [{"class_labels": torch.tensor([k % 2]), "boxes": torch.rand(1, 4) / 2 + 0.1} for k in range(n)]


@beast("YOLOS without labels", truth=_yolos)
def yolos():
    return made("YolosForObjectDetection", "YolosConfig", "bbox_predictor.layers.0", **YOLOS), [images()]


@beast("YOLOS with labels: the loss clamps the overlap of boxes", truth=_yolos)
def yolos_with_labels():
    model = made("YolosForObjectDetection", "YolosConfig", "bbox_predictor.layers.0", **YOLOS)
    return model, [{**images(), "labels": boxes(4)}]


def _detr(model: nn.Module, batch: Any) -> list[Layer]:
    heads = [Look(f"bbox_predictor.layers.{k}", after=True) for k in (0, 1)]
    return looked_at(model, batch, (Look("model.backbone.*.activation", units=1), Look("*.mlp.activation_fn"), *heads))


def _detector() -> nn.Module:
    transformers = import_module("transformers")
    backbone = transformers.ResNetConfig(
        embedding_size=4, hidden_sizes=[4, 4], depths=[1, 1], layer_type="basic", out_features=["stage2"]
    )
    settings = {**TRANSLATOR, "num_queries": 4, "num_labels": 2, "auxiliary_loss": False}
    return made(
        "DetrForObjectDetection",
        "DetrConfig",
        "model.encoder.layers.0.mlp.fc1",
        backbone_config=backbone,
        use_timm_backbone=False,
        backbone=None,
        **settings,
    )


@beast("DETR: maps, tokens, learned queries", truth=_detr)
def detr():
    return exact(_detector(), images(4, 32))


@beast("DETR with labels", truth=_detr)
def detr_with_labels():
    return calm(_detector()), [{**images(4, 32), "labels": boxes(4)}]


def _dpt(model: nn.Module, batch: Any) -> list[Layer]:
    maps = (Look("neck.fusion_stage.*.activation?", units=1), Look("head.head.[35]", units=1))
    return looked_at(model, batch, (Look("*.intermediate_act_fn"), Look("*.readout_projects.?.1"), *maps))


@beast("DPT: tokens made maps again", truth=_dpt)
def dpt():
    settings = {**SMALL, **SURE, "num_hidden_layers": 4, "image_size": 16, "patch_size": 8, "fusion_hidden_size": 4}
    more = {"backbone_out_indices": [0, 1, 2, 3], "neck_hidden_sizes": [4, 4, 8, 8]}
    return warm(made("DPTForDepthEstimation", "DPTConfig", **settings, **more), images(3))


def _sam(model: nn.Module, batch: Any) -> list[Layer]:
    feeds = (Look("vision_encoder.layers.*.mlp.act"), Look("mask_decoder.transformer.layers.*.mlp.act"))
    heads = (Look("*.output_hypernetworks_mlps.?.activation"), Look("*.iou_prediction_head.activation"))
    return looked_at(model, batch, (*feeds, *heads, Look("mask_decoder.activation", units=1)))


@beast("SAM: an image and its prompts", truth=_sam)
def sam():
    seen = {"hidden_size": 8, "num_hidden_layers": 1, "num_attention_heads": 2, "image_size": 16, "patch_size": 4}
    seen |= {"output_channels": 8, "window_size": 2, "global_attn_indexes": [0], "mlp_dim": 8, "num_pos_feats": 4}
    asked = {"hidden_size": 8, "image_size": 16, "patch_size": 4, "mask_input_channels": 4, "num_point_embeddings": 4}
    told = {"hidden_size": 8, "mlp_dim": 8, "num_hidden_layers": 1, "num_attention_heads": 2, "iou_head_hidden_dim": 8}
    model = made(
        "SamModel",
        "SamConfig",
        "vision_encoder.layers.0.mlp.lin1",
        vision_config={**seen, "hidden_act": "relu"},
        prompt_encoder_config=asked,
        mask_decoder_config={**told, "iou_head_depth": 2},
    )
    return model, [{**images(), "input_points": torch.rand(4, 1, 2, 2) * 16}]


def _superpoint(model: nn.Module, batch: Any, together: bool) -> list[Layer]:
    layers = looked_at(model, batch, (Look("encoder.conv_blocks.?.relu", units=1),))
    with hooked(model, "*_decoder.relu", inputs=True) as seen:  # once for every image
        run(model, batch)
    calls = Counter[str]()
    for name, z in seen:
        point = torch.full((1, 1, 1, 1), calls[name])
        calls[name] += 1
        layers.append(Layer(z, point, along(z, 1), name=name if together else f"{name}#{calls[name]}"))
    return layers


@beast(
    "SuperPoint: in place, and its heads run image by image",
    truth=partial(_superpoint, together=False),
    others=(partial(_superpoint, together=True),),
)
def superpoint():
    settings = {"encoder_hidden_sizes": [4, 4, 8], "decoder_hidden_size": 8, "descriptor_decoder_dim": 8}
    return made("SuperPointForKeypointDetection", "SuperPointConfig", "keypoint_decoder.conv_score_a", **settings), [
        images(3, 32)
    ]


def _rt_detr(model: nn.Module, batch: Any, clamped: bool) -> list[Layer]:
    heads = [Look(f"model.enc_bbox_head.layers.{k}", after=True) for k in (0, 1)]
    heads += [Look(f"model.decoder.bbox_embed.0.layers.{k}", after=True) for k in (0, 1)]
    heads.append(Look("model.decoder.query_pos_head.layers.0", after=True))
    given = []
    handle = model.model.decoder.register_forward_pre_hook(
        lambda _, args, kwargs: given.append(kwargs), with_kwargs=True
    )
    layers = looked_at(model, batch, (Look("*.activation", units=1), Look("*.mlp.activation_fn"), *heads))
    handle.remove()
    if clamped:  # a sigmoid, clamped before it is undone
        z = given[0]["reference_points"].sigmoid()
        layers.append(Layer(z, along(z, 0), along(z, 2), ceiling=1.0, name="places"))
    return layers


@beast(
    "RT-DETR: queries are the best of the tokens",
    truth=partial(_rt_detr, clamped=True),
    others=(partial(_rt_detr, clamped=False),),
)
def rt_detr():
    transformers = import_module("transformers")
    stages = {"out_features": ["stage2", "stage3", "stage4"], "out_indices": [2, 3, 4]}
    backbone = transformers.RTDetrResNetConfig(
        embedding_size=8, hidden_sizes=[8, 8, 8, 8], depths=[1, 1, 1, 1], layer_type="basic", **stages
    )
    settings = {**TRANSLATOR, "encoder_hidden_dim": 8, "encoder_in_channels": [8, 8, 8], "num_queries": 4}
    more = {"num_denoising": 0, "num_labels": 2, "decoder_in_channels": [8, 8, 8], "decoder_n_points": 2}
    model = made(
        "RTDetrForObjectDetection",
        "RTDetrConfig",
        "model.decoder.layers.0.mlp.fc1",
        backbone_config=backbone,
        use_timm_backbone=False,
        backbone=None,
        hidden_expansion=0.5,
        **settings,
        **more,
    )
    return exact(model, images(2, 64))


# Sound and series


@beast(
    "wav2vec 2: convolutions, a convolution for places, tokens",
    truth=looking(
        Look("feature_extractor.*.activation", units=1),
        Look("*.pos_conv_embed.activation", units=1),
        Look("*.intermediate_act_fn"),
    ),
)
def wav2vec2():
    model = made(
        "Wav2Vec2Model",
        "Wav2Vec2Config",
        "encoder.layers.0.feed_forward.intermediate_dense",
        feat_extract_norm="group",
        **SPEECH,
        **UNMASKED,
        **SMALL,
    )
    return without_chance(model), [{"input_values": torch.randn(7, 32)}]


@beast(
    "HuBERT: channels normalised between two turns, T = C = N",
    truth=looking(
        Look("feature_extractor.*.activation", units=1),
        Look("*.pos_conv_embed.activation", units=1),
        Look("*.intermediate_act_fn"),
    ),
)
def hubert():
    more = {"feat_extract_norm": "layer", "feat_extract_activation": "relu", "hidden_act": "relu"}
    return without_chance(made("HubertModel", "HubertConfig", **more, **SPEECH, **UNMASKED, **SMALL)), [
        {"input_values": torch.randn(8, 36)}
    ]


@beast(
    "SEW: squeezed in time, blown up again",
    truth=looking(
        Look("feature_extractor.*.activation", units=1),
        Look("*.pos_conv_embed.activation", units=1),
        Look("*.intermediate_act_fn"),
        Look("*.upsample.activation"),
    ),
)
def sew():
    return without_chance(made("SEWModel", "SEWConfig", squeeze_factor=2, **SPEECH, **UNMASKED, **SMALL)), [
        {"input_values": torch.randn(4, 35)}
    ]


@beast(
    "Wav2Vec2-BERT: a Conformer",
    truth=looking(Look("*.intermediate_act_fn"), Look("*.conv_module.activation", units=1)),
)
def wav2vec2_bert():
    settings = {"feature_projection_input_dim": 8, "conv_depthwise_kernel_size": 3, "conformer_conv_dropout": 0.0}
    return without_chance(
        made(
            "Wav2Vec2BertModel",
            "Wav2Vec2BertConfig",
            "encoder.layers.0.ffn1.intermediate_dense",
            **settings,
            **UNMASKED,
            **SMALL,
        )
    ), [{"input_features": torch.randn(8, 8, 8)}]


@beast(
    "Whisper: GELU called on convolutions, N = C = T",
    truth=looking(
        Look("encoder.conv1", units=1, after=True), Look("encoder.conv2", units=1, after=True), Look("*.activation_fn")
    ),
)
def whisper():
    settings = {**TRANSLATOR, "vocab_size": 20, "num_mel_bins": 8, "max_source_positions": 8, "max_target_positions": 8}
    model = made("WhisperModel", "WhisperConfig", "encoder.conv1", **settings, **TOKENS)
    return model, [{"input_features": torch.randn(8, 8, 16), "decoder_input_ids": torch.randint(3, 20, (8, 3))}]


def _univnet(model: nn.Module, batch: Any) -> list[Layer]:
    blocks = (Look("resblocks.?", units=1), Look("resblocks.?.resblocks.?", units=1))
    convs = ("*.kernel_predictor.input_conv", "*.kernel_predictor.resblocks.?.conv[12]", "resblocks.?.resblocks.?.conv")
    inner = [Look(name, units=1, after=True) for name in convs]
    return looked_at(model, batch, (*blocks, *inner, Look("conv_post", units=1)))


def _univnet_truth(model: nn.Module, batch: Any) -> list[Layer]:
    """Of conv_post the activated input is seen; leaky as it is, what it was can be told."""
    layers = _univnet(model, batch)
    last = layers[-1].z
    return [*layers[:-1], Layer(torch.where(last > 0, last, last / 0.2), along(last, 0), along(last, 1))]


@beast("UnivNet: every place of every point is convolved with weights of its own", truth=_univnet_truth)
def univnet():
    sizes = {
        "model_in_channels": 4,
        "model_hidden_channels": 4,
        "num_mel_bins": 4,
        "kernel_predictor_hidden_channels": 4,
    }
    blocks = {"resblock_kernel_sizes": [3], "resblock_stride_sizes": [2], "resblock_dilation_sizes": [[1, 2]]}
    model = made(
        "UnivNetModel",
        "UnivNetConfig",
        "resblocks.0.kernel_predictor.input_conv",
        kernel_predictor_num_blocks=1,
        **sizes,
        **blocks,
    )
    return model, [{"input_features": torch.randn(4, 4, 4), "noise_sequence": torch.randn(4, 4, 4)}]


def _encodec(model: nn.Module, batch: Any) -> list[Layer]:
    names = [name for name, module in model.named_modules() if isinstance(module, nn.ELU)]
    return looked_at(model, batch, tuple(Look(name, units=1, cutoff=ELU) for name in names))


@beast("EnCodec: the decoder sees codes, which are whole numbers", truth=_encodec)
def encodec():
    sizes = {"num_filters": 4, "hidden_size": 8, "codebook_size": 8, "codebook_dim": 8, "num_residual_layers": 1}
    more = {"upsampling_ratios": [2], "num_lstm_layers": 1, "kernel_size": 3, "last_kernel_size": 3}
    model = made("EncodecModel", "EncodecConfig", target_bandwidths=[1.5], sampling_rate=16, **sizes, **more)
    return model, [{"input_values": torch.randn(3, 1, 16)}]


def series() -> dict[str, Tensor]:
    """A batch of time series."""
    past, future = {"past_values": torch.randn(4, 9)}, {"future_values": torch.randn(4, 4)}
    past |= {"past_time_features": torch.randn(4, 9, 1), "past_observed_mask": torch.ones(4, 9)}
    return past | future | {"future_time_features": torch.randn(4, 4, 1)}


SERIES = {"prediction_length": 4, "context_length": 8, "lags_sequence": [1], "num_time_features": 1}
KEPT = {"encoder_layerdrop": 0, "decoder_layerdrop": 0}


@beast("Autoformer: series taken apart, delays picked over the batch", truth=looking(Look("*.activation_fn")))
def autoformer():
    model = made(
        "AutoformerModel",
        "AutoformerConfig",
        "encoder.layers.0.fc1",
        moving_average=3,
        label_length=4,
        **SERIES,
        **TRANSLATOR,
        **KEPT,
    )
    return model, [series()]


@beast(
    "Informer: distilled by convolutions between turns",
    truth=looking(Look("*.activation_fn"), Look("encoder.conv_layers.?.activation", units=1, cutoff=ELU)),
)
def informer():
    settings = {**TRANSLATOR, "encoder_layers": 2, "attention_type": "full"}
    return made("InformerModel", "InformerConfig", **SERIES, **settings, **KEPT), [series()]


@beast("PatchTST: channels folded into the batch", truth=looking(Look("encoder.layers.?.ff.1", rows=4)))
def patchtst():
    sizes = {
        "num_input_channels": 4,
        "context_length": 8,
        "patch_length": 2,
        "patch_stride": 2,
        "d_model": 8,
        "ffn_dim": 8,
    }
    more = {"num_hidden_layers": 1, "num_attention_heads": 2, "do_mask_input": False, "activation_function": "relu"}
    model = made("PatchTSTModel", "PatchTSTConfig", "encoder.layers.0.ff.0", norm_type="layernorm", **sizes, **more)
    return model, [{"past_values": torch.randn(4, 8, 4)}]


@beast("PatchTSMixer: channels, patches and features mixed in turn", truth=looking(Look("*.mlp.fc1", after=True)))
def patchtsmixer():
    sizes = {"context_length": 8, "patch_length": 2, "patch_stride": 2, "num_input_channels": 4, "d_model": 4}
    more = {"num_layers": 1, "dropout": 0.0, "mode": "mix_channel", "expansion_factor": 1}
    planted = "encoder.mlp_mixer_encoder.mixers.0.patch_mixer.mlp.fc1"
    return made("PatchTSMixerModel", "PatchTSMixerConfig", planted, **sizes, **more), [
        {"past_values": torch.randn(4, 8, 4)}
    ]
