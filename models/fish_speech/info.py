"""What a Fish Speech checkpoint offers, from its small files; no torch."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from models.base import ModelInfo
from models.checkpoint.files import CheckpointError, identity, tensor_shapes, weight_files
from models.fish_speech.codec.config import WEIGHTS_FILE, CodecConfig
from models.fish_speech.codec.tensors import check_codec
from models.fish_speech.config import SAMPLING, FishSpeechConfig
from models.fish_speech.licence import LICENCE
from models.fish_speech.prompt import OVERHEAD
from models.fish_speech.tags import SPEAKER_TAG, STYLE_TAG
from models.fish_speech.tensors import network_table
from models.pace import Pace

# No released weight was at hand to measure. Style tags in brackets and control tokens are not said.
PACE = Pace.of_people(
    44100 / 2048,
    markup=r"\[[^\[\]]*\]|<\|[^<>]*\|>",
    unbroken=r"<\|phoneme_start\|>[^<]*<\|phoneme_end\|>",
    tags=(SPEAKER_TAG, STYLE_TAG),
)


def describe(folder: Path) -> ModelInfo:
    """What the checkpoint in a folder offers.

    Raises:
        CheckpointError: a configuration is wrong, a weight file is not whole, or its names or
            shapes are not what the configuration says.
    """
    config, codec = FishSpeechConfig.from_folder(folder), CodecConfig.from_folder(folder)
    check_sizes(config, codec)
    network_table(config, codec.residual_codes).check(tensor_shapes(folder), f"{folder}: model")
    check_codec(folder, codec)
    parts = [*weight_files(folder), folder / WEIGHTS_FILE]
    return model_info(config, codec, identity(folder, parts))


def describe_synthetic(name: str) -> ModelInfo:
    """What the made-up checkpoint offers. Its weights are nobody's, so it has no licence,
    and random, so it has no pace.
    """
    info = model_info(FishSpeechConfig.released(), CodecConfig.released(), f"synthetic:{name}")
    return replace(info, licence=None, pace=None)


def model_info(config: FishSpeechConfig, codec: CodecConfig, identity: str) -> ModelInfo:
    """The family-independent description of a configuration."""
    return ModelInfo(
        family="fish_speech",
        type="dual_ar",
        mode="dual AR: chooses a voice, or clones a reference recording",
        size=config.size,
        voices=(),
        languages=("auto",),
        takes_instruct=False,
        can_clone=True,
        num_codebooks=config.num_codebooks,
        sample_rate_hz=codec.sample_rate_hz,
        samples_per_frame=codec.samples_per_frame,
        max_frames=config.max_frames,
        max_positions=config.talker.max_positions,
        sampling=SAMPLING,
        identity=identity,
        clone_modes=("icl",),
        prompt_overhead=OVERHEAD,
        ref_silence_s=0.0,  # it stands in another turn than the new speech
        licence=LICENCE,
        pace=PACE,
    )


def check_sizes(config: FishSpeechConfig, codec: CodecConfig) -> None:
    """Raise CheckpointError where the talker's codes are not the codec's."""
    for what, ours, theirs in (
        ("codebooks", config.num_codebooks, codec.num_codebooks),
        ("codes of the first codebook", config.codebook_size, codec.semantic_codes),
    ):
        if ours != theirs:
            raise CheckpointError(f"the talker has {ours} {what}, the codec {theirs}")
    if codec.residual_codes > config.codebook_size:
        raise CheckpointError(
            f"the codec has {codec.residual_codes} codes a further codebook, the code predictor "
            f"{config.codebook_size}"
        )
