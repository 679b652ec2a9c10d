"""Sizes of the codec: `codec.json`, which `tts-cli models convert` writes beside its weights.

The released checkpoint comes with no description of its codec, only `codec.pth`; the sizes are
those of the package's own configuration file. A checkpoint of another size brings a `codec.json`.

Source: `modded_dac_vq.yaml` and `modded_dac.py` of fish-speech 0.1.0 (Fish Audio, Apache-2.0);
number and shapes of the tensors agree with the released file (535; 391,430,530 weights).
"""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from models.checkpoint.files import CheckpointError
from models.checkpoint.section import Section
from models.vocoder.sizes import LANE_FRAMES, DecoderSizes

WEIGHTS_FILE, CONFIG_FILE, PICKLED_FILE = "codec.safetensors", "codec.json", "codec.pth"


@dataclass(frozen=True)
class WindowConfig:
    """One transformer of the codec: causal, every step looks back over a window."""

    width: int
    mlp_width: int
    num_layers: int
    head_dim: int
    window: int  # steps a step attends to, itself included
    max_steps: int  # of one pass, that RoPE tables are made for
    rope_theta: float
    norm_eps: float

    @property
    def num_heads(self) -> int:
        """Queries; the official code makes as many as fill the width."""
        return self.width // self.head_dim

    @property
    def num_kv_heads(self) -> int:
        """Keys and values: one a query."""
        return self.num_heads

    @property
    def latent_dim(self) -> int:
        """Width of what goes in and comes out."""
        return self.width

    @classmethod
    def read(cls, section: Section) -> WindowConfig:
        """Read one of the transformers of `codec.json`."""
        config = cls(
            **section.counts(
                *("width", "mlp_width", "num_layers", "head_dim", "window", "max_steps")
            ),
            rope_theta=section.number("rope_theta", least=1),
            norm_eps=section.number("norm_eps"),
        )
        section.check_table(config.max_steps, config.head_dim)
        if config.head_dim % 2 or config.width % config.head_dim:
            raise CheckpointError(
                f"{section.where}: head_dim {config.head_dim} must be even and divide the width "
                f"{config.width}"
            )
        return config


@dataclass(frozen=True)
class CodecConfig(DecoderSizes):
    """Sizes of encoder, quantizer and decoder."""

    sample_rate_hz: int
    num_codebooks: int  # the first is semantic, the others residual
    semantic_codes: int  # entries of the first codebook
    residual_codes: int  # entries of each other one
    code_dim: int  # width of an entry
    latent_dim: int  # of a frame
    frames: WindowConfig  # the transformers before and behind the quantizer
    upsampling_ratios: tuple[int, ...]  # behind the quantizer, in the decoder's order
    decoder_dim: int  # channels of the first decoder block's input; every block halves them
    upsample_rates: tuple[int, ...]  # one decoder block each
    encoder_dim: int  # channels of the first convolution; every block doubles them
    encoder_strides: tuple[int, ...]  # one encoder block each
    steps: WindowConfig  # the transformer of the last encoder block

    @property
    def codebook_sizes(self) -> tuple[int, ...]:
        """Entries of each codebook."""
        return (self.semantic_codes, *[self.residual_codes] * (self.num_codebooks - 1))

    @property
    def code_width(self) -> int:
        """What an entry adds to a frame is so wide."""
        return self.latent_dim

    @property
    def rope(self) -> tuple[int, int, float]:
        """Of the transformer over frames: positions, width of a head, base."""
        return self.frames.max_steps, self.frames.head_dim, self.frames.rope_theta

    @classmethod
    def released(cls) -> CodecConfig:
        """The codec of the released S2 Pro."""
        return cls(
            sample_rate_hz=44100,
            num_codebooks=10,
            semantic_codes=4096,
            residual_codes=1024,
            code_dim=8,
            latent_dim=1024,
            frames=WindowConfig(1024, 3072, 8, 64, 128, 4096, 10000.0, 1e-5),
            upsampling_ratios=(2, 2),
            decoder_dim=1536,
            upsample_rates=(8, 8, 4, 2),
            encoder_dim=64,
            encoder_strides=(2, 4, 8, 8),
            steps=WindowConfig(1024, 3072, 4, 64, 512, 16384, 10000.0, 1e-5),
        )

    @classmethod
    def from_folder(cls, folder: Path) -> CodecConfig:
        """The configuration of a converted codec.

        Raises:
            CheckpointError: there is none, or a key is missing or wrong.
        """
        if not (folder / WEIGHTS_FILE).is_file():
            if (folder / PICKLED_FILE).is_file():
                raise CheckpointError(
                    f"{folder}: its codec is still pickled ({PICKLED_FILE}), which is never read "
                    f"here; run `tts-cli models convert {folder}` once"
                )
            raise CheckpointError(f"{folder}: no {WEIGHTS_FILE}; is this a complete checkpoint?")
        return cls.from_file(folder / CONFIG_FILE)

    @classmethod
    def from_file(cls, path: Path) -> CodecConfig:
        """Read `codec.json`. Raises CheckpointError naming a key that is missing or wrong."""
        root = Section.from_file(path)
        config = cls(
            **root.counts(
                *("sample_rate_hz", "semantic_codes", "residual_codes"),
                *("code_dim", "latent_dim", "decoder_dim", "encoder_dim"),
            ),
            num_codebooks=root.count("num_codebooks", least=2),
            frames=WindowConfig.read(root.section("frames")),
            upsampling_ratios=root.factors("upsampling_ratios"),
            upsample_rates=root.factors("upsample_rates"),
            encoder_strides=root.factors("encoder_strides"),
            steps=WindowConfig.read(root.section("steps")),
        )
        root.check_frame(config.samples_per_frame)
        _check(config, root.where)
        return config

    def as_json(self) -> dict[str, Any]:
        """What `codec.json` holds."""
        return asdict(self)


def _check(config: CodecConfig, where: str) -> None:
    """Refuse sizes that contradict each other."""
    taken = math.prod(config.encoder_strides) * math.prod(config.upsampling_ratios)
    if taken != config.samples_per_frame:
        raise CheckpointError(
            f"{where}: the encoder takes {taken} samples a frame, the decoder makes "
            f"{config.samples_per_frame}"
        )
    if config.frames.max_steps < LANE_FRAMES:
        raise CheckpointError(
            f"{where}: 'frames' is made for {config.frames.max_steps} steps, at least "
            f"{LANE_FRAMES} are needed"
        )
    encoded = config.encoder_dim << len(config.encoder_strides)
    for name, width in (
        ("the encoder's last width", encoded),
        ("the width of 'frames'", config.frames.width),
        ("the width of 'steps'", config.steps.width),
    ):
        if width != config.latent_dim:
            raise CheckpointError(f"{where}: {name} is {width}, latent_dim {config.latent_dim}")
    if config.decoder_dim % 2 ** len(config.upsample_rates):
        raise CheckpointError(
            f"{where}: decoder_dim {config.decoder_dim} cannot be halved "
            f"{len(config.upsample_rates)} times"
        )
