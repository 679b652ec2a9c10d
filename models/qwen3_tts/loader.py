"""From a checkpoint folder to a `Qwen3TTS`; or from random weights in the released sizes, so that
hardware can be judged before any download.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch

from models.base import Reader
from models.checkpoint.files import take_part
from models.checkpoint.random import (
    LOUDNESS,
    MARKERS,
    byte_tokenizer,
    random_tensors,
    randomise,
)
from models.checkpoint.weights import META, load_networks, read_tensors, shapes_of
from models.qwen3_tts.codec.config import SpeechEncoderConfig, VocoderConfig
from models.qwen3_tts.codec.encoder import SpeechEncoder
from models.qwen3_tts.codec.tensors import vocoder_table
from models.qwen3_tts.codec.vocoder import Vocoder
from models.qwen3_tts.config import Qwen3TTSConfig
from models.qwen3_tts.info import (
    ENCODER,
    SPEAKER_ENCODER,
    TOKENIZER_FOLDER,
    describe,
    describe_synthetic,
    read_encoder_configs,
)
from models.qwen3_tts.model import Qwen3TTS
from models.qwen3_tts.prompt import reader_of
from models.qwen3_tts.speaker import SpeakerEncoder
from models.qwen3_tts.speaker_config import SpeakerConfig
from models.qwen3_tts.talker import Talker, code_predictor
from models.qwen3_tts.tensors import network_table
from models.qwen3_tts.tokenizer import load_tokenizer
from models.qwen3_tts.voice_encoder import QwenVoiceEncoder


def load(folder: Path, device: torch.device, dtype: torch.dtype, use_graphs: bool) -> Qwen3TTS:
    """Load the weights of a folder onto a device. Raises CheckpointError."""
    info = describe(folder)
    reader = read(folder)
    config = reader.config
    vocoder_config = VocoderConfig.from_folder(folder / TOKENIZER_FOLDER)
    tensors = read_tensors(folder, device)
    speaker = take_part(tensors, SPEAKER_ENCODER) if config.model_type == "base" else {}
    networks = _empty_networks(config)
    load_networks(networks, network_table(config), tensors, dtype, f"{folder}: model")
    speech = read_tensors(folder / TOKENIZER_FOLDER, device)
    encoder = take_part(speech, ENCODER)
    vocoder = Vocoder.from_state(vocoder_config, speech, dtype)
    voices = None
    if info.can_clone:
        configs = read_encoder_configs(folder, config, vocoder_config)
        voices = QwenVoiceEncoder(
            SpeakerEncoder.from_state(configs[0], speaker, dtype),
            SpeechEncoder.from_state(configs[1], encoder),
        )
    return Qwen3TTS(use_graphs, reader, info, vocoder, voices, **networks)


def read(folder: Path) -> Reader:
    """What lays requests out, without a weight. Raises CheckpointError."""
    config = Qwen3TTSConfig.from_folder(folder)
    return reader_of(config, load_tokenizer(folder, config.text_vocab_size))


byte_ids = byte_tokenizer(MARKERS)


@torch.inference_mode()
def load_synthetic(
    name: str,
    device: torch.device,
    dtype: torch.dtype,
    use_graphs: bool,
    seed: int = 0,
    config: Qwen3TTSConfig | None = None,
) -> Qwen3TTS:
    """Draw the weights on the device; the same seed and device give the same weights.

    Args:
        config: another one than the released, for tests.
    """
    config = config or Qwen3TTSConfig.released(name)
    generator = torch.Generator(device).manual_seed(seed)
    networks = _empty_networks(config)
    randomise(networks, config.codec.eos, dtype, generator)
    vocoder = random_vocoder(dtype, generator)
    voices = None
    if config.model_type == "base":
        voices = random_encoders(config.talker.width, dtype, generator)
    reader, info = reader_of(config, byte_ids), describe_synthetic(name)
    return Qwen3TTS(use_graphs, reader, info, vocoder, voices, **networks)


def read_synthetic(name: str) -> Reader:
    """As `read`, of random weights."""
    return reader_of(Qwen3TTSConfig.released(name), byte_ids)


def random_vocoder(dtype: torch.dtype, generator: torch.Generator) -> Vocoder:
    """A vocoder of official tensors whose samples are neither silent nor clipped."""
    config = VocoderConfig.released()
    tensors = random_tensors(vocoder_table(config).shapes, generator)
    # The residual stream grows on its way; without this, all samples would be clipped.
    tensors["decoder.decoder.6.conv.weight"] *= LOUDNESS
    return Vocoder.from_state(config, tensors, dtype)


def random_encoders(width: int, dtype: torch.dtype, generator: torch.Generator) -> QwenVoiceEncoder:
    """The speaker encoder of a talker's width and the speech encoder."""
    config = SpeakerConfig(width)
    with META:
        shapes = shapes_of(SpeakerEncoder(config).state_dict())
        speech = SpeechEncoder(SpeechEncoderConfig.released())
    named = {f"speaker_encoder.{name}": shape for name, shape in shapes.items()}
    speaker = SpeakerEncoder.from_state(config, random_tensors(named, generator), dtype)
    state = random_tensors(shapes_of(speech.state_dict()), generator)
    speech.load_state_dict(state, assign=True)
    return QwenVoiceEncoder(speaker, speech.requires_grad_(False).eval())


def _empty_networks(config: Qwen3TTSConfig) -> dict[str, Any]:
    with META:
        return {"talker": Talker(config), "predictor": code_predictor(config)}
