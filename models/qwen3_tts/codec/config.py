"""Configurations of the vocoder and the speech encoder, read from `speech_tokenizer/config.json`;
nothing is guessed.

The configuration class of the official package carries defaults that differ from the released file
(widths of the pre-transformer among them), so a missing key is an error here.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path

from models.checkpoint.section import MAX_KERNEL, MAX_SIZE, Section
from models.decoder.config import TransformerConfig
from models.qwen3_tts.transformer_config import POSITIONS, SIZES, read_rope_theta
from models.vocoder.sizes import DecoderSizes

HALVING = 2  # stride of the last convolution, fixed in the Mimi code


@dataclass(frozen=True)
class VocoderConfig(DecoderSizes):
    """Sizes of the speech tokenizer's decoder."""

    codebook_dim: int  # width after a split's output projection; code vectors have half of it

    @classmethod
    def released(cls) -> VocoderConfig:
        """The decoder of the released speech tokenizer."""
        return cls(
            num_codebooks=16,
            semantic_codes=2048,
            residual_codes=2048,
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
        section.expect(hidden_act="silu", attention_bias=False)
        names = SIZES | POSITIONS | {"window": "sliding_window"}
        others = {"rope_theta": read_rope_theta(section), "has_qk_norm": False}
        size = section.count("codebook_size")
        config = cls(
            semantic_codes=size,
            residual_codes=size,
            **section.counts("codebook_dim", "latent_dim", "decoder_dim"),
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
    section.check_frame(config.samples_per_frame)
    for key, value, divisor in (
        ("codebook_dim", config.codebook_dim, 2),
        ("decoder_dim", config.decoder_dim, 2 ** len(config.upsample_rates)),
    ):
        if value % divisor:
            raise section.wrong(f"{key} = {value} cannot be divided by {divisor}")
    stated = root.integer("decode_upsample_rate")
    if stated != config.samples_per_frame:
        raise root.wrong(
            f"decode_upsample_rate is {stated}, but upsample_rates and upsampling_ratios multiply "
            f"to {config.samples_per_frame}"
        )


@dataclass(frozen=True)
class SpeechEncoderConfig:
    """Sizes of the speech tokenizer's encoder, a Mimi encoder."""

    num_codebooks: int  # kept; the first is semantic, the others acoustic
    num_stored_codebooks: int  # in the checkpoint
    codebook_size: int
    codebook_dim: int
    steps: TransformerConfig  # two steps a frame
    num_filters: int  # channels of the first convolution; every stage doubles them
    kernel: int
    residual_kernel: int
    last_kernel: int
    compress: int  # a residual block's inner channels are this many times fewer
    strides: tuple[int, ...]  # of the stages, in order
    halving_kernel: int
    sample_rate_hz: int

    @property
    def samples_per_frame(self) -> int:
        """Samples that become one frame of codes."""
        return math.prod(self.strides) * HALVING

    def num_frames(self, num_samples: int) -> int:
        """Frames of a clip; the last one may be filled up with silence."""
        return -(-num_samples // self.samples_per_frame)

    @classmethod
    def released(cls) -> SpeechEncoderConfig:
        """The encoder of the released speech tokenizer."""
        return cls(
            num_codebooks=16,
            num_stored_codebooks=32,
            codebook_size=2048,
            codebook_dim=256,
            steps=TransformerConfig(512, 2048, 8, 8, 8, 64, 1e4, 1e-5, 0, has_qk_norm=False),
            num_filters=64,
            kernel=7,
            residual_kernel=3,
            last_kernel=3,
            compress=2,
            strides=(4, 5, 6, 8),
            halving_kernel=4,
            sample_rate_hz=24000,
        )

    @classmethod
    def from_folder(cls, folder: Path) -> SpeechEncoderConfig:
        """Read `config.json` of a speech-tokenizer folder.

        Raises:
            CheckpointError: names the file and the key that is missing, wrong or not supported.
        """
        root = Section.from_file(folder / "config.json")
        section = root.section("encoder_config")
        section.expect(audio_channels=1, use_causal_conv=True, pad_mode="constant")
        section.expect(use_conv_shortcut=False, num_residual_layers=1, num_semantic_quantizers=1)
        section.expect(hidden_act="gelu", attention_bias=False)
        ratios = section.factors("upsampling_ratios")
        rate = section.count("sample_rate_hz", "sampling_rate")
        others = {"max_positions": 0, "has_qk_norm": False}  # of tables made for each pass
        theta = read_rope_theta(section)
        config = cls(
            **section.counts(
                *("codebook_size", "codebook_dim", "num_filters", "compress"),
                num_stored_codebooks="num_quantizers",
                kernel="kernel_size",
                residual_kernel="residual_kernel_size",
                last_kernel="last_kernel_size",
            ),
            num_codebooks=root.count("num_codebooks", "encoder_valid_num_quantizers", least=2),
            steps=TransformerConfig.read(section, SIZES, "norm_eps", rope_theta=theta, **others),
            strides=ratios[::-1],  # the config names them in the decoder's order
            halving_kernel=_halving_kernel(section, rate, math.prod(ratios)),
            sample_rate_hz=rate,
        )
        _check_encoder(config, root, section)
        return config


def _halving_kernel(section: Section, rate_hz: int, convolved: int) -> int:
    """Kernel of the last convolution, after `convolved` samples became one step.

    It follows from the frame rate, which transformers' MimiConfig saves as `_frame_rate`, and as
    null or not at all where the strides say it.
    """
    steps_hz = math.ceil(rate_hz / convolved)
    for key in ("_frame_rate", "frame_rate"):
        if section.holds(key):
            kernel = 2 * int(steps_hz / section.number(key))
            if kernel < HALVING:
                raise section.wrong(f"{key} leaves no downsampling convolution")
            return kernel
    return 2 * int(steps_hz / (rate_hz / (convolved * HALVING)))


def _check_encoder(config: SpeechEncoderConfig, root: Section, section: Section) -> None:
    """Refuse sizes that contradict each other."""
    section.check_frame(config.samples_per_frame)
    if config.halving_kernel > MAX_KERNEL:
        raise section.wrong("the downsampling convolution would be too long")
    if config.num_filters << len(config.strides) > MAX_SIZE:
        raise section.wrong(
            f"num_filters = {config.num_filters} cannot be doubled {len(config.strides)} times"
        )
    if config.num_filters % config.compress:
        raise section.wrong(
            f"num_filters = {config.num_filters} is not a multiple of compress = {config.compress}"
        )
    if config.codebook_dim != section.integer("vector_quantization_hidden_dimension"):
        raise section.wrong("codebook_dim differs from vector_quantization_hidden_dimension")
    if config.num_codebooks > config.num_stored_codebooks:
        raise root.wrong(
            f"encoder_valid_num_quantizers is {config.num_codebooks}, the encoder has "
            f"{config.num_stored_codebooks}"
        )
    if root.integer("encode_downsample_rate") != config.samples_per_frame:
        raise root.wrong(
            f"encode_downsample_rate is not {config.samples_per_frame}, what the encoder's strides "
            "multiply to"
        )
    if root.integer("input_sample_rate") != config.sample_rate_hz:
        raise root.wrong(f"input_sample_rate is not the encoder's {config.sample_rate_hz}")
