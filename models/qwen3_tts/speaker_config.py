"""Configuration of the speaker encoder, from a Base checkpoint's `config.json`."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from models.checkpoint.section import MAX_KERNEL, MAX_SIZE, Section

# The official code fixes these; its config only repeats the rate.
SAMPLE_RATE_HZ = 24000
MAX_SCALE = 2**8
FFT, HOP = 1024, 256  # samples; the window is as long as the transform


@dataclass(frozen=True)
class SpeakerConfig:
    """Sizes of the speaker encoder; what a released config leaves out is an official default."""

    width: int  # of the embedding
    num_mels: int = 128
    # The first convolution, one a block, and their concatenation.
    channels: tuple[int, ...] = (512, 512, 512, 512, 1536)
    kernels: tuple[int, ...] = (5, 3, 3, 3, 1)
    dilations: tuple[int, ...] = (1, 2, 3, 4, 1)
    attention_width: int = 128
    scale: int = 8  # parts a block's channels are split into
    squeeze_width: int = 128

    @property
    def shortest_samples(self) -> int:
        """The shortest clip that can be mirrored at its ends as far as every layer asks."""
        reach = max(d * (k - 1) // 2 for k, d in zip(self.kernels, self.dilations, strict=True))
        return max((FFT - HOP) // 2 + 1, (reach + 1) * HOP)

    @classmethod
    def from_folder(cls, folder: Path) -> SpeakerConfig:
        """Read `speaker_encoder_config` of config.json. Raises CheckpointError."""
        section = Section.from_file(folder / "config.json").section("speaker_encoder_config")

        def integer(key: str, default: int, most: int = MAX_SIZE) -> int:
            return section.integer(key, 1, most) if key in section.values else default

        def integers(key: str, default: tuple[int, ...], most: int = MAX_KERNEL) -> tuple[int, ...]:
            return section.factors(key, most) if key in section.values else default

        rate = section.integer("sample_rate")
        if rate != SAMPLE_RATE_HZ:
            raise section.wrong(
                f"sample_rate is {rate}; the speaker encoder needs {SAMPLE_RATE_HZ} Hz"
            )
        config = cls(
            width=section.integer("enc_dim", least=1),
            num_mels=integer("mel_dim", cls.num_mels),
            channels=integers("enc_channels", cls.channels, most=MAX_SIZE),
            kernels=integers("enc_kernel_sizes", cls.kernels),
            dilations=integers("enc_dilations", cls.dilations),
            attention_width=integer("enc_attention_channels", cls.attention_width),
            scale=integer("enc_res2net_scale", cls.scale, most=MAX_SCALE),
            squeeze_width=integer("enc_se_channels", cls.squeeze_width),
        )
        _check(config, section)
        return config


def _check(config: SpeakerConfig, section: Section) -> None:
    """Refuse sizes that contradict each other."""
    channels = config.channels
    if len({len(channels), len(config.kernels), len(config.dilations)}) > 1 or len(channels) < 3:
        raise section.wrong(
            "enc_channels, enc_kernel_sizes and enc_dilations must be equally long lists of at "
            "least 3"
        )
    blocks = channels[1:-1]
    if any(width != channels[0] for width in blocks) or sum(blocks) != channels[-1]:
        raise section.wrong(
            f"enc_channels {list(channels)}: blocks must be as wide as their input, and the last "
            "number their sum"
        )
    if channels[0] % config.scale or config.scale < 2:
        raise section.wrong(f"{channels[0]} channels cannot be split into {config.scale} parts")
    if any(kernel % 2 == 0 for kernel in config.kernels):
        raise section.wrong("enc_kernel_sizes must be odd")
