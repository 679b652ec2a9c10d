"""The tensors of talker, code predictor and codec, without torch.

Of both heads only the rows that can be drawn are loaded (`model.py`). Convolutions of the codec's
encoder and decoder and the quantizer's projections are stored under weight norm. Its Snake is
sin^2(alpha x) / (alpha + 1e-9): SnakeBeta with beta = alpha and no exponential.

Source: the released `codec.pth` of Fish S2 Pro as recorded by others (names, shapes, six stale
tables), and the module tree of fish-speech 0.1.0 (Fish Audio, Apache-2.0), which has the same 535
parameters.
"""

from __future__ import annotations

from collections.abc import Sequence

from models.checkpoint.files import Shapes
from models.checkpoint.table import Table
from models.decoder.tensors import LayerNames, add_layers
from models.dual_ar.config import CodecConfig, DualARConfig
from models.vocoder.sizes import DILATIONS, KERNEL
from models.vocoder.tensors import DIRECTION, LENGTH, OLD_DIRECTION, OLD_LENGTH, CodecTable

# Tables of RoPE and attention that the official code saves too; computed here if needed.
STALE = ("freqs_cis", "causal_mask")
LAST_KERNEL = 3  # of the encoder's last convolution
LAYER = LayerNames(
    qkv=("attention.wqkv",),
    o="attention.wo",
    gate_up=("feed_forward.w1", "feed_forward.w3"),
    down="feed_forward.w2",
    input_norm="attention_norm",
    post_norm="ffn_norm",
    q_norm="attention.q_norm",
    k_norm="attention.k_norm",
    scales=("attention_layer_scale.gamma", "ffn_layer_scale.gamma"),
    is_interleaved=True,
)


def network_table(config: DualARConfig) -> Table:
    table, codes, narrow = Table(), config.codebook_size, config.predictor.width
    width, count, names = config.talker.width, config.num_codebooks, config.names
    text = table.hold(f"{names.talker}embeddings.weight", config.text_vocab_size, width)
    table.make("talker.text_embedding.weight", "rows", text)
    drawn = (config.semantic_start, codes, config.end)
    table.make("talker.head.weight", "range_and_one", text, numbers=drawn)
    books = table.hold(names.codebooks, count * codes, width)
    table.make("talker.code_embedding.weight", "split", books, numbers=(count,))
    table_of_all = table.hold(f"{names.predictor}embeddings.weight", codes, narrow)
    table.make("predictor.embeddings.weight", "split", table_of_all, numbers=(1,))
    head = table.hold(f"{names.predictor}output.weight", codes, narrow)
    table.make("predictor.heads.weight", "first_rows", head, numbers=(config.num_rest_codes,))
    add_layers(table, names.talker, "talker.decoder", config.talker, LAYER)
    add_layers(table, names.predictor, "predictor.decoder", config.predictor, LAYER)
    return table


class DACTable(CodecTable):
    """A part of the codec's tensors; recipes use their names without weight norm."""

    UNIT = ("block.0", "block.1.conv", "block.2", "block.3.conv")

    def snake(self, theirs: str, ours: str, channels: int, stream: Sequence[str]) -> None:
        """Add a Snake of x and the sum of the biases `stream`."""
        alpha = self.hold(f"{theirs}.alpha", 1, channels, 1)
        self.make(f"{ours}.alpha_exp", "flat", alpha)
        self.make(f"{ours}.inv_beta", "inverse", alpha)
        way, sources = ("total", stream) if stream else ("nothing", [alpha])
        self.make(f"{ours}.bias", way, *sources)

    def hold_conv(self, theirs: str, *shape: int, outputs: int | None = None) -> None:
        """Add a convolution's length, direction and bias."""
        self.hold(f"{theirs}.{LENGTH}", shape[0], 1, 1)
        self.hold(f"{theirs}.{DIRECTION}", *shape)
        self.hold(f"{theirs}.bias", outputs or shape[0])

    def books(self, config: CodecConfig) -> list[str]:
        """Add the codebooks, which both ways need. Return the name of each."""
        books = [f"quantizer.quantizer.quantizers.{k}" for k in range(config.num_codebooks - 1)]
        books = ["quantizer.semantic_quantizer.quantizers.0", *books]
        inside, latent = config.code_dim, config.latent_dim
        for book, size in zip(books, config.codebook_sizes, strict=True):
            for part, shape in (("in_proj", (inside, latent)), ("out_proj", (latent, inside))):
                self.hold(f"{book}.{part}.{OLD_LENGTH}", shape[0], 1, 1)
                self.hold(f"{book}.{part}.{OLD_DIRECTION}", *shape, 1)
                self.hold(f"{book}.{part}.bias", shape[0])
            self.hold(f"{book}.codebook.weight", size, inside)
        parts = ("codebook.weight", "out_proj.weight", "out_proj.bias")
        self.make("codebooks", "code_tables", *(f"{book}.{p}" for book in books for p in parts))
        return books


def decoder_table(config: CodecConfig) -> DACTable:
    table = DACTable()
    table.books(config)
    post = "quantizer.post_module."
    add_layers(table, post, "transformer", config.frames, LAYER, has_scales=True)
    table.upsample("quantizer.upsample", config)
    table.decoder("decoder.model", config)
    return table


def encoder_table(config: CodecConfig) -> DACTable:
    table, channels, latent = DACTable(), config.encoder_dim, config.latent_dim
    table.conv("encoder.block.0.conv", "first_conv", "columns", channels, 1, KERNEL)
    units = len(DILATIONS)
    for index, stride in enumerate(config.encoder_strides):
        old, new = f"encoder.block.{index + 1}.block", f"blocks.{index}"
        stream = table.units(old, 0, new, channels, [])
        table.snake(f"{old}.{units}", f"{new}.snake", channels, stream)
        shape = (2 * channels, channels, 2 * stride)
        table.conv(f"{old}.{units + 1}.conv", f"{new}.down", "grouped_taps", *shape, stride=stride)
        channels *= 2
    last = len(config.encoder_strides)
    # It is the last part of the last block.
    steps = f"encoder.block.{last}.block.{units + 2}."
    add_layers(table, steps, "steps", config.steps, LAYER, has_scales=True)
    table.snake(f"encoder.block.{last + 1}", "last_snake", channels, [])
    shape = (latent, channels, LAST_KERNEL)
    table.conv(f"encoder.block.{last + 2}.conv", "last_conv", "columns", *shape)
    books = table.books(config)
    for ours, way, part in (
        ("directions", "directions", "codebook.weight"),
        ("in_weights", "pointwise", "in_proj.weight"),
        ("in_biases", "stack", "in_proj.bias"),
    ):
        table.make(ours, way, *(f"{book}.{part}" for book in books))
    pre = "quantizer.pre_module."
    add_layers(table, pre, "frames", config.encoded, LAYER, has_scales=True)
    for index, ratio in enumerate(reversed(config.upsampling_ratios)):
        old, new = f"quantizer.downsample.{index}", f"downsample.{index}"
        table.hold_affine(f"{old}.0.conv", latent, latent, ratio)
        table.make(f"{new}.reduce.weight", "one_step", f"{old}.0.conv.weight")
        table.make(f"{new}.reduce.bias", "rows", f"{old}.0.conv.bias")
        table.convnext(f"{old}.1", new, latent)
    return table


def official_shapes(config: CodecConfig) -> Shapes:
    return encoder_table(config).shapes | decoder_table(config).shapes
