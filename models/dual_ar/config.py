"""Configuration of a dual-AR model and of its codec, under our names.

A family reads its own `config.json` into a `DualARConfig`. The sizes of the codec are in
`codec.json`, which `tts-cli models convert` writes next to the converted weights: the released
checkpoints have only `codec.pth`, without any description.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from models.checkpoint.config import Factors, Section, Size
from models.checkpoint.files import CheckpointError
from models.decoder.config import FamilyConfig, TransformerConfig
from models.sampling import Sampling
from models.vocoder.sizes import LANE_FRAMES, DecoderSizes

WEIGHTS_FILE, CONFIG_FILE, PICKLED_FILE = "codec.safetensors", "codec.json", "codec.pth"
SOURCE_BYTES = "source_bytes"  # a note of a converted file: the size of its source
CODEC_STACK = {"has_qk_norm": False, "rounds_rope": True, "has_qkv_bias": False}
# The order of fields in codec.json, whose bytes are part of a checkpoint's identity: a codec that
# is converted again must have the same.
_JSON_ORDER = (
    "sample_rate_hz num_codebooks semantic_codes residual_codes code_dim latent_dim frames "
    "upsampling_ratios decoder_dim upsample_rates encoder_dim encoder_strides steps encoder_frames "
    "width mlp_width num_layers num_kv_heads head_dim window max_positions rope_theta norm_eps"
)
STACK_NAMES = {"max_positions": "max_steps"}  # in codec.json


class TensorNames(NamedTuple):
    talker: str  # of layers, the last norm and the text embedding
    predictor: str  # of layers, the last norm, the embedding and the head
    codebooks: str  # the whole name of the embeddings of a frame's codes


class RecentCodes(NamedTuple):
    """The rule by which a first code is drawn again if recent codes contain it."""

    num_codes: int = 10  # that it is compared with
    temperature: float = 1.0
    top_p: float = 0.9


@dataclass(frozen=True)
class DualARConfig(FamilyConfig):
    """Everything in `config.json` that inference needs."""

    text_vocab_size: Size
    codebook_size: Size  # of the first codebook; rows of each table and of the predictor's head
    semantic_start: int  # text id of first code 0; the others follow
    end: int  # text id that ends speech
    names: TensorNames
    sampling: Sampling  # the checkpoint's defaults
    recent: RecentCodes = field(default=RecentCodes())
    divides_sum: bool = False  # a frame's embedding, by sqrt(K + 1)
    num_rest_codes: int = 0  # of each further codebook, as the predictor's head has them

    def __post_init__(self) -> None:
        last = self.semantic_start + self.codebook_size - 1
        if max(last, self.end) >= self.text_vocab_size:
            raise ValueError(
                f"an id of {max(last, self.end)}, but the vocabulary has {self.text_vocab_size} ids"
            )
        if self.semantic_start <= self.end <= last:
            raise ValueError(f"eos_token_id {self.end} is a semantic id")
        if self.predictor.width != self.talker.width:
            raise ValueError(
                f"the code predictor's width {self.predictor.width} differs from the talker's "
                f"{self.talker.width}; a projection between them is not supported"
            )
        if self.predictor.max_positions < self.num_codebooks:
            raise ValueError("the code predictor has fewer positions than codebooks")

    @property
    def eos(self) -> int:
        """The id of end of speech among the talker's logits: after the first codes."""
        return self.codebook_size

    @property
    def max_frames(self) -> int:
        """Frames of a row by default; the prompt needs positions too."""
        return self.talker.max_positions // 2


