"""Configuration of the vocoder, read from `speech_tokenizer/config.json`; nothing is guessed.

The configuration class of the official package carries defaults that differ from the released file
(widths of the pre-transformer among them), so a missing key is an error here.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from models.checkpoint.files import CheckpointError
from models.checkpoint.section import Section
from models.decoder.config import TransformerConfig
from models.qwen3_tts.transformer_config import POSITIONS, SIZES, read_rope_theta
from models.vocoder.sizes import DecoderSizes


@dataclass(frozen=True)
class VocoderConfig(DecoderSizes):
    """Sizes of the speech tokenizer's decoder."""

    codebook_size: int
    codebook_dim: int  # width after a split's output projection; code vectors have half of it

    @property
    def codebook_sizes(self) -> tuple[int, ...]:
        """Entries of each codebook."""
        return (self.codebook_size,) * self.num_codebooks

    @property
    def code_width(self) -> int:
        """What an entry adds to a frame is so wide."""
        return self.codebook_dim

    @classmethod
    def released(cls) -> VocoderConfig:
        """The decoder of the released speech tokenizer."""
        return cls(
            num_codebooks=16,
            codebook_size=2048,
            codebook_dim=512,
            latent_dim=1024,
            frames=TransformerConfig(512, 1024, 8, 16, 16, 64, 1e4, 1e-5, 8000, False, 72),
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
        names = SIZES | POSITIONS | {"window": "sliding_window"}
        others = {"rope_theta": read_rope_theta(section), "has_qk_norm": False}
        config = cls(
            **section.counts("codebook_size", "codebook_dim", "latent_dim", "decoder_dim"),
            # One is semantic.
            num_codebooks=section.count("num_codebooks", "num_quantizers", least=2),
            frames=TransformerConfig.read(section, names, "rms_norm_eps", **others),
            upsampling_ratios=section.factors("upsampling_ratios"),
            upsample_rates=section.factors("upsample_rates"),
            sample_rate_hz=root.count("sample_rate_hz", "output_sample_rate"),
        )
        _check(config, root, section)
        return config


def _check(config: VocoderConfig, root: Section, section: Section) -> None:
    """Refuse sizes that contradict each other."""
    where = section.where
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
