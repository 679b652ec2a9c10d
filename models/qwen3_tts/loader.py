"""From a checkpoint folder to a `Qwen3TTS`."""

from __future__ import annotations

from pathlib import Path

import torch

from models.base import Prompts
from models.checkpoint.weights import load_networks, read_tensors, take_part
from models.device.graphs import EAGER, cuda_capturers
from models.qwen3_tts.code_predictor import CodePredictor
from models.qwen3_tts.codec.speech_encoder import SpeechEncoder
from models.qwen3_tts.codec.vocoder import Vocoder
from models.qwen3_tts.codec.vocoder_config import VocoderConfig
from models.qwen3_tts.config import Qwen3TTSConfig
from models.qwen3_tts.info import (
    ENCODER,
    SPEAKER_ENCODER,
    TOKENIZER_FOLDER,
    describe,
    read_encoder_configs,
)
from models.qwen3_tts.model import Qwen3TTS
from models.qwen3_tts.prompt import prompt_builder
from models.qwen3_tts.speaker import SpeakerEncoder
from models.qwen3_tts.talker import Talker
from models.qwen3_tts.tensors import network_table
from models.qwen3_tts.tokenizer import load_tokenizer
from models.qwen3_tts.voice_encoder import QwenVoiceEncoder


def load(folder: Path, device: torch.device, dtype: torch.dtype, use_graphs: bool) -> Qwen3TTS:
    """Load the weights of a folder onto a device. Raises CheckpointError."""
    info = describe(folder)
    config = Qwen3TTSConfig.from_folder(folder)
    vocoder_config = VocoderConfig.from_folder(folder / TOKENIZER_FOLDER)
    tokenize = load_tokenizer(folder, config.text_vocab_size)
    tensors = read_tensors(folder, device)
    speaker = take_part(tensors, SPEAKER_ENCODER) if config.model_type == "base" else {}
    with torch.device("meta"):
        talker, predictor = Talker(config), CodePredictor(config)
    networks = {"talker": talker, "predictor": predictor}
    load_networks(networks, network_table(config), tensors, dtype, f"{folder}: model")
    speech = read_tensors(folder / TOKENIZER_FOLDER, device)
    encoder = take_part(speech, ENCODER)
    vocoder = Vocoder.from_state(vocoder_config, speech, device, dtype)
    voices = None
    if (configs := read_encoder_configs(folder, config, vocoder_config)) is not None:
        voices = QwenVoiceEncoder(
            SpeakerEncoder.from_state(configs[0], speaker, dtype),
            SpeechEncoder.from_state(configs[1], encoder),
        )
    capturers = cuda_capturers(device) if use_graphs else EAGER
    return Qwen3TTS(config, info, tokenize, talker, predictor, vocoder, capturers, voices)


def prompts(folder: Path) -> Prompts:
    """What lays requests out, without a weight. Raises CheckpointError."""
    config = Qwen3TTSConfig.from_folder(folder)
    tokenize = load_tokenizer(folder, config.text_vocab_size)
    return prompt_builder(config, tokenize), config.talker.width, config.num_codebooks
