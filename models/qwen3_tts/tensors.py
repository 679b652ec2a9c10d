"""The tensors of all networks, without torch.

The main weight file has talker and code predictor, in a Base checkpoint also the speaker encoder.
In the speech tokenizer's, `decoder.*` are the vocoder's and `encoder.*` the speech encoder's.

The vocoder's Snakes are SnakeBetas of exponentials. An entry of a codebook is stored as a sum and a
usage; each quantizer's output projection makes K tables of them, to gather from and sum. The
quantizers' input projections serve encoding only; they are optional, and not used.
"""

from __future__ import annotations

from collections.abc import Sequence

from models.checkpoint.table import Table
from models.decoder.tensors import LayerNames, add_layers
from models.qwen3_tts.config import (
    Qwen3TTSConfig,
    SpeakerConfig,
    SpeechEncoderConfig,
    VocoderConfig,
)
from models.vocoder.sizes import PRE_KERNEL
from models.vocoder.tensors import CodecTable

LAYER = LayerNames(
    qkv=("self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj"),
    o="self_attn.o_proj",
    gate_up=("mlp.gate_proj", "mlp.up_proj"),
    down="mlp.down_proj",
    input_norm="input_layernorm",
    post_norm="post_attention_layernorm",
    q_norm="self_attn.q_norm",
    k_norm="self_attn.k_norm",
    scales=("self_attn_layer_scale.scale", "mlp_layer_scale.scale"),
)

QUANTIZER = "decoder.quantizer.rvq_"
UNUSED = (f"{QUANTIZER}first.input_proj.weight", f"{QUANTIZER}rest.input_proj.weight")
SPEAKER = "speaker_encoder"


def network_table(config: Qwen3TTSConfig) -> Table:
    width, narrow, text = config.talker.width, config.predictor.width, config.text_width
    table, theirs, ours = Table(), "talker.model", "talker"
    rows = config.text_vocab_size, config.vocab_size
    table.keep(f"{theirs}.text_embedding.weight", f"{ours}.text_embedding.weight", rows[0], text)
    table.keep(f"{theirs}.codec_embedding.weight", f"{ours}.codec_embedding.weight", rows[1], width)
    table.keep("talker.codec_head.weight", f"{ours}.head.weight", rows[1], width)
    table.affine("talker.text_projection.linear_fc1", "talker.text_fc1", text, text)
    table.affine("talker.text_projection.linear_fc2", "talker.text_fc2", width, text)
    add_layers(table, f"{theirs}.", "talker.decoder", config.talker, LAYER)

    theirs, ours = "talker.code_predictor", "predictor"
    add_layers(table, f"{theirs}.model.", f"{ours}.decoder", config.predictor, LAYER)
    for name, tables, size in (
        ("model.codec_embedding", "embeddings", width),
        ("lm_head", "heads", narrow),
    ):
        books = [
            table.hold(f"{theirs}.{name}.{index}.weight", config.predictor_vocab_size, size)
            for index in range(config.num_codebooks - 1)
        ]
        table.make(f"{ours}.{tables}.weight", "stack", *books)
    if width != narrow:
        table.affine(f"{theirs}.small_to_mtp_projection", f"{ours}.projection", narrow, width)
    return table


def speaker_table(config: SpeakerConfig) -> Table:
    """Return the tensors of the speaker encoder; our names lack the first word."""
    table, channels, last = Table(), config.channels, config.channels[-1]

    def conv(name: str, inputs: int, outputs: int, kernel: int = 1) -> None:
        table.affine(f"{SPEAKER}.{name}", name, outputs, inputs, kernel)

    conv("blocks.0.conv", config.num_mels, channels[0], config.kernels[0])
    for index, width in enumerate(channels[1:-1], 1):
        block, part = f"blocks.{index}", width // config.scale
        conv(f"{block}.tdnn1.conv", width, width)
        for branch in range(config.scale - 1):
            kernel = config.kernels[index]
            conv(f"{block}.res2net_block.blocks.{branch}.conv", part, part, kernel)
        conv(f"{block}.tdnn2.conv", width, width)
        conv(f"{block}.se_block.conv1", width, config.squeeze_width)
        conv(f"{block}.se_block.conv2", config.squeeze_width, width)
    conv("mfa.conv", last, last, config.kernels[-1])
    conv("asp.tdnn.conv", 3 * last, config.attention_width)
    conv("asp.conv", config.attention_width, last)
    conv("fc", 2 * last, config.width)
    return table


class VocoderTable(CodecTable):
    UNIT = ("act1", "conv1.conv", "act2", "conv2.conv")

    def snake(self, theirs: str, ours: str, channels: int, stream: Sequence[str]) -> None:
        """Add a Snake of x and the sum of the biases `stream`."""
        self.make(f"{ours}.alpha_exp", "exp", self.hold(f"{theirs}.alpha", channels))
        self.make(f"{ours}.inv_beta", "inverse_exp", self.hold(f"{theirs}.beta", channels))
        self.make(f"{ours}.bias", "total", *stream)


