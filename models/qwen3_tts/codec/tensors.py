"""The vocoder's tensors, `decoder.*` of the speech tokenizer. Without torch.

Its Snakes are SnakeBetas of exponentials. An entry of a codebook is stored as a sum and a usage;
each quantizer's output projection makes K tables of them, to gather from and sum. The quantizers'
input projections serve encoding only; they may be there or not, and are not used.
"""

from __future__ import annotations

from collections.abc import Sequence

from models.checkpoint.files import Shapes, check_shapes
from models.decoder.tensors import add_layers
from models.qwen3_tts.codec.vocoder_config import VocoderConfig
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
    table, code, latent = VocoderTable(), config.codebook_dim, config.latent_dim
    parts: list[str] = []
    # That one codebook is semantic is fixed in the official code.
    for name, count in (("first", 1), ("rest", config.num_codebooks - 1)):
        split = f"{QUANTIZER}{name}"
        projection = table.hold(f"{split}.output_proj.weight", code, code // 2, 1)
        for index in range(count):
            book = f"{split}.vq.layers.{index}._codebook"
            parts.append(table.hold(f"{book}.cluster_usage", config.codebook_size))
            parts.append(table.hold(f"{book}.embedding_sum", config.codebook_size, code // 2))
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


def check_tensors(config: VocoderConfig, shapes: Shapes) -> None:
    """Raise CheckpointError with every missing, unexpected or misshapen tensor by name."""
    needed = {name: shape for name, shape in shapes.items() if name not in UNUSED}
    check_shapes(needed, vocoder_table(config).shapes, "speech tokenizer")
