"""The speech tokenizer's tensors: `decoder.*` are the vocoder's, `encoder.*` the speech encoder's.
Without torch.

The vocoder's Snakes are SnakeBetas of exponentials. An entry of a codebook is stored as a sum and a
usage; each quantizer's output projection makes K tables of them, to gather from and sum. The
quantizers' input projections serve encoding only; they may be there or not, and are not used.
"""

from __future__ import annotations

from collections.abc import Sequence

from models.checkpoint.table import Table
from models.decoder.tensors import add_layers
from models.qwen3_tts.codec.config import SpeechEncoderConfig, VocoderConfig
from models.qwen3_tts.tensors import LAYER
from models.vocoder.sizes import PRE_KERNEL
from models.vocoder.tensors import CodecTable

QUANTIZER = "decoder.quantizer.rvq_"
UNUSED = (f"{QUANTIZER}first.input_proj.weight", f"{QUANTIZER}rest.input_proj.weight")


class VocoderTable(CodecTable):
    """Tensors of the speech tokenizer's decoder."""

    UNIT = ("act1", "conv1.conv", "act2", "conv2.conv")

    def snake(self, theirs: str, ours: str, channels: int, stream: Sequence[str]) -> None:
        """A Snake of x and the sum of the biases `stream`."""
        self.make(f"{ours}.alpha_exp", "exp", self.hold(f"{theirs}.alpha", channels))
        self.make(f"{ours}.inv_beta", "inverse_exp", self.hold(f"{theirs}.beta", channels))
        self.make(f"{ours}.bias", "total", *stream)


def vocoder_table(config: VocoderConfig) -> CodecTable:
    """Every tensor that the vocoder needs."""
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
    add_layers(table, theirs, ours, config.frames, LAYER, has_scales=True)
    table.upsample("decoder.upsample", config)
    table.decoder("decoder.decoder", config)
    return table


def encoder_table(config: SpeechEncoderConfig) -> Table:
    """Every tensor of the speech encoder, `encoder.*` of the speech tokenizer."""
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
