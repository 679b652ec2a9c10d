"""Configuration of the vocoder, read from `speech_tokenizer/config.json`; nothing is guessed.

The configuration class of the official package carries defaults that differ from the released file
(widths of the pre-transformer among them), so a missing key is an error here.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from models.checkpoint.files import CheckpointError
from models.checkpoint.section import Section
from models.qwen3_tts.transformer_config import SIZES, read_rope_theta
from models.vocoder.sizes import DecoderSizes


@dataclass(frozen=True)
class VocoderConfig(DecoderSizes):
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
    def codebook_sizes(self) -> tuple[int, ...]:
        """Entries of each codebook."""
        return (self.codebook_size,) * self.num_codebooks

    @property
    def code_width(self) -> int:
        """What an entry adds to a frame is so wide."""
        return self.codebook_dim

    @property
    def rope(self) -> tuple[int, int, float]:
        """Of the transformer: positions, width of a head, base."""
        return self.max_frames, self.head_dim, self.rope_theta

    @classmethod
    def released(cls) -> VocoderConfig:
        """The decoder of the released speech tokenizer."""
        return cls(
            num_codebooks=16,
            codebook_size=2048,
            codebook_dim=512,
            latent_dim=1024,
            width=512,
            mlp_width=1024,
            num_layers=8,
            num_heads=16,
            num_kv_heads=16,
            head_dim=64,
            window=72,
            rope_theta=10000.0,
            norm_eps=1e-5,
            max_frames=8000,
            upsampling_ratios=(2, 2),
            upsample_rates=(8, 5, 4, 3),
            decoder_dim=1536,
            sample_rate_hz=24000,
        )

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
            **section.counts(
                *("codebook_size", "codebook_dim", "latent_dim", "decoder_dim"),
                window="sliding_window",
                max_frames="max_position_embeddings",
                **SIZES,
            ),
            num_codebooks=section.count(
                "num_codebooks", "num_quantizers", least=2
            ),  # one is semantic
            rope_theta=read_rope_theta(section),
            norm_eps=section.number("rms_norm_eps"),
            upsampling_ratios=section.factors("upsampling_ratios"),
            upsample_rates=section.factors("upsample_rates"),
            sample_rate_hz=root.count("sample_rate_hz", "output_sample_rate"),
        )
        _check(config, root, section)
        return config


def _check(config: VocoderConfig, root: Section, section: Section) -> None:
    """Refuse sizes that contradict each other."""
    where = section.where
    section.check_heads(config.num_heads, config.num_kv_heads, config.head_dim)
    section.check_table(config.max_frames, config.head_dim)
    section.check_frame(config.samples_per_frame)
    for key, value, divisor in (
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
