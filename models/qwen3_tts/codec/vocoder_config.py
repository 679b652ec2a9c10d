"""Configuration of the vocoder, read from `speech_tokenizer/config.json`; nothing is guessed.

The configuration class of the official package carries defaults that differ from the released file
(widths of the pre-transformer among them), so a missing key is an error here.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from models.checkpoint.files import CheckpointError
from models.checkpoint.section import Section
from models.qwen3_tts.rope_config import read_rope_theta
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
            num_codebooks=section.integer("num_quantizers", least=2),  # one is semantic
            codebook_size=section.integer("codebook_size", least=1),
            codebook_dim=section.integer("codebook_dim", least=1),
            latent_dim=section.integer("latent_dim", least=1),
            width=section.integer("hidden_size", least=1),
            mlp_width=section.integer("intermediate_size", least=1),
            num_layers=section.integer("num_hidden_layers", least=1),
            num_heads=section.integer("num_attention_heads", least=1),
            num_kv_heads=section.integer("num_key_value_heads", least=1),
            head_dim=section.integer("head_dim", least=1),
            window=section.integer("sliding_window", least=1),
            rope_theta=read_rope_theta(section),
            norm_eps=section.number("rms_norm_eps"),
            max_frames=section.integer("max_position_embeddings", least=1),
            upsampling_ratios=section.factors("upsampling_ratios"),
            upsample_rates=section.factors("upsample_rates"),
            decoder_dim=section.integer("decoder_dim", least=1),
            sample_rate_hz=root.integer("output_sample_rate", least=1),
        )
        _check(config, root, section)
        return config


def _check(config: VocoderConfig, root: Section, section: Section) -> None:
    """Refuse sizes that contradict each other."""
    where = section.where
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
