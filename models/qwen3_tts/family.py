"""Qwen3-TTS 12 Hz as a family: contents and features of a checkpoint, without torch."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from models.checkpoint.files import CheckpointError, tensor_shapes
from models.checkpoint.table import Table
from models.family import Family, NetworkPart, unused
from models.qwen3_tts import tensors
from models.qwen3_tts.config import (
    CODEC_FOLDER,
    PACE,
    SAMPLE_RATE_HZ,
    SUPPRESSED_TAIL,
    Qwen3TTSConfig,
    SpeakerConfig,
    SpeechEncoderConfig,
    VocoderConfig,
)
from models.qwen3_tts.prompt import build_prompt
from models.qwen3_tts.tokenizer import load_tokenizer
from models.vocoder.sizes import LANE_FRAMES

MODES = {
    "custom_voice": "custom voice: rows name a voice",
    "voice_design": "voice design: instruct describes the voice",
    "base": "base: clones a reference recording",
}


@dataclass(frozen=True)
class Qwen3TTSConfigs:
    """The configurations of a checkpoint. Raises CheckpointError: the parts do not fit together."""

    main: Qwen3TTSConfig
    codec: VocoderConfig
    encoders: tuple[SpeakerConfig, SpeechEncoderConfig] | None  # of a checkpoint that can clone

    def __post_init__(self) -> None:
        main, vocoder = self.main, self.codec
        if vocoder.num_codebooks != main.num_codebooks:
            raise CheckpointError(
                f"the talker makes {main.num_codebooks} codebooks, the vocoder takes "
                f"{vocoder.num_codebooks}"
            )
        if (most := vocoder.frames.max_positions) < LANE_FRAMES:
            raise CheckpointError(
                f"the vocoder is made for {most} frames at a time, at least {LANE_FRAMES} are "
                "needed"
            )
        num_first = main.vocab_size - SUPPRESSED_TAIL
        largest = max(num_first, main.predictor_vocab_size)
        if num_first < 1 or largest > vocoder.semantic_codes:
            raise CheckpointError(
                f"the talker draws from {num_first} and {main.predictor_vocab_size} codes, "
                f"the vocoder's codebooks have {vocoder.semantic_codes}"
            )
        if self.encoders is None:
            return
        speaker, speech = self.encoders
        rates = {SAMPLE_RATE_HZ, speech.sample_rate_hz, vocoder.sample_rate_hz}
        for what, encoder, other in (
            ("embedding width", speaker.width, main.talker.width),
            ("number of codebooks", speech.num_codebooks, main.num_codebooks),
            ("codebook size", speech.codebook_size, vocoder.semantic_codes),
            ("samples per frame", speech.samples_per_frame, vocoder.samples_per_frame),
            ("number of sample rates", len(rates), 1),
        ):
            if encoder != other:
                raise CheckpointError(f"the encoders' {what} is {encoder}, cloning needs {other}")


def read(folder: Path) -> Qwen3TTSConfigs:
    """Read the configurations in a folder; those of encoders if it has both."""
    main, codec = Qwen3TTSConfig.from_folder(folder), folder / CODEC_FOLDER
    vocoder = VocoderConfig.from_folder(codec)
    encoders = None
    if main.model_type == "base" and any(n.startswith("encoder.") for n in tensor_shapes(codec)):
        encoders = SpeakerConfig.from_folder(folder), SpeechEncoderConfig.from_folder(codec)
    return Qwen3TTSConfigs(main, vocoder, encoders)


def released(name: str) -> Qwen3TTSConfigs:
    main, encoders = Qwen3TTSConfig.released(name), None
    if main.model_type == "base":
        encoders = SpeakerConfig(main.talker.width), SpeechEncoderConfig.released()
    return Qwen3TTSConfigs(main, VocoderConfig.released(), encoders)


def parts(configs: Qwen3TTSConfigs) -> list[NetworkPart]:
    home, main, codec = "models.qwen3_tts", configs.main, configs.codec
    table: Table = tensors.vocoder_table(codec)
    found = [
        NetworkPart("model", f"{home}.model:Qwen3TTSNetworks", main, tensors.network_table(main)),
        NetworkPart("vocoder", f"{home}.codec:Vocoder", codec, table, CODEC_FOLDER),
    ]
    if configs.encoders is not None:
        speaker, speech = configs.encoders
        name, table = f"{home}.speaker:SpeakerEncoder", tensors.speaker_table(speaker)
        own = NetworkPart("speaker encoder", name, speaker, table, prefix=f"{tensors.SPEAKER}.")
        name, table = f"{home}.codec:SpeechEncoder", tensors.encoder_table(speech)
        where = CODEC_FOLDER, "encoder."
        return [*found, own, NetworkPart("speech encoder", name, speech, table, *where, True)]
    found.append(unused("encoder.", CODEC_FOLDER))
    if main.model_type == "base":
        found.append(unused(f"{tensors.SPEAKER}."))
    return found


def info(configs: Qwen3TTSConfigs) -> dict[str, Any]:
    main, kind = configs.main, configs.main.model_type
    is_base, can_clone = kind == "base", configs.encoders is not None
    return {
        "type": kind,
        "mode": MODES[kind],
        "size": main.model_size,
        "voices": tuple(main.speakers) if kind == "custom_voice" else (),
        "languages": main.language_names,
        "takes_instruct": main.takes_instruct,
        "can_clone": can_clone,
        "needs_reference": is_base,
        "needs_instruct": kind == "voice_design",
        "default_layout": main.default_layout,
        "needs": "its speech tokenizer has no encoder" if is_base and not can_clone else None,
        "normalizes": main.normalizes,
        "pace": main.pace,
    }


FAMILY = Family(
    name="qwen3_tts",
    model="models.qwen3_tts.model:Qwen3TTS",
    read=read,
    released=released,
    parts=parts,
    info=info,
    tokenizer=lambda folder, configs: load_tokenizer(folder, configs.main.text_vocab_size),
    prompt=lambda configs, tokenize: partial(build_prompt, configs.main, tokenize),
    pace=PACE,
    shared_codec=("0b6", "1b7"),  # as released; the sample voice has another
)