@dataclass(frozen=True)
class CodecConfig(DecoderSizes):
    """Sizes of encoder, quantizer and decoder.

    Source of the released sizes: `modded_dac_vq.yaml` and `modded_dac.py` of fish-speech 0.1.0
    (Fish Audio, Apache-2.0); number and shapes of the tensors agree with the released file of S2
    Pro (535; 391,430,530 weights).
    """

    code_dim: Size  # width of an entry
    encoder_dim: Size  # channels of the encoder's first convolution; every block doubles them
    encoder_strides: Factors  # one encoder block each
    steps: TransformerConfig  # of the last encoder block
    encoder_frames: TransformerConfig | None = None  # after all blocks; None: as `frames`

    def __post_init__(self) -> None:
        super().__post_init__()
        taken = math.prod(self.encoder_strides) * math.prod(self.upsampling_ratios)
        if taken != self.samples_per_frame:
            raise ValueError(
                f"the encoder takes {taken} samples a frame, the decoder makes "
                f"{self.samples_per_frame}"
            )
        if self.frames.max_positions < LANE_FRAMES:
            raise ValueError(
                f"'frames' is made for {self.frames.max_positions} steps, at least {LANE_FRAMES} "
                "are needed"
            )
        for name, width in (
            ("the encoder's last width", self.encoder_dim << len(self.encoder_strides)),
            ("the width of 'frames'", self.frames.width),
            ("the width of 'steps'", self.steps.width),
            ("the width of 'encoder_frames'", self.encoded.width),
        ):
            if width != self.latent_dim:
                raise ValueError(f"{name} is {width}, latent_dim {self.latent_dim}")

    @property
    def encoded(self) -> TransformerConfig:
        return self.encoder_frames or self.frames

    @classmethod
    def released(cls) -> CodecConfig:
        layer = 16, 16, 64, 1e4, 1e-5
        frames = TransformerConfig(1024, 3072, 8, *layer, 4096, window=128, **CODEC_STACK)
        steps = TransformerConfig(1024, 3072, 4, *layer, 16384, window=512, **CODEC_STACK)
        decoder = 44100, 10, 4096, 1024, 1024, frames, (2, 2), 1536, (8, 8, 4, 2)
        return cls(*decoder, code_dim=8, encoder_dim=64, encoder_strides=(2, 4, 8, 8), steps=steps)

    @classmethod
    def from_folder(cls, folder: Path) -> CodecConfig:
        """Return the configuration of a converted codec. Raises CheckpointError: a key or the
        file is missing or wrong.
        """
        if not (folder / WEIGHTS_FILE).is_file():
            if (folder / PICKLED_FILE).is_file():
                raise CheckpointError(
                    f"{folder}: its codec is still pickled ({PICKLED_FILE}), and pickles are "
                    f"never loaded; run `tts-cli models convert {folder}` once"
                )
            raise CheckpointError(f"{folder}: no {WEIGHTS_FILE}; is this a complete checkpoint?")
        return cls.from_file(folder / CONFIG_FILE)

    @classmethod
    def from_file(cls, path: Path) -> CodecConfig:
        """Read `codec.json`. Raises CheckpointError."""
        root = Section.from_file(path)
        extra = _read_stack(root, "encoder_frames") if root.has("encoder_frames") else None
        frames, steps = (_read_stack(root, name) for name in ("frames", "steps"))
        return root.fill(cls, frames=frames, steps=steps, encoder_frames=extra)

    def as_json(self) -> dict[str, Any]:
        return {
            name: _stack_json(value) if isinstance(value, TransformerConfig) else value
            for name in _JSON_ORDER.split()
            if (value := getattr(self, name, None)) is not None
        }


def _read_stack(root: Section, name: str) -> TransformerConfig:
    """Read a transformer whose query heads, and unless named key heads, fill its width."""
    section = root.section(name)
    width, head_dim = (section.get(key, Size) for key in ("width", "head_dim"))
    if width % head_dim:
        raise section.wrong(f"head_dim {head_dim} must divide the width {width}")
    heads = {"num_heads": width // head_dim}
    if "num_kv_heads" not in section.values:
        heads["num_kv_heads"] = width // head_dim
    window = section.get("window", Size)
    return section.fill(TransformerConfig, STACK_NAMES, window=window, **heads, **CODEC_STACK)


def _stack_json(config: TransformerConfig) -> dict[str, Any]:
    implied = {"num_heads", *CODEC_STACK}
    if config.num_kv_heads == config.num_heads:
        implied.add("num_kv_heads")
    names = (name for name in _JSON_ORDER.split() if hasattr(config, name) and name not in implied)
    return {STACK_NAMES.get(name, name): getattr(config, name) for name in names}
