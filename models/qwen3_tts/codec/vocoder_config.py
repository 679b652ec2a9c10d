"""Configuration of the vocoder, read from `speech_tokenizer/config.json`; nothing is guessed.

The configuration class of the official package carries defaults that differ from the released file
(widths of the pre-transformer among them), so a missing key is an error here.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path

from models.checkpoint.files import CheckpointError
from models.checkpoint.section import Section
from models.qwen3_tts.rope_config import read_rope_theta
from models.vocoder.layers import context_frames, gap_frames


@dataclass(frozen=True)
class VocoderConfig:
    """Sizes of the speech tokenizer's decoder."""

    num_codebooks: int
    codebook_size: int
    codebook_dim: int  # width after a split's output projection; code vectors have half of it
    latent_dim: int  # width between the quantizer and the upsampling convolutions
    width: int  # of the pre-transformer
    mlp_width: int
    num_layers: int
    num_heads: int
    num_kv_heads: int
    head_dim: int
    window: int  # frames a frame attends to, itself included
    rope_theta: float
    norm_eps: float
    max_frames: int  # frames of one forward pass that RoPE tables are made for
    upsampling_ratios: tuple[int, ...]  # at latent width, before the decoder blocks
    upsample_rates: tuple[int, ...]  # one decoder block each; a block halves the channels
    decoder_dim: int  # channels of the first decoder block's input
    sample_rate_hz: int

    @property
    def samples_per_frame(self) -> int:
        """Samples one frame of codes becomes."""
        return math.prod(self.upsampling_ratios) * math.prod(self.upsample_rates)

    @property
    def context_frames(self) -> int:
        """Latent frames before its own that a frame's samples depend on after the transformer."""
        return context_frames(self.upsampling_ratios, self.upsample_rates)

    @property
    def gap_frames(self) -> int:
        """Frames of zeros that keep two rows apart that lie one behind the other."""
        return gap_frames(self.upsampling_ratios, self.upsample_rates)

    @classmethod
    def from_folder(cls, folder: Path) -> VocoderConfig:
        """Read `config.json` of a speech-tokenizer folder.

        Raises:
            CheckpointError: names the file and the key that is missing, wrong or not supported.
        """
        root = Section.from_file(folder / "config.json")
        section = root.section("decoder_config")
        section.expect("hidden_act", "silu")
        section.expect("attention_bias", False)
        config = cls(
            num_codebooks=_positive(section, "num_quantizers"),
            codebook_size=_positive(section, "codebook_size"),
            codebook_dim=_positive(section, "codebook_dim"),
            latent_dim=_positive(section, "latent_dim"),
            width=_positive(section, "hidden_size"),
            mlp_width=_positive(section, "intermediate_size"),
            num_layers=_positive(section, "num_hidden_layers"),
            num_heads=_positive(section, "num_attention_heads"),
            num_kv_heads=_positive(section, "num_key_value_heads"),
            head_dim=_positive(section, "head_dim"),
            window=_positive(section, "sliding_window"),
            rope_theta=read_rope_theta(section),
            norm_eps=section.number("rms_norm_eps"),
            max_frames=_positive(section, "max_position_embeddings"),
            upsampling_ratios=_factors(section, "upsampling_ratios"),
            upsample_rates=_factors(section, "upsample_rates"),
            decoder_dim=_positive(section, "decoder_dim"),
            sample_rate_hz=_positive(root, "output_sample_rate"),
        )
        _check(config, root, section)
        return config


def _positive(section: Section, key: str) -> int:
    value = section.integer(key)
    if value == 0:
        raise CheckpointError(f"{section.where}: {key!r} must not be 0")
    return value


def _factors(section: Section, key: str) -> tuple[int, ...]:
    values = section.read(key, list)
    if not values or not all(type(value) is int and value > 0 for value in values):
        raise CheckpointError(
            f"{section.where}: {key!r} must be a list of positive numbers, not {values!r:.60}"
        )
    return tuple(values)


def _check(config: VocoderConfig, root: Section, section: Section) -> None:
    """Refuse sizes that contradict each other."""
    where = section.where
    if config.num_codebooks < 2:
        raise CheckpointError(
            f"{where}: num_quantizers must be at least 2 (one semantic, then acoustic)"
        )
    if config.num_heads % config.num_kv_heads:
        raise CheckpointError(
            f"{where}: {config.num_heads} heads cannot share {config.num_kv_heads} key heads"
        )
    for key, value, divisor in (
        ("head_dim", config.head_dim, 2),
        ("codebook_dim", config.codebook_dim, 2),
        ("decoder_dim", config.decoder_dim, 2 ** len(config.upsample_rates)),
    ):
        if value % divisor:
            raise CheckpointError(f"{where}: {key} = {value} cannot be divided by {divisor}")
    stated = root.integer("decode_upsample_rate")
    if stated != config.samples_per_frame:
        raise CheckpointError(
            f"{root.where}: decode_upsample_rate is {stated}, but upsample_rates and "
            f"upsampling_ratios multiply to {config.samples_per_frame}"
        )
