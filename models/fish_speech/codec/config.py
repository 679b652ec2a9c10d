"""Sizes of the codec: `codec.json`, which `tts-cli models convert` writes beside its weights.

The released checkpoint comes with no description of its codec, only `codec.pth`; the sizes are
those of the package's own configuration file. A checkpoint of another size brings a `codec.json`.

Source: `modded_dac_vq.yaml` and `modded_dac.py` of fish-speech 0.1.0 (Fish Audio, Apache-2.0);
number and shapes of the tensors agree with the released file (535; 391,430,530 weights).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from models.checkpoint.files import CheckpointError
from models.checkpoint.section import Section
from models.decoder.config import TransformerConfig
from models.vocoder.sizes import LANE_FRAMES, DecoderSizes

WEIGHTS_FILE, CONFIG_FILE, PICKLED_FILE = "codec.safetensors", "codec.json", "codec.pth"


FILE_ORDER = (
    *("sample_rate_hz", "num_codebooks", "semantic_codes", "residual_codes", "code_dim"),
    *("latent_dim", "frames", "upsampling_ratios", "decoder_dim", "upsample_rates"),
    *("encoder_dim", "encoder_strides", "steps"),
)
KIND = {"has_qk_norm": False, "rounds_rope": True}  # of its transformers
STACK = {  # of a transformer: our name -> that in the file
    "width": "width",
    "mlp_width": "mlp_width",
    "num_layers": "num_layers",
    "head_dim": "head_dim",
    "window": "window",
    "max_positions": "max_steps",
}


@dataclass(frozen=True)
class CodecConfig(DecoderSizes):
    """Sizes of encoder, quantizer and decoder."""

    code_dim: int  # width of an entry
    encoder_dim: int  # channels of the encoder's first convolution; every block doubles them
    encoder_strides: tuple[int, ...]  # one encoder block each
    steps: TransformerConfig  # of the last encoder block; behind all blocks is one like `frames`

    @classmethod
    def released(cls) -> CodecConfig:
        """The codec of the released S2 Pro."""
        layer = 16, 16, 64, 1e4, 1e-5
        return cls(
            sample_rate_hz=44100,
            num_codebooks=10,
            semantic_codes=4096,
            residual_codes=1024,
            code_dim=8,
            latent_dim=1024,
            frames=TransformerConfig(1024, 3072, 8, *layer, 4096, window=128, **KIND),
            upsampling_ratios=(2, 2),
            decoder_dim=1536,
            upsample_rates=(8, 8, 4, 2),
            encoder_dim=64,
            encoder_strides=(2, 4, 8, 8),
            steps=TransformerConfig(1024, 3072, 4, *layer, 16384, window=512, **KIND),
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
                    f"{folder}: its codec is still pickled ({PICKLED_FILE}), and pickles are "
                    f"never loaded; run `tts-cli models convert {folder}` once"
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
            frames=_read_stack(root.section("frames")),
            upsampling_ratios=root.factors("upsampling_ratios"),
            upsample_rates=root.factors("upsample_rates"),
            encoder_strides=root.factors("encoder_strides"),
            steps=_read_stack(root.section("steps")),
        )
        root.check_frame(config.samples_per_frame)
        _check(config, root)
        return config

    def as_json(self) -> dict[str, Any]:
        """What `codec.json` holds."""
        stacks = {name: _stack_json(getattr(self, name)) for name in ("frames", "steps")}
        return {name: stacks.get(name, getattr(self, name)) for name in FILE_ORDER}


def _read_stack(section: Section) -> TransformerConfig:
    """One of the transformers, which have as many queries, keys and values as fill the width."""
    width, head_dim = section.count("width"), section.count("head_dim")
    if head_dim % 2 or width % head_dim:
        raise section.wrong(f"head_dim {head_dim} must be even and divide the width {width}")
    heads = dict.fromkeys(("num_heads", "num_kv_heads"), width // head_dim)
    theta = section.number("rope_theta", least=1)
    return TransformerConfig.read(section, STACK, "norm_eps", rope_theta=theta, **heads, **KIND)


def _stack_json(config: TransformerConfig) -> dict[str, Any]:
    names = STACK | {"rope_theta": "rope_theta", "norm_eps": "norm_eps"}
    return {theirs: getattr(config, ours) for ours, theirs in names.items()}


def _check(config: CodecConfig, root: Section) -> None:
    """Refuse sizes that contradict each other."""
    taken = math.prod(config.encoder_strides) * math.prod(config.upsampling_ratios)
    if taken != config.samples_per_frame:
        raise root.wrong(
            f"the encoder takes {taken} samples a frame, the decoder makes "
            f"{config.samples_per_frame}"
        )
    if config.frames.max_positions < LANE_FRAMES:
        raise root.wrong(
            f"'frames' is made for {config.frames.max_positions} steps, at least {LANE_FRAMES} are "
            "needed"
        )
    encoded = config.encoder_dim << len(config.encoder_strides)
    for name, width in (
        ("the encoder's last width", encoded),
        ("the width of 'frames'", config.frames.width),
        ("the width of 'steps'", config.steps.width),
    ):
        if width != config.latent_dim:
            raise root.wrong(f"{name} is {width}, latent_dim {config.latent_dim}")
    if config.decoder_dim % 2 ** len(config.upsample_rates):
        raise root.wrong(
            f"decoder_dim {config.decoder_dim} cannot be halved {len(config.upsample_rates)} times"
        )
