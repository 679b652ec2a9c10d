"""What a Qwen3-TTS checkpoint offers, from its small files and headers; no torch."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from models.base import ModelInfo
from models.checkpoint.files import (
    CheckpointError,
    identity,
    take_part,
    tensor_shapes,
    weight_files,
)
from models.qwen3_tts.codec.config import SpeechEncoderConfig, VocoderConfig
from models.qwen3_tts.codec.tensors import encoder_table, vocoder_table
from models.qwen3_tts.config import SUPPRESSED_TAIL, Qwen3TTSConfig
from models.qwen3_tts.speaker_config import SAMPLE_RATE_HZ, SpeakerConfig
from models.qwen3_tts.tensors import network_table
from models.vocoder.sizes import LANE_FRAMES

TOKENIZER_FOLDER = "speech_tokenizer"
ENCODER = "encoder."  # what the speech encoder's tensors begin with
SPEAKER_ENCODER = "speaker_encoder."  # what a Base checkpoint's main file holds besides
MODES = {
    "custom_voice": "custom voice: rows name a voice",
    "voice_design": "voice design: instruct describes the voice",
    "base": "base: clones a reference recording",
}


def describe(folder: Path) -> ModelInfo:
    """What the checkpoint in a folder offers.

    Raises:
        CheckpointError: a configuration is wrong, a weight file is not whole, or names or shapes of
            talker, code predictor, vocoder or speech encoder are not what the configuration says.
            Whether a Base checkpoint's speaker encoder fits is seen when it is loaded.
    """
    config = Qwen3TTSConfig.from_folder(folder)
    vocoder = VocoderConfig.from_folder(folder / TOKENIZER_FOLDER)
    check_sizes(config, vocoder)
    parts = [*weight_files(folder), *weight_files(folder / TOKENIZER_FOLDER)]
    found = tensor_shapes(folder)
    is_base = config.model_type == "base"
    if is_base:
        take_part(found, SPEAKER_ENCODER)
    network_table(config).check(found, f"{folder}: model")
    speech = tensor_shapes(folder / TOKENIZER_FOLDER)
    encoder = take_part(speech, ENCODER)
    encoders = read_encoder_configs(folder, config, vocoder) if is_base and encoder else None
    vocoder_table(vocoder).check(speech, "speech tokenizer")
    if encoders is not None:
        encoder_table(encoders[1]).check(encoder, "speech encoder")
    return model_info(config, vocoder, identity(folder, parts), encoders is not None)


def describe_synthetic(name: str) -> ModelInfo:
    """What the made-up checkpoint of a released size offers; random weights have no pace."""
    config = Qwen3TTSConfig.released(name)
    can_clone = config.model_type == "base"
    info = model_info(config, VocoderConfig.released(), f"synthetic:{name}", can_clone)
    return replace(info, pace=None)


def model_info(
    config: Qwen3TTSConfig, vocoder: VocoderConfig, identity: str, can_clone: bool = False
) -> ModelInfo:
    """The family-independent description of a configuration."""
    is_base = config.model_type == "base"
    return ModelInfo(
        family="qwen3_tts",
        type=config.model_type,
        mode=MODES[config.model_type],
        size=config.model_size,
        voices=tuple(config.speakers) if config.model_type == "custom_voice" else (),
        languages=config.language_names,
        takes_instruct=config.takes_instruct,
        can_clone=can_clone,
        needs_reference=is_base,
        needs_instruct=config.model_type == "voice_design",
        num_codebooks=config.num_codebooks,
        sample_rate_hz=vocoder.sample_rate_hz,
        samples_per_frame=vocoder.samples_per_frame,
        max_frames=config.max_frames,
        max_positions=config.talker.max_positions,
        sampling=config.sampling,
        identity=identity,
        default_layout=config.default_layout,
        needs="its speech tokenizer has no encoder" if is_base and not can_clone else None,
        normalizes=config.normalizes,
        pace=config.pace,
    )


def check_sizes(config: Qwen3TTSConfig, vocoder: VocoderConfig) -> None:
    """Raise CheckpointError where the vocoder cannot decode what the talker draws."""
    if vocoder.num_codebooks != config.num_codebooks:
        raise CheckpointError(
            f"the talker makes {config.num_codebooks} codebooks, the vocoder takes "
            f"{vocoder.num_codebooks}"
        )
    if (most := vocoder.frames.max_positions) < LANE_FRAMES:
        raise CheckpointError(
            f"the vocoder is made for {most} frames at a time, at least {LANE_FRAMES} are needed"
        )
    num_first = config.vocab_size - SUPPRESSED_TAIL
    largest = max(num_first, config.predictor_vocab_size)
    if num_first < 1 or largest > vocoder.semantic_codes:
        raise CheckpointError(
            f"the talker draws from {num_first} and {config.predictor_vocab_size} codes, "
            f"the vocoder's codebooks have {vocoder.semantic_codes}"
        )


def read_encoder_configs(
    folder: Path, config: Qwen3TTSConfig, vocoder: VocoderConfig
) -> tuple[SpeakerConfig, SpeechEncoderConfig]:
    """Configurations of the two encoders of a checkpoint that can clone.

    Raises:
        CheckpointError: a key is missing or wrong, or the parts do not fit together.
    """
    speaker = SpeakerConfig.from_folder(folder)
    speech = SpeechEncoderConfig.from_folder(folder / TOKENIZER_FOLDER)
    rates = {SAMPLE_RATE_HZ, speech.sample_rate_hz, vocoder.sample_rate_hz}
    for what, encoder, other in (
        ("embedding width", speaker.width, config.talker.width),
        ("number of codebooks", speech.num_codebooks, config.num_codebooks),
        ("codebook size", speech.codebook_size, vocoder.semantic_codes),
        ("samples per frame", speech.samples_per_frame, vocoder.samples_per_frame),
        ("number of sample rates", len(rates), 1),
    ):
        if encoder != other:
            raise CheckpointError(f"the encoders' {what} is {encoder}, cloning needs {other}")
    return speaker, speech