def vocoder_table(config: VocoderConfig) -> CodecTable:
    table, code, latent = VocoderTable(spare=set(UNUSED)), config.codebook_dim, config.latent_dim
    parts: list[str] = []
    # That one codebook is semantic is fixed in the official code.
    for name, count in (("first", 1), ("rest", config.num_codebooks - 1)):
        split = f"{QUANTIZER}{name}"
        projection = table.hold(f"{split}.output_proj.weight", code, code // 2, 1)
        for index in range(count):
            book = f"{split}.vq.layers.{index}._codebook"
            parts.append(table.hold(f"{book}.cluster_usage", config.semantic_codes))
            parts.append(table.hold(f"{book}.embedding_sum", config.semantic_codes, code // 2))
            parts.append(projection)
    table.make("codebooks", "averaged_tables", *parts)
    table.conv("decoder.pre_conv.conv", "pre_conv", "columns", latent, code, PRE_KERNEL)
    theirs, ours = "decoder.pre_transformer", "pre_transformer"
    table.affine(f"{theirs}.input_proj", f"{ours}.input_proj", config.frames.width, latent)
    table.affine(f"{theirs}.output_proj", f"{ours}.output_proj", latent, config.frames.width)
    add_layers(table, f"{theirs}.", ours, config.frames, LAYER, has_scales=True)
    table.upsample("decoder.upsample", config)
    table.decoder("decoder.decoder", config)
    return table


def encoder_table(config: SpeechEncoderConfig) -> Table:
    table, channels, steps = Table(), config.num_filters, config.steps
    theirs, width = "encoder.encoder.layers", steps.width
    table.affine(f"{theirs}.0.conv", "first", channels, 1, config.kernel)
    for index, stride in enumerate(config.strides):
        place, new = 3 * index + 1, f"stages.{index}"  # block, activation, convolution
        inner, block = channels // config.compress, f"{theirs}.{place}.block"
        table.affine(f"{block}.1.conv", f"{new}.inner1", inner, channels, config.residual_kernel)
        table.affine(f"{block}.3.conv", f"{new}.inner2", channels, inner, 1)
        shape = 2 * channels, channels, 2 * stride
        table.affine(f"{theirs}.{place + 2}.conv", f"{new}.down", *shape)
        channels *= 2
    last = 3 * len(config.strides) + 2
    table.affine(f"{theirs}.{last}.conv", "last", width, channels, config.last_kernel)
    queries, keys = steps.num_heads * steps.head_dim, steps.num_kv_heads * steps.head_dim
    for index in range(steps.num_layers):
        old, new = f"encoder.encoder_transformer.layers.{index}", f"layers.{index}"
        for name, part, *sizes in (
            ("self_attn.q_proj.weight", "q", queries, width),
            ("self_attn.k_proj.weight", "k", keys, width),
            ("self_attn.v_proj.weight", "v", keys, width),
            ("self_attn.o_proj.weight", "o", width, queries),
            ("mlp.fc1.weight", "widen", steps.mlp_width, width),
            ("mlp.fc2.weight", "narrow", width, steps.mlp_width),
            (LAYER.scales[0], "attention_scale", width),
            (LAYER.scales[1], "mlp_scale", width),
        ):
            table.keep(f"{old}.{name}", f"{new}.{part}.weight", *sizes)
        table.affine(f"{old}.{LAYER.input_norm}", f"{new}.input_norm", width)
        table.affine(f"{old}.{LAYER.post_norm}", f"{new}.post_norm", width)
    shape = width, width, config.halving_kernel
    table.keep("encoder.downsample.conv.weight", "halve.weight", *shape)
    code = config.codebook_dim
    parts: list[str] = []
    for part, count in (("semantic", 1), ("acoustic", config.num_stored_codebooks - 1)):
        split = f"encoder.quantizer.{part}_residual_vector_quantizer"
        table.keep(f"{split}.input_proj.weight", f"{part}.weight", code, width, 1)
        table.spare.add(f"{split}.output_proj.weight")
        for index in range(count):
            book = f"{split}.layers.{index}.codebook"
            table.spare.add(f"{book}.initialized")
            names = f"{book}.cluster_usage", f"{book}.embed_sum"
            if len(parts) == 2 * config.num_codebooks:
                table.spare.update(names)
                continue
            parts.append(table.hold(names[0], config.codebook_size))
            parts.append(table.hold(names[1], config.codebook_size, code))
    table.make("codebooks.weight", "averages", *parts)
    return table
