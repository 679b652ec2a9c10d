"""From a checkpoint folder to a `Qwen3TTS`."""

from __future__ import annotations

from pathlib import Path

import torch
from torch import Tensor

from models.base import Prompts
from models.checkpoint.weights import load_strictly, read_tensors, rename, take_part
from models.decoder.decoder import rename_layers
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
from models.qwen3_tts.tokenizer import load_tokenizer
from models.qwen3_tts.voice_encoder import QwenVoiceEncoder

RENAMES = {
    "talker.model.text_embedding.weight": "talker.text_embedding.weight",
    "talker.text_projection.linear_fc1.weight": "talker.text_fc1.weight",
    "talker.text_projection.linear_fc1.bias": "talker.text_fc1.bias",
    "talker.text_projection.linear_fc2.weight": "talker.text_fc2.weight",
    "talker.text_projection.linear_fc2.bias": "talker.text_fc2.bias",
    "talker.model.codec_embedding.weight": "talker.codec_embedding.weight",
    "talker.codec_head.weight": "talker.head.weight",
    "talker.model.norm.weight": "talker.decoder.norm.weight",
    "talker.code_predictor.model.norm.weight": "predictor.decoder.norm.weight",
    "talker.code_predictor.small_to_mtp_projection.weight": "predictor.projection.weight",
    "talker.code_predictor.small_to_mtp_projection.bias": "predictor.projection.bias",
}
STACKED = {
    "talker.code_predictor.model.codec_embedding": "predictor.embeddings.weight",
    "talker.code_predictor.lm_head": "predictor.heads.weight",
}


def load(folder: Path, device: torch.device, dtype: torch.dtype, use_graphs: bool) -> Qwen3TTS:
    """Load the weights of a folder onto a device. Raises CheckpointError."""
    info = describe(folder)
    config = Qwen3TTSConfig.from_folder(folder)
    vocoder_config = VocoderConfig.from_folder(folder / TOKENIZER_FOLDER)
    tokenize = load_tokenizer(folder, config.text_vocab_size)
    tensors = read_tensors(folder, device)
    speaker = take_part(tensors, SPEAKER_ENCODER) if config.model_type == "base" else {}
    talker, predictor = load_networks(config, tensors, dtype, f"{folder}: model")
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


def load_networks(
    config: Qwen3TTSConfig, tensors: dict[str, Tensor], dtype: torch.dtype, what: str
) -> tuple[Talker, CodePredictor]:
    """Talker and code predictor from the released tensors, which are used up.

    Raises:
        CheckpointError: keys missing, unexpected or of the wrong shape.
    """
    layers = "talker.decoder.layers."
    rename_layers(tensors, "talker.model.layers.", layers, config.talker.num_layers)
    source, layers = "talker.code_predictor.model.layers.", "predictor.decoder.layers."
    rename_layers(tensors, source, layers, config.predictor.num_layers)
    rename(tensors, RENAMES)
    for theirs, ours in STACKED.items():
        names = [f"{theirs}.{index}.weight" for index in range(config.num_codebooks - 1)]
        found = [tensors[name] for name in names if name in tensors]
        if len(found) == len(names) and len({tensor.shape for tensor in found}) == 1:
            tensors[ours] = torch.stack([tensors.pop(name) for name in names])
    with torch.device("meta"):
        talker, predictor = Talker(config), CodePredictor(config)
    networks = torch.nn.ModuleDict({"talker": talker, "predictor": predictor})
    load_strictly(networks, tensors, dtype, what)
    return talker, predictor
